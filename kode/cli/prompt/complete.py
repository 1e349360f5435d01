"""Tab completion: commands at the start of a message, `@files` and `@folders/` anywhere.

The project's files and folders are found by letters in order.
What the model may read is decided elsewhere.
"""

import heapq
import re
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from kode.cli.prompt.attach import BEING_TYPED, list_files, query_of, write_mention
from kode.cli.prompt.reports import extension_commands
from kode.cli.prompt.state import PromptState

FRESH_S = 10.0
"""An older listing is renewed on completion."""


@dataclass
class FileIndex:
    """Relative paths of the files below `root`, and of the folders that contain some, with a
    trailing `/`."""

    root: Path
    _paths: Sequence[str] = ()
    _listed_at: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, query: str, limit: int = 50) -> list[str]:
        """The best matches of a fuzzy query, best first. Lists the files if the last listing is
        old; so do not call it on the event loop's thread."""
        with self._lock:
            if time.monotonic() - self._listed_at >= FRESH_S:
                files = list_files(self.root)
                self._paths, self._listed_at = [*folders_of(files), *files], time.monotonic()
        return best_matches(self._paths, query, limit)


def best_matches(among: Sequence[str], query: str, limit: int) -> list[str]:
    """At most `limit` paths that have the query's letters in order, the likeliest first. Searches
    100,000 paths in less time than two key presses are apart."""
    letters = query.lower().replace(" ", "")
    if not letters:
        return heapq.nsmallest(limit, among, lambda path: (path.count("/", 0, -1), len(path), path))
    # Possessive, so that no path is scanned twice.
    in_order = "".join(f"[^{re.escape(letter)}]*+{re.escape(letter)}" for letter in letters)
    fits = re.compile(in_order, re.DOTALL).match
    fitting = (path for path in among if fits(path.lower()))
    return heapq.nsmallest(
        limit, fitting, lambda path: (_rank(path.lower(), letters), len(path), path)
    )


def _rank(path: str, letters: str) -> int:
    """How likely a path is meant, 0 most: by where it has the letters in one piece."""
    name = path.rfind("/", 0, -1) + 1  # a folder ends in `/`
    at = path.rfind(letters)
    if at < 0:
        return 4
    is_start = at == name or not path[at - 1 : at].isalnum()
    return 0 if at == name else 1 if is_start else 2 if at > name else 3


def folders_of(files: Iterable[str]) -> list[str]:
    """The folders that contain the files, at any depth, each with a trailing `/`."""
    folders: set[str] = set()
    for path in files:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return sorted(f"{folder}/" for folder in folders)


@dataclass(eq=False)
class PromptCompleter(Completer):
    """Completes the text before the cursor. Runs in a thread of the editor's."""

    state: PromptState
    files: FileIndex
    first: Sequence[str] = ()
    """The commands offered for a lone `/`; the others are found by typing."""

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Best first; empty if nothing can be completed."""
        before = document.text_before_cursor
        if typed := BEING_TYPED.search(before):
            start = typed.start() + typed[0].index("@") + 1 - len(before)
            query = query_of(typed)
            for path in self.files.find(query):
                if path != query or not path.endswith("/"):  # else its content follows
                    yield Completion(write_mention(path), start_position=start, display=path)
        elif before.startswith("/") and not re.search(r"\s", before):
            known = {name: command.summary for name, command in self.state.commands.items()}
            known = {**extension_commands(self.state), **known}
            for name in self._find_matches(before, known):
                yield Completion(name, start_position=-len(before), display_meta=known[name])

    def _find_matches(self, typed: str, known: Mapping[str, str]) -> Iterable[str]:
        """Those that begin with what was typed, then those that contain it; else similar ones."""
        if typed == "/":
            return [name for name in self.first if name in known]
        word = typed[1:].lower()
        begins = [name for name in known if name[1:].lower().startswith(word)]
        holds = [name for name in known if word in name[2:].lower() and name not in begins]
        return begins + (holds if len(word) > 1 else []) or get_close_matches(typed, known)
