"""The project's files and folders for `@` completion: listed periodically, in a thread.

Respects `.gitignore`: git or ripgrep list the files; without both kode walks the folder by the same
rules. A search is fuzzy: letters in order suffice. What the model may read is decided elsewhere.
"""

import heapq
import itertools
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kode import git
from kode.paths import real_path
from kode.programs import find_program

MAX_FILES = 200_000  # more would slow down every completion
MAX_WALKED = 30_000  # folders read one by one are slower than git's index
LIST_TIMEOUT_S = 10.0  # in the background: the prompt does not wait
FRESH_S = 10.0
"""An older listing is renewed on completion; meanwhile the old one is used."""

GIT_FILES = ("git", *git.OPTIONS, "ls-files", "-co", "--exclude-standard", "-z")
RIPGREP_FILES = (
    *("rg", "--no-config", "--files", "--null", "--hidden", "--no-require-git"),
    *("--glob", "!.git"),
)


@dataclass
class FileIndex:
    """Relative paths of the files below `root`, and of the folders that contain some, with a
    trailing `/`. Every method is thread-safe."""

    root: Path
    _paths: Sequence[str] = ()
    _listed_at: float = float("-inf")
    _listing: threading.Thread | None = None
    _may_search: threading.Event = field(default_factory=threading.Event)
    """Set once there is a listing, or nobody may wait for one."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, query: str, limit: int = 50) -> list[str]:
        """The best matches of a fuzzy query, best first. Waits only for the very first listing, and
        not after `close`; so do not call it on the event loop's thread."""
        self._refresh()
        self._may_search.wait(LIST_TIMEOUT_S)
        return best_matches(self._paths, query, limit)

    def close(self) -> None:
        """Releases everybody who waits for the first listing: exiting must not wait."""
        self._may_search.set()

    def _refresh(self) -> None:
        with self._lock:
            if self._listing is not None and self._listing.is_alive():
                return
            if time.monotonic() - self._listed_at < FRESH_S:
                return
            self._listing = threading.Thread(target=self._list, daemon=True)
            self._listing.start()

    def _list(self) -> None:
        files = list_files(self.root)
        self._paths = [*folders_of(files), *files]
        self._listed_at = time.monotonic()
        self._may_search.set()


def best_matches(among: Sequence[str], query: str, limit: int) -> list[str]:
    """At most `limit` paths that have the query's letters in order, the likeliest first. Searches
    100,000 paths in less time than two key presses are apart."""
    letters = query.lower().replace(" ", "")
    if not letters:
        shallow = ((path.count("/", 0, -1), len(path), path) for path in among)
        return [path for *_, path in heapq.nsmallest(limit, shallow)]
    # Possessive, so that no path is scanned twice.
    in_order = "".join(f"[^{re.escape(letter)}]*+{re.escape(letter)}" for letter in letters)
    fits = re.compile(in_order, re.DOTALL).match
    closest = re.compile(".*?".join(map(re.escape, letters)), re.DOTALL)
    likely = (
        (*_rank(lowered, letters, closest), len(path), path)
        for path, lowered in zip(among, map(str.lower, among), strict=True)
        if fits(lowered)
    )
    return [path for *_, path in heapq.nsmallest(limit, likely)]


def _rank(lowered: str, letters: str, closest: re.Pattern[str]) -> tuple[int, int]:
    """How likely a path is meant, 0 most: by where it has the letters, and how far apart."""
    name = lowered.rfind("/", 0, -1) + 1  # a folder ends in `/`
    position = lowered.rfind(letters)
    if position >= 0:
        is_start = position == name or not lowered[position - 1 : position].isalnum()
        return (0 if position == name else 1 if is_start else 2 if position > name else 3), 0
    match = closest.search(lowered, name) or closest.search(lowered)
    return 4, len(match[0]) if match else len(lowered)


def folders_of(files: Iterable[str]) -> list[str]:
    """The folders that contain the files, at any depth, each with a trailing `/`."""
    folders: set[str] = set()
    for path in files:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return sorted(f"{folder}/" for folder in folders)


def list_files(root: Path) -> list[str]:
    """Relative paths below `root`, at most `MAX_FILES`; [] if nothing can be listed."""
    for command in (GIT_FILES, RIPGREP_FILES):
        program = find_program(command[0], [root])
        if program is not None:
            names = _names((program, *command[1:]), root)
            if names is not None:
                return names
    walked = itertools.islice(_walk(root), MAX_WALKED)
    return sorted(walked, key=lambda path: (path.count("/"), path))


def _names(command: Sequence[str], root: Path) -> list[str] | None:
    """A command's listing, as much of it as arrives in time; None if it cannot list here."""
    try:
        process = subprocess.Popen(
            command,
            cwd=root,
            env=git.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
    assert process.stdout is not None
    clock = threading.Timer(LIST_TIMEOUT_S, process.kill)
    clock.daemon = True
    clock.start()
    with process, process.stdout as output:
        names: list[str] = []
        rest = b""
        while len(names) < MAX_FILES and (data := os.read(output.fileno(), 1 << 20)):
            *whole, rest = (rest + data).split(b"\0")
            texts = (name.decode("utf-8", "surrogateescape") for name in whole)
            names += [text for text in texts if text.isprintable() and _is_offered(text)]
        process.kill()
    in_time = clock.is_alive()
    clock.cancel()
    if not names and in_time and process.returncode not in (0, -signal.SIGKILL):
        return None
    return names[:MAX_FILES]


def _walk(root: Path) -> Iterator[str]:
    from kode.tools.search_worker import walk

    real = real_path(root)
    for path in walk(real):
        name = os.path.relpath(path, real)
        if name.isprintable() and _is_offered(name):
            yield name


def _is_offered(path: str) -> bool:
    """Whether a person may want to name it: not compiled Python, which is not text and common in
    folders without a `.gitignore`."""
    return bool(path) and "__pycache__/" not in path and not path.endswith(".pyc")
