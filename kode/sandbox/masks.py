"""Finds the files that hold keys, by their names; the sandbox shows empty files in their place.

A folder is scanned once, and later only where it changed.
"""

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kode import paths
from kode.errors import GitError
from kode.git import run_git
from kode.paths import real_path
from kode.permissions import places
from kode.workplace import GitFolder

MAX_ENTRIES = 50_000  # limit of scanned names in each of the folders, starting at the top

_TICK_NS = 2_000_000_000  # file systems that count times in steps of two seconds


class _Folder(NamedTuple):
    """One folder when it was scanned."""

    stamp: tuple[int, int]
    """Its inode and change time, which no program can set."""
    folders: list[str]
    candidates: list[str]
    """Paths that may hold keys, or that a rule denies."""
    entries: int


@dataclass
class Masks:
    """The files with keys below some folders."""

    roots: Sequence[Path]
    also: Callable[[str], bool] = lambda path: False
    """Whether a rule of the person denies reading this path."""
    skipped: frozenset[str] = frozenset()  # folders that are not searched, as those of git
    _scanned: dict[str, _Folder] = field(default_factory=dict)

    def paths(self) -> list[Path]:
        """The current files and folders with keys."""
        folders = dict[str, _Folder]()
        for root in self.roots:
            waiting, left = [str(root)], MAX_ENTRIES
            for path in waiting:  # which grows meanwhile
                with contextlib.suppress(OSError):
                    if left > 0:
                        folders[path] = self._scan(path)
                        left -= folders[path].entries
                        waiting += folders[path].folders
        self._scanned = folders
        candidates = (path for folder in folders.values() for path in folder.candidates)
        return [Path(path) for path in candidates if self._holds_keys(path)]

    def _scan(self, path: str) -> _Folder:
        status = os.lstat(path)
        stamp = (status.st_ino, status.st_ctime_ns)
        if path in self._scanned and self._scanned[path].stamp == stamp:
            return self._scanned[path]
        if time.time_ns() - status.st_ctime_ns < _TICK_NS:  # it may change again within the tick
            stamp = (0, 0)
        folders, candidates = list[str](), list[str]()
        entries = [*os.scandir(path)]
        for entry in entries:
            if entry.is_symlink():
                continue  # its target is masked where it lies, or hidden
            is_folder = entry.is_dir(follow_symlinks=False)
            if places.is_named_like_keys(entry.path, is_folder=is_folder) or self.also(entry.path):
                candidates.append(entry.path)
            elif is_folder and entry.path not in self.skipped:
                folders += [] if places.is_made_by_tools(entry.name) else [entry.path]
        return _Folder(stamp, folders, candidates, len(entries))

    def _holds_keys(self, path: str) -> bool:
        is_hidden = self.also(path) and os.path.exists(path)
        return (
            is_hidden or os.path.isdir(path) or (os.path.isfile(path) and places.holds_keys(path))
        )


def make_mask(store: Path, path: Path) -> str:
    """The file to show in the place of one with keys: empty and without permissions, with the size
    and time of `path`, so that it cannot be read, and git considers it unchanged. The null device
    where none can be made; "" for a folder. Never raises."""
    if path.is_dir():
        return ""
    try:
        status = os.lstat(path)
        name = f"mask-{status.st_dev}-{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"
        mask = store / name
        if not mask.exists():
            with open(mask, "wb") as file:
                file.truncate(min(status.st_size, 1 << 30))
            os.chmod(mask, 0)
            os.utime(mask, ns=(status.st_atime_ns, status.st_mtime_ns))
        return str(mask)
    except OSError:
        return os.devnull


def settle_indexes(masked: Sequence[Path], git: Iterable[GitFolder]) -> None:
    """Makes git examine, outside the sandbox, masked files as new as its index, as in every fresh
    clone: otherwise it would examine them again and again, and report each as changed. Never
    raises: a file that cannot be settled shows as changed."""
    records = {folder.worktree: folder.path for folder in git}
    for root in filter(None, dict.fromkeys(paths.repository_root(it.parent) for it in masked)):
        index = f"{records.get(str(root), root / '.git')}/index"
        with contextlib.suppress(OSError, GitError):
            newest = max(os.lstat(path).st_mtime for path in masked if path.is_relative_to(root))
            status = os.lstat(index)
            # A link may lead to anybody's index; git would wait for a pipe.
            is_own = stat.S_ISREG(status.st_mode) and real_path(index) == index
            if is_own and int(status.st_mtime) <= newest:
                run_git(root, ["update-index", "-q", "--refresh", "--force-write-index"])
