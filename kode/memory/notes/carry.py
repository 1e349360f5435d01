"""Notes as rows of an export, and back; and to pieces for display."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from kode import paths
from kode.errors import MemoryRefused
from kode.memory.base import Outcome
from kode.memory.change import REBUILD
from kode.memory.exchange import Carrier, read_row
from kode.memory.history import History
from kode.memory.notes.by_hand import NotesByHand
from kode.memory.notes.database import CHANGE
from kode.memory.notes.note import (
    MAX_MERGED_CHARS,
    PROJECT_SCOPE,
    SYSTEM,
    Note,
    checked,
    note_of,
    row_of,
)
from kode.memory.notes.store import Wanted
from kode.memory.places import Piece, Places, Row


class NotesCarrier(Carrier):
    """One open notes memory."""

    def __init__(self, notes: NotesByHand, places: Places) -> None:
        super().__init__(notes, places)
        self._notes = notes
        self._store = notes.store
        self._rows: dict[str, Note] = {}
        """Notes with ids of their own, from rows."""

    async def rows(self) -> list[Row]:
        """Every note, replaced and expired ones too, so that a database can be made of them."""
        return [{"system": SYSTEM, **row_of(note)} for note in self._store.everything()]

    async def pieces(self) -> list[Piece]:
        """Every active note, the sensitive ones marked as private."""
        wanted = Wanted(sensitive=True, unapproved=True, anywhere=True)
        where, values = self._store.filter(wanted)
        notes = self._store.select(f"WHERE {where} ORDER BY n.created_at, n.id", values)
        return [_piece(note, self._project(note.scope)) for note in notes if not note.is_first_soul]

    def place_row(self, row: Row) -> Literal["added", "changed", "known"]:
        """New ids are added; a known id with another content or other fields is changed. Raises:
        MemoryRefused for a row that does not fit."""
        note = note_of(row, now=self._store.now(), user=self._store.user)
        note = checked(note, self.author.who, max_chars=MAX_MERGED_CHARS)
        if note.user != self._store.user:
            raise MemoryRefused(
                f"it is a note of the user {note.user!r}; this memory is of "
                f"{self._store.user!r} (memory.notes.user)"
            )
        if note.id in self._rows:
            raise MemoryRefused(f"the id {note.id!r} is in the file twice")
        souls = [other.id for other in self._rows.values() if _is_soul(other)]
        if _is_soul(note) and souls:
            raise MemoryRefused(f"2 active souls ({souls[0]}, {note.id}): keep one")
        self._rows[note.id] = note
        known = self._store.by_ids([note.id]).get(note.id)
        return "added" if known is None else "known" if known == note else "changed"

    async def write(self, kind: str) -> list[str]:
        store = self._store
        async with store.writing():
            known = store.by_ids(self._rows)
            fresh = [note for note in self._rows.values() if known.get(note.id) != note]
            before = [known[note.id] for note in fresh if note.id in known]
            if not fresh:
                return []
            old, replaced = self._souls_replaced([*self._rows.values(), *fresh])
            reason = f"{len(fresh)} notes by {kind}"
            after = [*replaced, *fresh]
            change = store.commit(kind, [*old, *before], after, self.author, reason)
        return [change.id]

    async def rebuild(self, history: History) -> Outcome:
        """Puts back the notes as the history has them last; one that the database alone has
        stays. Raises as `write`."""
        rows: dict[str, Row] = {}
        for change in history.made(SYSTEM):
            before, after = (map(read_row, side) for side in (change.before, change.after))
            for row in before:
                rows.pop(str(row.get("id")), None)
            rows |= {str(row.get("id")): row for row in after}
        counts = Counter[str]()
        for row in rows.values():
            try:
                counts[self.place_row(row)] += 1
            except MemoryRefused:
                counts["refused"] += 1
        ids = await self.write(REBUILD)
        if not ids:
            made = (one.id for one in reversed(history.made(SYSTEM)) if one.stands and one.after)
            if (last := next(made, "")) != self._store.database.meta(CHANGE):
                async with self._store.writing():  # a copy that has all but this
                    self._store.database.set_meta(CHANGE, last)
            return Outcome(line="Every note that the history has is there.")
        lost = f"; {counts['refused']} cannot be read" if counts["refused"] else ""
        line = f"rebuilt {counts['added']} notes, and {counts['changed']} as they were last{lost}"
        return Outcome(line=line, change_id=ids[0])

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _souls_replaced(self, notes: Sequence[Note]) -> tuple[list[Note], list[Note]]:
        """The store's active soul when another comes in: as it was, and as it becomes. The first
        soul, which says what is so anyway, leaves no trace."""
        coming = list(filter(_is_soul, notes))
        ids = {note.id for note in notes}
        old = [n for n in self._store.get(Wanted(kinds=("soul",))) if coming and n.id not in ids]
        said = [soul for soul in old if not soul.is_first_soul]
        return old, [replace(soul, superseded_by=coming[0].id) for soul in said]

    def _project(self, scope: str) -> str:
        """The project of a scope, as the hash of its path; a team's notes name the project."""
        if scope == self._store.project_scope:
            return paths.path_hash(self._notes.project)
        return scope.removeprefix(PROJECT_SCOPE) if scope.startswith(PROJECT_SCOPE) else ""


def _is_soul(note: Note) -> bool:
    return note.kind == "soul" and note.superseded_by is None


def _piece(note: Note, project: str) -> Piece:
    return Piece(
        content=note.content,
        kind=_piece_kind(note),
        about="user" if "user" in note.tags else "env" if "env" in note.tags else "",
        project=project,
        session=note.session or "",
        expires_at=note.expires_at or "",
        origin=f"notes/{note.id}",
        private=note.sensitive,
        untrusted=note.untrusted == "waits",
    )


def _piece_kind(note: Note) -> Literal["fact", "rule", "episode", "event", "soul"]:
    match note.kind:
        case "soul" | "rule":
            return note.kind
        case "summary":
            return "episode"
        case "log":
            return "event" if note.stability == "volatile" else "fact"
