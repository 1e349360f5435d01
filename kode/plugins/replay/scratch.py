"""A copy of the project from before a session's first step, and a home for kode beside it; both are
removed at the end.

The session's undo data restores files in the copy, before the first step and before each later
turn. Everything else is as in the project now.
"""

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kode.plugin import beneath, paths, run_git
from kode.plugin.errors import GitError, SessionError, StorageError
from kode.plugin.messages import first_of
from kode.plugins.replay.recording import FileState, Recording

GIGABYTE = 1024**3  # bytes
MAX_COPY_BYTES = 4 * GIGABYTE
NAMED_FILES = 5
"""Files named in a note; the rest are counted."""


@dataclass(kw_only=True)
class Scratch:
    """The copy for one replay."""

    folder: Path
    project: Path
    """The copy of `original`."""
    original: Path
    cwd: Path
    home: Path
    recording: Recording
    notes: list[str] = field(default_factory=list)
    """What is not as it was, each a sentence."""

    def put_back(self, files: Iterable[FileState]) -> None:
        """Restores files to these states, as far as they are kept."""
        # Added files come last: a folder after what was created in it since.
        ordered = sorted(files, key=lambda file: file[1] is None)
        if lost := [file[0] for file in ordered if not self.set(*file)]:
            named = ", ".join(first_of(lost, NAMED_FILES))
            self.notes.append(f"What undo does not keep is as it is now: {named}.")

    def _remove(self, path: Path) -> None:
        """Removes an added file, and the folders created for it. Raises: OSError."""
        with beneath.open_folder(path.parent) as folder:
            beneath.remove(folder, path.name)
        beneath.remove_empty(path.parents[: len(path.relative_to(self.project).parts) - 1])

    def in_copy(self, path: str) -> Path | None:
        """A recorded file's path in the copy; None for one outside of it."""
        given = Path(os.path.normpath(path))
        if not given.is_relative_to(self.recording.project):
            return None
        copy = self.project / given.relative_to(self.recording.project)
        return copy if self.holds(str(copy.parent)) else None

    def holds(self, path: str) -> bool:
        """Whether a path leads into the copy, links followed."""
        return Path(paths.real_path(path)).is_relative_to(self.project)

    def owns(self, path: str) -> bool:
        """Whether a path leads into the copy, or to kode's home beside it."""
        return Path(paths.real_path(path)).is_relative_to(self.folder)

    def set(self, recorded: str, state: str | None, mode: int) -> bool:
        """Sets a file's state; returns whether it succeeded. Leaves files outside of the copy
        alone."""
        contents = self.recording.changes.contents
        try:
            path = self.in_copy(recorded)  # fails where a folder becomes a link just now
            if path is None:
                return True
            if contents.see(path).state == state:
                return True
            if state is None:
                self._remove(path)
                return True
            original = self.original / path.relative_to(self.project)
            seen = contents.see(original)
            if seen.state == state and seen.is_file and contents.data(state) is None:
                # Contents after a change are not kept; this one may still be there.
                with (
                    beneath.open_folder(original.parent) as source,
                    beneath.open_folder(path.parent, make=beneath.usual_mode) as folder,
                ):
                    beneath.copy_in(source, original.name, folder, path.name, seen.mode)
                return True
            contents.restore(path, state, mode)
        except (StorageError, OSError):
            return False
        return True


@contextlib.contextmanager
def scratch(recording: Recording, original_cwd: Path) -> Iterator[Scratch]:
    """Copies the project around `original_cwd`, which may be the recorded folder or another with
    the same files; removes the copy at the end.

    Raises: SessionError for a folder that is missing, or too large to copy; StorageError.
    """
    if not original_cwd.is_dir():
        raise SessionError(
            f"{original_cwd}, where session {recording.header.id} worked, no longer exists. "
            "Name a folder with the same files: --cwd DIR."
        )
    original = paths.project_root(original_cwd)
    _check_size(original)
    folder = Path(paths.real_path(tempfile.mkdtemp(prefix="kode-replay-")))
    try:
        made = Scratch(
            folder=folder,
            project=folder / (original.name or "project"),
            original=original,
            cwd=folder
            / (original.name or "project")
            / Path(paths.real_path(original_cwd)).relative_to(original),
            home=folder / "home",
            recording=recording,
        )
        _copy(original, made.project)
        made.home.mkdir(mode=0o700)
        # First: what is put back may be a stranger's, a repository's own files too.
        _rewind_repository(made)
        made.put_back(recording.before(slice(None)))
        if newer := _newer(made):
            named = ", ".join(first_of(newer, NAMED_FILES))
            made.notes.append(f"Changed since the session began, and as they are now: {named}.")
        yield made
    finally:
        _remove_copy(folder)


def _remove_copy(folder: Path) -> None:
    """Removes read-only folders too: a project may have some, such as a cache of Go modules."""
    for inner, folders, _ in os.walk(folder):
        for path in (os.path.join(inner, name) for name in folders):
            if not os.path.islink(path):
                with contextlib.suppress(OSError):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _rewind_repository(made: Scratch) -> None:
    """Moves the copy's branches back to where they were when the session began, according to the
    reflogs. The files stay unchanged."""
    if not os.path.lexists(made.project / ".git"):
        return
    if not _holds_repository(made):
        made.notes.append("The repository lies outside the project: its commits are as now.")
        return
    try:
        if not run_git(made.project, ["for-each-ref", "--count=1", "refs/heads"]):
            return  # no commit yet
        moves = _moves(made.project, "HEAD")
        left = [move for move in moves if move.at <= made.recording.first_reply_at()]
        # The log has whole seconds, and a first step may commit in the second of its reply.
        if (head := _head_before(made.recording)) is not None:
            commits = [move.commit for move in left]
            left = left[commits.index(head) :] if head in commits else [] if not head else left
        if undone := moves[: len(moves) - len(left)]:
            _rewind_branches(made.project, undone, left)
    except GitError as error:
        made.notes.append(f"The repository is as it is now ({error}).")


def _holds_repository(made: Scratch) -> bool:
    """Whether all that git would write lies in the copy: a link, or a worktree's settings, lead to
    the person's own repository."""
    git = made.project / ".git"
    inside = (
        os.path.join(folder, name)
        for folder, folders, names in os.walk(git)
        for name in (*folders, *names)
    )
    links = filter(os.path.islink, (str(git), *inside))
    return git.is_dir() and not (git / "commondir").exists() and all(map(made.holds, links))


@dataclass(frozen=True, kw_only=True)
class _Move:
    """A line of a reflog."""

    commit: str
    at: int
    came_from: str
    """The branch or commit that a checkout left; "" for any other move."""


def _moves(root: Path, ref: str) -> list[_Move]:
    """The moves of a ref, the newest first. Raises: GitError."""
    log = run_git(root, ["reflog", "show", "--format=%H %gd %gs", "--date=unix", ref])
    matches = re.findall(
        r"^([0-9a-f]+) \S+@\{(\d+)\} (?:checkout: moving from (\S+) to )?",
        log.decode("utf-8", "replace"),
        re.MULTILINE,
    )
    return [_Move(commit=commit, at=int(at), came_from=left) for commit, at, left in matches]


def _head_before(recording: Recording) -> str | None:
    """The commit before the session's first move to another, "" if there was none; None if the
    session made no such move."""
    changes = (change for group in recording.changes.groups for change in group.repositories)
    moved = (change for change in changes if change.head or change.switched or not change.stashes)
    return next((change.head for change in moved if change.root == recording.project), None)


def _rewind_branches(root: Path, undone: Sequence[_Move], left: Sequence[_Move]) -> None:
    """Undoes the moves of HEAD, and those of branches since; `left` are the moves of HEAD that
    stay. Raises: GitError."""
    since = undone[-1].at
    listed = run_git(root, ["for-each-ref", "--format=%(refname)", "refs/heads"])
    branches = listed.decode("utf-8", "surrogateescape").splitlines()
    for branch in branches:
        moves = _moves(root, branch)
        stay = [move for move in moves if move.at < since]
        if len(stay) < len(moves):
            to = [branch, stay[0].commit] if stay else ["-d", branch]
            run_git(root, ["update-ref", *to])
    came_from = next((move.came_from for move in reversed(undone) if move.came_from), "")
    if f"refs/heads/{came_from}" in branches:
        run_git(root, ["symbolic-ref", "HEAD", f"refs/heads/{came_from}"])
    elif left and run_git(root, ["rev-parse", "HEAD"]).decode().strip() != left[0].commit:
        run_git(root, ["update-ref", "--no-deref", "HEAD", left[0].commit])
    run_git(root, ["read-tree", left[0].commit if left else "--empty"])


def _check_size(original: Path) -> None:
    """Raises: SessionError."""
    held = 0
    for folder, _, names in os.walk(original):
        for name in names:
            with contextlib.suppress(OSError):
                held += os.lstat(os.path.join(folder, name)).st_size
        if held > MAX_COPY_BYTES:
            raise SessionError(
                f"{original} holds more than {MAX_COPY_BYTES // GIGABYTE} GB, too much to "
                "copy. Replay it in a smaller checkout of the same files: --cwd DIR."
            )


def _copy(original: Path, target: Path) -> None:
    """Raises: StorageError for unreadable files; skips sockets and devices."""

    def special(folder: str, names: list[str]) -> list[str]:
        found = []
        for name in names:
            with contextlib.suppress(OSError):
                mode = os.lstat(os.path.join(folder, name)).st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                    found.append(name)
        return found

    try:
        shutil.copytree(original, target, symlinks=True, ignore=special)
    except shutil.Error as error:
        first = error.args[0][0]
        raise StorageError(f"{first[0]} could not be copied: {first[2]}.") from error
    except OSError as error:
        raise StorageError(f"{original} could not be copied: {error.strerror}.") from error


def _newer(made: Scratch) -> list[str]:
    """Files of the project that changed since the session began, except restored ones."""
    began = made.recording.first_reply_at()
    touched = (path for group in made.recording.changes.groups for path in group.files)
    changed = {str(copy) for path in touched if (copy := made.in_copy(path)) is not None}
    found = []
    for folder, folders, names in os.walk(made.project):
        folders[:] = [name for name in folders if name != ".git"]
        for name in names:
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                if path not in changed and os.lstat(path).st_mtime > began:
                    found.append(os.path.relpath(path, made.project))
    return sorted(found)
