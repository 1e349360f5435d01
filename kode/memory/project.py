"""Memory that belongs to a project: one folder each, named by the hash of its path."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kode import paths
from kode.contracts import MemoryContext
from kode.memory.base import BaseMemory
from kode.memory.change import Change
from kode.memory.places import Places, Row, path_hash_of


@dataclass(frozen=True)
class ProjectFolder:
    """Where a system stores one project's data."""

    system: Path
    """`memory/vault`, `memory/journal`."""
    project: str
    """The hash of the project's path."""

    @property
    def path(self) -> Path:
        return self.system / self.project

    def target(self, name: str) -> str:
        """A file's name in the history: its path below the memory folder."""
        return "/".join(filter(None, (self.system.name, self.project, name)))

    def of_target(self, target: str) -> "tuple[ProjectFolder, str]":
        """The folder and file of a name in the history. What was stored for all projects is looked
        up in this one."""
        name = target.removeprefix(f"{self.system.name}/")
        first, _, rest = name.partition("/")
        if paths.is_path_hash(first):
            return ProjectFolder(self.system, first), rest
        return self, name

    def of_row(self, row: Row) -> "ProjectFolder":
        """The folder of an export's row; this one where it names none. Raises: MemoryRefused."""
        project = row.get("project")
        return ProjectFolder(self.system, path_hash_of(project)) if project else self

    def all(self) -> "list[ProjectFolder]":
        """Those of every project that has one, this one first."""
        found: list[str] = []
        with suppress(OSError):
            found = sorted(path.name for path in self.system.iterdir())
        others = (name for name in found if paths.is_path_hash(name) and name != self.project)
        return [self, *(ProjectFolder(self.system, name) for name in others)]


class ProjectPlaces(Places):
    """The places of a system that belongs to a project."""

    def __init__(
        self, folder: ProjectFolder, pattern: str, shared: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(folder.system.parent, folder.system.name, pattern)
        self._folder = folder
        self._shared = shared

    @property
    def home(self) -> str:
        return self._folder.target("")

    def concerns(self, change: Change) -> bool:
        is_shared = change.target.removeprefix(f"{self.system}/") in self._shared
        return is_shared or change.target == self.home or change.target.startswith(f"{self.home}/")


class ProjectMemory(BaseMemory):
    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        await super().open(context, state)
        project = paths.path_hash(context.project_root or paths.project_root(context.cwd))
        self.folder = ProjectFolder(context.root / self.system, project)
