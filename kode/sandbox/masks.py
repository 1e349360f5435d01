"""Finds the files in a folder that hold keys, by their names; the sandbox shows empty files in
their place.

The folder is scanned once, and later only where it changed. `kode.permissions.places` knows the
names.
"""

import contextlib
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kode import paths
from kode.errors import GitError
from kode.git import run_git
from kode.paths import real_path
from kode.permissions import places
from kode.workplace import GitFolder

MAX_ENTRIES = 50_000
"""Limit of scanned names, starting at the top."""

_TICK_NS = 2_000_000_000  # file systems that count times in steps of two seconds


@dataclass(frozen=True)
class _Folder:
    """One folder when it was scanned."""

    at: tuple[int, int]
    """Its inode and change time, which no program can set."""
    folders: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    """Names that may hold keys, or that a rule denies."""
    entries: int = 0


@dataclass
class Masks:
    """The files with keys below one folder."""

    root: Path
    also: Callable[[str], bool] = lambda path: False
    """Whether a rule of the person denies reading this path."""
    skipped: frozenset[str] = frozenset()
    """Folders that are not searched, as those of git."""
    _scanned: dict[str, _Folder] = field(default_factory=dict)

    def paths(self) -> tuple[Path, ...]:
        """The current files and folders with keys."""
        masked, left = list[Path](), MAX_ENTRIES
        waiting, folders = deque([str(self.root)]), dict[str, _Folder]()
        while waiting and left > 0:
            path = waiting.popleft()
            with contextlib.suppress(OSError):
                folder = folders[path] = self._scan(path)
                left -= folder.entries
                masked += [Path(found) for found in folder.candidates if self._holds(found)]
                waiting.extend(folder.folders)
        self._scanned = folders
        return tuple(masked)

    def _scan(self, path: str) -> _Folder:
        status = os.stat(path, follow_symlinks=False)
        at = (status.st_ino, status.st_ctime_ns)
        if path in self._scanned and self._scanned[path].at == at:
            return self._scanned[path]
        # A folder that is changing now may change again within the same clock tick.
        at = (0, 0) if time.time_ns() - status.st_ctime_ns < _TICK_NS else at
        folders, candidates = list[str](), list[str]()
        entries = 0
        with os.scandir(path) as iterator:
            for entries, entry in enumerate(iterator, 1):  # noqa: B007
                if entry.is_symlink():
                    continue  # its target is masked where it lies, or hidden
                is_folder = entry.is_dir(follow_symlinks=False)
                is_named = places.is_named_like_keys(entry.path, is_folder=is_folder)
                if is_named or self.also(entry.path):
                    candidates.append(entry.path)
                elif is_folder and entry.path not in self.skipped:
                    folders += [] if places.is_made_by_tools(entry.name) else [entry.path]
        return _Folder(at, tuple(folders), tuple(candidates), entries)

    def _holds(self, path: str) -> bool:
        if self.also(path) or os.path.isdir(path):
            return os.path.exists(path)
        return os.path.isfile(path) and places.holds_keys(path)


def make_mask(store: Path | None, path: Path) -> str:
    """The file to show in the place of one with keys: empty and without permissions, with the size
    and time of `path`, so that it cannot be read, and git considers it unchanged. The null device
    where none can be made; "" for a folder. Never raises."""
    if path.is_dir():
        return ""
    try:
        status = os.stat(path, follow_symlinks=False)
        name = f"mask-{status.st_dev}-{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"
        mask = (store or Path(os.devnull)) / name
        if not mask.exists():
            with open(mask, "wb") as file:
                file.truncate(min(status.st_size, 1 << 30))
            os.chmod(mask, 0)
            os.utime(mask, ns=(status.st_atime_ns, status.st_mtime_ns))
        return str(mask)
    except OSError:
        return os.devnull


def settle_indexes(masked: Iterable[Path], git: Iterable[GitFolder]) -> None:
    """Makes git examine, outside the sandbox, masked files as new as its index, as in every fresh
    clone: otherwise it would examine them again and again, and report each as changed. Never
    raises: a file that cannot be settled shows as changed."""
    known = {folder.worktree: folder.path for folder in git}
    newest: dict[Path, float] = {}
    for path in masked:
        root = paths.repository_root(path.parent)
        if root is not None:
            with contextlib.suppress(OSError):
                newest[root] = max(newest.get(root, 0.0), os.lstat(path).st_mtime)
    for root, at in newest.items():
        index = Path(known.get(str(root), f"{root}/.git"), "index")
        with contextlib.suppress(OSError, GitError):
            status = index.stat()
            # A link may lead to anybody's index; git would wait for a pipe.
            is_own = stat.S_ISREG(status.st_mode) and real_path(index) == str(index)
            if is_own and int(status.st_mtime) <= at:
                run_git(root, ["update-index", "-q", "--refresh", "--force-write-index"])
