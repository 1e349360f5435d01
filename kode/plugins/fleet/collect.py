"""What tasks have changed, as one patch, branch or commit each. Their patch files are all that this
needs, so work trees and the machines they were on may be gone.

A branch begins where its task began. Commits go on top of the branch that is checked out, in the
order of the tasks; git merges each with what came before, and one that conflicts is left out and
named. Files of the working tree change at the very end, and only where that overwrites nothing.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kode import durable, paths
from kode.errors import UserError
from kode.plugins.fleet.queue import Queue
from kode.plugins.fleet.state import TaskState, is_good
from kode.session.git import GitError, run_git

APPLY = ("apply", "--cached", "--3way", "--whitespace=nowarn")
UNDO = ("apply", "--cached", "--reverse", "--check")
"""Works where all of a patch is there already."""
Way = Literal["patch", "branch", "commit"]
KODE = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "kode"), ("EMAIL", "kode@localhost"))
}
"""Who commits where git does not know the person."""


@dataclass(frozen=True, kw_only=True)
class Collected:
    """What became of one task's changes."""

    task: str
    done: str = ""
    """A branch or a commit; "" where it was left out."""
    conflicts: tuple[str, ...] = ()
    """Files that git could not merge."""
    why: str = ""
    """Why it was left out, a sentence."""


@dataclass
class _Repository:
    """What is to be committed in one repository."""

    root: Path
    head: str
    who: Mapping[str, str]
    """What git is to be started with so that it can commit."""


def choose(queue: Queue, names: Sequence[str], *, all_ended: bool) -> list[TaskState]:
    """The tasks whose changes are collected: those named, else those that ended well, with
    `all_ended` the others too. Raises: UserError for a name that no task has."""
    tasks = queue.state.tasks
    unknown = [name for name in names if name not in tasks]
    if unknown:
        raise UserError(
            f"There is no task {unknown[0]!r} in fleet {queue.fleet.id}. `kode fleet status "
            f"{queue.fleet.id}` lists them."
        )
    return [
        one
        for one in tasks.values()
        if one.finished is not None and one.finished.patch
        if one.task.id in names or (not names and (all_ended or is_good(one.finished)))
    ]


def patches(queue: Queue, tasks: Sequence[TaskState]) -> Iterator[tuple[TaskState, bytes]]:
    """The changes of each task. Raises: UserError for one that lies elsewhere; StorageError."""
    for one in tasks:
        assert one.finished is not None
        path = queue.folder / one.finished.patch
        # A link or a pipe in a queue from elsewhere would show a file of this machine, or hang.
        is_own = path.resolve() == queue.folder.resolve() / one.finished.patch
        if path.exists() and not (is_own and path.is_file()):
            raise UserError(f"{path} is not a file of this queue, so it is not read. Remove it.")
        with durable.storage_errors(path, "read"):
            yield one, path.read_bytes()


def collect(queue: Queue, tasks: Sequence[TaskState], way: Way) -> list[Collected]:
    """Makes a branch or a commit of each task's changes. What cannot be done is said, and the rest
    is done. Raises: StorageError; UserError where there is nothing that could be committed to."""
    repositories: dict[Path, _Repository] = {}
    results = []
    for one, patch in patches(queue, tasks):
        source = Path(one.task.source)
        root = paths.repository_root(source) if source.is_dir() else None
        if root is None:
            why = f"{one.task.source} is not a repository here. Use its patch: --as patch."
            results.append(Collected(task=one.task.id, why=why))
            continue
        try:
            if root not in repositories:
                repositories[root] = _repository(root)
            done = _add(queue, repositories[root], one, patch, way)
        except GitError as error:
            done = Collected(task=one.task.id, why=f"{error}.")
        results.append(done)
    for repository in repositories.values() if way == "commit" else ():
        _move(repository)
    return results


def _repository(root: Path) -> _Repository:
    """Raises: GitError where nothing is committed yet."""
    head = run_git(root, ["rev-parse", "--verify", "HEAD"]).decode().strip()
    try:
        run_git(root, ["var", "GIT_COMMITTER_IDENT"])
    except GitError:
        return _Repository(root, head, KODE)
    return _Repository(root, head, {})


def _add(
    queue: Queue, repository: _Repository, one: TaskState, patch: bytes, way: Way
) -> Collected:
    """Raises: GitError."""
    root, id = repository.root, one.task.id
    begins_at = one.task.base or repository.head if way == "branch" else repository.head
    tree, conflicts = _tree_with(root, begins_at, patch)
    if conflicts:
        return Collected(task=id, conflicts=conflicts, why="It conflicts with the branch.")
    if tree == run_git(root, ["rev-parse", f"{begins_at}^{{tree}}"]).decode().strip():
        return Collected(task=id, why="All its changes are already there.")
    made = ["commit-tree", tree, "-p", begins_at]
    message = _message(queue, one)
    commit = run_git(root, made, given=message, environ=repository.who).decode().strip()
    if way == "commit":
        repository.head = commit
        return Collected(task=id, done=commit)
    branch = f"kode/{queue.fleet.id}/{id}"
    try:
        # The zeros: it must not be there yet.
        run_git(root, ["update-ref", f"refs/heads/{branch}", commit, "0" * len(commit)])
    except GitError:
        return Collected(task=id, why=f"There is already a branch {branch}. Delete it, or keep it.")
    return Collected(task=id, done=branch)


def _tree_with(root: Path, begins_at: str, patch: bytes) -> tuple[str, tuple[str, ...]]:
    """The tree of a commit with a patch applied, merged where its surroundings have changed; or the
    files that conflict. Raises: GitError."""
    with tempfile.TemporaryDirectory(prefix="kode-collect-") as folder:
        environ = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        run_git(root, ["read-tree", begins_at], environ=environ)
        try:
            run_git(root, APPLY, given=patch, environ=environ)
        except GitError:
            unmerged = ["diff", "--name-only", "-z", "--diff-filter=U"]
            names = run_git(root, unmerged, environ=environ).split(b"\0")[:-1]
            if names:
                return "", tuple(map(os.fsdecode, names))
            try:
                run_git(root, UNDO, given=patch, environ=environ)
            except GitError:
                why = "the patch does not apply: the files it makes or needs are not as they were"
                raise GitError(why) from None
        return run_git(root, ["write-tree"], environ=environ).decode().strip(), ()


def _move(repository: _Repository) -> None:
    """Moves the branch that is checked out, with its files, to the new commits. Raises: UserError
    where that would overwrite what is in no commit."""
    try:
        run_git(repository.root, ["merge", "--ff-only", "--quiet", repository.head])
    except GitError as error:
        raise UserError(
            f"The commits are made, and no file of {repository.root} was changed: {error}. Commit "
            f"or set aside your own changes, then: git merge --ff-only {repository.head}"
        ) from None


def _message(queue: Queue, one: TaskState) -> bytes:
    title, _, rest = one.task.task.strip().partition("\n")
    body = f"{title[:72]}\n\n{one.task.task.strip()}\n" if rest or len(title) > 72 else f"{title}\n"
    return f"{body}\nKode-Session: {one.session}\nKode-Fleet: {queue.fleet.id}\n".encode()
