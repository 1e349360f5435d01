"""The memory of one session, for every system: the moments of the contract. What makes a system is
its policy.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kode.errors import BusyError, StorageError
from kode.memory import frame
from kode.memory.contract import (
    Drop,
    DropReason,
    Injection,
    InjectReason,
    MemoryContext,
    MemorySystem,
    SnapshotSection,
    Turn,
)
from kode.memory.learn import learn
from kode.memory.pending import Pending
from kode.memory.policy import INDEX_LIMIT_S, OpenMemory, Policy
from kode.memory.remarks import NO_CHANGE, news
from kode.messages import Message
from kode.tool import Tool

if TYPE_CHECKING:
    from kode.config.model import MemoryConfig

OPEN_WAIT_S, TURN_WAIT_S = 4.0, 1.0
"""How long opening, and a message, wait for what others share; the rest comes with a later one."""
SHARE_OF_GRACE = 0.9  # for finishing work at the end; the rest is for cancelling it
MAX_SEEN, MAX_SHOWN_NOTES = 300, 50
"""How many of the latest texts and notes that were shown a session remembers as shown."""


class SnapshotMemory(MemorySystem):
    """Injects the given section every time; every other hook is neutral."""

    def __init__(self, section: str) -> None:
        self._section = section

    async def inject(self, reason: InjectReason) -> Injection:
        return Injection(system=self._section)


class Memory(OpenMemory, MemorySystem):
    """One session's memory. Reads and writes nothing before `open`."""

    pending: Pending

    def __init__(self, name: str, settings: "MemoryConfig", policy: Policy) -> None:
        super().__init__(name, settings, policy.layout)
        self.policy = policy
        self._file_times: Mapping[str, int] = {}

    @property
    def message_window(self) -> int | None:
        return self.policy.message_window

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        """Raises: StorageError."""
        for folder in (context.root, context.root / self.name):
            if os.path.lexists(folder) and not folder.is_dir():
                raise StorageError(f"{folder} is not a folder. Move it away.")
        self.set_up(context)
        self.store.view()  # a history that cannot be read is a fault before any other
        self.pending = Pending(context.root / "pending" / self.name)
        self.seen.update(state.get("seen", {}))
        self.shown_notes += _lines(state, "shown")
        self._horizon = str(state.get("change", "")), str(state.get("day", ""))
        self.policy.buffer += _lines(state, "buffer")
        await self._follow_files()
        await self.policy.follow(self, OPEN_WAIT_S)
        if not self._horizon[0]:
            self._mark_news()

    async def inject(self, reason: InjectReason) -> Injection:
        if reason in ("compacted", "trimmed"):
            self.seen.clear()
        if reason != "resume":  # a resumed session keeps its beginning, and is told what is new
            self._mark_news()
        return self.policy.prompt(self, reason)

    async def recall(self, turn: Turn) -> str:
        self._begin(turn)
        await self.policy.follow(self, TURN_WAIT_S)
        if self.store.fact_file_times() != self._file_times:
            await self._follow_files()
        changed = news(self.store, *self._horizon, self.today(), self.context.session_id or "")
        self._mark_news()
        parts = (frame.escape(changed), await self.policy.recall(self, turn))
        return "\n\n".join(filter(None, parts))

    def tools(self) -> tuple[Tool, ...]:
        tools = () if self.context.read_only else self.policy.tools
        return tuple(make_tool(self) for make_tool in tools)

    async def after_turn(self, turn: Turn) -> None:
        self._begin(turn)  # again, if another process still summed up an earlier part
        await self.policy.after_turn(self, turn)

    async def before_drop(self, messages: Sequence[Message], reason: DropReason) -> Drop:
        if self.context.read_only:
            return Drop()
        drop = await self.policy.before_drop(self, messages, reason)
        is_left = reason == "window" or not drop.done
        return drop if is_left else replace(drop, done=await self.sum_up())

    async def maintain(self) -> None:
        """Takes over edits of records, sums up what other processes left, indexes, tidies up."""
        if not self.context.read_only:
            await asyncio.shield(self.start_work(self._maintain()))

    async def snapshot(self) -> tuple[SnapshotSection, ...]:
        """The facts that a subagent may read, a section for each place."""
        sections = defaultdict[str, list[str]](list)
        for statement in self.visible_facts():
            sections[self.layout.title(statement.place)].append(self.describe(statement))
        return tuple(
            SnapshotSection(title=title, content=frame.escape("\n".join(texts)))
            for title, texts in sections.items()
        )

    def state(self) -> Mapping[str, Any]:
        state = {
            "buffer": self.policy.buffer,
            "change": self._horizon[0],
            "day": self._horizon[1],
            "seen": dict([*self.seen.items()][-MAX_SEEN:]),
            "shown": self.shown_notes[-MAX_SHOWN_NOTES:],
        }
        return {name: value for name, value in state.items() if value}

    async def close(self, grace_s: float) -> None:
        await self.policy.follow(self, grace_s / 2)
        self.is_closing = True
        work = asyncio.gather(*self.tasks, return_exceptions=True)
        with suppress(TimeoutError):
            await asyncio.wait_for(work, grace_s * SHARE_OF_GRACE)
        if self.context.session_id:
            self.pending.leave(self.context.session_id)

    def _begin(self, turn: Turn) -> None:
        """Notes that this session has to be summed up, whatever becomes of its turn."""
        self.turn = turn
        if self.context.session_id and not self.context.read_only:
            self.pending.mark(self.context.session_id)

    def _mark_news(self) -> None:
        """Notes what the session's model was told of: all changes, as they are today."""
        self._horizon = self.store.log.last_id() or NO_CHANGE, self.today().isoformat()

    async def _follow_files(self) -> None:
        """Takes over what a person edited in the files of facts."""
        try:
            for notice in await self.store.reconcile():
                self.context.emit(notice)
        except (StorageError, BusyError) as error:  # memory works without
            self.warn(f"Memory was not compared with its history: {error}")
        self._file_times = self.store.fact_file_times()

    # ── the end of sessions ──────────────────────────────────────────────────────────────────

    async def sum_up(self, session: str = "") -> bool:
        id = session or self.context.session_id or ""
        if id not in self.pending.sessions():
            return True
        if not self.pending.take(id):
            return False
        record = self.context.session(id)
        if record is None:
            self.pending.done(id)
            return True
        is_done = await learn(self, self.policy, record, self.pending)
        await self.policy.after_learning(self)
        return is_done

    async def _maintain(self) -> None:
        for notice in await self.store.reconcile(self.store.record_places()):
            self.context.emit(notice)
        for id in self.pending.sessions():
            if self.is_closing:
                return
            if id != self.context.session_id:
                try:
                    await self.sum_up(id)
                finally:
                    self.pending.leave(id)
        await self.fill_index()
        self.update_indexes(INDEX_LIMIT_S)
        if self.embedder:
            texts = [text.text for text in (*self.fact_index.texts, *self.note_index.texts)]
            while not self.is_closing and await self.embedder.fill(texts):
                pass
        await self.policy.maintain(self)


def _lines(state: Mapping[str, Any], name: str) -> list[str]:
    lines = state.get(name)
    return lines if isinstance(lines, list) else []
