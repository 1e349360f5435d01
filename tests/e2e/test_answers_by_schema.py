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
