"""Consolidation, the job of the journal's queue: of the answer to the one question the note becomes
an entry of the history, and what it says of the facts becomes lines of MEMORY.md.

A failure leaves a `[raw-fallback]` entry, and the conversation waits for a later start.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from kode import credentials
from kode.events import Notice
from kode.memory import learn, scan, standing
from kode.memory.ask import read_object
from kode.memory.base import Outcome
from kode.memory.change import Author, Pair
from kode.memory.journal.files import HISTORY, MEMORY, OUTSIDE, RAW, as_read, block_of, size_of
from kode.memory.journal.said import of
from kode.memory.learn import QUOTED_CHARS, Answer, Facts, Learner
from kode.memory.lineage import Entry, Place
from kode.memory.lines import merge_lines
from kode.memory.places import State, whole
from kode.memory.project import ProjectFolder
from kode.memory.question import Fact, Found
from kode.memory.queue import Item
from kode.messages import keep_ends, shorten

MAX_ATTEMPTS = 3
"""Afterwards only the raw fallback remains of a conversation, besides its session's file."""
MAX_ENTRY_CHARS = 6_000
LEAST_SHARE_COMPRESSED = 0.1


@dataclass(kw_only=True)
class MemoryLines(Facts):
    """The lines of MEMORY.md."""

    folder: ProjectFolder

    @property
    def target(self) -> str:
        return self.folder.target(MEMORY)

    def standing(self) -> list[Entry]:
        places = self.history.places
        found = places.standing((self.target,)) if places else []
        return [one for one in found if one.is_fact]

    def worded(self, fact: Fact, old: Entry | None) -> Place:
        return self.target, f"- {fact.text.lstrip('-*+ ')}"

    async def learn(
        self, fact: Fact, author: Author, item: Item, old: Entry | None, *, wins: bool, ends: bool
    ) -> tuple[Outcome, Entry | None]:
        target, new = self.worded(fact, old)
        pair: tuple[Pair, ...] = ()
        if old is not None and not ends:
            sides = ((target, new), old.place)
            pair = (sides if wins else sides[::-1],)
        kind, did = ("replace", "changed in") if ends else ("add", "added to")
        gone = old.key if old is not None and ends else ""
        line = f'{did} {MEMORY} "{shorten(fact.text, QUOTED_CHARS)}"'
        done = await self.rewrite(MEMORY, _replaced(gone, new), author, kind, line, against=pair)
        return done, Entry(target=target, key=new, text=new)

    def text(self) -> str:
        places = self.history.places
        return "".join(places.read(self.target)) if places else ""

    async def rewrite(
        self,
        name: str,
        edit: Callable[[State], State],
        author: Author,
        kind: str,
        line: str,
        **values: Any,
    ) -> Outcome:
        """One change of a file of the folder."""
        target = self.folder.target(name)
        change = await standing.rewrite(self.history, target, edit, author, kind, **values)
        return Outcome(line=line, change_id=change.id if change else "")


@dataclass(kw_only=True)
class Consolidator(Learner):
    """The consolidations of one session."""

    lines: MemoryLines
    may_ask: bool
    """Whether a model is asked at all (memory.llm_consolidate)."""
    entries: dict[str, str] = field(default_factory=dict)
    """The id of an item → the entry that a model has written for it."""

    def left(self, may_ask: Callable[[], bool]) -> list[str]:
        """The ids of what waits: what is answered, and while it `may_ask` the rest."""
        asks = self._can_ask and may_ask()
        return [one.id for one in self.queue.items() if one.answer or asks]

    # ── the job ──────────────────────────────────────────────────────────────────────────────

    @property
    def _can_ask(self) -> bool:
        return self.may_ask and self.door.usable

    def is_answered(self, item: Item) -> bool:
        return bool(item.answer) or not self._can_ask

    def facts(self, item: Item) -> MemoryLines:
        return self.lines

    def to_compress(self) -> str:
        text = self.lines.text()
        return text if size_of(text) > self.limit_bytes else ""

    async def do(self, item: Item) -> str:
        if not (self.may_ask or item.answer):
            return "asking a model is off (memory.llm_consolidate)"
        return await super().do(item)

    async def note(self, item: Item, found: Found, answer: Answer) -> None:
        at = datetime.fromisoformat(answer.at)
        entry = safe_entry(f"[{at:%Y-%m-%d %H:%M}] {found.narrative}")
        await self._append(item, entry, at)
        if answer.base:
            await self._compress(item, answer)
        self.entries[item.id] = entry

    async def fail(self, item: Item, why: str) -> None:
        told = of(item)
        if not told.fallen_back:
            await self._append(item, _raw(item, why), self.context.now())
            self.queue.write(replace(item, more=asdict(replace(told, fallen_back=True))))
        if not self.may_ask:
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

    async def _append(self, item: Item, entry: str, at: datetime) -> None:
        """Adds an entry to the history, unless it is there."""
        text = f"{OUTSIDE}\n{entry}" if item.tainted else entry
        block = block_of(text, at).strip()
        await self._write(
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
        await self._write(
            MEMORY,
            lambda state: whole(merge_lines(answer.base, "".join(state), new)),
            Author(who="consolidation", session=item.session, turn=item.turn),
            "consolidate",
            f"compressed {MEMORY} ({size_of(answer.base):,} → {size_of(new):,} bytes)",
        )

    async def _write(
        self, name: str, edit: Callable[[State], State], author: Author, kind: str, line: str
    ) -> None:
        done = await self.lines.rewrite(name, edit, author, kind, line)
        learn.report(done, self.context.emit)

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
