"""How a memory that was once kept for all projects becomes that of the first one that opens it.

A system folder holds a folder for each project, called by the hash of its path. What lies beside
those folders is of an older kode. It moves as a whole: into a folder that is renamed last, so that
a crash leaves it to be moved further, and undoing leaves the project's folder, which then takes
over nothing again.
"""

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from kode import durable, paths
from kode.errors import MemoryRefused
from kode.memory.history import Author, Change, History, nothing_left, undo_of
from kode.memory.locks import locked

KIND = "take over"
_ON_THE_WAY = ".taken-over"


def left_from_before(root: Path, patterns: Iterable[str], shared: Collection[str]) -> list[str]:
    """What an older kode has left, files and folders by name below `root`; those in `shared` stay
    there for all."""
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
    """Moves what was left from before into the folder of `project`, if that has none of its own.

    Returns the change, or None when there was nothing to do. Raises: StorageError, BusyError.
    """
    folder = root / project
    if folder.exists() or not left_from_before(root, patterns, shared):
        return None
    async with locked(root):
        names = left_from_before(root, patterns, shared)
        if folder.exists() or not names:
            return None
        change = history.append(
            Change.by(
                author,
                kind=KIND,
                target=f"{root.name}/{project}",
                system=root.name,
                before=tuple(names),
                reason="what was kept for all projects",
            )
        )
        _move(names, root, root / _ON_THE_WAY)
        with durable.storage_errors(folder, "move what was there to"):
            os.rename(root / _ON_THE_WAY, folder)
            durable.sync_folder(root)
    return change


async def undo_take_over(root: Path, change: Change, history: History, author: Author) -> Change:
    """Moves the files back to where they were for all projects, or (undoing that) to the project.

    Raises: MemoryRefused when one of them is in the way; StorageError, BusyError.
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
    """Whether a change is one of these, or undoes one."""
    _, _, name = change.target.partition("/")
    return paths.is_path_hash(name)


def line_of(change: Change) -> str:
    """The line that tells a person about it."""
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
        with durable.storage_errors(target / name, "move what was there to"):
            os.rename(source / name, target / name)
            durable.sync_folder((target / name).parent)
            durable.sync_folder((source / name).parent)
