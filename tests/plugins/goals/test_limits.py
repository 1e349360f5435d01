"""The limits of a goal: each ends it with what was tried. And what a compaction leaves of it."""

import json
from typing import Any

import pytest

from tests.e2e.command import Finished, Place
from tests.plugins.goals.test_pursue import DONE, READ, VERIFY, call, goal_place, pursue, resume
from tests.scripted_server import ScriptedServer

__all__ = ["goal_place"]

DOLLAR = {"usage": {"input_tokens": 1000, "output_tokens": 0}}
HANGS: dict[str, Any] = {"delay_s": 60, "text": ""}
TEXT = "add adds:  two numbers,\n\tnegative ones `too`"


@pytest.fixture
def priced(goal_place: Place) -> Place:
    """Each reply that says `DOLLAR` costs one."""
    goal_place.home.mkdir(mode=0o700, exist_ok=True)
    prices = {"prices": {"gpt-4.1": {"input": 1000, "output": 0}}}
    (goal_place.home / "config.json").write_text(json.dumps(prices))
    return goal_place


def ends_out_of_budget(done: Finished, flag: str) -> dict[str, Any]:
    """Asserts that the result says which limit ended the goal; returns the goal."""
    said = done.json
    goal: dict[str, Any] = said["goal"]
    assert (done.code, said["status"], goal["status"]) == (1, "incomplete", "out_of_budget")
    assert flag in said["error"]
    return goal


def tried(goal: dict[str, Any]) -> list[tuple[int, bool, int]]:
    """The number of each attempt, whether it passed, and its requests."""
    return [(one["attempt"], one["passed"], one["requests"]) for one in goal["attempts"]]


def test_money_ends_a_goal_with_its_attempts(priced: Place) -> None:
    replies = [READ | DOLLAR, DONE | DOLLAR, READ | DOLLAR]
    done = pursue(priced, replies, "--max-budget-usd", "3.5")
    goal = ends_out_of_budget(done, "--max-budget-usd")
    assert tried(goal) == [(1, False, 2), (2, False, 2)]
    assert [one["cost_usd"] for one in goal["attempts"]] == [2.0, 2.0]
    assert (goal["spent"]["usd"], goal["limits"]) == (4.0, {"usd": 3.5})


def test_requests_end_a_goal_with_its_attempts(goal_place: Place) -> None:
    done = pursue(goal_place, [READ, DONE, READ], "--max-steps", "5")
    goal = ends_out_of_budget(done, "--max-steps")
    assert tried(goal) == [(1, False, 2), (2, False, 3)]
    assert (goal["spent"]["requests"], goal["limits"]) == (5, {"requests": 5})


@pytest.mark.slow
def test_time_ends_a_goal_while_the_model_is_silent(goal_place: Place) -> None:
    done = pursue(goal_place, [HANGS], "--timeout", "10")
    goal = ends_out_of_budget(done, "--timeout")
    assert "its limit of 10 s is used up" in done.json["error"]
    assert tried(goal) == [(1, False, 0)]
    assert goal["attempts"][0]["exit_status"] == 1
    assert goal["spent"]["seconds"] >= 10


@pytest.mark.slow
def test_time_ends_a_goal_while_its_check_runs(goal_place: Place) -> None:
    (goal_place.project / "tests" / "check.sh").write_text("sleep 600\n")
    done = pursue(goal_place, [DONE], "--timeout", "10")
    goal = ends_out_of_budget(done, "--timeout")
    assert [(one["exit_status"], one["passed"]) for one in goal["attempts"]] == [(None, False)]
    assert "did not end" in goal["attempts"][0]["fault"]


def test_time_of_a_goal_counts_what_came_before_a_kill(goal_place: Place) -> None:
    flags = ("--permission-mode", "auto-edit", "--output-format", "stream-json", "--timeout", "600")
    with ScriptedServer([READ, DONE, HANGS]) as server:
        goal_place.url = server.openai_url
        with goal_place.start("run", "--goal", "g", "--verify", VERIFY, *flags) as running:
            assert running.stdout is not None
            for line in running.stdout:
                if ((json.loads(line).get("value")) or {}).get("type") == "goal_attempt":
                    break
            running.kill()
    goal = ends_out_of_budget(resume(goal_place, [READ], "--timeout", "0.1"), "--timeout")
    assert tried(goal) == [(1, False, 2)]


def test_a_compaction_keeps_a_goal_word_for_word(goal_place: Place) -> None:
    goal_place.home.mkdir(mode=0o700, exist_ok=True)
    config = {"context": {"window": 12_000}}
    (goal_place.home / "config.json").write_text(json.dumps(config))
    (goal_place.project / "long.txt").write_text("a line of a text that is long\n" * 1500)
    reads = [call("read_file", path="long.txt", offset=at, limit=400) for at in range(1, 1000, 200)]
    about = {"match": "^This conversation is about to", "text": "They read long.txt."}
    verify = f"{VERIFY} 'two  words' \"$HOME\" # é"
    flags = ("--permission-mode", "auto-edit", "--output-format", "json")
    with ScriptedServer([about, *reads, DONE], repeat_last=True) as server:
        goal_place.url = server.openai_url
        done = goal_place.run("run", "--goal", TEXT, "--verify", verify, "--no-memory", *flags)
    lines = [json.loads(line) for line in goal_place.session_files[-1].read_text().splitlines()]
    assert [line["type"] for line in lines].count("compaction") > 0
    last = server.requests[-1].json["messages"]
    assert "They read long.txt." in json.dumps(last)
    assert f"Goal: {TEXT}\n" in last[0]["content"]
    assert f"\n    {verify}\n" in last[0]["content"]
    assert (done.json["goal"]["text"], done.json["goal"]["verify"]) == (TEXT, verify)
