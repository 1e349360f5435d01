"""A worktree for each task, the task's changes in it as a patch, and collected patches as mails.

clone      a clone of the source's repository, without a branch
worktree   a linked worktree
copy       the files as they are, including uncommitted changes
none       the source itself, which tasks share: no patch

Collecting needs only the patch files: worktrees, and the machines that had them, may be gone.
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kode.plugin import (
    GitError,
    UserError,
    make_folder,
    project_root,
    real_path,
    remove_tree,
    replace_file,
    run_git,
    shorten,
    storage_errors,
)
from kode.plugins.fleet.queue import PATCH, FleetTask, Queue, Started, TaskState
from kode.plugins.worktrees import (
    MAKE_TIMEOUT_S,
    add_worktree,
    parse_names,
    remove_worktree,
    stage_changes,
)

MAX_FILES_NAMED = 200
"""How many changed files a result lists; the patch has all of them."""


@dataclass(frozen=True, kw_only=True)
class Tree:
    root: Path
    cwd: Path
    """Where the task works: the root, or the source's folder in it."""
    base: str
    """The commit or tree to compare changes with; "" if the source is shared."""


@dataclass(frozen=True, kw_only=True)
class Trees:
    """The worktrees of one queue."""

    folder: Path
    queue: Path
    """The queue's folder, which has one for each task. Neither path contains a link."""

    def make(self, task: FleetTask) -> Tree:
        """Creates the tree of a task, after removing what an interrupted start left in its place.

        Raises: UserError that says what to do; StorageError.
        """
        root = self.folder / task.id
        if task.isolate == "none":
            root = Path(task.source)
            return Tree(root=root, cwd=root, base="")
        try:
            self._remove_tree(task, root)
            make_folder(root, follow=False)
            folder = os.lstat(root)
            base = self._make_tree(task, root)
            if not os.path.samestat(folder, os.lstat(root)):  # git and the copy open it by its path
                raise GitError("its folder was replaced by somebody else")
            return Tree(root=root, cwd=root / _path_in_repository(task), base=base)
        except (GitError, OSError) as error:
            with contextlib.suppress(OSError):
                self._remove_tree(task, root)
            raise UserError(
                f"The worktree of {task.id} could not be made from {task.source}: {error}. "
                "Another way to make it: --isolate clone, copy or none; another place: KODE_HOME."
            ) from None

    def find(self, task: FleetTask, started: Started) -> Tree | None:
        """The tree of an earlier start; None if it does not exist on this machine."""
        root = Path(started.tree)
        cwd = root if task.isolate == "none" else root / _path_in_repository(task)
        return Tree(root=root, cwd=cwd, base=started.base) if cwd.is_dir() else None

    def write_patch(self, task: FleetTask, tree: Tree) -> tuple[str, ...]:
        """Writes the changes since the base, but for ignored files, into the task's folder as a
        patch, if there are any. Returns at most `MAX_FILES_NAMED` of the changed files.

        Raises: UserError; StorageError.
        """
        if not tree.base:
            return ()
        is_copy = task.isolate == "copy"
        environ = self._git_variables(task, tree.root) if is_copy else {}
        diff = ["diff", "--cached", "--no-ext-diff", "--no-textconv", "--no-renames"]
        whole = [*diff, "--binary", "--full-index", tree.base]
        try:
            with stage_changes(tree.root, tree.base if is_copy else "HEAD", environ) as index:
                patch = run_git(tree.root, whole, environ=index, timeout_s=MAKE_TIMEOUT_S)
                names = run_git(tree.root, [*diff, "--name-only", "-z", tree.base], environ=index)
        except GitError as error:
            raise UserError(
                f"The changes in {tree.root} could not be read: {error}. Look at it there."
            ) from None
        if patch:
            replace_file(self._tree_folder(task) / PATCH, patch, follow=False)
        return parse_names(names)[:MAX_FILES_NAMED]

    def remove(self, task: FleetTask) -> None:
        """Removes a task's tree, and with it all that is not in the patch. Leaves a shared source
        alone, and silently keeps a tree that cannot be removed."""
        if task.isolate != "none":
            with contextlib.suppress(GitError, OSError, UserError):
                self._remove_tree(task, self.folder / task.id)
                remove_tree(self._tree_folder(task) / "base.git")

    def _tree_folder(self, task: FleetTask) -> Path:
        return self.queue / "tasks" / task.id

    def _git_variables(self, task: FleetTask, root: Path) -> dict[str, str]:
        """Variables that make git use the repository of a copy, which lies outside the copy."""
        return {"GIT_DIR": str(self._tree_folder(task) / "base.git"), "GIT_WORK_TREE": str(root)}

    def _make_tree(self, task: FleetTask, root: Path) -> str:
        if task.isolate == "worktree":
            arguments = ["--detach", str(root), task.base]
            add_worktree(Path(task.source), arguments)
            return task.base
        source = str(project_root(Path(task.source)))
        if task.isolate == "clone":
            clone = ["clone", "--quiet", "--no-checkout", "--", source, str(root)]
            allowed = {"GIT_ALLOW_PROTOCOL": "file"}
            run_git(self.folder, clone, environ=allowed, timeout_s=MAKE_TIMEOUT_S)
            run_git(root, ["checkout", "--quiet", "--detach", task.base], timeout_s=MAKE_TIMEOUT_S)
            return task.base
        if Path(real_path(self.folder)).is_relative_to(source):
            raise GitError(f"its copy would lie inside it, in {self.folder}")
        shutil.copytree(source, root, symlinks=True, ignore=_list_special, dirs_exist_ok=True)
        remove_tree(self._tree_folder(task) / "base.git")
        environ = self._git_variables(task, root)
        run_git(root, ["init", "--quiet", "--bare", "--", environ["GIT_DIR"]])
        with stage_changes(root, "", environ) as index:
            return run_git(root, ["write-tree"], environ=index).decode().strip()

    def _remove_tree(self, task: FleetTask, root: Path) -> None:
        if task.isolate == "worktree":
            remove_worktree(Path(task.source), root)
        else:
            remove_tree(root)


def _list_special(folder: str, names: list[str]) -> set[str]:
    """The pipes and sockets among these names, which cannot be copied."""
    modes = {name: os.lstat(os.path.join(folder, name)).st_mode for name in names}
    return {name for name, mode in modes.items() if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)}


def _path_in_repository(task: FleetTask) -> Path:
    """The source's path relative to the root of its repository; `.` for the root itself."""
    source = Path(real_path(Path(task.source)))
    return source.relative_to(project_root(source))


def choose_tasks(queue: Queue, names: Sequence[str]) -> list[TaskState]:
    """The tasks with changes to collect: the named ones, or without names those that succeeded.
    Raises: UserError for an unknown name."""
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
        if state.task.id in names or (not names and state.finished.is_good)
    ]


def write_mails(queue: Queue, tasks: Sequence[TaskState]) -> Iterator[bytes]:
    """The patch of each task as a mail that `git am` turns into a commit. Raises: StorageError."""
    for state in tasks:
        path = queue.task_folder(state.task.id) / PATCH
        head = (
            f"From {'0' * 40} Mon Sep 17 00:00:00 2001",
            "From: kode <kode@localhost>",
            f"Date: {datetime.now(UTC):%a, %d %b %Y %H:%M:%S %z}",
            f"Subject: [PATCH] {shorten(state.task.task, 72)}",
            "Content-Type: text/plain; charset=UTF-8",
            "",
            f"Kode-Session: {state.session}",
            f"Kode-Fleet: {queue.fleet.id}",
            "---\n\n",
        )
        with storage_errors(path, "read"):
            yield "\n".join(head).encode("utf-8", "replace") + path.read_bytes() + b"\n"
