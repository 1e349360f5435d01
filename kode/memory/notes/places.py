"""Where the notes are kept: one database, which carries the id of its last change."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode.memory.notes.database import CHANGE
from kode.memory.notes.note import SYSTEM
from kode.memory.notes.store import NoteStore
from kode.memory.places import Places, State

if TYPE_CHECKING:
    from kode.memory.change import Change


class NotesPlaces(Places):
    """One place for all notes: a change of one may be one of others too."""

    carrier = "kode.memory.notes.carry:NotesCarrier"

    def __init__(self, root: Path, store: NoteStore) -> None:
        super().__init__(root, SYSTEM, r"notes/[0-9a-f]+")
        self._store = store

    def is_here(self, target: str) -> bool:
        return True

    def place_of(self, target: str) -> str:
        return SYSTEM

    def lock(self, target: str) -> Path:
        return self._store.database.path.parent

    def read(self, target: str) -> State:
        return tuple(filter(None, (self._store.database.meta(CHANGE),)))

    def after(self, state: State, change: "Change") -> State:
        return (change.id,)

    def differs(self, target: str, stands: str) -> bool:
        return bool(self._store.database.edited()) or super().differs(target, stands)

    def own_edit(self, target: str) -> "Change | None":
        """A change that is being made has taken them before."""
        return None if self._store.database.is_writing else self._store.take_edits()

    def edits(self, target: str, old: State, new: State) -> Iterator[dict[str, Any]]:
        """An older copy of the database, or one that lacks its last changes, is no edit."""
        yield from ()
