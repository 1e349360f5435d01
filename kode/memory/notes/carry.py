"""Notes as rows (export, import) and as pieces (to and from other systems)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from kode import paths
from kode.errors import MemoryRefused
from kode.memory.exchange import Carrier, Known, Piece, Row
from kode.memory.notes.jobs import JOB_TTL_DAYS
from kode.memory.notes.note import (
    MAX_MERGED_CHARS,
    PROJECT_SCOPE,
    SYSTEM,
    Note,
    checked,
    expiry,
    moment,
    new_id,
    note_of,
    row_of,
    stamp,
)
from kode.memory.notes.pack import FIRST_SOUL
from kode.memory.notes.store import Wanted
from kode.memory.notes.system import Notes

COPIED_CONFIDENCE = 0.9
KEPT_TAGS = frozenset({"user", "env"})


class NotesCarrier(Carrier):
    """One open notes memory."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._store = notes.store
        self._rows: dict[str, Note] = {}
        """Notes with ids of their own, from rows."""
        self._copied: list[Note] = []

    async def rows(self) -> list[Row]:
        """Every note, replaced and expired ones too, so that a database can be made of them."""
        return [{"system": SYSTEM, **row_of(note)} for note in self._store.everything()]

    async def pieces(self) -> list[Piece]:
        """Every active note, the sensitive ones marked as private."""
        wanted = Wanted(sensitive=True, unapproved=True, anywhere=True)
        where, values = self._store.filter(wanted)
        notes = self._store.select(f"WHERE {where} ORDER BY n.created_at, n.id", values)
        return [
            _piece(note, self._project(note.scope)) for note in notes if note.content != FIRST_SOUL
        ]

    def place_row(self, row: Row) -> Literal["added", "changed", "known"]:
        """New ids are added; a known id with another content or other fields is changed."""
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

    def place_piece(self, piece: Piece) -> str:
        """Facts become rules, with where they are from as evidence; episodes become summaries."""
        note = checked(self._note(piece), self.author.who, max_chars=MAX_MERGED_CHARS)
        if self._is_known(note) or any(_same(note, other) for other in self._copied):
            raise Known("the same note is there")
        self._copied.append(note)
        return f"a {note.kind} note" + (", sensitive" if note.sensitive else "")

    async def write(self, kind: str) -> list[str]:
        store = self._store
        async with store.writing():
            known = store.by_ids(self._rows)
            fresh = [note for note in self._rows.values() if known.get(note.id) != note]
            before = [known[note.id] for note in fresh if note.id in known]
            now = store.now()
            fresh += [replace(note, id=store.free_id(now)) for note in self._copied]
            if not fresh:
                return []
            old, replaced = self._souls_replaced([*self._rows.values(), *fresh])
            reason = f"{len(fresh)} notes by {kind}"
            after = [*replaced, *fresh]
            change = store.commit(kind, [*old, *before], after, self.author, reason)
        await self._notes.make_vectors()
        return [change.id]

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _scope(self, project: str) -> str:
        """Of a project by the hash of its path, which in a team's notes has a name.

        Raises: MemoryRefused for another project than this one, whose name is not known here."""
        if not project:
            return "user"
        if project == paths.path_hash(self._notes.project):
            return self._store.project_scope
        if self._store.outbox is not None:
            raise MemoryRefused("it is of another project: copy it from within that one")
        return PROJECT_SCOPE + project

    def _project(self, scope: str) -> str:
        """The same backwards."""
        if scope == self._store.project_scope:
            return paths.path_hash(self._notes.project)
        return scope.removeprefix(PROJECT_SCOPE) if scope.startswith(PROJECT_SCOPE) else ""

    def _is_known(self, note: Note) -> bool:
        sql = "n.user = :user AND n.content = :content AND n.kind = :kind AND n.scope = :scope"
        values = {
            "user": note.user,
            "content": note.content,
            "kind": note.kind,
            "scope": note.scope,
        }
        return bool(self._store.select(f"WHERE {sql} AND n.superseded_by IS NULL LIMIT 1", values))

    def _souls_replaced(self, notes: Sequence[Note]) -> tuple[list[Note], list[Note]]:
        """The store's active soul when another comes in: as it was, and as it becomes. The first
        soul, which says what is so anyway, leaves no trace."""
        coming = list(filter(_is_soul, notes))
        ids = {note.id for note in notes}
        old = [n for n in self._store.get(Wanted(kinds=("soul",))) if coming and n.id not in ids]
        said = [soul for soul in old if soul.content != FIRST_SOUL]
        return old, [replace(soul, superseded_by=coming[0].id) for soul in said]

    def _note(self, piece: Piece) -> Note:
        now = self._store.now()
        note = Note(
            id=new_id(now),
            content=piece.content,
            user=self._store.user,
            scope=self._scope(piece.project),
            tags=tuple(tag for tag in (piece.about, *piece.tags) if tag),
            sensitivity="sensitive" if piece.private else "normal",
            created_at=(piece.created_at and stamp(moment(piece.created_at))) or stamp(now),
            expires_at=(piece.expires_at and stamp(moment(piece.expires_at))) or None,
            untrusted="waits" if piece.untrusted else "",
            who="import",
            session=piece.session or None,
        )
        match piece.kind:
            case "soul":
                return replace(note, kind="soul", stability="permanent", scope="user", tags=())
            case "fact" | "rule":
                evidence = (f"copied from {piece.origin}",)
                return replace(note, kind="rule", confidence=COPIED_CONFIDENCE, evidence=evidence)
            case "episode":
                tags = (*note.tags, "session")
                return replace(note, kind="summary", tags=tags, job_id=piece.session or None)
            case "event":
                until = note.expires_at or expiry(now, JOB_TTL_DAYS)
                return replace(note, kind="log", stability="volatile", expires_at=until)


def _is_soul(note: Note) -> bool:
    return note.kind == "soul" and note.superseded_by is None


def _same(one: Note, other: Note) -> bool:
    return (one.content, one.kind, one.scope) == (other.content, other.kind, other.scope)


def _piece(note: Note, project: str) -> Piece:
    return Piece(
        content=note.content,
        kind=_piece_kind(note),
        about="user" if "user" in note.tags else "env" if "env" in note.tags else "",
        project=project,
        tags=tuple(tag for tag in note.tags if tag not in KEPT_TAGS),
        session=note.session or "",
        created_at=note.created_at,
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
