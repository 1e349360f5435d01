"""Memory that belongs to a project: one folder each, named by the hash of its path.

The first project that opens what an older kode stored for all projects takes it over.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from kode import durable, paths
from kode.contracts import MemoryContext
from kode.errors import MemoryRefused
from kode.memory.base import BaseMemory, Outcome
from kode.memory.change import Author, Change, nothing_left, undo_of
from kode.memory.history import History
from kode.memory.places import Places, Row, path_hash_of
from kode.memory.stored import locked

KIND = "take over"
_ON_THE_WAY = ".taken-over"


def left_from_before(root: Path, patterns: Iterable[str], shared: Collection[str]) -> list[str]:
    """Leftovers of an older kode, files and folders by name below `root`, except those in `shared`,
    which stay there for all."""
    names: set[str] = set()
    for folder in (root, root / _ON_THE_WAY):
        found = (path for pattern in patterns for path in folder.glob(pattern))
        names.update(path.relative_to(folder).as_posix() for path in found)
    return sorted(name for name in names - set(shared) if not Path(name).name.startswith("."))


async def take_over(
    root: Path,
    project: str,
    history: History,
    author: Author,
    *,
    patterns: Sequence[str],
    shared: Collection[str] = (),
) -> Change | None:
    """Moves the leftovers to the folder of `project`, unless it has its own.

    Returns the change, or None if there was nothing to do. Raises: StorageError, BusyError.
    """
    folder = root / project
    if folder.exists() or not left_from_before(root, patterns, shared):
        return None
    async with locked(root):
        names = left_from_before(root, patterns, shared)
        if folder.exists() or not names:
            return None
        change = history.record(
            author,
            root.name,
            KIND,
            f"{root.name}/{project}",
            before=tuple(names),
            reason="the memory of all projects",
        )
        _move(names, root, root / _ON_THE_WAY)
        with durable.storage_errors(folder, "move the old memory to"):
            os.rename(root / _ON_THE_WAY, folder)
            durable.sync_folder(root)
    return change


async def undo_take_over(root: Path, change: Change, history: History, author: Author) -> Change:
    """Moves the files back, or (undoing that) to the project again.

    Raises: MemoryRefused if one of them is in the way; StorageError, BusyError.
    """
    folder = root.parent / change.target
    back = bool(change.before)
    names, source, target = (change.before, folder, root) if back else (change.after, root, folder)
    async with locked(root):
        names = tuple(name for name in names if os.path.lexists(source / name))
        if not names:
            raise nothing_left(change)
        taken = [name for name in names if os.path.lexists(target / name)]
        if taken:
            raise MemoryRefused(
                f"{target / taken[0]} is there already. Move it away, then undo again."
            )
        written = history.append(undo_of(change, author))
        _move(names, source, target)
    return written


def is_take_over(change: Change) -> bool:
    """Whether a change is a take-over, or undoes one."""
    _, _, name = change.target.partition("/")
    return paths.is_path_hash(name)


def line_of(change: Change) -> str:
    """The line about it for a person."""
    return (
        f"The {change.system} memory was kept for all projects until now; from here on it belongs "
        f"to this one ({', '.join(change.before)}). Undo with: kode memory undo {change.id}"
    )


def _move(names: Iterable[str], source: Path, target: Path) -> None:
    durable.make_folder(target)
    for name in names:
        if not os.path.lexists(source / name):
            continue  # moved before a crash
        durable.make_folder((target / name).parent)
        with durable.storage_errors(target / name, "move the old memory to"):
            os.rename(source / name, target / name)
            durable.sync_folder((target / name).parent)
            durable.sync_folder((source / name).parent)


@dataclass(frozen=True)
class ProjectFolder:
    """Where a system stores one project's data."""

    system: Path
    """`memory/vault`, `memory/journal`."""
    project: str
    """The hash of the project's path; "" for what an older kode stored for all."""

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
    left_from_before: ClassVar[tuple[str, ...]]
    """Patterns of files that an older kode stored for all projects."""
    shared: ClassVar[frozenset[str]] = frozenset()
    """Files shared by all projects."""

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

    async def undo_change(self, change: Change, batch: str = "") -> Outcome:
        """Undoes one change, as a new change. Raises: MemoryRefused, StorageError, BusyError."""
        self.check_writable()
        if change.target.endswith(".json"):
            raise MemoryRefused(
                f"{change.id} was made by an older kode, which let it wait in a file. What it was "
                "about is in its session."
            )
        if not is_take_over(change):
            return await super().undo_change(change, batch)
        author = self._author("undo", batch=batch)
        written = await undo_take_over(self.folder.system, change, self.history, author)
        return self._report(Outcome(line=f"undid {change.kind} {change.id}", change_id=written.id))
