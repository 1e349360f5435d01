"""A worktree and a branch for one session, and what becomes of them."""

import contextlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kode.plugin import GitError, UserError, beneath, durable, one_line, paths, run_git
from kode.plugins import worktrees
from kode.plugins.detached.places import Known, Tree, all_folder, trees_folder

DROPPED = "refs/kode/dropped"
"""Where a dropped branch is kept: git does not collect what a ref names."""

SHOWN = 10
"""So many files are named in a sentence."""

MERGE_STOPS = 1
"""git's exit status for a merge with conflicts."""


@dataclass(frozen=True, kw_only=True)
class Merged:
    commit: str
    files: tuple[str, ...]


def make(home: Path, cwd: Path, id: str) -> tuple[Tree, Path]:
    """Creates the worktree of a session that works in `cwd`; returns it, and the folder in it to
    work in. Raises: UserError that says what to do."""
    project = paths.repository_root(cwd)
    if project is None:
        raise UserError(
            f"{cwd} is in no git repository, so it can have no worktree. Start without --worktree, "
            "or run `git init` and commit first."
        )
    root, branch = trees_folder(home) / id, f"kode/{id}"
    try:
        base = worktrees.head_of(project)
        durable.make_folder(root.parent)
        worktrees.add(project, _locks(home), ["-b", branch, str(root), base])
    except (GitError, OSError) as error:
        raise UserError(
            f"The worktree could not be made from {project}: {error}. Start without --worktree to "
            "work in the project itself."
        ) from None
    tree = Tree(project=str(project), root=str(root), branch=branch, base=base)
    return tree, root / Path(paths.real_path(cwd)).relative_to(project)


def unmake(home: Path, tree: Tree) -> None:
    """Removes a worktree in which nothing was done."""
    _remove(home, tree)
    with contextlib.suppress(GitError):
        run_git(Path(tree.project), ["update-ref", "-d", f"refs/heads/{tree.branch}", tree.base])


def changed(tree: Tree) -> tuple[str, ...]:
    """The files that differ from where it began, committed or not; ignored ones are not among
    them. Raises: GitError."""
    root = Path(tree.root)
    with tempfile.TemporaryDirectory(prefix="kode-tree-") as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        run_git(root, ["read-tree", "HEAD"], environ=index)
        run_git(root, ["add", "--all", "."], environ=index, timeout_s=worktrees.MAKE_TIMEOUT_S)
        listed = ["diff", "--cached", "--name-only", "-z", "--no-renames", tree.base]
        return worktrees.names_in(run_git(root, listed, environ=index))


def merge(home: Path, one: Known, tree: Tree) -> Merged:
    """Commits what the worktree holds to its branch, merges that into the branch checked out in the
    project, and removes the worktree and its branch.

    Raises: UserError where it conflicts or would overwrite something; the project is untouched
    then, and so is the worktree.
    """
    project = Path(tree.project)
    try:
        tip = _commit(one, tree)
        head = worktrees.head_of(project)
        files = _differing(project, f"{head}...{tip}")
        commit = _merged(one, project, head, tip)
        if mine := _uncommitted(project, files):
            what = f"you have changes there that are not committed, in {_named(mine)}"
            raise GitError(f"{what}. Commit them or set them aside, and try again")
        run_git(project, ["merge", "--ff-only", "--no-overwrite-ignore", "--quiet", commit])
    except GitError as error:
        raise UserError(
            f"Nothing was merged, and nothing in {project} was changed: {error}. Or merge it "
            f"yourself (git merge {tree.branch}); this command tidies up afterwards."
        ) from None
    _remove(home, tree)
    with contextlib.suppress(GitError):
        run_git(project, ["update-ref", "-d", f"refs/heads/{tree.branch}", tip])
    return Merged(commit=commit, files=files)


def _differing(project: Path, commits: str) -> tuple[str, ...]:
    """The files that differ between two commits. Raises: GitError."""
    listed = ["diff", "--name-only", "-z", "--no-renames", commits]
    return worktrees.names_in(run_git(project, listed))


def _uncommitted(project: Path, files: Sequence[str]) -> list[str]:
    """Those of the files that a merge would have to overwrite. Raises: GitError."""
    listed = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignored"]
    changed = {name[3:] for name in worktrees.names_in(run_git(project, listed))}
    return [name for name in files if name in changed]


def _named(files: Sequence[str]) -> str:
    more = f" and {len(files) - SHOWN} more" if len(files) > SHOWN else ""
    return f"{one_line(', '.join(files[:SHOWN]))}{more}"


def drop(home: Path, one: Known, tree: Tree) -> str:
    """Removes worktree and branch; returns the ref that keeps what was in them, but for ignored
    files. Raises: UserError."""
    project = Path(tree.project)
    kept = f"{DROPPED}/{one.id}"
    try:
        tip = _commit(one, tree)
        run_git(project, ["update-ref", kept, tip])
        _remove(home, tree)
        run_git(project, ["update-ref", "-d", f"refs/heads/{tree.branch}", tip])
    except GitError as error:
        raise UserError(
            f"{tree.root} was not dropped: {error}. `git worktree remove {tree.root}` in "
            f"{project} does it without kode."
        ) from None
    return kept


def _commit(one: Known, tree: Tree) -> str:
    """The tip of the branch, after committing what is not. Raises: GitError."""
    root = Path(tree.root)
    if not root.is_dir():  # dropped or merged by hand, or a crash in between
        return run_git(Path(tree.project), ["rev-parse", tree.branch]).decode().strip()
    tip = run_git(root, ["rev-parse", "HEAD"]).decode().strip()
    with tempfile.TemporaryDirectory(prefix="kode-tree-") as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        run_git(root, ["read-tree", "HEAD"], environ=index)
        run_git(root, ["add", "--all", "."], environ=index, timeout_s=worktrees.MAKE_TIMEOUT_S)
        files = run_git(root, ["write-tree"], environ=index).decode().strip()
    if files == run_git(root, ["rev-parse", f"{tip}^{{tree}}"]).decode().strip():
        return tip
    title = one.spec.title.partition("\n")[0][:72]
    made = run_git(
        root,
        ["commit-tree", files, "-p", tip],
        given=f"{title}\n\nKode-Session: {one.session_id}\n".encode(),
        environ=worktrees.identity_in(root),
    )
    new = made.decode().strip()
    # Fails where somebody has moved the branch meanwhile.
    run_git(root, ["update-ref", "HEAD", new, tip])
    run_git(root, ["read-tree", new])
    return new


def _merged(one: Known, project: Path, head: str, tip: str) -> str:
    """The commit with both; raises GitError that names the files that both have changed."""
    base = run_git(project, ["merge-base", head, tip]).decode().strip()
    if base == head:
        return tip
    if base == tip:
        return head
    try:
        written = run_git(project, ["merge-tree", "--write-tree", "--name-only", "-z", head, tip])
    except GitError as error:
        if error.exit_status != MERGE_STOPS:
            raise
        theirs = set(_differing(project, f"{base}..{head}"))
        both = [name for name in _differing(project, f"{base}..{tip}") if name in theirs]
        what = f"both have changed {_named(both)}" if both else "both have changed names of files"
        raise GitError(f"it and the branch there conflict: {what}") from None
    tree = os.fsdecode(written.split(b"\0")[0])
    message = f"Merge kode/{one.id}\n\nKode-Session: {one.session_id}\n".encode()
    command = ["commit-tree", tree, "-p", head, "-p", tip]
    environ = worktrees.identity_in(project)
    return run_git(project, command, given=message, environ=environ).decode().strip()


def _remove(home: Path, tree: Tree) -> None:
    root = Path(tree.root)
    with contextlib.suppress(OSError):
        worktrees.remove(Path(tree.project), root, _locks(home))
        with beneath.open_folder(Path(paths.real_path(root.parent))) as folder:
            beneath.remove(folder, root.name)


def _locks(home: Path) -> Path:
    return Path(paths.real_path(all_folder(home))) / ".locks"
