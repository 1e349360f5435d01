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


def test_a_server_that_cannot_hold_answers_is_asked_in_words(place: Place, schema: str) -> None:
    def play(request: dict[str, Any]) -> dict[str, Any]:
        if "response_format" in request:
            return {"error": {"status": 400, "text": "response_format is not supported"}}
        asked = sum(message["role"] == "user" for message in request["messages"])
        return {"text": json.dumps(GOOD) if asked == 3 else "None."}

    with ScriptedServer(play) as server:
        place.url = server.openai_url
        done = place.run("run", "--json-schema", schema, "--no-memory", "Find a bug")

    assert done.code == 0
    assert json.loads(done.out) == GOOD
    assert done.err.count("response_format is not supported") == 1
    assert server.count == 4


def test_the_messages_api_gets_the_schema_in_its_own_way(place: Place, schema: str) -> None:
    with ScriptedServer([{"text": "None."}, {"text": json.dumps(GOOD)}]) as server:
        place.extra = {
            "ANTHROPIC_API_KEY": "sk-ant-test-0123456789abcdef",
            "ANTHROPIC_BASE_URL": server.anthropic_url,
        }
        done = place.run(
            *("run", "--provider", "anthropic", "--json-schema", schema, "--quiet", "Find a bug")
        )

    assert json.loads(done.out) == GOOD
    again = server.requests[1].json
    sent = again["output_config"]["format"]
    assert (sent["type"], sent["schema"]["required"]) == ("json_schema", ["file", "line"])
    assert again["tool_choice"] == {"type": "none"}
    assert "output_config" not in server.requests[0].json


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


def test_a_schema_that_points_elsewhere_is_not_followed(place: Place) -> None:
    with ScriptedServer() as server:
        place.url = server.openai_url
        elsewhere = {"properties": {"file": {"$ref": f"{server.root_url}/file.json"}}}
        done = place.run("run", "--json-schema", json.dumps(elsewhere), "Find a bug")

    assert done.code == 3
    assert "/file.json, which is not in it" in done.err
    assert server.count == 0
