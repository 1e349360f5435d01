"""The review of a goal, by the installed kode: what it finds must be answered."""

import json
import signal
from typing import Any

import pytest

from tests.e2e.command import Place
from tests.plugins.goals.test_pursue import DONE, FIX, READ, VERIFY, call, goal_place, resume
from tests.scripted_server import ScriptedServer
from tests.strict_server import StrictServer

__all__ = ["goal_place"]

FLAGS = ("--permission-mode", "auto-edit", "--output-format", "json")
GOAL = ("run", "--goal", "add adds", "--verify", VERIFY, "--review")
TWO: list[dict[str, Any]] = [
    {"file": "calc.py", "line": 1, "what": "add has no docstring"},
    {"file": "calc.py", "line": None, "what": "it is not typed"},
]
MORE = call("edit_file", path="calc.py", old_text="a + b", new_text='a + b  # "sum"')


def answer(id: int, how: str) -> dict[str, Any]:
    return call("answer_finding", id=id, how=how, reason=f"because {how}")


def is_of_review(request: dict[str, Any]) -> bool:
    return "Review the changes below" in json.dumps(request["messages"])


class Played:
    """The replies of a main agent and of its review, each in its order, the last repeated."""

    def __init__(self, main: list[dict[str, Any]], review: list[dict[str, Any]]) -> None:
        self.main, self.review = main, review
        self.asked: list[dict[str, Any]] = []
        self.of_review: list[dict[str, Any]] = []

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        script, seen = (
            (self.review, self.of_review) if is_of_review(request) else (self.main, self.asked)
        )
        seen.append(request)
        return script[min(len(seen), len(script)) - 1]


def found(*findings: dict[str, Any]) -> dict[str, Any]:
    return {"text": json.dumps(findings)}


def pursue(place: Place, played: Played, *flags: str) -> Any:
    with ScriptedServer(played) as server:
        place.url = server.openai_url
        return place.run(*GOAL, *FLAGS, *flags)


def answers(goal: dict[str, Any]) -> list[tuple[int, str]]:
    return [(one["id"], one["answer"]) for one in goal["findings"]]


def test_a_goal_is_reached_when_each_finding_is_answered(goal_place: Place) -> None:
    main = [READ, FIX, DONE, MORE, answer(1, "fixed"), answer(2, "refused"), DONE]
    with StrictServer(played := Played(main, [found(*TWO)]), vendor="openai") as server:
        goal_place.url = server.url
        done = goal_place.run(*GOAL, *FLAGS)
    goal = done.json["goal"]
    assert (done.code, goal["status"]) == (0, "reached")
    assert goal["findings"] == [
        {"id": 1, **TWO[0], "answer": "fixed", "reason": "because fixed"},
        {"id": 2, **TWO[1], "answer": "refused", "reason": "because refused"},
    ]
    assert [one["passed"] for one in goal["attempts"]] == [True, True]
    assert (goal["review"]["fault"], goal["review"]["requests"]) == ("", 1)
    assert goal["spent"]["requests"] == len(main) + 1
    assert sum(one["requests"] for one in goal["attempts"]) == len(main)
    assert (server.refusals, server.soft_faults) == ([], [])
    declared = [json.dumps(one["tools"]) for one in played.asked]
    assert len(set(declared)) == 1
    assert "answer_finding" in declared[0]


def test_the_tool_is_declared_with_a_review_alone(goal_place: Place) -> None:
    played = Played([READ, FIX, DONE], [])
    with ScriptedServer(played) as server:
        goal_place.url = server.openai_url
        goal = goal_place.run(*GOAL[:-1], *FLAGS).json["goal"]
    assert (goal["status"], goal["findings"], goal["review"]) == ("reached", [], None)
    assert not any("answer_finding" in json.dumps(one["tools"]) for one in played.asked)


def test_a_fix_needs_a_change_since_the_finding(goal_place: Place) -> None:
    main = [READ, FIX, DONE, answer(1, "fixed"), DONE]
    played = Played(main, [found(TWO[0])])
    goal = pursue(goal_place, played).json["goal"]
    assert (goal["status"], answers(goal)) == ("not_reached", [(1, "")])
    assert '"accepted": false' in played.asked[4]["messages"][-1]["content"]


def test_findings_are_asked_for_at_most_twice(goal_place: Place) -> None:
    played = Played([READ, FIX, DONE], [found(*TWO)])
    done = pursue(goal_place, played)
    goal = done.json["goal"]
    assert (done.code, goal["status"]) == (1, "not_reached")
    assert answers(goal) == [(1, ""), (2, "")]
    assert (len(goal["attempts"]), len(played.of_review)) == (3, 1)


@pytest.mark.parametrize("text", ["It is fine.", '[{"file": 3}]', "[" * 5000])
def test_nonsense_of_a_review_is_asked_again_once(goal_place: Place, text: str) -> None:
    played = Played([READ, FIX, DONE], [{"text": text}])
    done = pursue(goal_place, played)
    goal = done.json["goal"]
    assert (done.code, goal["status"], goal["findings"]) == (0, "reached", [])
    assert goal["review"]["fault"]
    assert (len(played.of_review), goal["review"]["requests"]) == (2, 2)


def test_a_review_changes_nothing(goal_place: Place) -> None:
    write = call("write_file", path="new.py", content="x = 1\n")
    goal = pursue(goal_place, Played([READ, FIX, DONE], [write, found()])).json["goal"]
    assert (goal["status"], goal["review"]["fault"]) == ("reached", "")
    assert not (goal_place.project / "new.py").exists()


def test_a_goal_killed_after_its_review_repeats_none(goal_place: Place) -> None:
    slow = {"delay_s": 60, "text": ""}
    played = Played([READ, FIX, DONE, answer(1, "refused"), slow], [found(*TWO)])
    with ScriptedServer(played) as server:
        goal_place.url = server.openai_url
        flags = ("--permission-mode", "auto-edit", "--output-format", "stream-json")
        with goal_place.start(*GOAL, *flags) as running:
            assert running.stdout is not None
            for line in running.stdout:
                value = json.loads(line).get("value") or {}
                if value.get("type") == "goal_finding" and value["answer"]:
                    break
            running.kill()
    again = Played([answer(2, "refused"), DONE], [found(TWO[0])])
    done = resume(goal_place, again)
    assert (done.json["goal"]["status"], done.code) == ("reached", 0)
    assert answers(done.json["goal"]) == [(1, "refused"), (2, "refused")]
    assert again.of_review == []


def test_a_review_is_killed_with_kode_and_begins_again(goal_place: Place) -> None:
    hangs = {"delay_s": 60, "text": ""}
    with ScriptedServer(played := Played([READ, FIX, DONE], [hangs])) as server:
        goal_place.url = server.openai_url
        flags = ("--permission-mode", "auto-edit", "--output-format", "stream-json")
        with goal_place.start(*GOAL, *flags) as running:
            assert running.stdout is not None
            for line in running.stdout:
                if json.loads(line).get("what", "").startswith("Reviewing"):
                    break
            running.kill()
    again = Played([answer(1, "refused"), DONE], [found(TWO[0])])
    done = resume(goal_place, again)
    assert answers(done.json["goal"]) == [(1, "refused")]
    assert (len(done.json["goal"]["attempts"]), len(played.asked)) == (2, 3)


def test_the_limit_of_requests_holds_for_the_review(goal_place: Place) -> None:
    played = Played([READ, FIX, DONE], [READ])
    goal = pursue(goal_place, played, "--max-steps", "5").json["goal"]
    assert (goal["status"], goal["spent"]["requests"]) == ("out_of_budget", 5)
    assert goal["review"]["requests"] == len(played.of_review) == 2


def test_a_goal_begun_later_declares_the_tool_once(goal_place: Place) -> None:
    main = [DONE, READ, FIX, DONE, answer(1, "refused"), DONE]
    with StrictServer(played := Played(main, [found(TWO[0])]), vendor="openai") as server:
        goal_place.url = server.url
        goal_place.run("run", "Say that it is done.", *FLAGS)
        task = f"/goal add adds --verify {VERIFY} --review"
        done = goal_place.run("continue", task, *FLAGS)
    assert (done.json["goal"]["status"], server.refusals) == ("reached", [])
    with_tools = [json.dumps(one["tools"]) for one in played.asked if "tools" in one]
    declared = ["answer_finding" in tools for tools in with_tools]
    assert declared == [False, *[True] * (len(declared) - 1)]


def test_an_interrupted_review_is_run_again(goal_place: Place) -> None:
    hangs = {"delay_s": 60, "text": ""}
    with ScriptedServer(Played([READ, FIX, DONE], [hangs])) as server:
        goal_place.url = server.openai_url
        flags = ("--permission-mode", "auto-edit", "--output-format", "stream-json")
        with goal_place.start(*GOAL, *flags) as running:
            assert running.stdout is not None
            for line in running.stdout:
                if json.loads(line)["type"] == "agent_progress":
                    break
            running.send_signal(signal.SIGINT)
            last = json.loads(running.stdout.readlines()[-1])
    assert last["goal"]["status"] == "unfinished"
    again = Played([], [found()])
    done = resume(goal_place, again)
    assert (done.json["goal"]["status"], len(again.of_review)) == ("reached", 1)
