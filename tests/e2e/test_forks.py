"""Children that begin with their parent's conversation, against servers as strict as the vendors':
what a fork sends first, what it may not do, and how it is told and stopped."""

import json
import re
from typing import Any

import pytest

from tests.e2e.command import Place
from tests.e2e.test_vendors import ROUTES, Route, beginning, living, spoken, unmarked

Reply = dict[str, Any]

FIRST, SECOND = "Count the reds.", "Count the blues."


def goal_in(request: dict[str, Any]) -> str:
    """The task of the child that asks; "" for the parent."""
    found = re.findall(r"# Goal\\n([^\\\"]+)", json.dumps(spoken(request)))
    return found[-1] if found else ""


def script(request: dict[str, Any]) -> Reply:
    """The parent looks at a file, then forks two children beside a further look; a fork tries what
    it may not do, and answers."""
    if not request.get("tools"):
        return {"text": "Nothing to keep."}
    messages = spoken(request)
    last = json.dumps(messages[-1])
    if goal := goal_in(request):
        if "There is no tool" in last:
            return {"thinking": "Well.", "text": f"Did it: {goal}"}
        tasks = {"tasks": [{"goal": "more"}]}
        return {
            "thinking": "I try.",
            "calls": [
                {"name": "delegate_tasks", "arguments": tasks},
                {"name": "memory", "arguments": {"action": "add"}},
            ],
        }
    if "Did it" in json.dumps(messages):
        return {"thinking": "All done.", "text": "Both counted."}
    if "R-E-S-U-L-T" in json.dumps(messages):
        tasks = {"tasks": [{"goal": goal, "fork": True} for goal in (FIRST, SECOND)]}
        look = {"name": "read_file", "arguments": {"path": "two.txt"}}
        return {
            "thinking": "Two things. é",
            "text": "I fork.",
            "calls": [look, {"name": "delegate_tasks", "arguments": tasks}, look],
        }
    look = {"name": "read_file", "arguments": {"path": "one.txt"}}
    return {"thinking": "First the file.", "text": "I look.", "calls": [look]}


def texts(request: dict[str, Any]) -> list[str]:
    return [json.dumps(unmarked(message)) for message in spoken(request)]


@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
def test_a_fork_sends_what_its_parent_sent_first(place: Place, route: Route) -> None:
    with living(place, route, script) as life:
        life.run("run", "Look, then count.", "--allow", "delegate")
        assert life.server.soft_faults == []

    asked = [one.json for one in life.turns()]
    children = [one for one in asked if goal_in(one)]
    parents = [one for one in asked if not goal_in(one)]
    *_, before = (one for one in parents if "I fork." not in json.dumps(one))
    firsts = [one for one in children if "There is no tool" not in json.dumps(one)]
    assert {goal_in(one) for one in firsts} == {FIRST, SECOND}
    for one in firsts:
        assert beginning(one) == beginning(before)
        assert texts(one)[: len(texts(before))] == texts(before)
    # Siblings differ in nothing before their goal.
    assert len({"".join(texts(one)).partition("# Goal")[0] for one in firsts}) == 1
    # One name, by which a server finds what it has read.
    assert len({one.get("prompt_cache_key") for one in asked}) == 1
    results = [record.result for record in life.agents()]
    assert [(one.status, one.summary) for one in results if one] == [
        ("success", f"Did it: {goal}") for goal in (FIRST, SECOND)
    ]
