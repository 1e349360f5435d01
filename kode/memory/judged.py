"""Facts that are near each other and that nobody has compared. They become a line of the history,
which changes no text: what is shown says of both what is not settled, until a model has judged them
(`learn.relate`), or a person (`review`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from kode.memory.change import Pair
from kode.memory.ledger import Ledger, Statement
from kode.memory.lineage import Entry, Place
from kode.memory.nearness import local_nearness
from kode.memory.precedence import outranks

NEAR = "compare"
"""The kind of the line with pairs that wait for a judge."""
NEAR_AT = 0.3
"""As tiered's `add_threshold`: below, two facts are about different things."""
MOST_NEAR = 3
"""Facts that one new fact is paired with, the nearest."""
MOST_NEW = 20
"""New facts that are compared at a time, the newest."""
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
    fresh = sorted(
        (one for one in others if one.change and one.change.id in since), key=lambda one: -one.at
    )
    for new in fresh[:MOST_NEW]:
        how_near = local_nearness(new.text, texts)
        nearest = sorted(range(len(texts)), key=lambda at: -how_near[at])
        chosen = [others[at] for at in nearest if how_near[at] >= NEAR_AT and others[at] is not new]
        found += [frozenset((new.place, one.place)) for one in chosen[:MOST_NEAR]]
    pairs = [one for one in dict.fromkeys(found) if one not in known and not ledger.is_settled(one)]
    return tuple(_by_rank(facts, places, project) for places in pairs[:MAX_PAIRS])


def _by_rank(facts: Mapping[Place, Statement], places: Places, project: Path) -> Pair:
    """A pair with the one that counts first, by who said it and when."""
    old, new = sorted((facts[place] for place in places), key=lambda one: one.at)
    first, second = (new, old) if outranks(new, old, project) else (old, new)
    return first.place, second.place
