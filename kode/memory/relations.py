"""Decides which of several statements remain, from an answer on how they relate.

A model, or a person, says which statements mean the same, which are outdated by which, and which
contradict each other. What follows is decided here, over all relations at once: the order in which
they are listed, and a direction that was turned round, change nothing that matters. The newest
claim of the highest rank always remains.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kode.memory.statement import Rank

Pair = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Relations:
    """How statements relate, by id."""

    same: tuple[tuple[str, ...], ...] = ()
    """Groups that say the same."""
    outdated: tuple[Pair, ...] = ()
    """A statement, and the one that outdates it."""
    conflict: tuple[Pair, ...] = ()
    """Statements of which only one can hold, while nothing says which."""

    def ids(self) -> set[str]:
        return {id for group in (*self.same, *self.outdated, *self.conflict) for id in group}


NO_RELATIONS = Relations()


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What follows from relations."""

    ends: Mapping[str, str]
    """The id of each statement that is withdrawn → the remaining one that stands for it."""
    conflicts: tuple[Pair, ...]
    """Remaining statements that contradict each other; the first counts."""


def plan(relations: Relations, claimed_at: Mapping[str, str], ranks: Mapping[str, Rank]) -> Plan:
    """Which statements end, and which contradict each other, of those in `claimed_at`.

    Of statements that say the same, the one of the highest rank remains, and of these the newest. A
    statement is outdated only by one that is not older and not of a lower rank; else both remain,
    in conflict. What contradicted a statement that ends contradicts the one that stands for it.
    """

    def weight(id: str) -> tuple[Rank, str, str]:
        return ranks[id], claimed_at[id], id

    group_of = {id: frozenset([id]) for id in claimed_at}
    for ids in relations.same:
        union = frozenset[str]().union(*(group_of[id] for id in ids if id in group_of))
        group_of |= dict.fromkeys(union, union)

    def between(pairs: Iterable[Pair]) -> set[tuple[frozenset[str], frozenset[str]]]:
        both = (pair for pair in pairs if pair[0] in group_of and pair[1] in group_of)
        groups = {(group_of[first], group_of[second]) for first, second in both}
        return {(first, second) for first, second in groups if first != second}

    outdated, ends = between(relations.outdated), dict[str, str]()
    for id, group in group_of.items():
        newer = {other for old, new in outdated if old == group for other in new}
        later = [other for other in newer if (claimed_at[other], other) > (claimed_at[id], id)]
        if heirs := [other for other in later if ranks[other] >= ranks[id]]:
            ends[id] = max(heirs, key=weight)
    remaining = dict[frozenset[str], str]()
    for group in {*group_of.values()}:
        if left := [id for id in group if id not in ends]:
            remaining[group] = max(left, key=weight)
            ends |= {id: remaining[group] for id in left if id != remaining[group]}

    def last(id: str) -> str:
        """Each step leads to a later claim, or to the one that remains: there is no circle."""
        return last(ends[id]) if id in ends else id

    def heir(group: frozenset[str]) -> str:
        return remaining.get(group) or last(max(group, key=weight))

    rivals = {(first, second) for first, second in outdated if {first, second} <= {*remaining}}
    both = ({heir(first), heir(second)} for first, second in rivals | between(relations.conflict))
    pairs = {tuple(sorted(pair, key=weight, reverse=True)) for pair in both if len(pair) == 2}
    return Plan(
        ends={id: last(id) for id in sorted(ends)},
        conflicts=tuple(sorted((first, second) for first, second in pairs)),
    )
