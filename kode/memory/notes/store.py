"""The notes of one user in the database: which are wanted, and one way to change them.

A change is a set of notes as they were and as they become; `commit` applies it in one transaction
and writes it to the history first, so that swapping the two sides undoes it. Limits count after
filters.
"""

import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from kode.errors import MemoryRefused
from kode.memory.change import BY_HAND, Author, Change, nothing_left, refuse_redacted
from kode.memory.history import History
from kode.memory.index import Source
from kode.memory.notes.database import CHANGE, Database, searched, texts_of
from kode.memory.notes.note import (
    PROJECT_SCOPE,
    SYSTEM,
    Kind,
    Note,
    in_words,
    new_id,
    row_of,
    stamp,
)
from kode.memory.stored import locked, read_row
from kode.messages import plural, shorten

DEFAULT_LIMIT = 50
MIN_ID_CHARS = 4

_FIELDS = tuple(one.name for one in fields(Note))
_COLUMNS = ", ".join(f"n.{name}" for name in _FIELDS)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which active notes: neither superseded nor expired, of this user, seen from this project."""

    kinds: tuple[Kind, ...] = ()
    """Any of them; none means all."""
    tags: tuple[str, ...] = ()
    """Any of them; none means all."""
    scope: str | None = None
    sensitive: bool = False
    """Whether sensitive notes are among them."""
    unapproved: bool = False
    """Whether notes that wait for approval are among them."""
    anywhere: bool = False
    """Whether notes of other projects are among them."""
    not_of: str | None = None
    """The session whose summaries of its own work are left out."""
    limit: int = DEFAULT_LIMIT


@dataclass(kw_only=True)
class NoteStore:
    database: Database
    history: History
    user: str
    project_scope: str
    """The scope of the project that the session is in."""
    now: Callable[[], datetime]
    _making: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """The changes of the transaction that is open."""

    # ── reading ──────────────────────────────────────────────────────────────────────────────

    def get(self, wanted: Wanted | None = None) -> list[Note]:
        """Active notes, newest first. Raises: MemoryRefused, StorageError, BusyError."""
        where, values = self.filter(wanted or Wanted())
        limit = (wanted or Wanted()).limit
        sql = f"WHERE {where} ORDER BY n.created_at DESC, n.id DESC LIMIT :limit"
        return self.select(sql, {**values, "limit": limit})

    def by_ids(self, ids: Iterable[str]) -> dict[str, Note]:
        """Notes of this user in whatever state, by id; ids that are not there are left out."""
        sql = "JOIN json_each(:ids) j ON n.id = j.value WHERE n.user = :user"
        found = self.select(sql, {"ids": json.dumps(list(ids)), "user": self.user})
        return {note.id: note for note in found}

    def free_id(self, now: datetime) -> str:
        """Inside `writing`: an id that no note has. Two processes may make the same one in the
        same millisecond, and the later note would take the place of the earlier."""
        while True:
            id = new_id(now)
            if not self.database.rows("SELECT 1 FROM memory_notes WHERE id = ?", (id,)):
                return id

    def find(self, id: str) -> Note:
        """The note of this user with this id, or the only one whose id begins so.

        Raises: MemoryRefused; a note of another user is not told from one that is not there.
        """
        id = id.strip().strip("[]").lower()
        if len(id) < MIN_ID_CHARS:
            raise MemoryRefused(f"{id!r} is no note's id. `recall` gives the ids.")
        values = {"id": id, "user": self.user, "end": id + "\U0010ffff"}
        sql = "WHERE n.user = :user AND n.id >= :id AND n.id < :end ORDER BY n.id LIMIT 3"
        found = self.select(sql, values)
        exact = [note for note in found if note.id == id]
        if exact or len(found) == 1:
            return (exact or found)[0]
        if found:
            raise MemoryRefused(
                f"Several notes have an id that starts with {id!r}. Give all of it."
            )
        raise MemoryRefused(f"No note has the id {id!r}. `recall` gives the ids.")

    def earlier(self, ids: Iterable[str]) -> list[Note]:
        """The notes that these have replaced, and those that they had, and so on; oldest first."""
        sql = (
            "WITH RECURSIVE gone(id) AS (SELECT value FROM json_each(:ids) UNION "
            "SELECT m.id FROM memory_notes m JOIN gone ON m.superseded_by = gone.id) "
            f"SELECT {_COLUMNS} FROM memory_notes n JOIN gone ON n.id = gone.id "
            "WHERE n.user = :user ORDER BY n.created_at, n.id"
        )
        given = list(ids)
        rows = self.database.rows(sql, {"ids": json.dumps(given), "user": self.user})
        return [note for note in map(_note, rows) if note.id not in given]

    def everything(self) -> list[Note]:
        """All notes of this user, superseded and expired ones too, oldest first."""
        sql = "WHERE n.user = :user ORDER BY n.created_at, n.id"
        return self.select(sql, {"user": self.user})

    def is_seen_here(self, note: Note) -> bool:
        """Whether a note is of no other project."""
        return note.scope == self.project_scope or not note.scope.startswith(PROJECT_SCOPE)

    def same(self, note: Note) -> Note | None:
        """An active note that says the same word for word."""
        where, values = self.filter(Wanted(sensitive=True, unapproved=True, limit=1))
        sql = (
            f"WHERE {where} AND substr(n.content, 1, 32) = :head AND n.content = :content "
            "AND n.kind = :kind AND n.scope = :scope LIMIT 1"
        )
        values |= {"content": note.content, "kind": note.kind, "scope": note.scope}
        found = self.select(sql, {**values, "head": note.content[:32]})
        return found[0] if found else None

    def count(self, condition: str = "1") -> int:
        """How many of the user's notes; `condition` is SQL over `memory_notes n` that may name
        `:now`."""
        values = {"user": self.user, "now": stamp(self.now())}
        sql = f"SELECT count(*) FROM memory_notes n WHERE n.user = :user AND ({condition})"
        return int(self.database.value(sql, values) or 0)

    def filter(self, wanted: Wanted) -> tuple[str, dict[str, Any]]:
        """SQL over `memory_notes n`, and its values."""
        parts = [
            "n.user = :user",
            "n.superseded_by IS NULL",
            "(n.expires_at IS NULL OR n.expires_at > :now)",
        ]
        values: dict[str, Any] = {
            "user": self.user,
            "now": stamp(self.now()),
            "project": self.project_scope,
        }
        if not wanted.anywhere:
            parts.append("(substr(n.scope, 1, 8) <> 'project:' OR n.scope = :project)")
        if not wanted.sensitive:
            parts.append("n.sensitivity = 'normal'")
        if not wanted.unapproved:
            parts.append("n.untrusted <> 'waits'")
        if wanted.not_of is not None:
            parts.append("(n.job_id IS NULL OR n.session IS NOT :not_of)")
            values["not_of"] = wanted.not_of
        if wanted.scope is not None:
            parts.append("n.scope = :scope_wanted")
            values["scope_wanted"] = wanted.scope
        if wanted.kinds:
            parts.append(f"n.kind IN ({', '.join(f':kind{i}' for i in range(len(wanted.kinds)))})")
            values |= {f"kind{i}": kind for i, kind in enumerate(wanted.kinds)}
        if wanted.tags:
            tags = ", ".join(f":tag{i}" for i in range(len(wanted.tags)))
            # A row whose tags a program has spoiled counts as one without tags.
            listed = "CASE WHEN json_valid(n.tags) THEN n.tags ELSE '[]' END"
            parts.append(f"EXISTS (SELECT 1 FROM json_each({listed}) WHERE value IN ({tags}))")
            values |= {f"tag{i}": tag for i, tag in enumerate(wanted.tags)}
        return " AND ".join(parts), values

    def source(self, wanted: Wanted) -> Source:
        """The same for the index. What was noted in turns of a session are neighbours, as those
        were."""
        where, values = self.filter(wanted)
        # As in the index `notes_of_session`.
        row = "iif(n.kind = 'log' OR instr(n.job_id, '#') > 0, n.session, '')"
        since = "iif(n.kind IN ('log', 'summary'), n.created_at, '')"  # a rule has no time
        times = f"{since} AS since, n.created_at AS until"
        sql = f"SELECT n.place, {times}, {row} AS row FROM memory_notes n WHERE {where}"
        return Source(sql, values)

    def select(self, rest: str, values: dict[str, Any]) -> list[Note]:
        """Notes by the rest of a SELECT over `memory_notes n`."""
        sql = f"SELECT {_COLUMNS} FROM memory_notes n {rest}"
        return [_note(row) for row in self.database.rows(sql, values)]

    # ── changing ─────────────────────────────────────────────────────────────────────────────

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """The folder's lock with a transaction inside: read again what was decided on before. The
        body must not await. Raises: MemoryRefused if it is read-only."""
        if self.database.read_only:
            raise MemoryRefused("This memory was opened for reading only.")
        async with locked(self.database.path.parent):
            self.take_edits()
            # Ends after the transaction: a change is made once that is.
            with contextlib.ExitStack() as self._making, self.database.transaction():
                yield

    def commit(
        self,
        kind: str,
        before: Sequence[Note],
        after: Sequence[Note],
        author: Author,
        reason: str,
        **values: Any,
    ) -> Change:
        """Inside `writing`: the notes `before` become the notes `after`, and the history knows;
        `values` are further fields of its line.

        Raises: MemoryRefused when that would leave two souls; StorageError.
        """
        self.apply(before, after)
        return self._record(kind, before, after, author, reason=reason, **values)

    def take_edits(self) -> Change | None:
        """With the folder's lock held, and outside of a transaction: makes what somebody wrote into
        the table changes of the person, which are undone together; None if nobody did. Raises:
        MemoryRefused, StorageError, BusyError."""
        edited = self.database.edited()
        if not edited:
            return None
        ids = {id for _, id in edited}
        sql = "JOIN json_each(:ids) j ON n.id = j.value"  # whoever's they are
        now = {note.id: note for note in self.select(sql, {"ids": json.dumps([*ids])})}
        known = self._last_of(ids)
        # Apart, since a row that is gone says nothing of one that is new.
        differing = [
            {id for id in known.keys() & now.keys() if known[id] != now[id]},
            known.keys() - now.keys(),
            now.keys() - known.keys(),
        ]
        author, change = Author(who="user", batch=secrets.token_hex(6)), None
        for some in (*filter(None, differing), set[str]()):
            # Each in a transaction of its own, by which its line is judged if kode is killed.
            with contextlib.ExitStack() as self._making, self.database.transaction():
                before, after = ([one[id] for id in some if id in one] for one in (known, now))
                if some:
                    words = (in_words(side[0], 100) for side in (before, after) if side)
                    more = f" and {plural(len(some) - 1, 'other')}" if len(some) > 1 else ""
                    reason = f"{'removed ' if not after else ''}{' became '.join(words)}{more}"
                    change = self._record(BY_HAND, before, after, author, reason=reason)
                self.database.take_in(edited, some or ids)
        return change

    def _last_of(self, ids: Collection[str]) -> dict[str, Note]:
        """Notes as the history has them last, by id."""
        found: dict[str, Note] = {}
        for change in self.history.made(SYSTEM):
            texts = (*change.before, *change.after)
            if any(id in text for text in texts for id in ids):
                try:
                    before, after = self.sides(change)
                except MemoryRefused:  # a row that a person has spoiled
                    continue
                for note in before:
                    found.pop(note.id, None)
                found |= {note.id: note for note in after if note.id in ids}
        return found

    def _record(
        self,
        kind: str,
        before: Sequence[Note],
        after: Sequence[Note],
        author: Author,
        **values: Any,
    ) -> Change:
        target = f"notes/{(after or before)[-1].id}"
        lines = {"before": tuple(map(_line, before)), "after": tuple(map(_line, after))}
        change = Change.by(author, SYSTEM, kind, target, **lines, **values)
        written = self._making.enter_context(self.history.making(change))
        self.database.set_meta(CHANGE, written.id)
        return written

    def apply(self, before: Sequence[Note], after: Sequence[Note]) -> None:
        """`commit` without the history, for what is no change: the first soul. Raises:
        MemoryRefused for a second active soul; StorageError."""
        kept = {note.id for note in after}
        for note in before:
            if note.id not in kept:
                self._delete(note.id)
        for note in after:
            self._put(note)
        self.database.forget_edited({note.id for note in (*before, *after)})
        souls = self.count("n.kind = 'soul' AND n.superseded_by IS NULL")
        if souls > 1:
            raise MemoryRefused(
                f"There would be {souls} active souls; there is only ever one. Nothing was changed."
            )

    def undo(self, change: Change, author: Author) -> Change:
        """Inside `writing`: undoes a change, if what it left is still there.

        Raises: MemoryRefused with what stands in the way.
        """
        refuse_redacted(change, "Write the note again, or edit it in an export and import that.")
        before, after = self.sides(change)
        now = self.by_ids(note.id for note in (*before, *after))
        ids_after, ids_before = {note.id for note in after}, {note.id for note in before}
        put_there = [id for id in ids_after - ids_before if id in now]
        confirms = change.before == change.after
        if not confirms and not put_there and all(now.get(note.id) == note for note in before):
            raise nothing_left(change)
        changed = [note for note in after if now.get(note.id) != note]
        changed += [note for note in before if note.id not in ids_after and note.id in now]
        if changed:
            raise MemoryRefused(
                f"Note {changed[0].id} was changed since {change.id}. "
                "Undo the later change first (`kode memory log`)."
            )
        reason = f"undoes {change.kind} {change.id}: {change.reason}"
        return self.commit("undo", after, before, author, reason, undoes=change.id)

    def sides(self, change: Change) -> tuple[list[Note], list[Note]]:
        """The notes before and after a change. Raises: MemoryRefused for what are none."""
        before, after = ([_read(text) for text in texts] for texts in (change.before, change.after))
        return before, after

    def _delete(self, id: str) -> None:
        place = self.database.value("SELECT place FROM memory_notes WHERE id = ?", (id,))
        if place is None:
            return
        self.database.index.remove(place)
        self.database.rows("DELETE FROM memory_notes WHERE place = ?", (place,))

    def _put(self, note: Note) -> None:
        old = self.database.rows(
            "SELECT place, user, content, tags FROM memory_notes WHERE id = ?", (note.id,)
        )
        values = _values(note)
        if old and old[0][1] != note.user:
            raise MemoryRefused(f"{note.id} is the id of another user's note. Nothing was changed.")
        if old:
            sets = ", ".join(f"{name} = :{name}" for name in _FIELDS if name != "id")
            self.database.rows(f"UPDATE memory_notes SET {sets} WHERE id = :id", values)
            if old[0][2:] == (values["content"], values["tags"]):
                return
            self.database.index.remove(old[0][0])
            return self.database.index.add(old[0][0], searched(values["content"], values["tags"]))
        names = ", ".join(_FIELDS)
        marks = ", ".join(f":{name}" for name in _FIELDS)
        sql = f"INSERT INTO memory_notes ({names}) VALUES ({marks}) RETURNING place"
        place = int(self.database.value(sql, values))
        self.database.index.add(place, searched(values["content"], values["tags"]))


def _line(note: Note) -> str:
    """A note as the history keeps it."""
    return json.dumps(row_of(note), ensure_ascii=False)


def _read(line: str) -> Note:
    if (note := read_row(Note, line.encode(errors="replace"))) is None:
        raise MemoryRefused(f"This line of the history is no note: {shorten(line, 80)}")
    return note


def _values(note: Note) -> dict[str, Any]:
    return {
        name: json.dumps(list(value), ensure_ascii=False)
        if isinstance(value := getattr(note, name), tuple)
        else value
        for name in _FIELDS
    }


def _note(row: Sequence[Any]) -> Note:
    values = dict(zip(_FIELDS, row, strict=True))
    values |= {name: texts_of(values[name]) for name in ("tags", "evidence")}
    return Note(**{**values, "degraded": bool(values["degraded"])})
