"""The journal: MEMORY.md in every prompt, a history searched on demand, and consolidation."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from kode import credentials
from kode.contracts import (
    Drop,
    DropReason,
    Hit,
    Injection,
    InjectReason,
    MemoryContext,
    SnapshotSection,
    Tool,
    Turn,
)
from kode.errors import BusyError, MemoryRefused
from kode.memory import embed, frame
from kode.memory.ask import MemoryModel
from kode.memory.base import has_lost_messages
from kode.memory.journal.consolidate import MAX_ATTEMPTS, Consolidator, MemoryLines
from kode.memory.journal.files import MEMORY, SYSTEM, Entry, JournalFiles
from kode.memory.journal.places import JournalPlaces
from kode.memory.journal.said import (
    RECAP_CHARS,
    Queue,
    Said,
    batches,
    conversation,
    new_id,
    said_in,
    short_lines,
)
from kode.memory.journal.search import grep, history_tool, texts_of, where_of
from kode.memory.project import ProjectMemory
from kode.memory.queue import Item, work_off, work_through
from kode.memory.search import Finder, with_note
from kode.memory.stored import may_name_a_file
from kode.messages import Message

if TYPE_CHECKING:
    from kode.config import MemoryConfig

ABOUT = (
    "What kode remembers of this project from earlier sessions. The log of those sessions is "
    "searched with history_search."
)
ABOUT_RECAP = "The latest messages of this session, shortened. Some are no longer shown in full."
ABOUT_CHANGED = "The long-term memory has changed since it was shown; this is what it says now."
MAX_PROMPT_CHARS = 200_000
NEAREST = 10
"""Entries shown to the model if none matches its pattern."""
SHOWN_TIMES_LIMIT = 4
"""A memory edited far over its limit is shown up to this many times the limit."""


class Journal(ProjectMemory):
    system = SYSTEM

    def __init__(self, settings: "MemoryConfig") -> None:
        super().__init__(settings)
        self._journal = settings.journal
        self._tainted = False
        self._taken: dict[str, None] = {}
        """The keys of the messages that were queued."""
        self._heard: list[Said] = []
        """Heard in this process, and not queued yet."""
        self._typed: list[str] = []
        """What the person typed in this process."""
        self._recap: list[str] = []
        self._shown = ""
        self._noticed: set[str] = set()

    @property
    def message_window(self) -> int | None:
        return self._journal.memory_window

    # ── the moments of the contract ──────────────────────────────────────────────────────────

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        await super().open(context, state)
        self.files = JournalFiles(self.folder)
        self.history.places = JournalPlaces(self.folder, self._journal.max_memory_size)
        self._queue = Queue(self.files.root / "queue")
        door = MemoryModel(
            context.ask_reply, max_prompt_chars=MAX_PROMPT_CHARS, expected_s=context.expected_s
        )
        self._consolidator = Consolidator(
            context=context,
            queue=self._queue,
            door=door,
            timeout_s=self._journal.consolidation_timeout_s,
            attempts=MAX_ATTEMPTS,
            only_finished=True,
            limit_bytes=self._journal.max_memory_size,
            may_ask=self._settings.llm_consolidate,
            lines=MemoryLines(
                system=self.name,
                history=self.history,
                ledger=self.ledger,
                project=self.project,
                keeps_unsaid=True,
                folder=self.folder,
            ),
        )
        embedder = embed.open_embedder(
            self._settings.embedding, context.root / "vectors", self._notice
        )
        self._finder = Finder(door, embedder, context.now, llm=self._settings.llm_search)
        self._restore(state)
        if context.read_only:
            return
        with suppress(BusyError):  # another process works on them
            left = partial(self._consolidator.left, lambda: False)
            if left():
                await work_through(self._queue, self._consolidator, left, timeout_s=0.0)
        if may_name_a_file(context.session_id):
            session = context.session_id or ""
            self._queue.forget_done(session, self._taken)
            self._taken.update(dict.fromkeys(sorted(self._queue.taken(session))))

    async def inject(self, reason: InjectReason) -> Injection:
        """MEMORY.md; where messages were dropped, the recap in the next message."""
        self._shown = memory = self._told()
        system = recap = ""
        if memory:
            body = f"── {MEMORY} ──\n{self._bound(memory)}"
            system = f"# Memory\n{self._frame(ABOUT, body)}"
        if self._recap and has_lost_messages(reason):
            lines = "\n".join(f"- {line}" for line in self._recap)
            body = f"── Recap: the latest messages of this session ──\n{lines}"
            recap = self._frame(ABOUT_RECAP, body)
        return Injection(system=system, first_user=recap)

    async def recall(self, turn: Turn) -> str:
        """MEMORY.md again if it differs from what was shown: the system prompt must not change, so
        changes are sent with the message."""
        self._hear(turn)
        self._tainted = self._tainted or turn.tainted
        told = self._told()
        if told == self._shown:
            return ""
        self._shown = told
        return self._frame(ABOUT_CHANGED, self._bound(told) or "(empty)")

    def tools(self) -> tuple[Tool, ...]:
        if self._context.read_only:
            return ()
        return (history_tool(self._matching, self.since_then),)

    async def after_turn(self, turn: Turn) -> None:
        self._hear(turn)
        self._tainted = self._tainted or turn.tainted
        entries = said_in(turn.messages)
        known = {*self._taken, *(entry.key for entry in self._heard)}
        self._heard += [entry for entry in entries if entry.key not in known]
        self._typed = [*self._typed, *frame.typed_in(turn, self._context.typed)][-frame.MOST_SAID :]
        self._recap = [*self._recap, *_recap_of(entries)][-self._kept :]

    async def before_drop(self, messages: Sequence[Message], reason: DropReason) -> Drop:
        session = self._context.session_id
        if self._context.read_only or not may_name_a_file(session):
            return Drop()
        entries = said_in(messages)
        cut, keep = self._cut(messages, entries, reason)
        batch = [e for e in entries if e.index < cut and e.key not in self._taken]
        ends_at = time.monotonic() + self._journal.consolidation_timeout_s
        items = self._put_down(batch)
        left = [entry for entry in entries if entry.index >= cut]
        taken = {*self._taken, *(entry.key for entry in batch)}
        self._taken = dict.fromkeys(e.key for e in entries if e.key in taken)
        self._heard = [e for e in left if e.key not in taken]
        if reason == "window":
            still_there = left if keep is not None else entries
            self._recap = _recap_of(still_there)[-self._kept :]
        done = [
            await self._consolidator.ask_within(item, max(0.01, ends_at - time.monotonic()))
            for item in items
        ]
        written = [self._consolidator.entries.get(item.id, "") for item in items]
        # Without an entry for each part the context makes its own summary.
        recap = "\n\n".join(written) if keep is not None and items and all(written) else None
        return Drop(keep=keep, recap=recap, done=all(done))

    async def maintain(self) -> None:
        """Finishes what earlier processes left."""
        if self._context.read_only:
            return
        left = partial(self._consolidator.left, lambda: not self._work.is_closing)
        work = work_off(self._queue, self._consolidator, left, self._notice)
        await self._work.finish(work)

    async def search(self, query: str, k: int) -> list[Hit]:
        texts = texts_of(self._memory(), self.files.entries())
        hits = await self._finder.rank(query, texts, k)
        return [with_note(hit, self.since_then(hit.text)) for hit in hits]

    async def snapshot(self) -> tuple[SnapshotSection, ...]:
        memory = credentials.redact(self._told())
        return (SnapshotSection(title="Long-term Memory", content=memory),) if memory else ()

    def state(self) -> Mapping[str, Any]:
        state = {"consolidated": list(self._taken), "recap": list(self._recap)}
        return {name: value for name, value in state.items() if value}

    async def close(self, grace_s: float) -> None:
        """If the session ends without a last turn (after an interruption), queues its messages for
        the next start."""
        await super().close(grace_s)
        heard, self._heard = self._heard, []
        if self._context.read_only or not may_name_a_file(self._context.session_id) or not heard:
            return
        self._put_down(heard)
        self._taken.update(dict.fromkeys(entry.key for entry in heard))

    # ── what the commands need ───────────────────────────────────────────────────────────────

    @property
    def unfinished(self) -> int:
        return len(self._queue.ids())

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _memory(self) -> str:
        """MEMORY.md; "" if unreadable."""
        try:
            return self.files.read_memory()
        except MemoryRefused as error:
            if str(error) not in self._noticed:
                self._noticed.add(str(error))
                self._notice(str(error))
            return ""

    @property
    def _kept(self) -> int:
        """How many messages stay when the window is full: the recent half."""
        return max(1, self._journal.memory_window // 2)

    def _restore(self, state: Mapping[str, Any]) -> None:
        keys, recap = state.get("consolidated"), state.get("recap")
        self._taken = {}
        self._recap = []
        if isinstance(keys, list):
            self._taken = dict.fromkeys(key for key in keys if isinstance(key, str))
        if isinstance(recap, list):
            self._recap = [line for line in recap if isinstance(line, str)]
        self._tainted, self._heard, self._typed = False, [], []

    def _put_down(self, entries: Sequence[Said]) -> list[Item]:
        """Stores a conversation as items of the queue: from here on it is not lost. Raises:
        StorageError."""
        items = list[Item]()
        for batch in batches(entries):
            told = conversation(batch, str(self._context.session_path or ""))
            session = self._context.session_id or ""
            id = new_id(session, self._queue.ids(session))
            text = "\n".join(entry.line for entry in batch)
            turn, tainted = self._turn or None, self._tainted
            items.append(self._consolidator.item(id, turn, text, self._typed, tainted, told))
            self._queue.write(items[-1])
        return items

    def _cut(
        self, messages: Sequence[Message], entries: Sequence[Said], reason: DropReason
    ) -> tuple[int, int | None]:
        """The index up to which messages are consolidated now, and how many of the latest to keep;
        None leaves that to the context."""
        if reason != "window":
            return len(messages), None
        counting = [entry for entry in entries if entry.counts]
        if len(counting) > self._journal.memory_window:
            cut = counting[-self._kept].index
            return cut, len(messages) - cut
        # The model's own window is full: how much must go is not known here. The current question
        # stays.
        last = counting[-1] if counting else None
        return (last.index if last is not None and last.role == "user" else len(messages)), None

    async def _matching(self, pattern: str) -> tuple[str, Sequence[Entry]]:
        """Matches entries like `grep -i`; if none match, by words, dates and the model."""
        entries = self.files.entries()
        found = await grep(pattern, entries)
        about = f"{len(found)} entries of the history match, the newest first"
        if not found:
            hits = await self._finder.rank(pattern, texts_of("", entries), NEAREST)
            by_where = {where_of(entry): entry for entry in entries}
            found = [by_where[hit.where] for hit in hits][::-1]
            how = "the best first" if hits and hits[0].score else "which are the newest"
            about = f"No entry holds this as it is written; here are others, {how}"
        inside = [entry for entry in found if not entry.is_outside]
        if inside and (left := len(found) - len(inside)):
            # Whoever reads them has taken in outside text.
            about += f"; {left} of them, from sessions that took in outside text, are left out"
        return about, (inside or found)[::-1]

    def _told(self) -> str:
        """MEMORY.md as a model is shown it, with what does not hold, or is not settled."""
        memory = self._memory()
        return "\n\n".join(filter(None, (memory, self.since_then(memory) if memory else "")))

    def _bound(self, memory: str) -> str:
        return frame.within(memory, SHOWN_TIMES_LIMIT * self._journal.max_memory_size)


def _recap_of(entries: Sequence[Said]) -> list[str]:
    return short_lines([entry for entry in entries if entry.counts], RECAP_CHARS)
