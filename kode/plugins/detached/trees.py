"""A worktree and a branch for one session, and what becomes of them."""

import contextlib
import textwrap
from collections.abc import Sequence
from pathlib import Path

from kode.plugin import (
    GitError,
    UserError,
    make_folder,
    real_path,
    run_git,
    shorten,
)
from kode.plugins.detached.places import Background, Tree, all_folder
from kode.plugins.worktrees import (
    MAKE_TIMEOUT_S,
    add_worktree,
    committer_of,
    has_changes,
    head_of,
    names_in,
    remove_worktree,
    repository_of,
    staged_changes,
)

DROPPED = "refs/kode/dropped"
"""Where a dropped branch is kept: git does not collect what a ref names."""

SHOWN = 10
"""So many files are named in a sentence."""

_OPTIONS = ("--quiet", "--no-verify", "--no-gpg-sign", "-m")

MERGE_STOPS = 1
"""git's exit status for a merge with conflicts."""


def make(home: Path, cwd: Path, id: str) -> tuple[Tree, Path]:
    """Creates the worktree of a session that works in `cwd`; returns it, and the folder in it to
    work in. Raises: UserError that says what to do."""
    project = repository_of(cwd)
    if project is None:
        raise UserError(
            f"{cwd} is in no git repository, so it can have no worktree. Start without --worktree, "
            "or run `git init` and commit first."
        )
    # Beside the home, because no tool may write inside it.
    root, branch = home.with_name(f"{home.name}-trees") / id, f"kode/{id}"
    try:
        base = head_of(project)
        make_folder(root.parent)
        add_worktree(project, _locks(home), ["-b", branch, str(root), base])
    except (GitError, OSError) as error:
        raise UserError(
            f"The worktree could not be made from {project}: {error}. Start without --worktree to "
            "work in the project itself."
        ) from None
    tree = Tree(project=str(project), root=str(root), branch=branch, base=base)
    return tree, root / Path(real_path(cwd)).relative_to(project)


def remove(home: Path, tree: Tree, tip: str) -> None:
    """Removes a worktree, and its branch if that still ends at `tip`."""
    project = Path(tree.project)
    with contextlib.suppress(OSError):
        remove_worktree(project, Path(tree.root), _locks(home))
    with contextlib.suppress(GitError):
        run_git(project, ["update-ref", "-d", f"refs/heads/{tree.branch}", tip])


def changed_files(tree: Tree) -> tuple[str, ...]:
    """The files that differ from where it began, committed or not; ignored ones are not among
    them. Raises: GitError."""
    root = Path(tree.root)
    with staged_changes(root, "HEAD") as index:
        diff = ["diff", "--cached", "--name-only", "-z", "--no-renames", tree.base]
        return names_in(run_git(root, diff, environ=index))


def merge(home: Path, session: Background, tree: Tree) -> tuple[str, ...]:
    """Commits what the worktree holds to its branch, merges that into the branch checked out in the
    project, and removes the worktree and its branch. Returns the merged files.

    Raises: UserError where it conflicts or would overwrite something; the project is untouched
    then, and so is the worktree.
    """
    project = Path(tree.project)
    try:
        tip = _commit(session, tree)
        head = head_of(project)
        files = _files_between(project, f"{head}...{tip}")
        _refuse_conflicts(project, head, tip)
        if uncommitted := _files_to_overwrite(project, files):
            what = f"you have changes there that are not committed, in {name_files(uncommitted)}"
            raise GitError(f"{what}. Commit them or set them aside, and try again")
        message = _message(session, f"Merge {tree.branch}")
        run_git(project, ["merge", *_OPTIONS, message, tip], environ=committer_of(project))
    except GitError as error:
        raise UserError(
            f"Nothing was merged, and nothing in {project} was changed: {error}. Or merge it "
            f"yourself (git merge {tree.branch}); this command tidies up afterwards."
        ) from None
    remove(home, tree, tip)
    return files


def drop(home: Path, session: Background, tree: Tree) -> str:
    """Removes worktree and branch; returns the ref that keeps what was in them, but for ignored
    files. Raises: UserError."""
    ref = f"{DROPPED}/{session.id}"
    try:
        tip = _commit(session, tree)
        run_git(Path(tree.project), ["update-ref", ref, tip])
    except GitError as error:
        raise UserError(
            f"{tree.root} was not dropped: {error}. `git worktree remove {tree.root}` in "
            f"{tree.project} does it without kode."
        ) from None
    remove(home, tree, tip)
    return ref


def _files_between(project: Path, commits: str) -> tuple[str, ...]:
    """The files that differ between two commits. Raises: GitError."""
    return names_in(run_git(project, ["diff", "--name-only", "-z", "--no-renames", commits]))


def _files_to_overwrite(project: Path, files: Sequence[str]) -> list[str]:
    """Those of the files that a merge would have to overwrite. Raises: GitError."""
    status = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignored"]
    names = {name[3:] for name in names_in(run_git(project, status))}
    folders = tuple(name for name in names if name.endswith("/"))  # ignored as a whole
    return [name for name in files if name in names or name.startswith(folders)]


def name_files(files: Sequence[str]) -> str:
    """The files as a phrase, a long list cut."""
    more = f" and {len(files) - SHOWN} more" if len(files) > SHOWN else ""
    return f"{shorten(', '.join(files[:SHOWN]), 1000)}{more}"


def _commit(session: Background, tree: Tree) -> str:
    """The tip of the branch, after committing what is not. Raises: GitError."""
    root = Path(tree.root)
    if not root.is_dir():  # dropped or merged by hand, or a crash in between
        return run_git(Path(tree.project), ["rev-parse", tree.branch]).decode().strip()
    run_git(root, ["add", "--all", "."], timeout_s=MAKE_TIMEOUT_S)
    if has_changes(root):
        title = textwrap.shorten(session.spec.title.partition("\n")[0], 72, placeholder="…")
        run_git(root, ["commit", *_OPTIONS, _message(session, title)], environ=committer_of(root))
    return head_of(root)


def _refuse_conflicts(project: Path, head: str, tip: str) -> None:
    """Merges in memory only. Raises: GitError that names the files that both have changed."""
    try:
        run_git(project, ["merge-tree", "--write-tree", head, tip])
    except GitError as error:
        if error.exit_status != MERGE_STOPS:
            raise
        both = {*_files_between(project, f"{tip}...{head}")} & {
            *_files_between(project, f"{head}...{tip}")
        }
        raise GitError(
            "it and the branch there conflict: both have changed "
            f"{name_files(sorted(both)) or 'names of files'}"
        ) from None


def _message(session: Background, title: str) -> str:
    return f"{title}\n\nKode-Session: {session.session_id}\n"


def _locks(home: Path) -> Path:
    return Path(real_path(all_folder(home))) / ".locks"
