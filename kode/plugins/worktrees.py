"""Worktrees of a person's repository for plug-ins: makes and removes them, finds what changed, and
merges or drops those with a branch.

As everywhere in kode, git runs without hooks, filters or other programs that a repository names.
"""

import contextlib
import hashlib
import os
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kode.plugin import (
    GitError,
    UserError,
    hold_lock,
    kode_home,
    make_folder,
    path_hash,
    project_root,
    real_path,
    remove_tree,
    run_git,
    shorten,
)

MAKE_TIMEOUT_S = 1800.0
"""Time limit for a clone, a checkout or a copy of a large project."""

KODE_IDENTITY = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "kode"), ("EMAIL", "kode@localhost"))
}
"""Environment variables for the author and committer if git does not know the person."""

DROPPED = "refs/kode/dropped"
"""Refs below this keep dropped branches, so that git does not collect their commits."""

SHOWN = 10
"""How many files a sentence names at most."""

_OPTIONS = ("--quiet", "--no-verify", "--no-gpg-sign", "-m")

MERGE_STOPS = 1
"""git's exit status for a merge with conflicts."""


@dataclass(frozen=True)
class Worktree:
    """A worktree with a branch, made for one session."""

    project: str
    """The root of the repository that the worktree belongs to."""
    root: str
    branch: str
    base: str
    """The commit that its branch began at."""


def add_worktree(project: Path, arguments: Sequence[str]) -> None:
    """Adds a worktree; `arguments` go to `git worktree add`: folder, branch, commit. Raises:
    GitError, OSError, StorageError."""
    with _lock_worktrees(project):
        # `--force`: git may still list a worktree there whose folder was lost in a crash.
        command = ["worktree", "add", "--quiet", "--force", *arguments]
        run_git(project, command, timeout_s=MAKE_TIMEOUT_S)


def remove_worktree(project: Path, root: Path) -> None:
    """Removes a worktree with everything in it, even if git no longer knows it. Raises: OSError,
    StorageError."""
    if not root.is_symlink() and root.exists() and project.is_dir():
        command = ["worktree", "remove", "--force", str(root)]
        with _lock_worktrees(project), contextlib.suppress(GitError):
            run_git(project, command, timeout_s=MAKE_TIMEOUT_S)
    remove_tree(Path(real_path(root.parent)) / root.name)


@contextlib.contextmanager
def _lock_worktrees(project: Path) -> Iterator[None]:
    """Locks a repository: git's list of worktrees does not support concurrent writers."""
    repository = os.fsencode(project_root(project))
    lock = Path(real_path(kode_home())) / "worktrees" / hashlib.sha256(repository).hexdigest()[:16]
    with hold_lock(lock, timeout_s=MAKE_TIMEOUT_S, follow=False):
        yield


@contextlib.contextmanager
def stage_changes(
    root: Path, commit: str, environ: Mapping[str, str] | None = None
) -> Iterator[Mapping[str, str]]:
    """Variables that give git a temporary index, in which all changes in the worktree to `commit`
    ("" for none) are staged, new files included, ignored ones not. Raises: GitError."""
    with tempfile.TemporaryDirectory(prefix="kode-tree-") as folder:
        index = {**(environ or {}), "GIT_INDEX_FILE": str(Path(folder) / "index")}
        if commit:
            run_git(root, ["read-tree", commit], environ=index)
        run_git(root, ["add", "--all", "."], environ=index, timeout_s=MAKE_TIMEOUT_S)
        yield index


def committer_variables(root: Path) -> Mapping[str, str]:
    """Variables that git needs to commit; empty if it knows the person."""
    try:
        run_git(root, ["var", "GIT_COMMITTER_IDENT"])
    except GitError:
        return KODE_IDENTITY
    return {}


def find_repository(folder: Path) -> Path | None:
    """The root of the repository that contains a folder; None if there is none."""
    root = project_root(folder)
    return root if (root / ".git").exists() else None


def head_commit(folder: Path) -> str:
    """The commit checked out in a folder; "" without a repository. Raises: GitError."""
    if find_repository(folder) is None:
        return ""
    return run_git(folder, ["rev-parse", "--verify", "HEAD"]).decode().strip()


def has_changes(folder: Path) -> bool:
    """Whether a repository has uncommitted changes to tracked files. Raises: GitError."""
    return bool(run_git(folder, ["status", "--porcelain", "--untracked-files=no"]))


def changed_files(tree: Worktree) -> tuple[str, ...]:
    """The files of a worktree that differ from its base, committed or not, new ones included and
    ignored ones not. Raises: GitError."""
    root = Path(tree.root)
    with stage_changes(root, tree.base) as index:
        names = ["diff", "--cached", "--name-only", "-z", "--no-renames", tree.base]
        return parse_names(run_git(root, names, environ=index))


def parse_names(output: bytes) -> tuple[str, ...]:
    """The paths in an output of git with `-z`."""
    return tuple(map(os.fsdecode, filter(None, output.split(b"\0"))))


def make_worktree(home: Path, cwd: Path, name: str) -> tuple[Worktree, Path]:
    """Creates a worktree, with the branch `kode/NAME`, for a session that would work in `cwd`;
    returns it and its folder that corresponds to `cwd`. Raises: UserError that says what to do."""
    project = find_repository(cwd)
    if project is None:
        raise UserError(
            f"{cwd} is in no git repository, so it can have no worktree. Start without --worktree, "
            "or run `git init` and commit first."
        )
    # Beside the home, because no tool may write inside it.
    folder = f"{name}-{path_hash(project)[:6]}"
    root, branch = home.with_name(f"{home.name}-trees") / folder, f"kode/{name}"
    if root.exists():
        raise UserError(
            f"There is a worktree {name} already: `kode -c --cwd {root}` continues in it, `kode ps "
            f"--done` or `git merge {branch}` merges it, and another name begins another."
        )
    try:
        base = head_commit(project)
        make_folder(root.parent)
        add_worktree(project, ["-b", branch, str(root), base])
    except (GitError, OSError) as error:
        raise UserError(
            f"The worktree could not be made from {project}: {error}. Give another name, or "
            "start without --worktree to work in the project itself."
        ) from None
    tree = Worktree(project=str(project), root=str(root), branch=branch, base=base)
    return tree, root / Path(real_path(cwd)).relative_to(project)


def remove_branch(tree: Worktree, tip: str) -> None:
    """Removes a worktree, and its branch if that still ends at `tip`."""
    project = Path(tree.project)
    with contextlib.suppress(OSError):
        remove_worktree(project, Path(tree.root))
    with contextlib.suppress(GitError):
        run_git(project, ["update-ref", "-d", f"refs/heads/{tree.branch}", tip])


def merge_worktree(tree: Worktree, title: str, session: str) -> tuple[str, ...]:
    """Commits the worktree's changes to its branch, merges the branch into the one checked out in
    the project, and removes the worktree and its branch. Returns the merged files. The commit has
    `title` as its title, and the id `session` in its message.

    Raises: UserError if the merge fails, conflicts, or would overwrite uncommitted changes; the
    project's files are untouched then, and the worktree and its branch stay.
    """
    project = Path(tree.project)
    try:
        tip = _commit_uncommitted(tree, title, session)
        head = head_commit(project)
        files = _changed_between(project, f"{head}...{tip}")
        _refuse_conflicts(project, head, tip)
        if uncommitted := _files_to_overwrite(project, files):
            raise GitError(
                f"you have changes there that are not committed, in {join_names(uncommitted)}. "
                "Commit them or set them aside, and try again"
            )
        message = _make_message(f"Merge {tree.branch}", session)
        run_git(project, ["merge", *_OPTIONS, message, tip], environ=committer_variables(project))
    except GitError as error:
        raise UserError(
            f"Nothing was merged, and nothing in {project} was changed: {error}. Or merge it "
            f"yourself (git merge {tree.branch}); this command tidies up afterwards."
        ) from None
    remove_branch(tree, tip)
    return files


def _is_gone(tree: Worktree) -> bool:
    """Whether neither the worktree nor its branch exist any more: somebody removed both, or the
    whole repository. Raises: GitError."""
    project, branches = Path(tree.project), ["for-each-ref", f"refs/heads/{tree.branch}"]
    is_there = Path(tree.root).exists() or (find_repository(project) and run_git(project, branches))
    return not is_there


def drop_worktree(tree: Worktree, id: str, title: str, session: str) -> str:
    """Commits the worktree's changes and removes it with its branch. Returns the ref that keeps the
    commits, named by an `id` that was never used before, as a branch's name may be; ignored files
    are lost. Returns "" if somebody removed both already. Raises: UserError."""
    ref = f"{DROPPED}/{id}"
    try:
        if _is_gone(tree):
            return ""
        tip = _commit_uncommitted(tree, title, session)
        run_git(Path(tree.project), ["update-ref", ref, tip])
    except GitError as error:
        raise UserError(
            f"{tree.root} was not dropped: {error}. `git worktree remove {tree.root}` in "
            f"{tree.project} does it without kode."
        ) from None
    remove_branch(tree, tip)
    return ref


def _changed_between(project: Path, commits: str) -> tuple[str, ...]:
    """The files that differ between two commits. Raises: GitError."""
    return parse_names(run_git(project, ["diff", "--name-only", "-z", "--no-renames", commits]))


def _files_to_overwrite(project: Path, files: Sequence[str]) -> list[str]:
    """Which of the files have uncommitted content that a merge overwrites. Raises: GitError."""
    status = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignored"]
    names = {name[3:] for name in parse_names(run_git(project, status))}
    folders = tuple(name for name in names if name.endswith("/"))  # ignored as a whole
    return [name for name in files if name in names or name.startswith(folders)]


def join_names(files: Sequence[str]) -> str:
    """The names of the files in a phrase; of many only the first `SHOWN`, and a count."""
    more = f" and {len(files) - SHOWN} more" if len(files) > SHOWN else ""
    return f"{shorten(', '.join(files[:SHOWN]), 1000)}{more}"


def _commit_uncommitted(tree: Worktree, title: str, session: str) -> str:
    """Commits all uncommitted changes, and returns the tip of the branch. Raises: GitError."""
    root = Path(tree.root)
    if not root.is_dir():  # dropped or merged by hand, or a crash in between
        return run_git(Path(tree.project), ["rev-parse", tree.branch]).decode().strip()
    run_git(root, ["add", "--all", "."], timeout_s=MAKE_TIMEOUT_S)
    if has_changes(root):
        line = textwrap.shorten(title.partition("\n")[0], 72, placeholder="…")
        run_git(
            root,
            ["commit", *_OPTIONS, _make_message(line, session)],
            environ=committer_variables(root),
        )
    return head_commit(root)


def _refuse_conflicts(project: Path, head: str, tip: str) -> None:
    """Tries the merge without touching files. Raises: GitError naming files that both changed."""
    try:
        run_git(project, ["merge-tree", "--write-tree", head, tip])
    except GitError as error:
        if error.exit_status != MERGE_STOPS:
            raise
        both = {*_changed_between(project, f"{tip}...{head}")} & {
            *_changed_between(project, f"{head}...{tip}")
        }
        raise GitError(
            "it and the branch there conflict: both have changed "
            f"{join_names(sorted(both)) or 'names of files'}"
        ) from None


def _make_message(title: str, session: str) -> str:
    return f"{title}\n\nKode-Session: {session}\n"
