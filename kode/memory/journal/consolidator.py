"""Consolidation: turns a conversation into an entry of the history and an update of MEMORY.md.

A failure or timeout leaves a `[raw-fallback]` entry at once, and the conversation waits in the
queue for a later start.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from kode import credentials, durable
from kode.contracts import MemoryContext, Request
from kode.errors import BusyError, KodeError
from kode.events import MemoryChanged, Notice
from kode.memory.ask import MemoryModel
from kode.memory.base import Outcome
from kode.memory.journal.commit import RAW, Committer
from kode.memory.journal.consolidate import (
    SYSTEM_PROMPT,
    Decision,
    decide,
    prompt,
    safe_entry,
)
from kode.memory.journal.files import JournalFiles
from kode.memory.journal.said import (
    Conversation,
    Queue,
    Said,
    batches,
    line_of,
    new_id,
    of,
    raw_lines,
)
from kode.memory.queue import Item, work
from kode.memory.stored import locked
from kode.messages import text_of, user_message

MAX_OUTPUT_TOKENS = 8_000
MAX_ATTEMPTS = 3
"""Afterwards only the raw fallback remains of a conversation, besides its session's file."""
CANCELLED_WAIT_S = 2.0
"""For the lock, if a raw fallback must be written while the process is exiting."""


@dataclass(frozen=True, kw_only=True)
class Consolidated:
    entry: str = ""
    """Replaces the conversation; "" if it could not be consolidated."""
    done: bool = False


@dataclass(kw_only=True)
class Consolidator:
    """The consolidations of one session; the `Job` of the journal's queue."""

    context: MemoryContext
    files: JournalFiles
    queue: Queue
    committer: Committer
    door: MemoryModel | None
    limit_bytes: int
    timeout_s: float
    """Of one question, unless the server is known to need longer."""
    attempts: int = MAX_ATTEMPTS
    entries: dict[str, str] = field(default_factory=dict)
    """The id of an item → the entry that a model has written for it."""

    def put_down(self, entries: Sequence[Said], *, turn: int | None, tainted: bool) -> list[Item]:
        """Stores the conversation as items of the queue: from here on it is not lost.

        Raises: StorageError.
        """
        context = self.context
        session = context.session_id or ""
        items: list[Item] = []
        known = self.queue.ids(session)
        for batch in batches(entries):
            item = Item(
                id=new_id(session, known),
                session=session,
                turn=turn,
                at=datetime.now(UTC).isoformat(timespec="seconds"),
                text="\n".join(map(line_of, batch)),
                tainted=tainted,
                outside=context.outside() if tainted else "",
                more=asdict(
                    Conversation(
                        keys=tuple(entry.key for entry in batch),
                        raw=tuple(raw_lines(batch)),
                        session_path=str(context.session_path or ""),
                    )
                ),
            )
            items.append(item)
            known.append(item.id)
        for item in items:
            self.queue.write(item)
        return items

    async def consolidate(self, item: Item, timeout_s: float) -> Consolidated:
        """Consolidates one item within `timeout_s`, or writes a raw fallback.

        Raises: StorageError, MemoryRefused; CancelledError (with the raw fallback written).
        """
        try:
            async with asyncio.timeout(timeout_s):
                done = await work(self.queue, self, item.id, timeout_s=timeout_s)
            return Consolidated(entry=self.entries.get(item.id, "") if done else "", done=done)
        except (TimeoutError, BusyError):
            await self.fail(item, f"no answer within {round(timeout_s, 1):g} s")
        except asyncio.CancelledError:
            # No await here: the process may be exiting. A failure leaves the item.
            with suppress(KodeError), durable.locked(self.files.root, timeout_s=CANCELLED_WAIT_S):
                self._fall_back(item.id, "it was interrupted")
            raise
        return Consolidated()

    # ── the job ──────────────────────────────────────────────────────────────────────────────

    def is_answered(self, item: Item) -> bool:
        return bool(item.answer) or not self._can_ask

    async def do(self, item: Item) -> str:
        memory = credentials.redact(self.files.read_memory())
        decision = await self._ask(item, memory)
        self.entries[item.id] = decision.entry
        if not decision.usable:
            return decision.problem
        async with locked(self.files.root):
            if decision.problem:
                self.files.back_up_memory()
            item = self.committer.decide(
                item,
                decision.entry,
                self.context.now(),
                base=memory,
                update=decision.update,
                done=True,
            )
            outcomes = self.committer.commit(item)
        self._report(outcomes)
        if decision.problem:
            self._notice(f"Memory was not updated: {decision.problem}")
        return ""

    async def fail(self, item: Item, why: str) -> None:
        async with locked(self.files.root):
            outcomes = self._fall_back(item.id, why)
        self._report(outcomes)
        if not self._can_ask:
            return  # nobody can change that, so there is no notice
        is_given_up = self.queue.read(item.id) is None
        rest = (
            f"It is given up after {MAX_ATTEMPTS} attempts: the history has its last messages, and "
            "names the file that has all of them."
            if is_given_up
            else "The history has it unchanged; a later start tries again."
        )
        self._notice(f"This conversation could not be consolidated into memory ({why}). {rest}")

    async def give_up(self, item: Item, why: str) -> None:
        await self.fail(item, why)

    # ── at the next start ────────────────────────────────────────────────────────────────────

    async def finish_waiting(self, timeout_s: float, is_closing: Callable[[], bool]) -> None:
        """Retries what earlier processes and failures have left; starts nothing more once
        `is_closing`. Raises as `consolidate`."""
        for path in self.queue.set_aside_damaged():
            self._notice(
                f"A conversation in memory's queue cannot be read. It was moved to {path}."
            )
        for id in self.queue.ids():
            item = self.queue.read(id)
            if is_closing() or self.door is None or not self.door.usable:
                return
            if item is None:
                continue
            # Nobody waits for it here, so a slow server gets the time it needs.
            limit_s = self.door.limit_s(timeout_s, len(item.text), MAX_OUTPUT_TOKENS)
            outcome = await self.consolidate(item, limit_s)
            if not outcome.done:
                return

    async def recover(self) -> None:
        """Finishes what was decided before a crash. Raises: StorageError, MemoryRefused."""
        if not self.queue.ids():
            return
        async with locked(self.files.root):
            outcomes = self.committer.recover()
        self._report(outcomes)

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    @property
    def _can_ask(self) -> bool:
        return self.door is not None and self.door.usable

    async def _ask(self, item: Item, memory: str) -> Decision:
        if self.door is None:
            return Decision(problem="asking a model is off (memory.llm_consolidate)")
        asked = prompt(memory, item.text, self.context.now(), limit_bytes=self.limit_bytes)
        request = Request(
            system=SYSTEM_PROMPT,
            messages=(user_message(asked),),
            max_output_tokens=MAX_OUTPUT_TOKENS,
        )
        limit_s = self.door.limit_s(self.timeout_s, len(item.text), MAX_OUTPUT_TOKENS)
        reply = await self.door.reply(request, timeout_s=limit_s)
        if reply.message is None:
            return Decision(problem=reply.detail or reply.failure)
        return decide(
            text_of(reply.message), reply.message.stop, memory, limit_bytes=self.limit_bytes
        )

    def _fall_back(self, id: str, why: str) -> list[Outcome]:
        """Call with the journal's lock held. Ignores an item done meanwhile; one that was tried
        often enough ends with its raw fallback."""
        item = self.queue.read(id)
        if item is None:
            return []
        if item.answer:
            return self.committer.commit(item, recovering=True)
        self.files.back_up_memory()
        if not of(item).fallen_back:
            item = self.committer.decide(
                item,
                _raw(item, why, self.entries.get(id, "")),
                self.context.now(),
                base="",
                update=None,
                done=self.door is None or item.attempts >= MAX_ATTEMPTS,
            )
            return self.committer.commit(item)
        if item.attempts >= MAX_ATTEMPTS:
            self.queue.finish(item)
        return []

    def _report(self, outcomes: Sequence[Outcome]) -> None:
        for written in outcomes:
            self.context.emit(MemoryChanged(text=written.line, change_id=written.change_id))

    def _notice(self, text: str) -> None:
        self.context.emit(Notice(text=text))


def _raw(item: Item, why: str, entry: str) -> str:
    """The entry of a failed consolidation: the last messages, and where all of them are."""
    told = of(item)
    lines = [f"{RAW} {why}"]
    if told.session_path:
        lines.append(f"The whole conversation: {told.session_path}")
    if entry:
        lines.append(entry)
    return safe_entry("\n".join([*lines, *(f"- {line}" for line in told.raw)]))
