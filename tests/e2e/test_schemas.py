"""`kode schema` of the installed command, against what a real run prints and leaves on disk."""

import json
from typing import Any

import jsonschema
import pytest

from tests.e2e.command import Finished, Place
from tests.scripted_server import ScriptedServer


@pytest.fixture
def ran(place: Place) -> Finished:
    """A run with text, a refused call, an edit, a command and a subagent."""

    def play(request: dict[str, Any]) -> dict[str, Any]:
        said = [message for message in request["messages"] if message["role"] != "system"]
        if "Work on it" not in json.dumps(said[0]):
            return {"thinking": "A child.", "text": "It is small."}
        calls = [
            {"name": "delegate_tasks", "arguments": {"tasks": [{"goal": "Measure a.txt"}]}},
            {"name": "write_file", "arguments": {"path": "a.txt", "content": "new\n"}},
            {"name": "write_file", "arguments": {"path": "../b.txt", "content": "new\n"}},
            {"name": "shell", "arguments": {"command": "ls"}},
        ]
        done = sum(message["role"] == "tool" for message in said)
        if done < len(calls):
            return {"text": "Next.", "calls": [calls[done]]}
        return {"text": "It is done."}

    with ScriptedServer(play) as server:
        place.url = server.openai_url
        flags = ("--permission-mode", "auto-edit", "--allow", "delegate")
        return place.run("run", "Work on it", *flags, "--output-format", "stream-json")


def fits(place: Place, name: str, values: list[Any]) -> None:
    printed = place.run("schema", name)
    assert printed.code == 0, printed.err
    validator = jsonschema.Draft202012Validator(printed.json)
    assert [error.message for value in values for error in validator.iter_errors(value)] == []


def test_events_the_result_session_lines_and_task_files_fit(place: Place, ran: Finished) -> None:
    assert {"agent_finished", "tool_finished", "result"} <= {line["type"] for line in ran.lines}
    assert ran.lines[-1]["denials"]
    fits(place, "events", ran.lines)
    result = {key: value for key, value in ran.lines[-1].items() if key != "type"}
    fits(place, "result", [result])

    [session] = place.session_files
    lines = [json.loads(line) for line in session.read_text().splitlines()]
    assert {"session", "system", "message", "usage", "turn"} <= {line["type"] for line in lines}
    fits(place, "session", lines)

    tasks = [json.loads(path.read_text()) for path in place.home.rglob("task.json")]
    assert [task["goal"] for task in tasks] == ["Measure a.txt"]
    fits(place, "task", tasks)
