from hypothesis import given, strategies as st

from kode.session.plan import Plan, plan_in, steps_of, without_ticks
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


@given(st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1), min_size=1))
def test_finishing_ticks_everything_and_changes_nothing_else(tmp_path_factory, steps):
    text = "# Plan\n" + "".join(f"- [ ] {step}\n" for step in steps)
    plan = Plan(tmp_path_factory.mktemp("plan") / "plan.md")
    plan.write(text)

    plan.tick_off(steps)

    assert all(is_done for _, is_done in plan.steps)
    assert without_ticks(plan.text) == text


def test_a_finished_plan_is_no_longer_in_force(tmp_path):
    plan = Plan(tmp_path / "session" / "plan.md")
    assert (plan.text, plan.text_in_force, Plan(None).text) == ("", "", "")
    plan.write(PLAN)

    assert plan.tick_off(["something else"]) == ""
    assert plan.tick_off(["Run pytest -q"]).startswith("1 of 2 ")
    assert "- [x] Run pytest -q" in plan.text_in_force
    assert plan.tick_off(["Run pytest -q"]) == ""
    assert plan.tick_off(["1. move parse to parse.py."]).startswith("2 of 2 ")
    assert steps_of(plan.text) == [("Move `parse` to parse.py", True), ("Run pytest -q", True)]
    assert plan.text_in_force == ""
