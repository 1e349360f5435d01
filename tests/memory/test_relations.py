"""What remains of statements that repeat, outdate or contradict each other."""

from itertools import permutations, product
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from kode.memory.statement import (
    Author,
    Pair,
    Rank,
    Relations,
    Settlement,
    make_statement,
    plan_settlement,
    rank_statement,
)
from tests.effort import share

_IDS = ("a", "b", "c", "d")
_PAIRS = st.lists(st.tuples(st.sampled_from(_IDS), st.sampled_from(_IDS)), max_size=4)


def _plan(
    same: tuple[Pair, ...] = (),
    outdated: tuple[Pair, ...] = (),
    conflict: tuple[Pair, ...] = (),
    ranks: tuple[Rank, ...] = (Rank.MODEL,) * 4,
    times: tuple[str, ...] = ("1", "2", "3", "4"),
) -> Settlement:
    relations = Relations(same=same, outdated=outdated, conflict=conflict)
    claimed_at = {id: times[n] for n, id in enumerate(_IDS)}
    return plan_settlement(relations, claimed_at, {id: ranks[n] for n, id in enumerate(_IDS)})


@given(
    _PAIRS,
    _PAIRS,
    _PAIRS,
    st.tuples(*[st.sampled_from(Rank)] * 4),
    st.tuples(*[st.sampled_from("123")] * 4),
    st.randoms(),
)
@settings(max_examples=share(1000), deadline=None)
def test_the_newest_claim_remains_in_every_order_of_relations(
    same: list[Pair],
    outdated: list[Pair],
    conflict: list[Pair],
    ranks: tuple[Rank, ...],
    times: tuple[str, ...],
    random: Random,
) -> None:
    first = _plan(tuple(same), tuple(outdated), tuple(conflict), ranks, times)
    for listed in (same, outdated, conflict):
        random.shuffle(listed)
    turned = tuple((second, first) for first, second in same)
    assert _plan(turned, tuple(outdated), tuple(conflict), ranks, times) == first

    weights = [(ranks[n], times[n]) for n in range(4)]
    best = {id for n, id in enumerate(_IDS) if weights[n] == max(weights)}
    assert best - set(first.ends)
    assert not set(first.ends.values()) & set(first.ends)
    assert all(set(pair).isdisjoint(first.ends) for pair in first.conflicts)


def test_an_older_claim_or_a_lower_rank_ends_no_other() -> None:
    for older, newer in product(Rank, Rank):
        for said in ((("a", "b"),), (("b", "a"),)):
            result = _plan(outdated=said, ranks=(older, newer, older, older))
            ended = {"a"} if newer >= older and said == (("a", "b"),) else set()
            assert set(result.ends) == ended
            counts = ("b", "a") if newer >= older else ("a", "b")
            assert result.conflicts == (() if ended else (counts,))


@pytest.mark.parametrize("order", list(permutations((("a", "c"), ("b", "c")))))
def test_a_repeated_old_value_does_not_end_the_new_one(order: tuple[Pair, ...]) -> None:
    """Old value, the same in other words, new value: the last one remains, alone."""
    result = _plan(same=(("b", "a"),), outdated=order)
    assert (result.ends, result.conflicts) == ({"a": "c", "b": "c"}, ())


def test_a_value_that_was_changed_back_stays_in_conflict() -> None:
    result = _plan(same=(("a", "c"),), outdated=(("a", "b"),))
    assert (result.ends, result.conflicts) == ({"a": "b"}, (("c", "b"),))


@pytest.mark.parametrize(
    ("author", "code", "expected"),
    [
        (Author("user"), None, Rank.PERSON),
        (Author("model", quote="use tabs"), None, Rank.QUOTED),
        (Author("session", quote="use tabs"), None, Rank.QUOTED),
        (Author("model", source="a.py:1", source_hash="f"), "unchanged", Rank.CODE),
        (Author("model", source="a.py:1", source_hash="f"), None, Rank.CODE),
        (Author("model", source="a.py:1", source_hash="f"), "changed", Rank.MODEL),
        (Author("model", source="a.py:1", source_hash="f"), "gone", Rank.MODEL),
        (Author("model"), None, Rank.MODEL),
        (Author("import", quote="said elsewhere"), None, Rank.MODEL),
        (Author("recovered"), None, Rank.MODEL),
        (Author("client", quote="use tabs"), None, Rank.OUTSIDE),
    ],
)
def test_a_statement_ranks_by_its_author(author: Author, code: None, expected: Rank) -> None:
    assert rank_statement(make_statement(author, "facts/env.md", "Use tabs", "1"), code) is expected
