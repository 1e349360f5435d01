"""What a person may do with notes: add, approve, drop, confirm, forget, undo."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

from kode.errors import MemoryRefused
from kode.memory.base import Addition, BaseMemory, Outcome, confirming
from kode.memory.change import Change
from kode.memory.lineage import Entry
from kode.memory.notes import pack
from kode.memory.notes.note import SYSTEM, Kind
from kode.memory.notes.store import NoteStore, Wanted
from kode.memory.notes.write import NoteWriter
from kode.memory.stale import Doubt
from kode.memory.waiting import Waiting
from kode.registry import system_row

ADDED: Mapping[str, Kind] = {"note": "log", "log": "log", "summary": "summary", "rule": "rule"}
"""What a person calls a kind of note."""


class NotesByHand(BaseMemory):
    """The notes of an open memory; who opens it sets what they are kept in."""

    system = SYSTEM
    store: NoteStore
    writer: NoteWriter

    async def add(self, addition: Addition) -> Outcome:
        """A note of one of the four kinds, by the person. Raises: MemoryRefused, StorageError,
        BusyError."""
        if addition.target == "soul":
            addition.check("the soul")
            return self._report(await self.writer.update_soul(addition.text, who="user"))
        addition.check(SYSTEM, system_row(SYSTEM).options)
        kind = ADDED[addition.target]
        outcome = await self.writer.remember(
            addition.text,
            kind=kind,
            tags=addition.tags,
            stability="stable" if addition.ttl_days is None else "volatile",
            ttl_days=addition.ttl_days,
            evidence=addition.evidence or (("the user said so",) if kind == "rule" else ()),
            sensitivity="sensitive" if addition.sensitive else "normal",
            in_project=addition.scope == "project",
            addition=addition,
            who="user",
        )
        return self._report(outcome)

    def entries(self) -> list[Entry]:
        """Every note that has not been replaced, but for those of other projects."""
        notes = self.store.everything()
        here = (note for note in notes if self.store.is_seen_here(note))
        return pack.entries(here)

    def sides(self, change: Change) -> tuple[list[Entry], list[Entry]]:
        try:
            before, after = self.store.sides(change)
        except MemoryRefused:  # a row that a person or another program has spoiled
            return [], []
        return pack.entries(before), pack.entries(after)

    async def undo_change(self, change: Change, batch: str = "") -> Outcome:
        return self._report(await self.writer.undo(change, batch))

    def facts(self) -> list[Entry]:
        return [entry for entry in self.entries() if entry.is_fact]

    async def waiting(self) -> list[Waiting]:
        """The notes from sessions with untrusted content."""
        notes = self.store.get(Wanted(unapproved=True, sensitive=True, limit=1_000))
        found = (note for note in notes if note.untrusted == "waits")
        return [replace(pack.waiting(one), decide=partial(self._decide, one.id)) for one in found]

    async def _decide(self, id: str, choice: Literal["approve", "drop"]) -> Outcome:
        """Lets a note be shown, or forgets it: then what it had replaced holds again. Raises:
        MemoryRefused, StorageError, BusyError."""
        if choice == "approve":
            return self._report(await self.writer.approve(id))
        return self._report(await self.writer.forget(id, bring_back=True, who="user"))

    async def confirm(self, entry: Entry, doubt: Doubt | None) -> Outcome:
        return self._report(
            await self.writer.confirm(
                entry.id, confirming(self._author("user"), self.project, doubt)
            )
        )

    async def remove_entry(self, entry: Entry, reason: str = "") -> Outcome:
        return self._report(await self.writer.forget(entry.id, who="user"))
