"""A copy of a team's notes brought up to date: what waits is sent, what colleagues changed is taken
over.

The copy takes over the server's notes, one by one, for all that either side has touched; only what
still waits to be sent stays as it is here. So copies that have nothing to send are alike.
"""

import asyncio
import json
import secrets
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kode.errors import MemoryRefused
from kode.memory.history import Author, Change, History, undo_of
from kode.memory.notes.note import MAX_MERGED_CHARS, Note, checked, note_of, row_of
from kode.memory.notes.store import NoteStore
from kode.memory.notes.team.address import Address
from kode.memory.notes.team.outbox import PERSON, Outbox, Queued
from kode.memory.notes.team.rebase import ADDS_NOTHING, Sides, is_shared, rebase, shared
from kode.memory.notes.team.server import (
    Membership,
    Pushed,
    Server,
    Stale,
    Unreachable,
    open_server,
)
from kode.memory.stored import check_row, locked

PAGE = 200
"""Changes that are asked for at once."""
AT_ONCE = 100
"""Notes of one transaction here."""
CURSOR = "team_cursor"
MEMBER = "team_member"
LAST = "team_last"
"""Names in the copy's `meta`: the last change taken in, who may see what, and when."""
TRIES = 3
"""Of a change that meets another one in the same moment."""

_SET_HERE = frozenset({"user", "person", "host"})
"""Fields of a note that each side sets by itself."""
_NOT_SENT = frozenset({"before", "after", "redacted", "person", "host", "system"})


@dataclass
class Exchanged:
    """What one run did."""

    arrived: list[Change] = field(default_factory=list)
    """By colleagues, or this person elsewhere; oldest first."""
    faults: list[str] = field(default_factory=list)
    """What was refused, or gave way to what a colleague had changed; said once each."""
    own: set[str] = field(default_factory=set)
    """What was sent in parts, one a scope: those after the first, as `History.known` names them."""
    sent: int = 0
    is_first: bool = False
    """Whether the copy was empty before."""


class Exchange:
    def __init__(
        self, store: NoteStore, history: History, outbox: Outbox, address: Address
    ) -> None:
        self._store = store
        self._history = history
        self._outbox = outbox
        self._address = address

    async def run(self) -> Exchanged:
        """Raises: Unreachable; BusyError while another process does it; MemoryRefused,
        StorageError."""
        folder = self._store.database.path.parent
        async with locked(folder / "exchange", timeout_s=0.0):
            async with open_server(self._address) as server:
                done = Exchanged(is_first=not self._store.database.meta(CURSOR))
                member = await server.membership()
                await self._take_membership(member)
                await self._receive(server, done, await self._send(server, done))
                return done

    async def _take_membership(self, member: Membership) -> None:
        """Who sees other scopes than before reads all again; what they may see no more goes."""
        database = self._store.database
        text = json.dumps([member.person, member.scopes])
        if database.meta(MEMBER) != text:
            waits = self._waiting_ids()
            async with self._store.writing():
                gone = [
                    note
                    for note in self._store.everything()
                    if is_shared(note) and not member.sees(note.scope) and note.id not in waits
                ]
                self._store.apply(gone, ())
                database.set_meta(CURSOR, "")
                database.set_meta(PERSON, member.person)
                database.set_meta(MEMBER, text)
        if not member.scopes:
            raise MemoryRefused(
                f"{member.person} is no member of the team {self._address.team!r}. Whoever owns "
                f"the database runs `kode memory team admit {member.person}`."
            )

    # ── sending ──────────────────────────────────────────────────────────────────────────────

    async def _send(self, server: Server, done: Exchanged) -> dict[int, set[str]]:
        """What arrived there: number in the queue → the notes it touches."""
        sent: dict[int, set[str]] = {}
        for one in self._outbox.queued():
            try:
                sent[one.number] = await self._push(server, one, done)
            except Unreachable:
                raise
            except MemoryRefused as error:
                if str(error) == one.fault:
                    continue
                done.faults.append(f"{one.change.reason} stays on this machine: {error}")
                async with self._store.writing():
                    self._outbox.refuse(one.number, str(error))
        done.sent = len(sent)
        return sent

    async def _push(self, server: Server, one: Queued, done: Exchanged) -> set[str]:
        left = TRIES
        while True:
            left -= 1
            try:
                async with server.turn():
                    sent_as, touched = await self._push_once(server, one, done)
                self._mark(one.change, sent_as)
                return touched
            except Stale:
                if not left:
                    raise

    async def _push_once(
        self, server: Server, one: Queued, done: Exchanged
    ) -> tuple[str, set[str]]:
        """The id under which it arrived, "" where nothing was left of it; the notes it touches."""
        change = one.change
        before, after = self._store.sides(change)
        made = shared(before, after)
        sent_as = await server.recorded_id(one.push)
        if sent_as is not None:
            return sent_as, made.ids
        rows = await server.stands(made.ids)
        now = {id: note for id, row in rows.items() if (note := self._note(row))}
        kept = rebase(change.kind, made, now, lambda: self._store.free_id(self._store.now()))
        if not kept.ids:
            if change.kind not in ADDS_NOTHING:
                done.faults.append(
                    f"What a colleague changed first stands; not made: {change.reason}"
                )
            return "", made.ids
        sent = change if kept == made else _as_new_change(change, kept)
        if len(made.ids) < len({note.id for note in (*before, *after)}):
            sent = replace(sent, words="")  # they may say what stays here
        row = {name: value for name, value in asdict(sent).items() if name not in _NOT_SENT}
        for number, scope in enumerate(
            sorted({note.scope for note in (*kept.before, *kept.after)})
        ):
            part = f"-{number}" if number else ""
            push = str(uuid.uuid5(uuid.UUID(one.push), scope)) if part else one.push
            undoes = sent.undoes and sent.undoes + part
            await server.append(
                scope,
                push,
                self._address.host,
                {**row, "id": sent.id + part, "undoes": undoes},
                [
                    _without_own_columns(rows[note.id])
                    for note in kept.before
                    if note.scope == scope
                ],
                [_without_own_columns(row_of(note)) for note in kept.after if note.scope == scope],
            )
            if part:  # here it is a part of the change that the history has
                done.own.add(f"{sent.id}{part} {sent.at}")
        return sent.id, made.ids | kept.ids

    def _mark(self, change: Change, sent_as: str) -> None:
        """Has a change that became another one, or none, count as undone here."""
        if sent_as == change.id:
            return
        reason = f"a colleague was first: {change.reason}"
        author = Author(who="merge")
        self._history.append(undo_of(change, author, before=(), after=(), reason=reason))

    # ── receiving ────────────────────────────────────────────────────────────────────────────

    async def _receive(self, server: Server, done: Exchanged, sent: dict[int, set[str]]) -> None:
        database = self._store.database
        touched = {id for ids in sent.values() for id in ids}
        known: set[str] | None = None
        while True:
            page = await server.since(int(database.meta(CURSOR) or 0), PAGE)
            if not page and not touched:
                break
            if known is None:
                known = self._history.known() | done.own
            touched |= {str(row["id"]) for one in page for row in (*one.before, *one.after)}
            stands = await server.stands(touched)
            done.arrived += self._record(page, known, done)
            ids = sorted(touched)
            for first in range(0, len(ids), AT_ONCE):
                async with self._store.writing():
                    some = {*ids[first : first + AT_ONCE]} - self._waiting_ids(sent)
                    self._take_over(some, stands, done)
                await asyncio.sleep(0)  # an import of thousands does not hold up the prompt
            async with self._store.writing():
                for number in sent:
                    self._outbox.remove(number)
                if page:
                    database.set_meta(CURSOR, str(page[-1].seq))
            sent, touched = {}, set()
        minute = self._store.now().isoformat(timespec="minutes")
        if database.meta(LAST) != minute:  # a write each minute, not each turn
            async with self._store.writing():
                database.set_meta(CURSOR, database.meta(CURSOR) or "0")
                database.set_meta(LAST, minute)

    def _record(self, page: Iterable[Pushed], known: set[str], done: Exchanged) -> list[Change]:
        """The changes that the history here does not have yet, written to it."""
        fresh = []
        for one in page:
            sides = {
                name: tuple(json.dumps(row, ensure_ascii=False) for row in rows)
                for name, rows in (("before", one.before), ("after", one.after))
            }
            by = {"person": one.person, "host": one.host, "system": "notes"}
            try:
                change = check_row(Change, {**one.change, **sides, **by})
            except MemoryRefused as error:
                done.faults.append(
                    f"A change of {one.person} cannot be read ({error}): update kode."
                )
                continue
            key = f"{change.id} {change.at}"
            if key not in known:
                known.add(key)
                fresh.append(change)
        self._history.append_all(fresh)
        return fresh

    def _take_over(self, ids: set[str], stands: dict[str, dict[str, Any]], done: Exchanged) -> None:
        here = self._store.by_ids(ids)
        # A note that became sensitive here is this person's own from then on.
        ours = {id for id, note in here.items() if not is_shared(note)}
        found = [stands[id] for id in sorted(ids - ours) if id in stands]
        after = [note for row in found if (note := self._note(row, done))]
        kept = ours | {note.id for note in after}
        self._store.apply([note for id, note in here.items() if id not in kept], after)

    def _waiting_ids(self, sent: Collection[int] = ()) -> set[str]:
        """The notes that changes touch which are still to be sent; numbers of those that are."""
        changes = (one.change for one in self._outbox.queued() if one.number not in sent)
        return {
            note.id for change in changes for side in self._store.sides(change) for note in side
        }

    def _note(self, row: dict[str, Any], done: Exchanged | None = None) -> Note | None:
        """A note of the server, as what another program may have written: None for what may not be
        kept, which `done` then says."""
        user = self._store.user
        try:
            note = note_of({**row, "user": user}, now=self._store.now(), user=user)
            checked(note, note.who, max_chars=MAX_MERGED_CHARS)
        except MemoryRefused as error:
            if done is not None:
                done.faults.append(f"A note of {row.get('person')} is left out: {error}")
            return None
        return note if is_shared(note) else None


def _without_own_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _SET_HERE}


def _as_new_change(change: Change, kept: Sides) -> Change:
    """A change that became another one on its way; here the first stays in the history, undone."""
    return replace(
        change,
        id=secrets.token_hex(6),
        target=f"notes/{(kept.after or kept.before)[-1].id}",
        reason=f"{change.reason} (beside what a colleague had changed)",
    )
