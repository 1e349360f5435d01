from hypothesis import given
from hypothesis import strategies as st

from kode.session.plan import (
    plan_in,
    plan_in_force,
    read_plan,
    steps_of,
    tick,
    tick_off,
    without_ticks,
    write_plan,
)
from tests.tables import for_each

PLAN = """# Plan

Split the parser.

- [ ] Move `parse` to parse.py
- [ ] Run pytest -q
"""


@for_each(
    ("answer", "plan"),
    [
        (f"I looked at it.\n\n{PLAN}", PLAN),
        (f"# Plan\n\n- [ ] the old one\n\nBetter:\n\n{PLAN}", PLAN),
        ("## The plan\n- [ ] one\n", "## The plan\n- [ ] one\n"),
        ("## Plan\n1. one\n   - how\n2) two", "## Plan\n- [ ] one\n   - how\n- [ ] two\n"),
        ("**Plan**\n- [ ] one", ""),
        ("# Plan\nFirst this, then that.", ""),
        ("- [ ] a list of things\n", ""),
        ("", ""),
    ],
)
def test_a_plan_runs_from_the_answers_last_heading(answer, plan):
    assert plan_in(answer) == plan


def test_a_step_is_ticked_by_its_words():
    plan = tick(PLAN, ["1. move parse to parse.py."])
    assert steps_of(plan) == [("Move `parse` to parse.py", True), ("Run pytest -q", False)]
    assert tick(PLAN, ["something else"]) == PLAN


@given(st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1), min_size=1))
def test_finishing_ticks_everything_and_changes_nothing_else(steps):
    plan = "# Plan\n" + "".join(f"- [ ] {step}\n" for step in steps)
    done = tick(plan, steps)
    assert all(is_done for _, is_done in steps_of(done))
    assert without_ticks(done) == plan


def test_a_finished_plan_is_ticked_and_no_longer_in_force(tmp_path):
    path = tmp_path / "session" / "plan.md"
    assert (read_plan(path), plan_in_force(path), read_plan(None)) == ("", "", "")
    write_plan(path, PLAN)

    assert tick_off(path, ["Run pytest -q"]).startswith("1 of 2 ")
    assert "- [x] Run pytest -q" in plan_in_force(path)
    assert tick_off(path, ["Run pytest -q"]) == ""
    assert tick_off(path, ["Move parse to parse.py"]).startswith("2 of 2 ")
    assert plan_in_force(path) == ""
