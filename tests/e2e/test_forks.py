"""Children that begin with their parent's conversation, against servers as strict as the vendors':
what a fork sends first, what it may not do, and how it is told and stopped."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.command import Place
from tests.e2e.test_vendors import ROUTES, Life, Route, spoken
from tests.strict_server import StrictServer

Reply = dict[str, Any]

MARK = re.compile(rb',"(?:cache_control|prompt_cache_breakpoint)":\{[^{}]*\}')
FIRST, SECOND = "Count the reds.", "Count the blues."


def said(message: dict[str, Any]) -> str:
    return json.dumps(message, ensure_ascii=False)


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
    last = said(messages[-1])
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


@pytest.fixture
def life(place: Place, route: Route) -> Iterator[Life]:
    place.extra["KODE_MODEL"] = ""
    for name in ("one", "two"):
        (place.project / f"{name}.txt").write_text(f"R-E-S-U-L-T of {name}\n" * 40)
    with StrictServer(script, vendor=route.vendor) as server:
        lived = Life(place, server, route)
        lived.configure()
        yield lived
    assert server.refusals == []
    assert server.soft_faults == []


def conversation(body: bytes) -> dict[str, bytes]:
    """What the model reads of a request, as raw bytes, without cache marks: each field as it was
    sent, lists without their end."""
    plain = MARK.sub(b"", body)
    decoder, text = json.JSONDecoder(), plain.decode()
    found = {}
    for name in ("tools", "system", "instructions", "messages", "input"):
        if (start := text.find(f'"{name}":')) >= 0:
            start += len(name) + 3
            _, end = decoder.raw_decode(text, start)
            found[name] = text[start:end].removesuffix("]").encode()
    return found


@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
def test_a_fork_sends_its_parents_bytes_first(life: Life, route: Route) -> None:
    life.run("run", "Look, then count.", "--allow", "delegate")

    asked = life.turns()
    children = [one for one in asked if goal_in(one.json)]
    parent = [one for one in asked if not goal_in(one.json)]
    forking = max(at for at, one in enumerate(parent) if "I fork." not in one.body.decode())
    before = conversation(parent[forking].body)
    firsts = [one for one in children if "There is no tool" not in one.body.decode()]
    assert {goal_in(one.json) for one in firsts} == {FIRST, SECOND}
    for one in firsts:
        after = conversation(one.body)
        assert after.keys() == before.keys()
        for name, text in before.items():
            assert after[name].startswith(text)
            assert name in ("messages", "input") or after[name] == text
        if route.vendor == "anthropic":  # the parent's last mark stands there again
            end = parent[forking].body.rfind(b'"cache_control"')
            assert parent[forking].body[end - 200 : end + 30] in one.body
    # Siblings differ in nothing before their goal.
    texts = [conversation(one.body)["input" if "input" in before else "messages"] for one in firsts]
    assert len({text.partition(b"# Goal")[0] for text in texts}) == 1
    # One name, by which a server finds what it has read.
    keys = {one.json.get("prompt_cache_key") for one in asked}
    assert len(keys) == 1
    results = [record.result for record in life.agents()]
    assert [result.status for result in results if result] == ["success", "success"]
    assert [result.summary for result in results if result] == [
        f"Did it: {FIRST}",
        f"Did it: {SECOND}",
    ]
