"""A copy of a team's notes in a session: kept up to date beside the work, never in its way, and
what colleagues changed meanwhile, for the person as lines and for the model with the next prompt.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from kode.errors import BusyError, KodeError
from kode.events import Emit, MemoryChanged, Notice
from kode.memory.history import Change
from kode.memory.notes.store import NoteStore, Wanted
from kode.memory.notes.team.address import Address
from kode.memory.notes.team.exchange import LAST, Exchange, Exchanged
from kode.memory.notes.team.outbox import PERSON
from kode.memory.notes.team.server import Unreachable, open_server
from kode.messages import plural, shorten

OPEN_S = 4.0
"""How long opening waits for the server; what is not there by then comes with a later turn."""
TURN_S = 1.0
RETRY_S = 30.0
"""A server that did not answer is left alone for so long."""
LINES = 3
"""So many changes get a line each; more are counted."""
NEWS_CHARS = 3_000
NEWS_TEXT_CHARS = 500
BY_CHARS = 100

Start = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class Member:
    """`start` runs work that nobody waits for."""

    def __init__(
        self, address: Address, store: NoteStore, exchange: Exchange, emit: Emit, start: Start
    ) -> None:
        self.address = address
        self._store = store
        self._exchange = exchange
        self._emit = emit
        self._start = start
        self._task: asyncio.Task[None] | None = None
        self._not_before = 0.0
        self._is_away = False
        self._news: list[Change] = []
        self.answers = True
        """Whether the server answered when `status` last asked it."""
        self.standing = ""
        """What `status` last said of the team and its server, in a line."""

    async def update(self, wait_s: float) -> None:
        """Brings the copy up to date, and waits for that so long at most. Raises nothing but
        CancelledError."""
        if task := self.begin():
            await asyncio.wait({task}, timeout=wait_s)

    def begin(self) -> "asyncio.Task[None] | None":
        """The update that runs, begun if there is none; None while the server is left alone."""
        running = self._task is not None and not self._task.done()
        if not running:
            if asyncio.get_running_loop().time() < self._not_before:
                return None
            self._task = self._start(self._run())
        return self._task

    async def finish(self, wait_s: float) -> None:
        """Sends what waits, at the end of a session; what the server does not take in time waits
        for the next one. Raises as `update`."""
        await self.update(wait_s)
        if self._store.outbox:
            await self.update(wait_s)

    def news(self) -> str:
        """What colleagues changed since this was last asked for, as far as a model may see it; ""
        for nothing."""
        changes, self._news = self._news, []
        lines: list[str] = []
        for change in changes:
            lines += self._lines(change)
        chosen: list[str] = []
        for line in dict.fromkeys(lines):
            if sum(map(len, chosen)) + len(line) > NEWS_CHARS:
                chosen.append("(There is more: recall finds it.)")
                break
            chosen.append(line)
        return "\n".join(chosen)

    async def status(self) -> str:
        """Where the team's notes are, whether the server answers, what waits."""
        database, outbox = self._store.database, self._store.outbox
        try:
            async with asyncio.timeout(OPEN_S), open_server(self.address) as server:
                member = await server.membership()
            self.answers = True
            scopes = ", ".join(member.scopes) or "no member"
            reached, more = f"reached as {member.person} ({scopes})", f"\n{member.pgvector}"
        except (KodeError, TimeoutError) as error:
            self.answers = False
            reached, more = f"cannot be reached: {error or 'no answer in time'}", ""
        self.standing = f"team: {self.address.label}: {reached}"
        queued = outbox.queued() if outbox else []
        lines = [
            self.standing + more,
            f"last in step: {database.meta(LAST) or 'never'}"
            + (f" as {database.meta(PERSON)}" if database.meta(PERSON) else ""),
            f"waiting to be sent: {len(queued)}",
            *(f"  refused: {one.change.reason}: {one.fault}" for one in queued if one.fault),
        ]
        return "\n".join(lines)

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        try:
            done = await self._exchange.run()
        except BusyError:
            return  # another process of this copy does it
        except Unreachable as error:
            self._not_before = asyncio.get_running_loop().time() + RETRY_S
            if not self._is_away:
                self._is_away = True
                self._notice(
                    f"The notes of {self.address.label} cannot be reached ({error}). kode works "
                    "with the copy here; what is remembered is sent when the server is back."
                )
            return
        except KodeError as error:
            self._not_before = asyncio.get_running_loop().time() + RETRY_S
            self._notice(f"The notes of {self.address.label}: {error}")
            return
        self._report(done)

    def _report(self, done: Exchanged) -> None:
        if self._is_away:
            self._is_away = False
            text = (
                f"The notes of {self.address.label} are back: {plural(done.sent, 'change')} sent."
            )
            self._notice(text, is_warning=False)
        for fault in done.faults:
            self._notice(fault)
        if not done.arrived:
            return
        if done.is_first:
            text = (
                f"memory: {plural(len(done.arrived), 'change')} of {self.address.label} copied here"
            )
            return self._notice(text, is_warning=False)
        self._news += done.arrived
        if len(done.arrived) > LINES:
            counts = Counter(change.person for change in done.arrived)
            people = ", ".join(f"{person} ({count})" for person, count in counts.most_common())
            text = f"memory: {len(done.arrived)} changes by {people} (`kode memory log`)"
            return self._notice(text, is_warning=False)
        for change in done.arrived:
            self._emit(MemoryChanged(text=f"{change.person}: {change.reason}", change_id=change.id))

    def _lines(self, change: Change) -> list[str]:
        before, after = self._store.sides(change)
        stands = self._visible({note.id for note in (*before, *after)})
        by = shorten(f"by {change.person} ({change.kind})", BY_CHARS)
        holding = [note for note in after if note.id in stands]
        gone = [
            note
            for note in before
            if note.id not in stands and note.untrusted != "waits" and note.superseded_by is None
        ]
        here = [note for note in gone if self._store.is_seen_here(note)]
        return [
            f"- {verb}, {by}: {shorten(note.content, NEWS_TEXT_CHARS)}"
            for verb, notes in (("holds now", holding), ("holds no more", here))
            for note in notes
        ]

    def _visible(self, ids: set[str]) -> set[str]:
        """Those of the notes that a model may be shown."""
        where, values = self._store.filter(Wanted())
        sql = f"JOIN json_each(:ids) j ON n.id = j.value WHERE {where}"
        return {note.id for note in self._store.select(sql, {**values, "ids": json.dumps([*ids])})}

    def _notice(self, text: str, *, is_warning: bool = True) -> None:
        self._emit(Notice(text=text, level="warning" if is_warning else "info"))
