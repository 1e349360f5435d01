"""What the person and programs learn of the end of a goal."""

from typing import Any

import jsonschema
import pytest

from tests.e2e.command import Place
from tests.plugins.goals.test_pursue import DONE, FIX, READ, VERIFY, goal_place, pursue
from tests.scripted_server import ScriptedServer

__all__ = ["goal_place"]

FLAGS = ("--permission-mode", "auto-edit", "--no-memory")


def fits(place: Place, name: str, values: list[Any]) -> dict[str, Any]:
    """Asserts that values fit a schema that the installed command prints; returns it."""
    schema: dict[str, Any] = place.run("schema", name).json
    validator = jsonschema.Draft202012Validator(schema)
    assert [one.message for value in values for one in validator.iter_errors(value)] == []
    return schema


def test_goals_for_programs_fit_their_schema(goal_place: Place) -> None:
    done = pursue(
        goal_place, [DONE, READ, FIX, DONE], "--max-steps", "30", "--output-format", "stream-json"
    )
    fits(goal_place, "events", done.lines)
    goal = done.lines[-1]["goal"]
    told = [one["value"] for one in done.lines if one["type"] == "notice" and one["value"]]
    assert {one["type"] for one in told} == {"goal", "goal_attempt"}
    schema = fits(goal_place, "goal", [goal, *told])
    forms = schema["$defs"]
    for form, value in (
        ("Goal", goal),
        ("Attempt", goal["attempts"][0]),
        ("File", goal["attempts"][1]["files"][0]),
        ("Used", goal["spent"]),
    ):
        assert set(forms[form]["properties"]) == set(value)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**goal, "status": "done"}, schema)


def test_the_end_of_a_passing_output_is_shown(goal_place: Place) -> None:
    (goal_place.project / "tests" / "check.sh").write_text(
        "echo test one; echo test two; grep -q 'a + b' calc.py && echo 2 passed\n"
    )
    with ScriptedServer([READ, FIX, DONE]) as server:
        goal_place.url = server.openai_url
        done = goal_place.run("run", "--goal", "g", "--verify", VERIFY, *FLAGS)
    shown = "ends with:\ntest one\ntest two\n2 passed\nGoal reached: sh tests/check.sh\n"
    assert shown in done.err


def test_a_passing_check_that_printed_nothing_says_so(goal_place: Place) -> None:
    """What code under test does that ends the process of its check with status 0."""
    (goal_place.project / "tests" / "check.sh").write_text(". ./calc.py; echo 2 passed; exit 1\n")
    quits = {"name": "write_file", "arguments": {"path": "calc.py", "content": "exit 0\n"}}
    with ScriptedServer([READ, {"calls": [quits]}, DONE]) as server:
        goal_place.url = server.openai_url
        done = goal_place.run("run", "--goal", "g", "--verify", VERIFY, *FLAGS)
    assert "the check passed and printed nothing" in done.err
