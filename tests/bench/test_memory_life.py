"""The life that memory is measured by: what is true in it, and that it can be lived."""

from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from bench.life.reader import PAGE, Reader
from bench.life.story import Fact, Truth, conflicts, make_life
from bench.memory_life import live, live_conflicts
from kode.registry import SYSTEMS
from tests.effort import share

OLD = Fact(key=("ledger", "port"), value="10001", text="The ledger service listens on port 10001")
NEW = Fact(key=("ledger", "port"), value="10002", text="The ledger service listens on port 10002")
SLIP = Fact(key=OLD.key, value="10003", text="The ledger listens on port 10003", by="code")
FACTS = {fact.value: fact for fact in (OLD, NEW, SLIP)}


def reader(*shown, today="2026-03-10"):
    reader = Reader(FACTS, today)
    for text in shown:
        reader.look(text)
    return reader


@given(st.integers(0, 10_000))
@settings(max_examples=share(20), deadline=None)
def test_a_longer_life_begins_like_a_shorter_one(seed):
    assert list(make_life(40, seed))[:25] == list(make_life(25, seed))


@given(st.integers(0, 10_000))
@settings(max_examples=share(20), deadline=None)
def test_each_value_occurs_in_one_fact_only(seed):
    said = [said for session in make_life(60, seed) for said in session.turns if said.fact]
    values = [one.fact.value for one in said if one.kind not in ("moved", "shifted", "forget")]

    assert len(set(values)) == len(values)
    assert all(one.fact.value in one.fact.text.split() for one in said)


@given(st.integers(0, 10_000))
@settings(max_examples=share(20), deadline=None)
def test_the_newest_word_or_unchanged_code_stands(seed):
    truth = Truth()
    last: dict[tuple[str, str], object] = {}
    for session in make_life(80, seed):
        truth.turn_to(f"{session.at:%Y-%m-%d}")
        for said in session.turns:
            truth.hear(said)
            if said.kind in ("told", "changed", "observed"):
                last[said.fact.key] = said.fact
            if said.kind in ("moved", "forget"):
                del last[said.fact.key]

    standing = {key: fact for key, fact in truth.standing.items() if not fact.until}
    assert standing == last


@given(st.integers(0, 10_000))
@settings(max_examples=share(20), deadline=None)
def test_a_question_asks_for_what_stands_or_was_never_told(seed):
    truth, ever = Truth(), set()
    for session in make_life(80, seed):
        truth.turn_to(f"{session.at:%Y-%m-%d}")
        for said in session.turns:
            truth.hear(said)
            ever |= {said.fact.key} if said.fact else set()
            for key in said.question.asks if said.question else ():
                assert key in truth.standing or key not in ever


def test_a_question_of_two_hops_asks_two_facts():
    _, asked = conflicts(160, 20)

    assert {len(said.question.asks) for said in asked[1::2]} == {2}
    assert all(said.question.hops for said in asked[1::2])


def test_sessions_follow_each_other_in_time():
    assert all(one.at < other.at for one, other in pairwise(make_life(50)))


# ── the reader ───────────────────────────────────────────────────────────────────────────────


def test_the_reader_answers_nothing_it_was_not_shown():
    assert reader("Releases are cut on Mondays").answer(OLD.key) is None


def test_the_reader_prefers_known_facts_then_newest_notes():
    dated = f"## 2026-03-02 08:00\n{NEW.text}\n## 2026-03-05 08:00\n{OLD.text}"

    assert reader(dated).answer(OLD.key) == OLD
    assert reader(dated, f"── Environment ──\n{NEW.text}").answer(OLD.key) == NEW


@pytest.mark.parametrize(
    "text",
    [
        f"[may be stale: app.py:7 changed] {OLD.text}",
        f"{OLD.text} (until 2026-03-09)",
        f"{PAGE}{OLD.text}",
    ],
)
def test_the_reader_takes_no_marked_fact_for_true(text):
    assert reader(text).answer(OLD.key) is None


def test_a_superseded_fact_gives_way_to_its_successor():
    shown = f'{OLD.text}\n"{OLD.text}" superseded by "{NEW.text}"'

    assert reader(shown).answer(OLD.key) == NEW


# ── living it ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SYSTEMS, "none", "files", "window"])
def test_every_system_lives_days_and_admits_no_poison(tmp_path, name):
    few, row = live(name, (5, 12), 0.0, 3, tmp_path)

    assert 0 <= row["told_used"] <= 1
    assert few["stale"] <= row["stale"]
    assert name == "files" or row["poison"] == 0


@pytest.mark.slow
def test_a_file_of_notes_keeps_the_poison(tmp_path):
    """Or the test above could not fail."""
    (row,) = live("files", (200,), 0.0, 1, tmp_path)

    assert row["poison"] > 0


@pytest.mark.slow
def test_no_memory_answers_nothing(tmp_path):
    (row,) = live("none", (40,), 0.0, 1, tmp_path)

    assert (row["told_used"], row["abstained"], row["tokens"]) == (0.0, 1.0, 0)
    assert live_conflicts("none", 0.0, 1, tmp_path) == {"conflict_1": 0.0, "conflict_2": 0.0}
