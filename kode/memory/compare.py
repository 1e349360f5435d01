"""Finds facts that contradict each other, where a system writes them without comparing: one
question when a session ends, about the facts that are new and what is near them.

What the model says is a line of the history. No text is changed by it: whatever is shown says of
both what is not settled, and a person decides (`review`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kode import credentials
from kode.memory import question
from kode.memory.ask import MemoryModel
from kode.memory.history import Change, Pair
from kode.memory.ledger import Ledger, Statement
from kode.memory.lineage import Entry, Place
from kode.memory.nearness import local_nearness
from kode.memory.precedence import rank, supersedes

PAIRS = "pairs"
"""Where the history has the lines about pairs of texts, which change none of them."""
KIND = "compare"
NEAR_AT = 0.3
"""As tiered's `add_threshold`: below, two facts are about different things."""
MOST_NEAR = 3
"""Facts that one new fact is compared with, the nearest."""
MAX_PAIRS = 40
"""Pairs of one question; the others wait for the next."""

Places = frozenset[Place]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What to record: the fields of a change."""

    near: tuple[Pair, ...] = ()
    against: tuple[Pair, ...] = ()
    settled: tuple[Pair, ...] = ()


def is_about_pairs(change: Change) -> bool:
    """Whether a line says something about texts and changes none."""
    return change.target == PAIRS


async def compare(
    ledger: Ledger, entries: Sequence[Entry], project: Path, door: MemoryModel, timeout_s: float
) -> Compared | None:
    """Compares what is new among the facts with the others, by one question; without an answer the
    pairs wait for the next session's end. None if there is nothing to record. `project` is the
    base of cited paths. Raises: StorageError."""
    facts = {entry.place: ledger.statement(entry) for entry in entries}
    waiting = {
        one.places for one in ledger.disputes() if not one.contradict and one.places <= facts.keys()
    }
    pairs = list(dict.fromkeys((*waiting, *_near(ledger, facts))))[:MAX_PAIRS]
    if not pairs:
        return None
    shown = _shown(facts, pairs)
    lines = await _ask(door, shown, timeout_s) if door.usable else None
    if lines is None:
        near = tuple(sides_of(project, facts, places) for places in pairs if places not in waiting)
        return Compared(near=near) if near else None
    said = {frozenset((shown[one.line - 1].place, shown[one.of - 1].place)): one for one in lines}
    against = [
        places
        for places, one in said.items()
        if one.how != "repeats" and not ledger.is_settled(places)
    ]
    settled = [places for places in pairs if places not in against]
    return Compared(
        against=tuple(sides_of(project, facts, places) for places in against),
        settled=tuple(sides_of(project, facts, places) for places in settled),
    )


def _near(ledger: Ledger, facts: Mapping[Place, Statement]) -> list[Places]:
    """The pairs of a fact that nobody has compared yet and one that is near."""
    steps = ledger.steps()
    last = max((at for at, one in enumerate(steps) if one.change.kind == KIND), default=-1)
    since = {one.change.id for one in steps[last + 1 :]}
    known = {one.places for one in ledger.disputes()}
    others = list(facts.values())
    texts = [one.text for one in others]
    found = list[Places]()
    for new in (one for one in others if one.change and one.change.id in since):
        near = local_nearness(new.text, texts)
        nearest = sorted(range(len(texts)), key=lambda at: -near[at])
        chosen = [others[at] for at in nearest if near[at] >= NEAR_AT and others[at] is not new]
        found += [frozenset((new.place, one.place)) for one in chosen[:MOST_NEAR]]
    return [one for one in found if one not in known and not ledger.is_settled(one)]


def _shown(facts: Mapping[Place, Statement], pairs: Sequence[Places]) -> list[Statement]:
    """The facts for the question: all if they fit, else the sides of the pairs."""
    if sum(len(one.text) for one in facts.values()) <= question.KNOWN_CHARS:
        return list(facts.values())
    return [facts[place] for place in dict.fromkeys(place for pair in pairs for place in pair)]


async def _ask(
    door: MemoryModel, shown: Sequence[Statement], timeout_s: float
) -> tuple[question.Relation, ...] | None:
    prompt = question.build("", [credentials.redact(one.text) for one in shown])
    answer = await door.ask(
        question.INSTRUCTIONS,
        prompt,
        max_output_tokens=question.MAX_OUTPUT_TOKENS,
        timeout_s=timeout_s,
        patient=True,
    )
    return question.read(answer.text or "", len(shown)).lines if answer.text else None


def sides_of(project: Path, facts: Mapping[Place, Statement], places: Places) -> Pair:
    """A pair with the one that holds first, by who said it and when."""
    old, new = sorted((facts[place] for place in places), key=lambda one: one.at)
    wins = supersedes(rank(new, project, old.text), rank(old, project, new.text))
    first, second = (new, old) if wins else (old, new)
    return first.place, second.place
