"""What an ended session brings, in every system: the one question about it, and the one way in
which its answer changes what is known.

`Facts` is what a system says of its facts: where they stand, and how one takes another's place.
`apply` writes what an answer says of them, `relate` what it says of known ones. `Learner` is the
job of the queue of ended sessions: it asks, stores the answer, and then uses it, so that each step
can be repeated after a kill.
"""

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kode import credentials
from kode.contracts import MemoryContext, Request
from kode.errors import BusyError, MemoryRefused
from kode.events import Emit, MemoryChanged, Notice
from kode.memory import judged, question, scan, standing
from kode.memory.ask import MemoryModel
from kode.memory.base import WORDS_CHARS, Outcome
from kode.memory.change import Author, Pair
from kode.memory.frame import MAX_PART_CHARS
from kode.memory.history import History
from kode.memory.ledger import PAIRS, Dispute, Ledger, Statement
from kode.memory.lineage import Entry, Place
from kode.memory.precedence import outranks, rank, source_rank, supersedes
from kode.memory.question import Fact, Found, How, Relation
from kode.memory.queue import Item, Queue, work
from kode.memory.source import citing
from kode.memory.stored import read_row
from kode.memory.waiting import FOUND_BY, came_from, propose
from kode.messages import plural, shorten, text_of, user_message

QUOTED_CHARS = 80
COMPRESS = """\
The known facts have {size} bytes, over their limit of {limit}. Compress them: give besides, as \
"memory_update", the whole of this file: prune stale and low-value facts, say the same in less, \
and keep what still matters.

{memory}"""
COMPRESSED_TOKENS = 8_000


@dataclass(kw_only=True)
class Facts:
    """The facts of a system, as seen from one project. What cannot be written raises MemoryRefused,
    StorageError or BusyError, and then nothing changed."""

    system: str
    history: History
    ledger: Ledger
    project: Path
    """The base of cited paths."""
    keeps_unsaid: bool = False
    """Whether facts are kept that rest on no words of the person: where the model has no tool to
    save them."""

    def standing(self) -> Sequence[Entry]:
        """All of them, in the order of a prompt."""
        raise NotImplementedError

    def among(self, places: Collection[Place]) -> Mapping[Place, Entry]:
        """Those that stand in these places."""
        return {one.place: one for one in self.standing() if one.place in places}

    def pairs(self) -> list[Dispute]:
        """The pairs that stand and wait, for a model's word or the person's."""
        found = self.ledger.disputes()
        there = self.among({place for one in found for place in one.places}) if found else {}
        return [one for one in found if one.places <= there.keys()]

    def unjudged(self) -> list[Dispute]:
        """Those that wait for a model's word."""
        return [one for one in self.pairs() if not one.contradict]

    async def chosen(self, item: Item, now: datetime) -> Sequence[Entry]:
        """Those that a question shows, in order: all, if they fit, else the sides of the pairs that
        wait, and by turns those nearest to what the person said and the newest."""
        facts, known = self.standing(), self.ledger.standing()
        waiting = {place for pair in self.unjudged() for place in pair.places}
        ages = [known[one.place].at if one.place in known else -1 for one in facts]
        shown = question.to_show(
            [one.text for one in facts],
            "\n".join(item.said) or item.text,
            now,
            first=[at for at, one in enumerate(facts) if one.place in waiting],
            newest=sorted(range(len(facts)), key=lambda at: -ages[at]),
        )
        return [facts[at] for at in shown]

    def worded(self, fact: Fact, old: Entry | None) -> Place:
        """The target of a new fact, and its text as it will stand there; `old` is the one it is
        about."""
        raise NotImplementedError

    async def learn(
        self, fact: Fact, author: Author, item: Item, old: Entry | None, *, wins: bool, ends: bool
    ) -> tuple[Outcome, Entry | None]:
        """Adds a fact; in the place of `old` if it `ends` that, else in dispute with it, where the
        one that `wins` counts until the person decides. Returns it as it stands."""
        raise NotImplementedError

    async def join(
        self, older: Statement, newer: Statement, how: How, author: Author
    ) -> Outcome | None:
        """Keeps one of two facts that stand; None if both have to stay."""
        return None

    async def withdraw(self, entry: Entry, author: Author) -> Outcome:
        """Removes a fact that the person took back."""
        change = await standing.remove(self.history, entry, author)
        line = f'removed "{shorten(entry.text, QUOTED_CHARS)}"'
        return Outcome(line=line, change_id=change.id)

    def pair_up(self, author: Author) -> None:
        """Records which new facts are near others: both are marked until a model has judged them.
        Raises: StorageError."""
        if near := judged.near(self.ledger, self.standing(), self.project):
            self.history.record(author, self.system, judged.NEAR, PAIRS, near=near)

    async def propose(self, fact: Fact, author: Author, item: Item) -> Outcome:
        """Lets a fact of a session with outside text wait for the person."""
        waits = await propose(
            self.history,
            fact.text,
            fact.about,
            client=FOUND_BY,
            project=self.project,
            author=author,
            source=came_from(item.session, item.outside),
        )
        line = f'"{shorten(fact.text, QUOTED_CHARS)}" waits in `kode memory review`'
        return Outcome(line=line, change_id=waits.id if waits else "")


async def apply(facts: Facts, item: Item, found: Found, shown: Sequence[Place], emit: Emit) -> None:
    """Writes what an answer says of the facts, of which `shown` were in the question. Outside text
    may have worded all of it, so of a session that took in any, a fact waits unless it is the
    person's own sentence, and no line loses another. Raises: StorageError, BusyError."""
    there = facts.among({*shown})
    gone = {
        (one.entry.target, one.text): one.ended.session
        for one in facts.ledger.ended()
        if one.ended is not None
    }
    by_number = {number: there.get(place) for number, place in enumerate(shown, 1)}
    refused = list[str]()
    for fact in found.facts:
        try:
            by_number[fact.number] = await _take(facts, item, fact, by_number, gone, emit)
        except MemoryRefused as error:
            refused.append(str(error))
    if refused:
        emit(
            Notice(text=f"{len(refused)} facts are only in the note of their session. {refused[0]}")
        )
    if item.tainted:
        return
    for one in found.withdrawn:
        entry = by_number.get(one.line)
        if entry is not None and question.stands_in(one.words, item.said):
            with suppress(MemoryRefused):  # somebody else has removed it
                report(await facts.withdraw(entry, _author(item, one.words)), emit)
    if found.lines is not None:
        author = Author(who="merge", session=item.session or None)
        for done in await relate(facts, found.lines, shown, author, emit):
            report(done, emit)


async def _take(
    facts: Facts,
    item: Item,
    fact: Fact,
    by_number: dict[int, Entry | None],
    gone: Mapping[Place, str | None],
    emit: Emit,
) -> Entry | None:
    """Writes a fact if it is new; returns it as it stands, None if it does not. `gone` is what had
    ended before the answer was used, with the session that ended it."""
    old = by_number.get(fact.line)
    if fact.how == "repeats":
        return old
    target, text = facts.worded(fact, old)
    if known := [one for one in by_number.values() if one and one.text == text]:
        return known[0]
    said = question.stands_in(fact.words, item.said)
    # What the session itself withdrew or changed is no news of it; what another one did is said
    # again by the person alone.
    is_over = (target, text) in gone and (not said or gone[target, text] == item.session)
    if is_over or not (said or facts.keeps_unsaid):
        return None
    author = _author(item, fact.words if said else "")
    if item.tainted and not question.stands_in(fact.text, item.said):
        report(await facts.propose(fact, author, item), emit)
        return None
    scan.check(fact.text)
    with suppress(MemoryRefused):  # there are no such lines
        author = citing(author, facts.project, fact.source)
    wins = old is not None and supersedes(
        source_rank(author, text, old.text), rank(facts.ledger.statement(old), facts.project, text)
    )
    ends = wins and fact.how == "changes" and not item.tainted
    done, entry = await facts.learn(fact, author, item, old, wins=wins, ends=ends)
    report(done, emit)
    if ends:
        by_number[fact.line] = None
    return entry


async def relate(
    facts: Facts, relations: Sequence[Relation], asked: Sequence[Place], author: Author, emit: Emit
) -> list[Outcome]:
    """Applies what a model, to whom the facts in these places were shown, said of pairs of them,
    also of such that nobody was waiting for. A pair that waited, and of which it said nothing,
    stands side by side; of two that contradict each other, and cannot become one, the person
    decides. Returns the changes. Raises: StorageError, BusyError."""
    ledger = facts.ledger
    said = (((asked[one.of - 1], asked[one.line - 1]), one.how) for one in relations)
    named: dict[frozenset[Place], tuple[tuple[Place, ...], How]] = {
        frozenset(sides): (sides, how) for sides, how in said
    }
    waiting = {one.places: one for one in ledger.disputes() if one.places <= {*asked}}
    there = facts.among({*asked})
    changes, settled, against = list[Outcome](), list[Pair](), list[Pair]()
    for places in {**waiting, **named}:
        pair = waiting.get(places)
        sides, how = named.get(places, (tuple(places), "new"))
        is_decided = pair.contradict if pair else ledger.is_settled(places)
        if is_decided or len(places) < 2 or not places <= there.keys():
            continue
        # The model knows what two lines say, the ledger which of them was said last: not the one
        # that it learnt of as a side of a pair.
        of = (ledger.statement(there[place]) for place in sides)
        older, newer = sorted(of, key=lambda one: (one.change is not None, one.at))
        if older.ended or newer.ended:
            continue
        wins, done = outranks(newer, older, facts.project), None
        if how == "repeats" or (how == "changes" and wins):
            done = await facts.join(older, newer, how, author)
        if done is not None:
            changes.append(done)
        elif how in ("new", "repeats"):
            settled.append((older.place, newer.place))
        else:
            first, second = (newer, older) if wins else (older, newer)
            against.append((first.place, second.place))
    now = {one.places: one.contradict for one in ledger.disputes()}  # others may be faster
    settled = [one for one in settled if now.get(frozenset(one)) is False]
    against = [one for one in against if not now.get(frozenset(one))]
    pairs = {"settled": tuple(settled), "against": tuple(against)}
    if settled or against:
        kind = "dispute" if against else "settle"
        values: dict[str, Any] = {name: value for name, value in pairs.items() if value}
        facts.history.record(author, facts.system, kind, PAIRS, **values)
    if against:
        text = (
            f"{plural(len(against), 'pair')} of facts contradict each other. Both stay until you "
            "decide: `kode memory review`."
        )
        emit(Notice(text=text, level="info"))
    return changes


def report(done: Outcome, emit: Emit) -> None:
    """Lists a change among those of the session's end."""
    if done.change_id:
        emit(MemoryChanged(text=done.line, change_id=done.change_id, of_session=True))


def _author(item: Item, words: str) -> Author:
    return Author(
        who="extraction",
        session=item.session,
        turn=item.turn,
        words=shorten(credentials.redact(words), WORDS_CHARS),
    )


# ── the question ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Answer:
    """As the queue keeps it."""

    text: str
    at: str = ""
    """When it came, ISO."""
    shown: tuple[Place, ...] = ()
    """Where the known lines of the question stand, in its order."""
    base: str = ""
    """The file that it was to say in less."""


@dataclass(kw_only=True)
class Learner:
    """The `Job` of a queue of ended sessions. A system says what its facts are and writes its note;
    an item without a text is about known facts alone, and leaves no note."""

    context: MemoryContext
    queue: Queue
    door: MemoryModel
    timeout_s: float
    """Of one question, unless the server is known to need longer."""
    attempts: int
    only_finished: bool = False
    """Whether an answer that was cut off is none."""
    limit_bytes: int = 0
    """Of the file of facts; over it, the question asks to say it in less. 0 for none."""

    def facts(self, item: Item) -> Facts:
        """The facts as seen from the item's project."""
        raise NotImplementedError

    def so_far(self, item: Item) -> str:
        """The note of a session that was continued."""
        return ""

    def to_compress(self) -> str:
        """The file of facts, if it is over its limit."""
        return ""

    def item(
        self, id: str, turn: int | None, text: str, said: Sequence[str], tainted: bool, more: Any
    ) -> Item:
        """What a session leaves now; `said` is what the person typed, `more` the dataclass of
        `Item.more`."""
        context = self.context
        tainted = tainted or context.tainted()
        return Item(
            id=id,
            session=context.session_id or "",
            turn=turn,
            at=context.now().astimezone(UTC).isoformat(timespec="seconds"),
            text=text,
            said=tuple(credentials.redact(one[:MAX_PART_CHARS]) for one in said),
            tainted=tainted,
            outside=context.outside() if tainted else "",
            more=asdict(more),
        )

    async def note(self, item: Item, found: Found, answer: Answer) -> None:
        """Writes the note on a session, unless it is there."""
        raise NotImplementedError

    async def ask_within(self, item: Item, timeout_s: float) -> bool:
        """Does a stored item within `timeout_s`; whether nothing is left to do. Raises:
        StorageError, MemoryRefused; CancelledError, with the item in the queue."""
        try:
            async with asyncio.timeout(timeout_s):
                return await work(self.queue, self, item.id, timeout_s=timeout_s)
        except (TimeoutError, BusyError):
            if (left := self.queue.read(item.id)) is not None:
                await self.fail(left, f"no answer within {round(timeout_s, 1):g} s")
            return False

    # ── the job ──────────────────────────────────────────────────────────────────────────────

    def is_answered(self, item: Item) -> bool:
        return bool(item.answer)

    async def do(self, item: Item) -> str:
        answer = read_answer(item.answer)
        if answer is None:
            answer, why = await self._ask(item)
            if answer is None:
                return why
            item = replace(item, answer=json.dumps(asdict(answer), ensure_ascii=False))
            self.queue.write(item)
        found = question.read(answer.text, len(answer.shown))
        if not found.narrative and (item.text or found.lines is None):
            self.queue.write(replace(item, answer=""))
            return "the answer holds no note of the session"
        if item.text:
            await self.note(item, found, answer)
        await apply(self.facts(item), item, found, answer.shown, self.context.emit)
        self.queue.finish(item)
        return ""

    async def fail(self, item: Item, why: str) -> None:
        if not item.text:  # the next question shows the facts again
            self.queue.finish(item)

    async def give_up(self, item: Item, why: str) -> None:
        self.queue.finish(item)

    async def _ask(self, item: Item) -> tuple[Answer | None, str]:
        """The answer, or why there is none."""
        now, base = self.context.now(), credentials.redact(self.to_compress())
        facts = self.facts(item)
        shown = facts.standing() if base else await facts.chosen(item, now)
        prompt = question.build(
            f"The transcript of a session:\n\n{item.text}" if item.text else "",
            [credentials.redact(one.text) for one in shown],
            so_far=self.so_far(item),
        )
        if base:
            size, limit = len(base.encode(errors="replace")), self.limit_bytes
            prompt += "\n\n" + COMPRESS.format(size=size, limit=limit, memory=base)
        request = Request(
            system=question.INSTRUCTIONS,
            messages=(user_message(prompt),),
            max_output_tokens=COMPRESSED_TOKENS if base else question.MAX_OUTPUT_TOKENS,
        )
        reply = await self.door.reply(request, timeout_s=self.timeout_s, patient=True)
        if reply.message is None:
            return None, reply.detail or reply.failure
        if self.only_finished and reply.message.stop != "end":
            return None, f"the answer was not finished ({reply.message.stop})"
        return Answer(
            text=credentials.redact(text_of(reply.message)),
            at=now.isoformat(),
            shown=tuple((one.target, credentials.redact(one.key)) for one in shown),
            base=base,
        ), ""


def read_answer(saved: str) -> Answer | None:
    """A stored answer; None for none."""
    return read_row(Answer, saved.encode(errors="replace")) if saved else None
