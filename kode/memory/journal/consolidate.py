"""Consolidation, the job of the journal's queue: of the answer to the one question the note becomes
an entry of the history, and what it says of the facts becomes lines of MEMORY.md.

The answer is in the queue before it is used, and each step of using it can be repeated. A failure
leaves a `[raw-fallback]` entry, and the conversation waits for a later start.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from kode import credentials
from kode.contracts import MemoryContext, Request
from kode.errors import BusyError, MemoryRefused
from kode.events import MemoryChanged, Notice
from kode.memory import judged, question, scan, standing
from kode.memory.ask import MemoryModel, read_object
from kode.memory.base import WORDS_CHARS
from kode.memory.change import Author
from kode.memory.journal.files import (
    HISTORY,
    MEMORY,
    OUTSIDE,
    RAW,
    as_read,
    block_of,
    size_of,
)
from kode.memory.journal.said import Queue, of
from kode.memory.ledger import PAIRS, Statement
from kode.memory.lineage import Entry
from kode.memory.lines import merge_lines
from kode.memory.places import State, whole
from kode.memory.precedence import rank, source_rank, supersedes
from kode.memory.project import ProjectMemory
from kode.memory.question import Fact, Found
from kode.memory.queue import Item, work, work_through
from kode.memory.stored import read_row
from kode.memory.waiting import FOUND_BY, came_from, propose
from kode.messages import keep_ends, shorten, text_of, user_message

MAX_ATTEMPTS = 3
"""Afterwards only the raw fallback remains of a conversation, besides its session's file."""
MAX_ENTRY_CHARS = 6_000
QUOTED_CHARS = 80
COMPRESS = """\
The known facts have {size} bytes, over their limit of {limit}. Compress them: give besides, as \
"memory_update", the whole of this file: prune stale and low-value facts, say the same in less, \
and keep what still matters.

{memory}"""
COMPRESSED_TOKENS = 8_000
LEAST_SHARE_COMPRESSED = 0.1


@dataclass(frozen=True, kw_only=True)
class Answer:
    text: str
    at: str
    """When it came, ISO: the time of its entry."""
    shown: tuple[str, ...]
    """The lines of MEMORY.md that the question was about."""
    base: str = ""
    """MEMORY.md, if it was to be compressed."""


@dataclass(kw_only=True)
class Consolidator:
    """The consolidations of one session; the `Job` of the journal's queue."""

    context: MemoryContext
    memory: ProjectMemory
    queue: Queue
    door: MemoryModel | None
    limit_bytes: int
    timeout_s: float
    """Of one question, unless the server is known to need longer."""
    attempts: int = MAX_ATTEMPTS
    entries: dict[str, str] = field(default_factory=dict)
    """The id of an item → the entry that a model has written for it."""

    async def consolidate(self, item: Item, timeout_s: float) -> bool:
        """Does one item within `timeout_s`, or writes a raw fallback. Raises: StorageError,
        MemoryRefused; CancelledError, with the item in the queue."""
        try:
            async with asyncio.timeout(timeout_s):
                return await work(self.queue, self, item.id, timeout_s=timeout_s)
        except (TimeoutError, BusyError):
            if (left := self.queue.read(item.id)) is not None:
                await self.fail(left, f"no answer within {round(timeout_s, 1):g} s")
            return False

    async def finish(self, may_ask: Callable[[], bool]) -> None:
        """Does what earlier processes and failures have left: what is answered, and while it
        `may_ask` the rest. What another process works on is left to it. Raises as `consolidate`."""

        def ids() -> list[str]:
            asks = self._can_ask and may_ask()
            return [one.id for one in self.queue.items() if one.answer or asks]

        try:
            if ids():
                await work_through(self.queue, self, ids, timeout_s=0.0)
        except BusyError:
            pass

    # ── the job ──────────────────────────────────────────────────────────────────────────────

    def is_answered(self, item: Item) -> bool:
        return bool(item.answer) or not self._can_ask

    async def do(self, item: Item) -> str:
        answer = read_row(Answer, item.answer.encode())
        if answer is None:
            answer, why = await self._ask(item)
            if answer is None:
                return why
            item = replace(item, answer=json.dumps(asdict(answer), ensure_ascii=False))
            self.queue.write(item)
        found = question.read(answer.text, len(answer.shown))
        if not found.narrative:
            self.queue.write(replace(item, answer=""))
            return "the answer holds no note of the conversation"
        at = datetime.fromisoformat(answer.at)
        entry = safe_entry(f"[{at:%Y-%m-%d %H:%M}] {found.narrative}")
        await self._append(item, entry, at)
        if answer.base:
            await self._compress(item, answer)
        await self._learn(item, found, answer.shown)
        self.entries[item.id] = entry
        self.queue.finish(item)
        return ""

    async def fail(self, item: Item, why: str) -> None:
        told = of(item)
        if not told.fallen_back:
            await self._append(item, _raw(item, why), self.context.now())
            self.queue.write(replace(item, more=asdict(replace(told, fallen_back=True))))
        if self.door is None:
            self.queue.finish(item)
        if self._can_ask:  # else nobody can change that
            self._notice(
                f"This conversation could not be consolidated into memory ({why}). The history has "
                "its last messages; a later start tries again."
            )

    async def give_up(self, item: Item, why: str) -> None:
        if not of(item).fallen_back:
            await self._append(item, _raw(item, why), self.context.now())
        self.queue.finish(item)
        self._notice(
            f"This conversation could not be consolidated into memory ({why}). It is given up "
            f"after {MAX_ATTEMPTS} attempts: the history has its last messages, and names the file "
            "that has all of them."
        )

    # ── the question ─────────────────────────────────────────────────────────────────────────

    @property
    def _can_ask(self) -> bool:
        return self.door is not None and self.door.usable

    async def _ask(self, item: Item) -> tuple[Answer | None, str]:
        """The answer, or why there is none."""
        if self.door is None:
            return None, "asking a model is off (memory.llm_consolidate)"
        lines = [credentials.redact(one.text) for one in self.memory.facts()]
        text = credentials.redact(self._text())
        base = text if size_of(text) > self.limit_bytes else ""
        if not base:
            about = "\n".join(item.said) or item.text
            lines = [lines[at] for at in question.to_show(lines, about, self.context.now())]
        asked = question.build(f"The transcript of a session:\n\n{item.text}", lines)
        if base:
            size = size_of(base)
            asked += "\n\n" + COMPRESS.format(size=size, limit=self.limit_bytes, memory=base)
        request = Request(
            system=question.INSTRUCTIONS,
            messages=(user_message(asked),),
            max_output_tokens=COMPRESSED_TOKENS if base else question.MAX_OUTPUT_TOKENS,
        )
        reply = await self.door.reply(request, timeout_s=self.timeout_s, patient=True)
        if reply.message is None:
            return None, reply.detail or reply.failure
        if reply.message.stop != "end":
            return None, f"the answer was not finished ({reply.message.stop})"
        said = credentials.redact(text_of(reply.message))
        at = self.context.now().isoformat()
        return Answer(text=said, at=at, shown=tuple(lines), base=base), ""

    # ── what it says ─────────────────────────────────────────────────────────────────────────

    async def _append(self, item: Item, entry: str, at: datetime) -> None:
        """Adds an entry to the history, unless it is there."""
        text = f"{OUTSIDE}\n{entry}" if item.tainted else entry
        block = block_of(text, at).strip()
        await self._rewrite(
            HISTORY,
            lambda state: state if block in state else (*state, block),
            Author(who="consolidation", session=item.session, turn=item.turn),
            "append",
            f'added to the history "{shorten(text, QUOTED_CHARS)}"',
        )

    async def _compress(self, item: Item, answer: Answer) -> None:
        """Says the same in less; a person's edits meanwhile stay."""
        found = read_object(answer.text, ("memory_update",))
        update = found.value.get("memory_update") if found is not None and found.complete else None
        if not isinstance(update, str) or item.tainted:
            return
        new = as_read(update)
        if size_of(new) < size_of(answer.base) * LEAST_SHARE_COMPRESSED or scan.scan(new):
            self._notice(
                f"{MEMORY} was not compressed: the model left less than a tenth of it, or what may "
                "not be stored. It stays as it is."
            )
            return
        await self._rewrite(
            MEMORY,
            lambda state: whole(merge_lines(answer.base, "".join(state), new)),
            Author(who="consolidation", session=item.session, turn=item.turn),
            "consolidate",
            f"compressed {MEMORY} ({size_of(answer.base):,} → {size_of(new):,} bytes)",
        )

    async def _learn(self, item: Item, found: Found, shown: Sequence[str]) -> None:
        """Writes what the answer says of the facts. Outside text may have worded all of it, so of a
        session that took in any, a fact waits unless it is the person's own sentence, and no line
        loses another."""
        refused = list[str]()
        for fact in found.facts:
            old = shown[fact.line - 1] if fact.line else ""
            try:
                await self._take(item, fact, old)
            except MemoryRefused as error:
                refused.append(str(error))
        if refused:
            self._notice(
                f"{len(refused)} facts are only in the note of their session. {refused[0]}"
            )
        if item.tainted:
            return
        for one in found.withdrawn:
            if question.stands_in(one.words, item.said):
                gone = shown[one.line - 1]
                author = self._author(item, one.words)
                line = f'removed from {MEMORY} "{shorten(gone, QUOTED_CHARS)}"'
                await self._rewrite(MEMORY, _replaced(gone, ""), author, "remove", line)
        self._dispute(item, found, shown)

    async def _take(self, item: Item, fact: Fact, old: str) -> None:
        new = f"- {fact.text.lstrip('-*+ ')}"
        if fact.how == "repeats" or any(one.key == new for one in self.memory.facts()):
            return
        if item.tainted and not question.stands_in(fact.text, item.said):
            await self._propose(item, fact)
            return
        scan.check(fact.text)
        said = question.stands_in(fact.words, item.said)
        if self._statement(new).ended is not None and not said:
            return  # what was withdrawn or changed is said again by the person alone
        author = self._author(item, fact.words if said else "")
        wins = pair = None
        if old:
            was = self._statement(old)
            ranks = source_rank(author, new, old), rank(was, self.memory.project, new)
            places = (self._place(new), was.place)
            wins = supersedes(*ranks)
            pair = places if wins else places[::-1]
        quoted = f'"{shorten(fact.text, QUOTED_CHARS)}"'
        if wins and fact.how == "changes" and not item.tainted:
            line = f"changed in {MEMORY}: {quoted}"
            await self._rewrite(MEMORY, _replaced(old, new), author, "replace", line)
            return
        line = f"added to {MEMORY} {quoted}"
        against = (pair,) if pair else ()
        await self._rewrite(MEMORY, _replaced("", new), author, "add", line, against=against)

    async def _propose(self, item: Item, fact: Fact) -> None:
        waits = await propose(
            self.memory.history,
            fact.text,
            fact.about,
            client=FOUND_BY,
            project=self.memory.project,
            author=self._author(item, ""),
            source=came_from(item.session, item.outside),
        )
        if waits is not None:
            line = f'"{shorten(fact.text, QUOTED_CHARS)}" waits for `kode memory review`'
            self.context.emit(MemoryChanged(text=f"{line}: outside text was read"))

    def _dispute(self, item: Item, found: Found, shown: Sequence[str]) -> None:
        """Of known lines that contradict each other none is changed: the person decides."""
        if found.lines is None:
            return
        asked = [self._place(line) for line in shown]
        said = judged.verdict(
            self.memory.ledger, self.memory.facts(), asked, found.lines, self.memory.project
        )
        if said:
            author = Author(who="merge", session=item.session or None)
            self.memory.history.record(author, self.memory.name, "settle", PAIRS, **said)

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    async def _rewrite(
        self,
        name: str,
        edit: Callable[[State], State],
        author: Author,
        kind: str,
        line: str,
        **values: Any,
    ) -> None:
        target = self.memory.folder.target(name)
        change = await standing.rewrite(self.memory.history, target, edit, author, kind, **values)
        if change is not None:
            self.context.emit(MemoryChanged(text=line, change_id=change.id))

    def _text(self) -> str:
        places = self.memory.history.places
        return "".join(places.read(self.memory.folder.target(MEMORY))) if places else ""

    def _place(self, line: str) -> tuple[str, str]:
        return self.memory.folder.target(MEMORY), line

    def _statement(self, line: str) -> Statement:
        target, key = self._place(line)
        return self.memory.ledger.statement(Entry(target=target, key=key, text=line))

    def _author(self, item: Item, words: str) -> Author:
        return Author(
            who="extraction",
            session=item.session,
            turn=item.turn,
            words=shorten(words, WORDS_CHARS),
        )

    def _notice(self, text: str) -> None:
        self.context.emit(Notice(text=text))


def _replaced(old: str, new: str) -> Callable[[State], State]:
    """The edit of MEMORY.md that puts one line in the place of another, or at the end; "" for none.
    One that was done changes nothing."""

    def edit(state: State) -> State:
        lines = "".join(state).split("\n")
        stand = [line.strip() for line in lines]
        add = [new] if new and new not in stand else []
        if old in stand and old:
            at = stand.index(old)
            lines[at : at + 1] = add
        else:
            lines += add
        return whole("\n".join(lines))

    return edit


def safe_entry(text: str) -> str:
    """A text safe for the history: credentials masked, lines with orders left out."""
    masked = keep_ends(credentials.redact(text.strip()), MAX_ENTRY_CHARS)
    if scan.scan(masked) is None:
        return masked
    lines = []
    for line in masked.split("\n"):
        finding = scan.scan(line)
        lines.append(f"[left out: {finding.category}]" if finding else line)
    safe = "\n".join(lines)
    finding = scan.scan(safe)
    return f"[left out: {finding.category}]" if finding else safe


def _raw(item: Item, why: str) -> str:
    """The entry of a failed consolidation: the last messages, and where all of them are."""
    told = of(item)
    lines = [f"{RAW} {why}"]
    if told.session_path:
        lines.append(f"The whole conversation: {told.session_path}")
    return safe_entry("\n".join([*lines, *(f"- {line}" for line in told.raw)]))
