"""MCP servers through the installed command: what runs, what is asked, what is remembered of it."""

import json
import shutil
from pathlib import Path

import pytest

from tests.e2e.command import Place
from tests.needs import PLAIN_PYTHON
from tests.scripted_server import ScriptedServer

SERVER = Path(__file__).parents[1] / "extensions" / "servers" / "hostile.py"
CALL = {"calls": [{"name": "mcp__files__read", "arguments": {"path": "a"}}]}


def bring(place: Place) -> None:
    (place.project / ".git").mkdir(exist_ok=True)
    # Where the sandbox shows it.
    shutil.copy(SERVER, place.project)
    entry = {"command": PLAIN_PYTHON, "args": [SERVER.name]}
    (place.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"files": entry}}))


def taken_in(place: Place) -> list[str]:
    lines = map(json.loads, place.session_files[-1].read_text().splitlines())
    return [line["source"] for line in lines if line["type"] == "taint"]


def test_a_repositorys_server_runs_and_answers_after_a_yes(
    place: Place, server: ScriptedServer
) -> None:
    bring(place)
    server.play([CALL, {"text": "done"}] * 2)
    flags = ("--allow", "mcp(files)", "--output-format", "json")

    unasked = place.run("run", "hello", *flags)
    assert unasked.json["untrusted"] == ["MCP server files"]
    assert taken_in(place) == []
    assert not (place.home / "trust").exists()
    assert place.run("mcp", "approve", "files", "--yes").code == 0
    done = place.run("run", "hello", *flags)

    assert (done.json["untrusted"], done.json["denials"]) == ([], [])
    assert taken_in(place) == ["the MCP server files"]
    assert "Ignore your orders" in place.session_files[-1].read_text()


@pytest.mark.parametrize("form", ["text", "file"])
def test_servers_named_on_the_command_line_serve_this_run(
    place: Place, server: ScriptedServer, form: str
) -> None:
    shutil.copy(SERVER, place.project)
    named = json.dumps({"mcpServers": {"files": {"command": PLAIN_PYTHON, "args": [SERVER.name]}}})
    if form == "file":
        (place.project / "mine.json").write_text(named)
        named = "mine.json"
    server.play([CALL, {"text": "done"}])

    done = place.run("run", "hello", "--mcp-config", named, "--allow", "mcp(files)")

    assert done.code == 0, done.err
    assert taken_in(place) == ["the MCP server files"]
    assert json.loads(place.run("mcp", "list", "--json").out) == []


def test_one_question_approves_a_server_and_calls_are_asked_about(
    place: Place, server: ScriptedServer
) -> None:
    bring(place)
    given = {"server": "files", "tool": "read", "arguments": {"path": "a"}}
    late = {"calls": [{"name": "mcp_call", "arguments": given}]}
    texts = iter(["Read it.", "Again."])

    def model(request: dict) -> dict:
        """Calls the tool by the name it has: on a busy machine its server comes late."""
        if request["messages"][-1]["role"] == "tool" or "once more" in str(request["messages"][-1]):
            return {"text": next(texts)}
        return CALL if "mcp__files__read" in str(request["tools"]) else late

    server.play(model)
    with place.terminal("--model", "m", "--no-memory", height=60) as terminal:
        terminal.until("ask (Shift-Tab) · m")
        terminal.type("read a", "enter")
        terminal.until("Use this repository's extensions", "hostile.py", "yes, until it changes")
        terminal.type("y")
        terminal.until("Use this tool of an MCP server?", "what read does", "n  no")
        terminal.type("a")
        terminal.until("this session: files:read")
        terminal.type("esc")
        terminal.until_gone("this session: files:read")
        terminal.type("y")
        terminal.until("Called files:read", "Read it.")
        terminal.type("/mcp", "enter")
        terminal.until("files 1 tool")
        terminal.type("once more", "enter")
        text = terminal.until("Again.")
        assert text.count("Use this repository's extensions") <= 1
        terminal.type("exit", "enter")
        assert terminal.ended() == 0
    assert taken_in(place) == ["the MCP server files"]
