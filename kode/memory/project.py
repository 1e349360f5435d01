"""Memory that belongs to a project: a folder for each, called by the hash of its path.

What an older kode kept for all projects is taken over by the first one that opens it (`take_over`).
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from kode import paths
from kode.contracts import MemoryContext
from kode.memory.base import BaseMemory, Outcome
from kode.memory.history import Change
from kode.memory.take_over import (
    is_take_over,
    left_from_before,
    line_of,
    take_over,
    undo_take_over,
)


@dataclass(frozen=True)
class ProjectFolder:
    """Where a system keeps what is of one project."""

    system: Path
    """`memory/vault`, `memory/journal`."""
    project: str
    """The hash of the project's path; "" for what an older kode kept for all."""

    @property
    def path(self) -> Path:
        return self.system / self.project

    def target(self, name: str) -> str:
        """How the history calls a file: its path below the memory folder."""
        return "/".join(filter(None, (self.system.name, self.project, name)))

    def of_target(self, target: str) -> "tuple[ProjectFolder, str]":
        """The folder and the name that the history means. What was kept for all projects is looked
        for in this one."""
        name = target.removeprefix(f"{self.system.name}/")
        first, _, rest = name.partition("/")
        if paths.is_path_hash(first):
            return ProjectFolder(self.system, first), rest
        return self, name

    def all(self) -> "list[ProjectFolder]":
        """Those of every project that has one, this one first."""
        found: list[str] = []
        with suppress(OSError):
            found = sorted(path.name for path in self.system.iterdir())
        others = (name for name in found if paths.is_path_hash(name) and name != self.project)
        return [self, *(ProjectFolder(self.system, name) for name in others)]


class ProjectMemory(BaseMemory):
    left_from_before: ClassVar[tuple[str, ...]]
    """Patterns of the files that an older kode kept for all projects."""
    shared: ClassVar[frozenset[str]] = frozenset()
    """Files that are for all projects."""

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        await super().open(context, state)
        project = paths.path_hash(context.project_root or paths.project_root(context.cwd))
        self.folder = ProjectFolder(context.root / self.system, project)
        if not context.read_only:
            change = await take_over(
                self.folder.system,
                project,
                self.history,
                self._author("user"),
                patterns=self.left_from_before,
                shared=self.shared,
            )
            if change is not None:
                self._notice(line_of(change), level="info")
        elif not self.folder.path.exists() and left_from_before(
            self.folder.system, self.left_from_before, self.shared
        ):
            self.folder = ProjectFolder(self.folder.system, "")

    def may_undo_unasked(self, change: Change) -> bool:
        """Not what was changed in another project."""
        own = self.folder.target("")
        shared = change.target.removeprefix(f"{self.system}/") in self.shared
        return shared or change.target == own or change.target.startswith(f"{own}/")

    async def undo_change(self, change: Change) -> str:
        """Takes back one change. Raises: MemoryRefused, StorageError, BusyError."""
        self._check_writable()
        if not is_take_over(change):
            return await self._undo(change)
        author = self._author("undo")
        written = await undo_take_over(self.folder.system, change, self.history, author)
        return self._report(Outcome(line=f"undid {change.kind} {change.id}", change_id=written.id))

    async def _undo(self, change: Change) -> str:
        """Takes back a change to a file. Raises as `undo_change`."""
        raise NotImplementedError
