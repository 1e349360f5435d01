"""`kode run --json-schema`: an answer that fits, or a plain error."""

import json
from typing import Any

import pytest

from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer

BUG = {
    "type": "object",
    "properties": {"file": {"type": "string"}, "line": {"type": "integer", "minimum": 1}},
    "required": ["file", "line"],
    "additionalProperties": False,
}
JSON = ("--output-format", "json")
GOOD = {"file": "a.py", "line": 3}


@pytest.fixture
def schema(place: Place) -> str:
    (place.project / "bug.json").write_text(json.dumps(BUG))
    return "bug.json"


def formats(server: ScriptedServer) -> list[Any]:
    return [request.json.get("response_format") for request in server.requests]


def test_the_answer_is_json_on_stdout_after_tools_worked(place: Place, schema: str) -> None:
    (place.project / "a.py").write_text("x = 1 / 0\n")
    script = [
        {"calls": [{"name": "read_file", "arguments": {"path": "a.py"}}]},
        {"text": "```json\n" + json.dumps(GOOD, indent=2) + "\n```"},
    ]
    with ScriptedServer(script) as server:
        place.url = server.openai_url
        done = place.run("run", "--json-schema", schema, "--quiet", "Find a bug")

    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == GOOD
    assert '"minimum": 1' in server.requests[0].json["messages"][-1]["content"]
    assert formats(server) == [None, None]


@pytest.mark.parametrize("output", ["json", "stream-json"])
def test_an_answer_that_does_not_fit_is_asked_for_again(place: Place, output: str) -> None:
    script = [{"text": json.dumps({"file": "a.py", "line": 0})}, {"text": json.dumps(GOOD)}]
    with ScriptedServer(script) as server:
        place.url = server.openai_url
        done = place.run(
            *("run", "--json-schema", json.dumps(BUG), "--output-format", output, "Find a bug")
        )

    result = done.lines[-1]
    assert (done.code, result["status"], result["structured"]) == (0, "success", GOOD)
    assert result["steps"] == 2
    again = server.requests[1].json
    assert "$.line: 0 is less than the minimum of 1" in again["messages"][-1]["content"]
    assert again["response_format"]["json_schema"]["schema"] == BUG
    assert again["tool_choice"] == "none"
    assert again["tools"] == server.requests[0].json["tools"]


def test_three_answers_that_do_not_fit_fail_the_task(place: Place, schema: str) -> None:
    with ScriptedServer([{"text": "There is none."}] * 3) as server:
        place.url = server.openai_url
        done = place.run("run", "--json-schema", schema, "--no-memory", *JSON, "Find a bug")

    assert done.code == 1
    assert done.json["status"] == "error"
    assert "asked 3 times: it is not JSON" in done.json["error"]
    assert (done.json["structured"], done.json["result"]) == (None, "There is none.")
    assert server.count == 3


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("missing.json", "No such file"),
        ("{", "is not JSON"),
        ('{"type": "thing"}', "is not a JSON schema: $.type"),
    ],
)
def test_a_schema_that_is_none_is_said_before_anything_starts(
    place: Place, given: str, why: str
) -> None:
    done = place.run("run", "--json-schema", given, "Find a bug")
    assert done.code == 3
    assert why in done.err
