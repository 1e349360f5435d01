"""What `kode view` shows of a goal, and what the person and programs learn of its end."""

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from kode.config import Config
from kode.plugin import Place as ViewPlace
from kode.plugins.view.access import Keys
from tests.e2e.command import Finished, Place
from tests.plugins.goals.test_pursue import DONE, FIX, READ, VERIFY, goal_place
from tests.plugins.goals.test_review import MORE, TWO, Played, answer, found
from tests.plugins.view.conftest import ADDRESS, HOSTILE, client_of
from tests.plugins.view.reading import assert_harmless, words_of
from tests.scripted_server import ScriptedServer

__all__ = ["goal_place"]

FLAGS = ("--permission-mode", "auto-edit", "--no-memory")
Get = Callable[[str], str]


def pages_of(place: Place) -> Get:
    """A browser that came in by the link."""
    keys = Keys(address=ADDRESS)
    view = ViewPlace(home=place.home, cwd=place.project, config=Config())
    client = client_of(view, keys)
    client.get(keys.link)

    def get(path: str) -> str:
        answered = client.get(path)
        assert answered.status_code == 200, answered.text
        return str(answered.text)

    return get


def reviewed(place: Place, *flags: str, text: str = "add adds", what: str = "") -> Finished:
    """A goal whose first attempt changes nothing and whose third answers the review."""
    findings = [{**TWO[0], "what": what or TWO[0]["what"]}, TWO[1]]
    main = [READ, DONE, FIX, DONE, MORE, answer(1, "fixed"), answer(2, "refused"), DONE]
    with ScriptedServer(Played(main, [found(*findings)])) as server:
        place.url = server.openai_url
        goal = ("run", "--goal", text, "--verify", VERIFY, "--review")
        return place.run(*goal, *FLAGS, *flags)


def test_the_page_of_a_goal_has_all_that_was_tried(goal_place: Place) -> None:
    (goal_place.project / "tests" / "check.sh").write_text(
        "echo looking for a sum\ngrep -q 'a + b' calc.py && echo found it\n"
    )
    assert reviewed(goal_place).code == 0
    session = goal_place.session_files[-1].stem
    page = pages_of(goal_place)(f"/sessions/{session}")
    words = words_of(page)
    assert "Goal: add adds reached Check: sh tests/check.sh" in words
    first, second, third = (
        words.partition("Attempt 1")[2].partition("Findings")[0].split("Attempt ")
    )
    assert first.startswith(" no file changed failed")
    assert first.endswith("Output of the check, its end looking for a sum ")
    assert second.startswith("2 calc.py passed")
    assert "def add(a, b): - return a - b + return a + b Output" in second
    assert second.endswith("Output of the check, its end looking for a sum found it ")
    assert '- return a + b + return a + b # "sum" Output' in third
    assert "1 calc.py:1 add has no docstring fixed because fixed" in words
    assert "2 calc.py it is not typed refused because refused" in words
    assert words.partition("Attempts")[2].partition("Together")[0].count(" unknown ") == 4


def test_the_costs_of_a_goal_add_up_on_its_page(goal_place: Place) -> None:
    goal_place.home.mkdir(mode=0o700, exist_ok=True)
    prices = {"prices": {"gpt-4.1": {"input": 1000, "output": 0}}}
    (goal_place.home / "config.json").write_text(json.dumps(prices))
    dollar = {"usage": {"input_tokens": 1000, "output_tokens": 0}}
    main = [{**one, **dollar} for one in (READ, DONE, FIX, DONE, answer(1, "refused"), DONE)]
    with ScriptedServer(Played(main, [{**found(TWO[0]), **dollar}])) as server:
        goal_place.url = server.openai_url
        goal = ("run", "--goal", "g", "--verify", VERIFY, "--review")
        assert goal_place.run(*goal, *FLAGS).code == 0
    session = goal_place.session_files[-1].stem
    words = words_of(pages_of(goal_place)(f"/sessions/{session}"))
    rows = words.partition("Exit status Requests Cost Time")[2]
    assert [rows.count("2 $2.00"), rows.count("Review 1 $1.00")] == [3, 1]
    assert "Together 7 $7.00" in rows


def test_the_subagent_of_a_review_is_listed_with_its_session(goal_place: Place) -> None:
    assert reviewed(goal_place).code == 0
    session = goal_place.session_files[-1].stem
    (child,) = (goal_place.home / "sessions" / session / "reviews").iterdir()
    get = pages_of(goal_place)
    for path in (f"/sessions/{session}", "/agents"):
        page = get(path)
        assert "success Review the changes below" in words_of(page)
        assert f'href="/sessions/{session}/agents/{child.name}"' in page
    inside = words_of(get(f"/sessions/{session}/agents/{child.name}"))
    assert "add has no docstring" in inside


def fits(place: Place, name: str, values: list[Any]) -> dict[str, Any]:
    """Asserts that values fit a schema that the installed command prints; returns it."""
    schema: dict[str, Any] = place.run("schema", name).json
    validator = jsonschema.Draft202012Validator(schema)
    assert [one.message for value in values for one in validator.iter_errors(value)] == []
    return schema


def test_goals_for_programs_fit_their_schema(goal_place: Place) -> None:
    done = reviewed(goal_place, "--max-steps", "30", "--output-format", "stream-json")
    fits(goal_place, "events", done.lines)
    goal = done.lines[-1]["goal"]
    told = [one["value"] for one in done.lines if one["type"] == "notice" and one["value"]]
    assert {one["type"] for one in told} == {"goal", "goal_attempt", "goal_finding"}
    schema = fits(goal_place, "goal", [goal, *told])
    forms = schema["$defs"]
    for form, value in (
        ("Goal", goal),
        ("Attempt", goal["attempts"][0]),
        ("File", goal["attempts"][1]["files"][0]),
        ("Review", goal["review"]),
        ("Finding", goal["findings"][0]),
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


def test_a_hostile_goal_is_shown_as_text(goal_place: Place) -> None:
    hostile = HOSTILE.replace("--", "- -")
    assert reviewed(goal_place, text=hostile, what=HOSTILE).code == 0
    session = goal_place.session_files[-1].stem
    assert_harmless(pages_of(goal_place)(f"/sessions/{session}"))


def test_a_file_changed_later_has_its_attempts_diff(goal_place: Place) -> None:
    assert reviewed(goal_place).code == 0
    (goal_place.project / "calc.py").write_text("an edit by hand\n")
    session = goal_place.session_files[-1].stem
    words = words_of(pages_of(goal_place)(f"/sessions/{session}"))
    first, _, rest = words.partition("Attempt 2 calc.py")[2].partition("Attempt 3 calc.py")
    assert "- return a - b + return a + b Output" in first
    assert "Nobody has what this attempt left in it any more" in rest
    assert "an edit by hand" not in words
