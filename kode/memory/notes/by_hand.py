"""What a person may do with notes: add, approve, drop, confirm, forget, undo."""

from collections.abc import Mapping

from kode.errors import MemoryRefused
from kode.memory.base import Addition, BaseMemory, Outcome
from kode.memory.change import Change
from kode.memory.lineage import Entry
from kode.memory.notes import pack
from kode.memory.notes.note import SYSTEM, Kind
from kode.memory.notes.store import NoteStore, Wanted
from kode.memory.notes.write import NoteWriter
from kode.memory.stale import Doubt
from kode.memory.waiting import Waiting

ADDED: Mapping[str, Kind] = {
    "note": "log",
    "log": "log",
    "summary": "summary",
    "rule": "rule",
}
"""What a person calls a kind of note."""


class NotesByHand(BaseMemory):
    """The notes of an open memory; who opens it sets what they are kept in."""

    system = SYSTEM
    carrier = "kode.memory.notes.carry:NotesCarrier"
    store: NoteStore
    writer: NoteWriter

    async def add(self, addition: Addition) -> Outcome:
        """A note of one of the four kinds, by the person. Raises: MemoryRefused, StorageError,
        BusyError."""
        self.check_writable()
        if addition.target == "soul":
            addition.check("the soul")
            return self._report(await self.writer.update_soul(addition.text, who="user"))
        addition.check(SYSTEM, self.row.options)
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

    def may_undo_unasked(self, change: Change) -> bool:
        """Not what kode did by itself, nor what colleagues did."""
        return change.kind not in ("job", "merge", "prune") and not change.person

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

    async def waiting(self) -> list[Waiting]:
        """The notes from sessions with untrusted content."""
        notes = self.store.get(Wanted(unapproved=True, sensitive=True, limit=1_000))
        return [pack.waiting(note) for note in notes if note.untrusted == "waits"]

    async def approve(self, id: str) -> Outcome:
        """Lets a note from a session with untrusted content be shown. Raises: MemoryRefused."""
        return self._report(await self.writer.approve(id))

    def facts(self) -> list[Entry]:
        """The notes but for those on what was done."""
        notes = (note for note in self.store.everything() if note.kind in ("log", "rule"))
        return pack.entries(note for note in notes if self.store.is_seen_here(note))

    async def drop(self, id: str) -> Outcome:
        """Forgets a note that waits for approval; what it had replaced holds again. Raises:
        MemoryRefused, StorageError, BusyError."""
        self.check_writable()
        return self._report(await self.writer.forget(id, bring_back=True, who="user"))

    async def confirm(self, entry: Entry, doubt: Doubt | None) -> Outcome:
        self.check_writable()
        return self._report(await self.writer.confirm(entry.id, self._confirming(doubt)))

    async def remove_entry(self, entry: Entry) -> Outcome:
        self.check_writable()
        return self._report(await self.writer.forget(entry.id, who="user"))
