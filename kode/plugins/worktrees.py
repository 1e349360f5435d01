"""Worktrees that plug-ins make of a person's repository, and what changed in them.

As everywhere in kode, git runs without hooks, filters or other programs that a repository names.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kode.plugin import (
    GitError,
    lock_file,
    project_root,
    real_path,
    remove_tree,
    run_git,
)

MAKE_TIMEOUT_S = 1800.0
"""For a clone, a checkout or a copy of a large project."""

KODE_IDENTITY = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "kode"), ("EMAIL", "kode@localhost"))
}
"""Variables that name author and committer if git does not know the person."""


def add_worktree(project: Path, locks: Path, arguments: Sequence[str]) -> None:
    """Adds a worktree; `arguments` are git's: its folder, branch and commit. Raises: GitError,
    OSError, StorageError."""
    with _locked(project, locks):
        # `--force`: git may still list one whose folder a crash has removed.
        command = ["worktree", "add", "--quiet", "--force", *arguments]
        run_git(project, command, timeout_s=MAKE_TIMEOUT_S)


def remove_worktree(project: Path, root: Path, locks: Path) -> None:
    """Removes a worktree with all that is in it, also one that git no longer knows. Raises:
    OSError, StorageError."""
    if not root.is_symlink() and root.exists() and project.is_dir():
        command = ["worktree", "remove", "--force", str(root)]
        with _locked(project, locks), contextlib.suppress(GitError):
            run_git(project, command, timeout_s=MAKE_TIMEOUT_S)
    remove_tree(Path(real_path(root.parent)) / root.name)


@contextlib.contextmanager
def _locked(project: Path, locks: Path) -> Iterator[None]:
    """Locks a repository: git's list of worktrees does not support concurrent writers."""
    repository = str(project_root(project))
    lock = locks / hashlib.sha256(os.fsencode(repository)).hexdigest()[:16]
    with lock_file(lock, timeout_s=MAKE_TIMEOUT_S, follow=False):
        yield


@contextlib.contextmanager
def staged_changes(
    root: Path, commit: str, environ: Mapping[str, str] | None = None
) -> Iterator[Mapping[str, str]]:
    """Variables for git with a temporary index, which has the files of `commit` ("" for none) as
    they are in the worktree now, and its new files that are not ignored. Raises: GitError."""
    with tempfile.TemporaryDirectory(prefix="kode-tree-") as folder:
        index = {**(environ or {}), "GIT_INDEX_FILE": str(Path(folder) / "index")}
        if commit:
            run_git(root, ["read-tree", commit], environ=index)
        run_git(root, ["add", "--all", "."], environ=index, timeout_s=MAKE_TIMEOUT_S)
        yield index


def committer_of(root: Path) -> Mapping[str, str]:
    """Variables that git needs to commit; empty if it knows the person."""
    try:
        run_git(root, ["var", "GIT_COMMITTER_IDENT"])
    except GitError:
        return KODE_IDENTITY
    return {}


def repository_of(folder: Path) -> Path | None:
    """The root of the repository that a folder is in; None for none."""
    root = project_root(folder)
    return root if (root / ".git").exists() else None


def head_of(folder: Path) -> str:
    """The commit checked out in a folder; "" without a repository. Raises: GitError."""
    if repository_of(folder) is None:
        return ""
    return run_git(folder, ["rev-parse", "--verify", "HEAD"]).decode().strip()


def has_changes(folder: Path) -> bool:
    """Whether a repository has uncommitted changes to tracked files. Raises: GitError."""
    return bool(run_git(folder, ["status", "--porcelain", "--untracked-files=no"]))


def names_in(output: bytes) -> tuple[str, ...]:
    """The paths that git lists with `-z`."""
    return tuple(map(os.fsdecode, filter(None, output.split(b"\0"))))
