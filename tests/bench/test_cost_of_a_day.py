"""A short day in each wire format, and what counts as billed again."""

import pytest

from bench.cost_of_a_day import ROUTES, Request, day, figures_of, ideal_of, misses
from tests.strict_server.cache import Cost


def request(*pieces: str, cached: int = 0, is_side: bool = False, stretch: int = 0) -> Request:
    total = sum(map(len, pieces)) // 4
    cost = Cost(total, cached=cached, written=total - cached)
    return Request(pieces, cost, is_side=is_side, stretch=stretch)


HEAD, ONE, TWO, NOTE = "h" * 4_000, "a" * 4_000, "b" * 4_000, "n" * 4_000


@pytest.mark.slow
@pytest.mark.parametrize("format", ROUTES)
def test_a_short_day_is_billed_little_more_than_once(format):
    requests = day(ROUTES[format], turns=8)

    figures = figures_of(requests)
    assert set(figures) == {"new", "cached", "written", "ideal", "ratio", "side"}
    assert figures["cached"] > figures["ideal"] > figures["side"] > 0
    assert 1 <= figures["ratio"] <= 1.1
    assert {one.stretch for one in requests} == {0, 1}


def test_each_token_of_a_growing_conversation_is_ideally_billed_once():
    assert ideal_of([request(HEAD, ONE), request(HEAD, ONE, TWO)]) == 3_000


def test_a_question_aside_is_ideally_billed_whole():
    assert ideal_of([request(HEAD, ONE), request(HEAD, is_side=True)]) == 3_000


def test_only_text_a_compaction_left_is_ideally_cached():
    before, after = request(HEAD, ONE, TWO), request(HEAD, NOTE, TWO, stretch=1)

    assert ideal_of([before, after]) == 5_000


def test_a_beginning_that_changed_is_no_excuse_within_a_stretch():
    requests = [request(HEAD, ONE), request(NOTE, ONE, TWO)]

    figures = figures_of(requests)
    (miss,) = misses(requests)
    assert (figures["ideal"], figures["ratio"]) == (3_000, round(5_000 / 3_000, 3))
    assert "2,000 tokens" in miss


def test_a_known_beginning_that_is_billed_again_is_named():
    lost = [request(HEAD, ONE), request(HEAD, ONE, TWO, cached=0)]
    found = [request(HEAD, ONE), request(HEAD, ONE, TWO, cached=2_000)]

    assert (len(list(misses(lost))), list(misses(found))) == (1, [])


def test_text_replaced_by_a_compaction_is_not_lost():
    before = request(HEAD, ONE, TWO)

    assert list(misses([before, request(HEAD, NOTE, cached=1_000, stretch=1)])) == []
    assert len(list(misses([before, request(HEAD, NOTE, stretch=1)]))) == 1
