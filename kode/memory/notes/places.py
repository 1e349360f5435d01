"""Where the notes are kept: one database, which carries the id of its last change."""

from pathlib import Path
from typing import TYPE_CHECKING

from kode.memory.notes.database import Database
from kode.memory.notes.note import SYSTEM
from kode.memory.places import Places, State

if TYPE_CHECKING:
    from kode.memory.change import Change

CHANGE = "change"
"""Where in the database's `meta` the id is."""


class NotesPlaces(Places):
    watched = False

    def __init__(self, root: Path, database: Database) -> None:
        super().__init__(root, SYSTEM, r"notes/[0-9a-f]+")
        self._database = database

    def is_here(self, target: str) -> bool:
        return True

    def place_of(self, target: str) -> str:
        return SYSTEM

    def lock(self, target: str) -> Path:
        return self._database.path.parent

    def read(self, target: str) -> State:
        return tuple(filter(None, (self._database.meta(CHANGE),)))

    def after(self, state: State, change: "Change") -> State:
        return (change.id,)
