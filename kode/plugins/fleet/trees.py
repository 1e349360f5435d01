"""A worktree for each task, and the task's changes in it as a patch.

    clone      a clone of the source's repository or of an address, without a branch
    worktree   a linked worktree
    copy       the files as they are, including uncommitted changes
    none       the source itself, which tasks share: no patch

As everywhere in kode, git runs without hooks, filters or other programs that a repository names.
"""

import contextlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kode.plugin import (
    GitError,
    UserError,
    beneath,
    durable,
    git_environment,
    paths,
    programs,
    run_git,
)
from kode.plugins import worktrees
from kode.plugins.fleet.records import PATCH, Task
from kode.plugins.worktrees import MAKE_TIMEOUT_S

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
    """The queue's folder, with locks and a folder per task. The paths of both contain no link."""

    def make(self, task: Task) -> Tree:
        """Creates a worktree, after removing what an interrupted start left of it.

        Raises: UserError that says what to do; StorageError.
        """
        root = self.folder / task.id
        if task.isolate == "none":
            root = Path(task.source)
            return Tree(root=root, cwd=root, base="")
        try:
            self._remove_all(task, root)
            with (
                beneath.open_folder(self.folder, make=beneath.private_mode) as folder,
                beneath.open_below(folder, [task.id], make=beneath.usual_mode) as made,
            ):
                base = self._make(task, root)
                # cp and git opened it by its path.
                if not os.path.samestat(os.fstat(made), os.lstat(root)):
                    raise GitError("its folder was replaced by somebody else")
            return Tree(root=root, cwd=root / _part(task), base=base)
        except (GitError, OSError) as error:
            with contextlib.suppress(OSError):
                self._remove_all(task, root)
            raise UserError(
                f"The worktree of {task.id} could not be made from {task.source}: {error}. "
                "Another way to make it: --isolate clone, copy or none."
            ) from None

    def find(self, task: Task, root: Path, base: str) -> Tree | None:
        """The worktree of an earlier start; None if it does not exist."""
        cwd = root if task.isolate == "none" else root / _part(task)
        return Tree(root=root, cwd=cwd, base=base) if cwd.is_dir() else None

    def write_patch(self, task: Task, tree: Tree) -> tuple[str, ...]:
        """Writes the changes since the base into the task's folder as a patch, unless there are
        none, and returns the changed files. Ignored files are not included.

        Raises: UserError; StorageError.
        """
        if not tree.base:
            return ()
        try:
            environ = self._index(task, tree)
            run_git(tree.root, ["add", "--all", "."], environ=environ, timeout_s=MAKE_TIMEOUT_S)
            against = ["diff", "--cached", "--no-ext-diff", "--no-textconv", "--no-renames"]
            shown = [*against, "--binary", "--full-index", tree.base]
            patch = run_git(tree.root, shown, environ=environ, timeout_s=MAKE_TIMEOUT_S)
            if not patch:
                return ()
            names = run_git(tree.root, [*against, "--name-only", "-z", tree.base], environ=environ)
        except GitError as error:
            raise UserError(
                f"The changes in {tree.root} could not be read: {error}. Look at it there."
            ) from None
        durable.replace(self._folder_of(task) / PATCH, patch, follow=False)
        return tuple(os.fsdecode(name) for name in names.split(b"\0")[:-1])[:MAX_FILES_NAMED]

    def remove(self, task: Task) -> None:
        """Removes a task's tree, with everything that is not in its patch. A tree that cannot be
        removed stays."""
        if task.isolate != "none":
            with contextlib.suppress(GitError, OSError, UserError):
                self._remove_all(task, self.folder / task.id)
                with beneath.open_folder(self._folder_of(task)) as folder:
                    beneath.remove(folder, "base.git")
                    beneath.remove(folder, "index")

    def _folder_of(self, task: Task) -> Path:
        return self.queue / "tasks" / task.id

    def _make(self, task: Task, root: Path) -> str:
        if task.isolate == "copy":
            whole = paths.project_root(Path(task.source))
            if Path(paths.real_path(self.folder)).is_relative_to(whole):
                raise GitError(f"its copy would lie inside it, in {self.folder}: --trees DIR")
            _run("cp", "-a", "--", f"{whole}/.", str(root))
            store = self._folder_of(task) / "base.git"
            with beneath.open_folder(store.parent) as folder:
                beneath.remove(folder, store.name)
            _run("git", "init", "--quiet", "--bare", "--", str(store))
            environ = {"GIT_DIR": str(store), "GIT_WORK_TREE": str(root)}
            run_git(root, ["add", "--all", "."], environ=environ, timeout_s=MAKE_TIMEOUT_S)
            return run_git(root, ["write-tree"], environ=environ).decode().strip()
        if task.isolate == "clone":
            local = Path(task.source).is_dir()
            source = str(paths.project_root(Path(task.source))) if local else task.source
            _run("git", "clone", "--quiet", "--no-checkout", "--", source, str(root))
            base = task.base or run_git(root, ["rev-parse", "HEAD"]).decode().strip()
            run_git(root, ["checkout", "--quiet", "--detach", base], timeout_s=MAKE_TIMEOUT_S)
            return base
        project = Path(task.source)
        worktrees.add(project, self.queue / "locks", ["--detach", str(root), task.base])
        return task.base

    def _remove_all(self, task: Task, root: Path) -> None:
        if not os.path.lexists(root):
            return
        if task.isolate == "worktree" and not root.is_symlink() and Path(task.source).is_dir():
            worktrees.remove(Path(task.source), root, self.queue / "locks")
        with beneath.open_folder(root.parent) as folder:
            beneath.remove(folder, root.name)  # not a worktree, or an incomplete one

    def _index(self, task: Task, tree: Tree) -> dict[str, str]:
        """Variables for an index of our own; the worktree's stays as the task left it."""
        if task.isolate == "copy":
            return {
                "GIT_DIR": str(self._folder_of(task) / "base.git"),
                "GIT_WORK_TREE": str(tree.root),
            }
        path = run_git(tree.root, ["rev-parse", "--path-format=absolute", "--git-path", "index"])
        own = Path(paths.real_path(os.fsdecode(path.rstrip(b"\n"))))
        index = self._folder_of(task) / "index"
        # Starting from a copy, git need not read unchanged files. The copy keeps its time: git
        # compares the contents of files that changed in the moment the index was written.
        with (
            contextlib.suppress(OSError),
            beneath.open_folder(own.parent) as source,
            beneath.open_folder(index.parent) as folder,
        ):
            beneath.copy_in(source, own.name, folder, index.name, 0o600)
        return {"GIT_INDEX_FILE": str(index)}


def _part(task: Task) -> Path:
    """The source's path in its repository, of which it may be a part."""
    source = Path(task.source)
    if not source.is_dir():
        return Path()
    return Path(paths.real_path(source)).relative_to(paths.project_root(source))


def _run(name: str, *arguments: str) -> None:
    """Runs a program on a source the person named. Raises: GitError with its first error line."""
    program = programs.find_program(name)
    if program is None:
        raise GitError(f"{name} is not installed")
    environ = {**git_environment(), "GIT_ALLOW_PROTOCOL": "file:https:ssh:git"}
    try:
        done = subprocess.run(
            [program, *arguments],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=MAKE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GitError(f"{name} took longer than {MAKE_TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        error = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        raise GitError(f"{name} said: {error[:200]}")
