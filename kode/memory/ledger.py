"""What is true by the history alone: a fold over its lines into statements, each with its past,
what it rests on, and what became of it.

A line that adds a text begins a statement; one that replaces or merges it supersedes it; one that
removes it withdraws it. A line that was undone counts as never written, so that undo and redo
need no rule of their own. The lines are folded once and then only those that are new; an undo makes
all be folded again, from memory.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import SequenceMatcher
from functools import cached_property
from typing import Literal

from kode.memory.change import Change, Pair
from kode.memory.history import History, Lines
from kode.memory.lineage import Entry, Place

Sides = Callable[[Change], tuple[Sequence[Entry], Sequence[Entry]]]
"""The entries before and after a change, in a system's layout."""
PAIRS = "pairs"
"""What lines of the history change that say something about pairs of texts, and change none."""
State = Literal["current", "archived", "superseded", "withdrawn"]

JUDGED = frozenset({"merge", "supersede"})
"""Kinds of changes in which one of two texts was chosen; `before` ends with the newer."""
RESTATING = frozenset({"supersede", "replace", "by-hand"})
"""Kinds in which a text that says otherwise took the place of another."""

_WORD = re.compile(r"[^\W_]+(?:[./:@'’_-]+[^\W_]+)*")


@dataclass(eq=False, kw_only=True)
class Statement:
    """One text in its place, from the line that began it to the one that ended it."""

    entry: Entry
    change: Change | None
    """The line that began it; None if that is not recorded."""
    made_of: tuple["Statement", ...] = ()
    """What it replaced, both sides of a merge, or itself before a confirmation."""
    terms: Change | None = None
    """The line that says what it rests on and how long it holds; None if none does."""
    ended: Change | None = None
    """The line that superseded or withdrew it."""
    into: list["Statement"] = field(default_factory=list)
    """What superseded it; empty if it was withdrawn."""
    archived: bool = False
    at: int = -1
    """Its number, in the order in which they became known."""

    @property
    def place(self) -> Place:
        return self.entry.place

    @property
    def text(self) -> str:
        return self.entry.text

    @cached_property
    def words(self) -> str:
        """As `words_of` its text."""
        return words_of(self.text)

    @property
    def state(self) -> State:
        if self.ended is not None:
            return "superseded" if self.into else "withdrawn"
        return "archived" if self.archived else "current"

    @property
    def now(self) -> "Statement | None":
        """The statement that it has become; itself while it holds, None if that was withdrawn."""
        one: Statement | None = self
        while one is not None and one.ended is not None:
            one = one.into[-1] if one.into else None
        return one


@dataclass(frozen=True, kw_only=True)
class Step:
    """An effective change in terms of entries."""

    change: Change
    lost: tuple[Entry, ...]
    """Entries it removed or transformed."""
    made: Mapping[Place, tuple[Entry, ...]]
    """Entries it created by place, each with the entries it was made of."""
    left: Mapping[Place, Entry]
    """All entries afterwards."""

    @property
    def gone(self) -> list[Place]:
        """The places of the lost entries."""
        return [entry.place for entry in self.lost]

    @property
    def back(self) -> list[Place]:
        """Entries it left that existed before, and did not create."""
        return [place for place in self.left if place not in self.made]


@dataclass(frozen=True, kw_only=True)
class Dispute:
    """Two statements of which nobody has decided whether they may stand side by side."""

    first: Statement
    second: Statement
    contradict: bool
    """Whether they are known to contradict each other: then the person decides, else a judge."""

    @property
    def places(self) -> frozenset[Place]:
        return frozenset((self.first.place, self.second.place))

    @property
    def now(self) -> "Dispute | None":
        """The same between what both have become, the older first: it outlives the restating of a
        side, but what a new text says of the other is for the judge again."""
        first, second = self.first.now, self.second.now
        if first is None or second is None or first is second:
            return None
        if {first.place, second.place} == self.places:
            return replace(self, first=first, second=second)
        first, second = sorted((first, second), key=lambda one: one.at)
        return Dispute(first=first, second=second, contradict=False)


class Ledger:
    """The statements of one system, by the history of a memory folder. Every question reads what is
    new in it. Raises: StorageError."""

    def __init__(self, history: History, system: str, sides: Sides) -> None:
        self._history = history
        self._system = system
        self._sides = sides
        self._steps: dict[str, Step] = {}
        self._generation: object = None
        self._begin()

    def _begin(self) -> None:
        self._read = 0
        self._in_order: list[Step] = []
        self._at_step: dict[str, int] = {}
        self._all: list[Statement] = []
        self._standing: dict[Place, Statement] = {}
        self._last: dict[Place, Statement] = {}
        self._disputes: list[Dispute] = []
        self._settled: set[frozenset[Place]] = set()

    def standing(self) -> Mapping[Place, Statement]:
        """The statements that hold, archived ones too, by place."""
        return self._folded()._standing

    def statements(self) -> Sequence[Statement]:
        """All statements, in the order in which they became known."""
        return self._folded()._all

    def statement(self, entry: Entry) -> Statement:
        """The latest one in the place of an entry, which the history may not know."""
        found = self._folded()._last.get(entry.place)
        return found or Statement(entry=entry, change=None)

    def ended(self) -> list[Statement]:
        """The latest ones of their places that hold no more, most recently ended first."""
        self._folded()
        found = ((one, one.ended) for one in self._last.values())
        gone = [(self._at_step[end.id], one) for one, end in found if end is not None]
        return [one for _, one in sorted(gone, key=lambda it: -it[0])]

    def superseded(self) -> list[Statement]:
        """Those of them that were replaced."""
        return [one for one in self.ended() if one.into]

    def disputes(self) -> list[Dispute]:
        """What waits for a judge or the person, between what both sides have become."""
        found: dict[frozenset[Place], Dispute] = {}
        for one in filter(None, (dispute.now for dispute in self._folded()._disputes)):
            if one.contradict or one.places not in found:
                found[one.places] = one
        return list(found.values())

    def is_settled(self, places: frozenset[Place]) -> bool:
        """Whether it was decided that the two statements in these places stand side by side."""
        return places in self._folded()._settled

    def steps(self) -> Sequence[Step]:
        """All effective changes, oldest first."""
        return self._folded()._in_order

    def as_of(self, entries: Iterable[Entry], moment: datetime) -> list[Entry]:
        """Which of `entries`, those of today, there were at a moment, with those that are gone
        since; one written by hand counts as having always existed."""
        standing = {entry.place: entry for entry in entries}
        for change in self._history.changes(self._system):
            if datetime.fromisoformat(change.at) <= moment:
                continue
            before, after = self._sides(change) if change.before or change.after else ((), ())
            for entry in after:
                standing.pop(entry.place, None)
            there = before[:-1] if brings_newer(change) else before
            standing.update({entry.place: entry for entry in there})
        return sorted(standing.values(), key=lambda entry: entry.target)

    # ── the fold ─────────────────────────────────────────────────────────────────────────────

    def _folded(self) -> "Ledger":
        lines = self._history.lines()
        if lines.generation is not self._generation:
            self._steps.clear()
            self._generation = lines.generation
            self._begin()
        if any(one.undoes and one.system == self._system for one in lines[self._read :]):
            self._begin()
        new = lines[self._read :]
        self._read = len(lines)
        for change in new:
            if change.system == self._system and not change.undoes:
                self._fold(change, lines)
        return self

    def _fold(self, change: Change, lines: Lines) -> None:
        if not lines.counts(change):
            undo = lines.undo_of(change)
            if undo is not None and not undo.is_mark and change.kind in JUDGED:
                self._both_again(change)
            return
        step = self._steps.get(change.id) or step_of(self._sides, change)
        self._steps[change.id] = step
        self._at_step[change.id] = len(self._in_order)
        self._in_order.append(step)
        self._apply(step)
        for pairs, contradict in ((change.near, False), (change.against, True)):
            for pair in pairs:
                first, second = (self._at(side) for side in pair)
                self._disputes.append(Dispute(first=first, second=second, contradict=contradict))
        for pair in settled_by(change):
            self._settle(frozenset(pair))

    def _apply(self, step: Step) -> None:
        change, made = step.change, list[Statement]()
        lost = [self._known(entry, step) for entry in step.lost]
        for place, of in step.made.items():
            made_of = tuple(self._known(entry, step) for entry in of)
            same = next((one for one in made_of if one.place == place), None)
            terms = change if says_terms(change) else same.terms if same else None
            archived = same is not None and same.archived
            made.append(
                Statement(
                    entry=step.left[place],
                    change=change,
                    made_of=made_of,
                    terms=terms,
                    archived=archived,
                )
            )
        for one in lost:
            one.ended, one.into = change, [new for new in made if one in new.made_of]
            self._standing.pop(one.place, None)
        for one in made:
            self._stand(one)
        for place in step.back:
            if place not in self._standing:
                again = self._last.get(place)
                if again is None:
                    self._stand(Statement(entry=step.left[place], change=None))
                else:
                    again.ended, again.into = None, []
                    self._standing[place] = again
        older = self._last.get((change.target, change.supersedes)) if change.supersedes else None
        if older is not None and older.ended is not None:
            older.ended, older.into = change, made[-1:]
        for at, text in enumerate(change.after):
            if (one_left := self._standing.get((change.target, text))) is not None:
                one_left.archived = at in change.archived

    def _known(self, entry: Entry, step: Step) -> Statement:
        """The statement that a change found there. The newer of two texts may never have stood: the
        change that chose between them brought it."""
        found = self._standing.get(entry.place)
        if found is None:
            found_extensions = brings_newer(step.change) and entry.key == step.change.before[-1]
            change = step.change if found_extensions else None
            terms = change if change is not None and says_terms(change) else None
            found = Statement(entry=entry, change=change, terms=terms)
            self._stand(found)
        return found

    def _both_again(self, change: Change) -> None:
        """Of a choice that was undone both texts are there; where one had superseded the other, it
        is open again which holds."""
        before = self._sides(change)[0]
        if len(before) != 2:
            return
        first, second = (self._standing.get(entry.place) for entry in before)
        if second is None and brings_newer(change):
            second = Statement(entry=before[1], change=change)
            self._stand(second)
        if change.kind == "supersede" and first is not None and second is not None:
            self._disputes.append(Dispute(first=first, second=second, contradict=True))

    def _at(self, side: tuple[str, str]) -> Statement:
        found = self._standing.get(side)
        if found is None:
            found = Statement(entry=Entry(target=side[0], key=side[1], text=side[1]), change=None)
            self._stand(found)
        return found

    def _stand(self, one: Statement) -> None:
        one.at = len(self._all)
        self._all.append(one)
        self._last[one.place] = self._standing[one.place] = one

    def _settle(self, places: frozenset[Place]) -> None:
        self._settled.add(places)
        self._disputes = [
            one for one in self._disputes if (now := one.now) is None or now.places != places
        ]


def words_of(text: str) -> str:
    """The words of a text between spaces, as one text is looked for in another."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def step_of(sides: Sides, change: Change) -> Step:
    """One change in terms of entries."""
    before, after = sides(change) if change.before or change.after else ((), ())
    was = {entry.place: entry for entry in before}
    left = {entry.place: entry for entry in after}
    made = dict(_made(change, was, left))
    lost = tuple(one for place, one in was.items() if place not in left or place in made)
    return Step(change=change, lost=lost, made=made, left=left)


def brings_newer(change: Change) -> bool:
    """Whether a change that chose between two texts itself wrote the newer one."""
    return change.kind in JUDGED and change.who in ("user", "model", "extraction")


def is_restated(one: Statement) -> bool:
    """Whether a statement says otherwise than one before it."""
    change = one.change
    return change is not None and change.kind in RESTATING and bool(one.made_of)


def says_terms(change: Change) -> bool:
    """Whether what a change wrote rests on code, holds for a time, or was confirmed."""
    return bool(change.source_hash or change.since or change.until or change.kind == "confirm")


def settled_by(change: Change) -> tuple[Pair, ...]:
    """The pairs that a change settles; an older one names them by its texts."""
    if change.kind == "settle" and not change.settled and change.before[1:]:
        return (((change.target, change.before[0]), (change.target, change.before[-1])),)
    return change.settled


def _made(
    change: Change, was: Mapping[Place, Entry], left: Mapping[Place, Entry]
) -> Iterator[tuple[Place, tuple[Entry, ...]]]:
    if change.kind == "forget":
        return  # restored texts existed before
    if change.kind in (*JUDGED, "settle") and len(left) == 1:
        yield from ((place, tuple(was.values())) for place in left)
        return
    if change.kind in ("confirm", "settle"):
        yield from ((place, (entry,)) for place, entry in left.items())
        return
    yield from (
        (place, (was[place],))
        for place, entry in left.items()
        if place in was and was[place].text != entry.text
    )
    named = _named(was, left)
    known = {*was, *named.values()}
    yield from ((new, (was[old],)) for old, new in named.items())
    for places, others in _differing(list(was), list(left)):
        replaced = tuple(was[place] for place in places if place not in left and place not in named)
        yield from ((place, replaced) for place in others if place not in known)


def _named(was: Mapping[Place, Entry], left: Mapping[Place, Entry]) -> dict[Place, Place]:
    """Each text that is gone → the one that is new of the same subject, where both are the only
    ones: so each line of a rewritten file has its own."""
    gone, new = (_by_subject(side) for side in (was, left))
    both = ((gone[subject], new[subject]) for subject in gone if subject in new)
    return {old: now for old, now in both if old not in left and now not in was}


def _by_subject(side: Mapping[Place, Entry]) -> dict[str, Place]:
    """Each subject that one entry alone has → its place."""
    counts = Counter(one.subject for one in side.values())
    return {
        one.subject: place
        for place, one in side.items()
        if one.subject and counts[one.subject] == 1
    }


def _differing(
    old: Sequence[Place], new: Sequence[Place]
) -> Iterator[tuple[Sequence[Place], Sequence[Place]]]:
    """The runs in which two sequences differ. What they share at both ends is set aside first: of a
    whole file that gained a line hardly anything is left to compare."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    if not old or not new or len(old) == len(new) == 1:
        yield old, new
        return
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    yield from ((old[a:b], new[c:d]) for _, a, b, c, d in matcher.get_opcodes())
