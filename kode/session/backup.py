"""Saves what a command may destroy before it runs: files it names, and uncommitted work it
discards.

`gather` saves contents and touches nothing else; `differences` finds afterwards what the command
did. `checkpoints` handles the log of changes and undo.
"""

import contextlib
import glob
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kode import paths
from kode.errors import StorageError
from kode.messages import plural
from kode.session.change_log import Change, RepositoryChange
from kode.session.content_store import FOLDER, TOO_LARGE, Contents, Seen
from kode.session.git import GitError, Survey, blobs
from kode.session.watched import Repositories
from kode.tool import AtStake

MAX_FILES = 5_000  # bounds the wait before a command
LOOKING_S = 10.0
"""Time limit for walking folders."""

SKIPPED = frozenset(
    "node_modules .venv venv __pycache__ .tox .mypy_cache .ruff_cache .pytest_cache target".split()
)
"""Not walked outside git, where nothing says what is ignored: tools regenerate them."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The state before a command, with its contents saved."""

    at_stake: AtStake = field(default_factory=AtStake)
    files: Mapping[str, Seen] = field(default_factory=dict)
    """Absolute path (folder symlinks resolved) → what was there."""
    surveys: tuple[Survey, ...] = ()
    left_out: int = 0
    """Number of files skipped as too large or too many."""
    not_kept: frozenset[str] = frozenset()
    """Existing files, named individually, that could not be saved."""
    left_out_bytes: int = 0
    problem: str = ""
    """Why not everything could be examined or saved, in a sentence."""

    def sentence(self) -> str:
        """What was saved, for the permission question; "" if there is nothing to lose."""
        what = "What it deletes" if self.at_stake.deleted else "What it changes"
        if self.at_stake.discarded:
            what = "The state of the project's files"
        if self.problem:
            return f"{what} could not be saved first ({self.problem}), so /undo may not restore it."
        held = any(seen.state is not None for seen in self.files.values())
        stashed = any(survey.stashes for survey in self.surveys)
        if self.left_out:
            count = plural(self.left_out, "file")
            size = f"{max(self.left_out_bytes // 1_000_000, 1)} MB"
            if not held:
                return f"{what} is too much to save ({count}, {size}): /undo cannot restore it."
            return (
                f"{what} is saved first, except for {count} ({size}), which is too much: "
                "/undo restores the rest."
            )
        return f"{what} is saved first; /undo restores it." if held or stashed else ""


@dataclass
class _Found:
    """Candidates: path → size."""

    sizes: dict[str, int] = field(default_factory=dict)
    missed: int = 0
    ends_at: float = field(default_factory=lambda: time.monotonic() + LOOKING_S)

    def add(self, path: str) -> None:
        path = _resolve_folder(path)
        if path in self.sizes:
            return
        if len(self.sizes) >= MAX_FILES:
            self.missed += 1
            return
        try:
            self.sizes[path] = os.lstat(path).st_size
        except OSError:
            self.sizes[path] = 0

    @property
    def is_over(self) -> bool:
        return self.missed > MAX_FILES or time.monotonic() > self.ends_at


def gather(
    contents: Contents, repositories: Repositories, at_stake: AtStake, roots: Sequence[Path]
) -> Kept:
    """Saves the current state of everything at stake. Never raises; may take seconds."""
    found = _Found()
    surveys: dict[Path, Survey] = {}
    problem = ""
    try:
        for folder in at_stake.discarded:
            _find_discarded(Path(folder), found, repositories, surveys)
        for path in _expand(at_stake.deleted):
            problem = _find_deleted(path, found, roots) or problem
        for path in _expand(at_stake.changed):
            _find_changed(path, found, roots)
    except (GitError, OSError, ValueError) as error:
        problem = str(error)
    kept = Kept(at_stake=at_stake, surveys=tuple(surveys.values()), problem=problem)
    return _keep(contents, found, kept)


def gather_files(contents: Contents, paths: Sequence[str]) -> Kept:
    """Saves the current state of exactly these paths; large files too, since each is sure to
    change. Never raises."""
    found = _Found()
    for path in paths:
        with contextlib.suppress(OSError):
            found.sizes[path] = 0
            found.sizes[path] = os.lstat(path).st_size
    largest = replace(contents, max_file_bytes=contents.max_bytes // 2)
    kept = _keep(largest, found, Kept(), folders=True)
    there = (path for path in paths if os.path.isfile(path) or os.path.islink(path))
    files = {path: _nothing_behind_links(path, seen) for path, seen in kept.files.items()}
    return replace(kept, files=files, not_kept=frozenset(there) - files.keys())


def _nothing_behind_links(path: str, seen: Seen) -> Seen:
    """If a link replaces a folder or the reverse, what lies behind the link is another file."""
    folder = os.path.dirname(path)
    return seen if paths.real_path(folder) == folder else Seen(state=None)


def differences(
    contents: Contents, repositories: Repositories, turn: int, kept: Kept
) -> tuple[list[Change], list[RepositoryChange]]:
    """What the command did, compared with the current state. Raises: StorageError."""
    changes = []
    for path, before in kept.files.items():
        after = _nothing_behind_links(path, contents.see(Path(path)))
        new_mode = after.mode if after.state and after.mode != before.mode else None
        if after.state != before.state or new_mode is not None:
            changes.append(
                Change(
                    turn=turn,
                    path=path,
                    before=before.state,
                    after=after.state,
                    mode=before.mode,
                    after_mode=new_mode,
                    done=True,
                )
            )
    moved_repositories = []
    for before_it in kept.surveys:
        try:
            after_it, changed = repositories.since(before_it)
            changes += _committed_files(contents, turn, before_it, changed, kept.files)
        except GitError:
            continue
        lost = tuple(stash for stash in before_it.stashes if stash not in after_it.stashes)
        switched = before_it.branch != after_it.branch
        moved = switched or before_it.head != after_it.head
        if lost or moved:
            moved_repositories.append(
                RepositoryChange(
                    turn=turn,
                    root=str(before_it.root),
                    head=before_it.head if moved else "",
                    branch=before_it.branch,
                    switched=switched,
                    stashes=lost,
                )
            )
    return changes, moved_repositories


def _keep(contents: Contents, found: _Found, kept: Kept, *, folders: bool = False) -> Kept:
    """Saves small files first, so that a limit leaves out as few as possible."""
    room = contents.max_bytes // 2
    fitting: list[str] = []
    files: dict[str, Seen] = {}
    left_out, left_out_bytes = found.missed, 0
    for path, size in sorted(found.sizes.items(), key=lambda pair: pair[1]):
        if size > min(room, contents.max_file_bytes):
            left_out, left_out_bytes = left_out + 1, left_out_bytes + size
            continue
        room -= size
        fitting.append(path)
    try:
        seen_by_path = contents.keep_all(sorted(fitting))
    except StorageError as error:
        return replace(kept, problem=kept.problem or str(error))
    for path, seen in seen_by_path.items():
        if isinstance(seen, StorageError):
            kept = replace(kept, problem=kept.problem or str(seen))
        elif seen.state == TOO_LARGE:
            left_out, left_out_bytes = left_out + 1, left_out_bytes + seen.size_bytes
        elif seen.can_be_kept or (folders and seen.state == FOLDER):
            files[path] = seen
    return replace(kept, files=files, left_out=left_out, left_out_bytes=left_out_bytes)


def _find_discarded(
    folder: Path, found: _Found, repositories: Repositories, surveys: dict[Path, Survey]
) -> None:
    root = paths.repository_root(folder)
    if root is None:
        _walk(str(folder), found, SKIPPED)
        return
    if root not in surveys:
        surveys[root] = repositories.look(root)
        for path in (*surveys[root].differing, *surveys[root].untracked):
            found.add(path)


def _find_deleted(path: str, found: _Found, roots: Sequence[Path]) -> str:
    """Why the path cannot be saved; "" if it can."""
    if not os.path.isdir(path) or os.path.islink(path):
        if os.path.lexists(path):
            found.add(path)
        return ""
    if not _is_inside(paths.real_path(path), roots):  # a home, a whole disk
        return f"{path} is outside the working folders"
    _walk(path, found, frozenset())
    return ""


def _find_changed(path: str, found: _Found, roots: Sequence[Path]) -> None:
    """Skips files outside the working folders, which are not the project's: a log in /tmp, say."""
    real = paths.real_path(path)
    if not _is_inside(real, roots) or os.path.isdir(real):
        return
    found.add(real)
    if os.path.islink(path):
        found.add(path)


def _is_inside(real: str, roots: Sequence[Path]) -> bool:
    return any(Path(real).is_relative_to(paths.real_path(root)) for root in roots)


def _walk(folder: str, found: _Found, skipped: frozenset[str]) -> None:
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in skipped]
        linked = [name for name in folders if os.path.islink(os.path.join(here, name))]
        for name in (*names, *linked):
            found.add(os.path.join(here, name))
        if found.is_over:
            found.missed += 1
            return


def _expand(patterns: Sequence[str]) -> Iterator[str]:
    """Expands globs as a shell would; a name that exists with its marks counts as well."""
    for pattern in patterns:
        named = not glob.has_magic(pattern) or os.path.lexists(pattern)
        yield from [pattern] if named else glob.glob(pattern, recursive=True)


def _resolve_folder(path: str) -> str:
    """Resolves the folder but not the name: a link is saved as a link."""
    folder, name = os.path.split(path.rstrip("/") or "/")
    return os.path.join(paths.real_path(folder), name)


def _committed_files(
    contents: Contents,
    turn: int,
    before: Survey,
    changed: Sequence[str],
    states: Mapping[str, Seen],
) -> Iterator[Change]:
    """Files that were as committed and have changed: git still has their old content. A file that
    git converts (line ends, filters) has another size there, and is skipped."""
    tracked, dirty = before.tracked or {}, before.dirty
    paths = [path for path in changed if path not in states and path not in dirty][:MAX_FILES]
    fitting = [
        (path, tracked[path])
        for path in paths
        if tracked[path].size_bytes <= contents.max_file_bytes
    ]
    found = blobs(before.root, (file.object_id for _, file in fitting))
    for path, file in fitting:
        data = found.get(file.object_id)
        if data is None or len(data) != file.size_bytes:
            continue
        state = contents.see(Path(path)).state
        was = contents.put(data)
        if state != was:
            yield Change(turn=turn, path=path, before=was, after=state, mode=file.mode, done=True)
