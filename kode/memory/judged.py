"""Facts that may contradict each other: near ones that nobody has judged, and what a model says of
them at the end of a session. It becomes a line of the history, which changes no text: what is shown
says of both what is not settled, and a person decides (`review`).
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kode.memory.change import Pair
from kode.memory.ledger import Ledger, Statement
from kode.memory.lineage import Entry, Place
from kode.memory.nearness import local_nearness
from kode.memory.precedence import rank, supersedes
from kode.memory.question import KNOWN_CHARS, Relation

NEAR = "compare"
"""The kind of the line with pairs that wait for a judge."""
NEAR_AT = 0.3
"""As tiered's `add_threshold`: below, two facts are about different things."""
MOST_NEAR = 3
"""Facts that one new fact is paired with, the nearest."""
MAX_PAIRS = 40
"""Pairs of one line."""

Places = frozenset[Place]


def near(ledger: Ledger, entries: Sequence[Entry], project: Path) -> tuple[Pair, ...]:
    """The pairs of a fact that is new since the last such line and one that is near it. `project`
    is the base of cited paths."""
    facts = {entry.place: ledger.statement(entry) for entry in entries}
    steps = ledger.steps()
    last = max((at for at, one in enumerate(steps) if one.change.kind == NEAR), default=-1)
    since = {one.change.id for one in steps[last + 1 :]}
    known = {one.places for one in ledger.disputes()}
    others = list(facts.values())
    texts = [one.text for one in others]
    found = list[Places]()
    for new in (one for one in others if one.change and one.change.id in since):
        how_near = local_nearness(new.text, texts)
        nearest = sorted(range(len(texts)), key=lambda at: -how_near[at])
        chosen = [others[at] for at in nearest if how_near[at] >= NEAR_AT and others[at] is not new]
        found += [frozenset((new.place, one.place)) for one in chosen[:MOST_NEAR]]
    pairs = [one for one in dict.fromkeys(found) if one not in known and not ledger.is_settled(one)]
    return tuple(_by_rank(facts, places, project) for places in pairs[:MAX_PAIRS])


def shown(ledger: Ledger, entries: Sequence[Entry]) -> list[Entry]:
    """The facts for the question: all if they fit, else the sides of the pairs that wait."""
    if sum(len(one.text) for one in entries) <= KNOWN_CHARS:
        return list(entries)
    waiting = (pair.places for pair in ledger.disputes() if not pair.contradict)
    sides = {place for places in waiting for place in places}
    return [one for one in entries if one.place in sides]


def verdict(
    ledger: Ledger,
    entries: Sequence[Entry],
    asked: Sequence[Place],
    lines: Iterable[Relation],
    project: Path,
) -> dict[str, tuple[Pair, ...]]:
    """The fields of the line with what a model said of the facts in the places that it was asked
    about, as far as they still stand; empty if it says nothing new. Two of which nothing was said,
    or that one repeats the other, stand side by side."""
    facts = {entry.place: ledger.statement(entry) for entry in entries}
    named = {frozenset((asked[one.line - 1], asked[one.of - 1])): one.how for one in lines}
    known = {one.places: one for one in ledger.disputes() if one.places <= {*asked}}
    is_open = {places for places, one in known.items() if not one.contradict}
    against = [
        places
        for places, how in named.items()
        if how != "repeats"
        and len(places) == 2
        and places <= facts.keys()
        and (places in is_open or not (places in known or ledger.is_settled(places)))
    ]
    settled = [places for places in known if places in is_open and places not in against]
    fields = {"against": against, "settled": settled}
    return {
        name: tuple(_by_rank(facts, places, project) for places in pairs if places <= facts.keys())
        for name, pairs in fields.items()
        if pairs
    }


def _by_rank(facts: Mapping[Place, Statement], places: Places, project: Path) -> Pair:
    """A pair with the one that counts first, by who said it and when."""
    old, new = sorted((facts[place] for place in places), key=lambda one: one.at)
    wins = supersedes(rank(new, project, old.text), rank(old, project, new.text))
    first, second = (new, old) if wins else (old, new)
    return first.place, second.place
