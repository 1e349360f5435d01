"""Worktrees that plug-ins make of a person's repository, and merges into its branch.

As everywhere in kode, git runs without hooks, filters or other programs that a repository names.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kode.plugin import GitError, beneath, durable, paths, run_git

MAKE_TIMEOUT_S = 1800.0
"""For a clone, a checkout or a copy of a large project."""

KODE_IDENTITY = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "kode"), ("EMAIL", "kode@localhost"))
}
"""Variables that name author and committer if git does not know the person."""


def add(project: Path, locks: Path, how: Sequence[str]) -> None:
    """Adds a worktree: `how` are git's arguments: its folder, branch and commit. Raises: GitError,
    OSError, StorageError."""
    with alone(project, locks):
        # `--force`: git may still list one whose folder a crash has removed.
        added = ["worktree", "add", "--quiet", "--force", *how]
        run_git(project, added, timeout_s=MAKE_TIMEOUT_S)


def remove(project: Path, root: Path, locks: Path) -> None:
    """Removes a worktree with all that is in it, as far as git does. Raises: OSError,
    StorageError."""
    removed = ["worktree", "remove", "--force", str(root)]
    with alone(project, locks), contextlib.suppress(GitError):
        run_git(project, removed, timeout_s=MAKE_TIMEOUT_S)


@contextlib.contextmanager
def alone(source: Path, locks: Path) -> Iterator[None]:
    """Locks a repository: git's list of worktrees does not support concurrent writers."""
    root = paths.repository_root(source) or source
    lock = locks / paths.path_hash(root)
    with (
        beneath.open_folder(lock, make=beneath.private_mode),
        durable.locked(lock, timeout_s=MAKE_TIMEOUT_S),
    ):
        yield


def identity_in(root: Path) -> Mapping[str, str]:
    """Variables that git needs to commit; empty if it knows the person."""
    try:
        run_git(root, ["var", "GIT_COMMITTER_IDENT"])
    except GitError:
        return KODE_IDENTITY
    return {}


def head_of(folder: Path) -> str:
    """The commit checked out in a folder; "" without a repository. Raises: GitError."""
    if paths.repository_root(folder) is None:
        return ""
    return run_git(folder, ["rev-parse", "--verify", "HEAD"]).decode().strip()


def has_changes(folder: Path) -> bool:
    """Whether a repository has uncommitted changes to tracked files. Raises: GitError."""
    return bool(run_git(folder, ["status", "--porcelain", "--untracked-files=no"]))


def names_in(listed: bytes) -> tuple[str, ...]:
    """The paths that git lists with `-z`."""
    return tuple(map(os.fsdecode, filter(None, listed.split(b"\0"))))
