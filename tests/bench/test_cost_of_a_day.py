"""A short day on each route, and what counts as billed again."""

import pytest

from bench.cost_of_a_day import ROUTES, Request, cost_ratio, figures_of, ideal_of, live_day
from tests.strict_server.cache import Cost


def request(*pieces: str, is_side: bool = False, stretch: int = 0) -> Request:
    return Request(pieces, Cost(sum(map(len, pieces)) // 4), is_side=is_side, stretch=stretch)


def ideal(*requests: Request) -> int:
    costs = ideal_of(ROUTES["messages"], requests)
    return sum(cost.total - cost.cached for cost in costs)


HEAD, ONE, TWO, NOTE = "h" * 4_000, "a" * 4_000, "b" * 4_000, "n" * 4_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ROUTES)
def test_a_short_day_is_billed_little_more_than_once(name):
    requests = live_day(ROUTES[name], turns=8)

    figures = figures_of(ROUTES[name], requests)
    assert figures["cached"] > figures["ideal"] > figures["side"] > 0
    assert 1 <= figures["ratio"] <= 1.1
    assert 1 <= figures["cost_ratio"] <= 1.1
    assert {one.stretch for one in requests} == {0, 1}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chat", "messages"])
def test_pauses_of_a_person_cost_little(name):
    assert cost_ratio(ROUTES[name], live_day(ROUTES[name], turns=12, pauses=True)) <= 1.4


def test_each_token_of_a_growing_conversation_is_ideally_billed_once():
    assert ideal(request(HEAD, ONE), request(HEAD, ONE, TWO)) == 3_000


def test_a_question_aside_is_ideally_billed_whole():
    assert ideal(request(HEAD, ONE), request(HEAD, is_side=True)) == 3_000


def test_only_text_a_compaction_left_is_ideally_cached():
    assert ideal(request(HEAD, ONE, TWO), request(HEAD, NOTE, TWO, stretch=1)) == 5_000


def test_a_beginning_that_changed_is_no_excuse_within_a_stretch():
    assert ideal(request(HEAD, ONE), request(NOTE, ONE, TWO)) == 3_000
