"""Collects the changes of tasks as one patch, branch or commit each. It needs only their patch
files, so the worktrees may be gone, and the machines they were on too.

A branch starts at the commit its task started from. Commits are added to the checked-out branch in
task order; git merges each into the previous ones, and a commit that conflicts is skipped and
reported. Files in the working tree change only at the very end, and nothing uncommitted is
overwritten.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kode.plugin import GitError, UserError, run_git, storage_errors
from kode.plugins.fleet.queue import Queue
from kode.plugins.fleet.records import PATCH, TaskState
from kode.plugins.worktrees import committer_of, head_of, names_in, repository_of

APPLY = ("apply", "--cached", "--3way", "--whitespace=nowarn")
APPLIED = ("apply", "--cached", "--reverse", "--check")
"""Succeeds if the whole patch is already applied."""
Way = Literal["patch", "branch", "commit"]


@dataclass(frozen=True, kw_only=True)
class Collected:
    """The result of collecting one task."""

    task: str
    ref: str = ""
    """The branch or commit; "" if the task was skipped."""
    reason: str = ""
    """Why the task was skipped, as a sentence."""


def choose(queue: Queue, names: Sequence[str], *, include_failed: bool) -> list[TaskState]:
    """The tasks to collect, of those with changes: the named ones, else those that succeeded and
    with `include_failed` also those that failed. Raises: UserError for an unknown name."""
    tasks = queue.state.tasks
    unknown = [name for name in names if name not in tasks]
    if unknown:
        raise UserError(
            f"There is no task {unknown[0]!r} in fleet {queue.fleet.id}. `kode fleet status "
            f"{queue.fleet.id}` lists them."
        )
    return [
        state
        for state in tasks.values()
        if state.finished is not None and state.finished.files
        if state.task.id in names or (not names and (include_failed or state.finished.is_good))
    ]


def patches(queue: Queue, tasks: Sequence[TaskState]) -> Iterator[tuple[TaskState, bytes]]:
    """The patch of each task. Raises: StorageError."""
    for state in tasks:
        path = queue.task_folder(state.task.id) / PATCH
        with storage_errors(path, "read"):
            yield state, path.read_bytes()


def collect(queue: Queue, tasks: Sequence[TaskState], way: Way) -> list[Collected]:
    """Makes a branch or a commit of each task's changes. Skips a task that cannot be collected; its
    result says why. Raises: StorageError; UserError if the checked-out branch cannot be moved to
    the new commits."""
    heads: dict[Path, str] = {}
    """Repository → the commit that the next one goes on top of."""
    results = []
    for state, patch in patches(queue, tasks):
        id, source = state.task.id, Path(state.task.source)
        root = repository_of(source) if source.is_dir() else None
        if root is None:
            reason = f"{source} is not a repository here. Use its patch: --as patch."
            results.append(Collected(task=id, reason=reason))
            continue
        try:
            heads.setdefault(root, head_of(root))
            parent = (way == "branch" and state.task.base) or heads[root]
            tree, conflicts = _apply(root, parent, patch)
            if conflicts:
                reason = f"It conflicts in {', '.join(conflicts)}."
                results.append(Collected(task=id, reason=reason))
            elif tree == run_git(root, ["rev-parse", f"{parent}^{{tree}}"]).decode().strip():
                results.append(Collected(task=id, reason="All its changes are already there."))
            else:
                commit = _commit(queue, state, root, tree, parent)
                if way == "branch":
                    results.append(_make_branch(queue, id, root, commit))
                else:
                    heads[root] = commit
                    results.append(Collected(task=id, ref=commit))
        except GitError as error:
            results.append(Collected(task=id, reason=f"{error}."))
    for root, head in heads.items() if way == "commit" else ():
        _fast_forward(root, head)
    return results


def _commit(queue: Queue, state: TaskState, root: Path, tree: str, parent: str) -> str:
    text = state.task.task.strip()
    title, _, rest = text.partition("\n")
    body = f"{title[:72]}\n\n{text}\n" if rest or len(title) > 72 else f"{title}\n"
    message = f"{body}\nKode-Session: {state.session}\nKode-Fleet: {queue.fleet.id}\n".encode()
    command, who = ["commit-tree", tree, "-p", parent], committer_of(root)
    return run_git(root, command, given=message, environ=who).decode().strip()


def _make_branch(queue: Queue, id: str, root: Path, commit: str) -> Collected:
    branch = f"kode/{queue.fleet.id}/{id}"
    try:
        # The zeros mean that the branch must not exist.
        run_git(root, ["update-ref", f"refs/heads/{branch}", commit, "0" * len(commit)])
    except GitError:
        reason = f"There is already a branch {branch}. Delete it, or keep it."
        return Collected(task=id, reason=reason)
    return Collected(task=id, ref=branch)


def _apply(root: Path, commit: str, patch: bytes) -> tuple[str, tuple[str, ...]]:
    """Applies a patch to a commit, with a three-way merge if the files have changed. Returns the
    new tree, or the files that conflict. Raises: GitError."""
    with tempfile.TemporaryDirectory(prefix="kode-collect-") as folder:
        environ = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        run_git(root, ["read-tree", commit], environ=environ)
        try:
            run_git(root, APPLY, given=patch, environ=environ)
        except GitError:
            unmerged = ["diff", "--name-only", "-z", "--diff-filter=U"]
            if names := names_in(run_git(root, unmerged, environ=environ)):
                return "", names
            try:
                run_git(root, APPLIED, given=patch, environ=environ)
            except GitError:
                raise GitError(
                    "the patch does not apply: files it creates or needs have changed"
                ) from None
        return run_git(root, ["write-tree"], environ=environ).decode().strip(), ()


def _fast_forward(root: Path, head: str) -> None:
    """Moves the checked-out branch and the working tree to the new commits. Raises: UserError if
    that would overwrite uncommitted changes."""
    try:
        run_git(root, ["merge", "--ff-only", "--quiet", head])
    except GitError as error:
        raise UserError(
            f"The commits are made, and no file of {root} was changed: {error}. Commit "
            f"or set aside your own changes, then: git merge --ff-only {head}"
        ) from None
