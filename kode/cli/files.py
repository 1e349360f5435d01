"""The files of the project as `@` completion sees them: listed once in a while, in a thread.

`.gitignore` is respected through git or ripgrep; without both the folder is walked, skipping what
is hidden. What the model may read is not decided here.
"""

import heapq
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MAX_FILES = 200_000
MAX_WALKED = 30_000
LIST_TIMEOUT_S = 10.0
FRESH_S = 10.0
"""A listing older than this is made again when somebody completes; meanwhile the old one serves."""
FIRST_WAIT_S = 2.0

GIT = (
    *("git", "--no-optional-locks", "--no-pager", "-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null", "-c", "core.untrackedCache=keep", "-c", "diff.external="),
)
GIT_ENVIRONMENT = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat"}
"""git runs programs that a repository's own settings name: a folder somebody sent must not get
that far by being opened."""


@dataclass
class FileIndex:
    """Relative paths of the files below `root`. Every method may be called from any thread."""

    root: Path
    _paths: Sequence[str] = ()
    _listed_at: float = float("-inf")
    _listing: threading.Thread | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, query: str, limit: int = 50) -> list[str]:
        """The best matches of a fuzzy query, best first. Waits for the very first listing only,
        and not for long; so do not call it on the loop's thread."""
        thread = self._refresh()
        if thread is not None and self._listed_at == float("-inf"):
            thread.join(FIRST_WAIT_S)
        return match_paths(self._paths, query, limit)

    def _refresh(self) -> threading.Thread | None:
        with self._lock:
            if self._listing is not None and self._listing.is_alive():
                return self._listing
            if time.monotonic() - self._listed_at < FRESH_S:
                return None
            self._listing = threading.Thread(target=self._list, daemon=True)
            self._listing.start()
            return self._listing

    def _list(self) -> None:
        self._paths = list_files(self.root)
        self._listed_at = time.monotonic()


def list_files(root: Path) -> list[str]:
    """Relative paths below `root`, at most `MAX_FILES`; [] when nothing can be listed."""
    for command in (
        [*GIT, "ls-files", "-co", "--exclude-standard", "-z"],
        ["rg", "--files", "--null"],
    ):
        if not shutil.which(command[0]):
            continue
        try:
            done = subprocess.run(
                command,
                cwd=root,
                env={**os.environ, **GIT_ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=LIST_TIMEOUT_S,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        names = done.stdout.decode("utf-8", "surrogateescape").split("\0")
        return [name for name in names if name and name.isprintable()][:MAX_FILES]
    return list(_walk(root))


def _walk(root: Path) -> Iterator[str]:
    """Breadth first, so that a cap cuts off the deepest files and not the last names."""
    folders, seen = [""], 0
    for folder in folders:
        try:
            entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name == "node_modules":
                continue
            path = os.path.join(folder, entry.name)
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
            elif entry.name.isprintable():
                yield path
                seen += 1
            if seen >= MAX_WALKED:
                return


def match_paths(paths: Sequence[str], query: str, limit: int) -> list[str]:
    """Paths that hold the query's letters in order, the closest first: in the file's name before
    in its folders, together before scattered, short before long."""
    wanted = query.lower()
    ranked = (
        (rank, len(path), path)
        for path in paths
        if (rank := _rank(path.lower(), wanted)) is not None
    )
    return [path for *_, path in heapq.nsmallest(limit, ranked)]


def _rank(path: str, wanted: str) -> int | None:
    if not wanted:
        return path.count("/")
    at = path.rfind(wanted)
    if at >= 0:
        name = path.rfind("/") + 1
        if at == name:
            return 0
        return 1 if at > name else 2
    if _holds_in_order(path.rpartition("/")[2], wanted):
        return 3
    return 4 if _holds_in_order(path, wanted) else None


def _holds_in_order(text: str, wanted: str) -> bool:
    position = -1
    for letter in wanted:
        position = text.find(letter, position + 1)
        if position < 0:
            return False
    return True
