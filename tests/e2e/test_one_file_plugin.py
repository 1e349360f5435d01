"""docs/plugins.md is true: the plug-in in one file, as printed, tried with `--plugin`."""

import json
import re
from pathlib import Path

import pytest

from tests.e2e.command import Place
from tests.e2e.test_plugins_page import PAGE
from tests.scripted_server import ScriptedServer

PUSH = {"calls": [{"name": "shell", "arguments": {"command": "git push"}}]}


def write(path: str) -> dict[str, object]:
    arguments = {"path": path, "content": "one line"}
    return {"calls": [{"name": "write_file", "arguments": arguments}]}


@pytest.fixture
def standup(tmp_path: Path) -> str:
    found = re.search(r"^`standup\.py`.*?^```python\n(.*?)^```$", PAGE, re.M | re.S)
    assert found is not None
    file = tmp_path / "standup.py"
    file.write_text(found[1])
    return str(file)


def test_a_file_guards_calls_where_nobody_is(
    place: Place, server: ScriptedServer, standup: str
) -> None:
    replies = [PUSH, write("uv.lock"), write("a.txt"), {"text": "Two were refused."}]
    server.play(replies)
    ran = place.run(
        *("run", "--plugin", standup, "--output-format", "json"),
        *("--permission-mode", "full", "Push, and write."),
    )
    tools = [tool["function"]["name"] for tool in server.requests[0].json["tools"]]

    assert "notes" in tools
    assert ran.json["status"] == "incomplete"
    push, lock = (refusal["reason"] for refusal in ran.json["refused"])
    assert "The plug-in standup: Everybody sees a push." in push
    assert "The plug-in standup: Lock files are written by their tools." in lock
    assert [path.name for path in place.project.glob("*.*")] == ["a.txt"]
    assert (place.project / "a.txt").read_text() == "one line\n"


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_file_asks_the_person_at_the_prompt(
    place: Place, server: ScriptedServer, standup: str, answer: str
) -> None:
    server.play([PUSH, {"text": "The end."}])
    arguments = ["--plugin", standup, "--permission-mode", "full"]
    with place.terminal(*arguments, height=40) as terminal:
        terminal.until("kode in", timeout_s=60)
        terminal.type("/note standup at nine\r")
        assert "Warning" not in terminal.until("1 notes", timeout_s=60)
        terminal.type("Push it\r")
        terminal.until("n  no", timeout_s=60)
        assert "The plug-in standup: Everybody sees a push." in " ".join(terminal.text.split())
        terminal.type(f"{answer}\r")
        terminal.until("The end.", timeout_s=60)
        result = json.dumps(server.requests[-1].json["messages"][-1])

    assert ("person refused this" in result) is (answer == "n")
    [session] = place.session_files
    assert '"x-standup"' in session.read_text()
