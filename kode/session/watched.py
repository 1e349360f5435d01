"""A repository between the commands of a session: surveyed once, then watched.

A survey looks at every file. Afterwards the system says which have changed (`inotify`), and those
count as uncommitted from then on, whatever git thinks of them: so neither a commit nor another
index needs another survey, only other rules of what is ignored. Where files cannot be watched, or
the system has lost count, the repository is surveyed.
"""

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kode.session import git
from kode.session.git import GitError, Survey
from kode.session.inotify import Folders, is_local

MAX_FOLDERS = 30_000
"""Older kernels give a person 8,192 watches, newer ones up to a million for all programs; each
takes about 1 KB of the kernel's memory."""
MAX_MORE = 500
"""After so many changed files, a survey costs less than saving them before each command."""
MAX_NAMES = 20_000
"""Of changed files that are remembered."""
MAX_LINKED = 500
"""Files with several names, which are looked at each time."""
CLOCK_NS = 20_000_000
"""The file system's clock is behind by a tick, at most 10 ms."""

_RULES = frozenset({".git", ".gitignore", ".gitattributes", ".gitmodules"})
"""Names that change what belongs to a repository."""


class _Unwatched(Exception):
    """These files cannot be watched."""


@dataclass
class Repositories:
    """The repositories of one session, as they were at its last look."""

    watched: dict[Path, "Watched"] = field(default_factory=dict)
    surveyed: set[Path] = field(default_factory=set)
    """Those that cannot be watched."""
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def look(self, root: Path) -> Survey:
        """The current state. `differing` may name files that are as committed. Raises: GitError."""
        with self._one_at_a_time:
            return self._look(root)

    def since(self, before: Survey) -> tuple[Survey, Sequence[str]]:
        """The current state, and the files of `before.tracked` that may have changed since that
        look. Raises: GitError."""
        with self._one_at_a_time:
            watched = self.watched.get(before.root)
            after = self._look(before.root)
            if watched is not None and watched is self.watched.get(before.root):
                changed = watched.changed_since(before.number)
                return after, [path for path in changed if path in (before.tracked or ())]
        if before.tracked is None or after.tracked is None:
            return after, ()
        current = {**after.tracked, **dict.fromkeys((*after.differing, *after.untracked))}
        return after, [path for path, file in before.tracked.items() if current.get(path) != file]

    def _look(self, root: Path) -> Survey:
        watched = self.watched.get(root)
        if watched is not None and watched.update():
            return watched.state
        self.watched.pop(root, None)
        if root in self.surveyed:
            return git.survey(root)
        try:
            watched = watch(root)
        except (OSError, _Unwatched):
            self.surveyed.add(root)
            return git.survey(root)
        if not watched.update():
            return git.survey(root)
        self.watched[root] = watched
        return watched.state


@dataclass
class Watched:
    """One repository. Everything that is not in `dirty` is as in the commit of the first survey."""

    survey: Survey
    """When the watch began."""
    folders: Folders
    device: int
    dirty: set[str]
    touched: dict[str, int]
    """Path → the look that found it changed last."""
    about: Survey
    """Where branches and stashes stand."""
    signs: "_Signs"
    ignored: set[str] = field(default_factory=set)
    """Changed files of which the rules say so."""
    number: int = 0
    """Of the last look."""

    @property
    def state(self) -> Survey:
        return replace(self.about, differing=tuple(sorted(self.dirty)), number=self.number)

    def changed_since(self, number: int) -> list[str]:
        return [path for path, position in self.touched.items() if position > number]

    def update(self) -> bool:
        """Takes in what has changed; False if only a survey can tell. Raises: GitError."""
        root = self.survey.root
        signs = _Signs.of(self.survey, self.about.branch)
        more = len(self.dirty) - len(self.survey.dirty)
        names = len(self.touched) + len(self.ignored)
        if signs.rules != self.signs.rules or more > MAX_MORE or names > MAX_NAMES:
            return False
        try:
            changed = self._changed()
            if changed is None:
                return False
            if signs.index != self.signs.index:
                changed.update(git.staged(root, self.survey.head))
            if signs.refs != self.signs.refs:
                self.about = git.refs(self.about)
                signs = replace(_Signs.of(self.survey, self.about.branch), index=signs.index)
            committed = self.survey.tracked
            unknown = changed - self.dirty - self.ignored
            if committed is not None:
                unknown -= committed.keys()
            self.ignored |= _ignored(root, unknown)
        except (GitError, OSError, _Unwatched):
            return False
        self.signs = signs
        self.number += 1
        for path in changed - self.ignored:
            self.touched[path] = self.number
            # A temporary file that is gone again was never anybody's work.
            if path not in unknown or os.path.lexists(path):
                self.dirty.add(path)
        return True

    def _changed(self) -> set[str] | None:
        found = self.folders.changes()
        if found is None:
            return None
        changed, new_folders = found
        own = f"{self.survey.root}/.git"
        changed.discard(own)
        if any(os.path.basename(path) in _RULES for path in changed):
            return None
        for folder in new_folders - _ignored(self.survey.root, new_folders):
            changed |= _walk(folder, self.folders, frozenset(), self.device).keys()
        root, committed = str(self.survey.root), self.survey.tracked or {}
        files = {path for path in changed if path in committed or not _is_folder(path)}
        return {path for path in files if not _is_nested(path, root)}


@dataclass(frozen=True, kw_only=True)
class _Signs:
    """What shows that git's own records have changed: time, size and number of files."""

    rules: tuple[object, ...]
    index: tuple[object, ...]
    refs: tuple[object, ...]

    @classmethod
    def of(cls, survey: Survey, branch: str) -> "_Signs":
        own, shared = survey.own, survey.shared
        refs = ["packed-refs", "refs/stash", "logs/refs/stash", "reftable/tables.list"]
        refs += [f"refs/heads/{branch}"] if branch else []
        private = ["HEAD", "logs/HEAD", "reftable/tables.list"]
        return cls(
            rules=_signs([f"{shared}/config", f"{shared}/info/exclude", f"{own}/config.worktree"]),
            index=_signs([f"{own}/index"]),
            refs=_signs([f"{shared}/{ref}" for ref in refs] + [f"{own}/{one}" for one in private]),
        )


def _signs(paths: Iterable[str]) -> tuple[object, ...]:
    return tuple(map(_sign, paths))


def _sign(path: str) -> object:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def watch(root: Path) -> Watched:
    """Surveys a repository and watches it from then on. Raises: GitError, OSError, _Unwatched."""
    if not is_local(str(root)):
        raise _Unwatched
    folders = Folders()
    device = os.stat(root).st_dev
    files: dict[str, os.stat_result] = {}
    began_ns = time.time_ns() - CLOCK_NS

    def look(ignored: frozenset[str]) -> Mapping[str, os.stat_result]:
        files.update(_walk(str(root), folders, ignored, device))
        return files

    placed = git.place(root)
    signs = _Signs.of(placed, "")
    survey = git.survey(root, look=look)
    linked = {path for path, status in files.items() if status.st_nlink > 1}
    if len(linked) > MAX_LINKED:
        raise _Unwatched
    # Between git's look and the watch.
    late = {path for path, one in files.items() if one.st_ctime_ns >= began_ns}
    return Watched(
        survey=survey,
        folders=folders,
        device=device,
        dirty={*survey.dirty, *late, *linked},
        touched={},
        about=survey,
        signs=signs,
    )


def _walk(
    top: str, folders: Folders, ignored: frozenset[str], device: int
) -> dict[str, os.stat_result]:
    """The files in a folder and below, each folder watched before it is read. Raises: OSError,
    _Unwatched."""
    found: dict[str, os.stat_result] = {}
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            if os.lstat(folder).st_dev != device or len(folders.names) >= MAX_FOLDERS:
                raise _Unwatched
            folders.watch(folder)
            if folder != top and os.path.lexists(f"{folder}/.git"):
                continue  # a nested repository is its own affair while it is one
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name == ".git" or entry.path in ignored:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        found[entry.path] = entry.stat(follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            continue
    return found


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _ignored(root: Path, paths: Iterable[str]) -> set[str]:
    names = git.ignored_names(root, (os.path.relpath(path, root) for path in paths))
    return {f"{root}/{name}" for name in names}


def _is_nested(path: str, root: str) -> bool:
    """Whether a file lies in a nested repository, of which only the top folder is watched."""
    folder = os.path.dirname(path)
    return folder != root and os.path.lexists(f"{folder}/.git")
