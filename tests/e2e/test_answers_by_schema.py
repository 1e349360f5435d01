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
GOOD = {"file": "a.py", "line": 3}


def formats(server: ScriptedServer) -> list[Any]:
    return [request.json.get("response_format") for request in server.requests]


def test_the_answer_is_json_on_stdout_after_tools_worked(
    place: Place, server: ScriptedServer
) -> None:
    (place.project / "bug.json").write_text(json.dumps(BUG))
    look = {"calls": [{"name": "list_files", "arguments": {}}]}
    server.play([look, {"text": "```json\n" + json.dumps(GOOD, indent=2) + "\n```"}])
    done = place.run("run", "--json-schema", "bug.json", "--quiet", "Find a bug")

    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == GOOD
    assert '"minimum": 1' in server.requests[0].json["messages"][-1]["content"]
    assert formats(server) == [None, None]


def test_an_unfit_answer_is_asked_for_three_times(place: Place, server: ScriptedServer) -> None:
    wrong = {"text": json.dumps({"file": "a.py", "line": 0})}
    server.play([wrong, {"text": json.dumps(GOOD)}, *[{"text": "There is none."}] * 3])
    flags = ("--json-schema", json.dumps(BUG), "--no-memory", "--output-format", "json")
    done = place.run("run", *flags, "Find a bug")
    failed = place.run("run", *flags, "Find a bug")

    result = done.json
    assert (done.code, result["status"], result["structured"]) == (0, "success", GOOD)
    first, again, *others = (request.json for request in server.requests)
    assert "$.line: 0 is less than the minimum of 1" in again["messages"][-1]["content"]
    assert again["response_format"]["json_schema"]["schema"] == BUG
    assert (again["tool_choice"], again["tools"]) == ("none", first["tools"])
    assert (failed.code, failed.json["status"], len(others)) == (1, "error", 3)
    assert "asked 3 times: it is not JSON" in failed.json["error"]
    assert (failed.json["structured"], failed.json["result"]) == (None, "There is none.")


@pytest.mark.parametrize(
    ("given", "why"),
    [("{", "is not JSON"), ('{"type": "thing"}', "is not a JSON schema: $.type")],
)
def test_a_schema_that_is_none_is_said_before_anything_starts(
    place: Place, given: str, why: str
) -> None:
    done = place.run("run", "--json-schema", given, "Find a bug")
    assert done.code == 3
    assert why in done.err
