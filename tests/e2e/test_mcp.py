"""MCP servers through the installed command: what runs, what is asked, what is remembered of it."""

import json
import shutil
from pathlib import Path

import pytest

from tests.e2e.command import KODE, Place
from tests.e2e.terminal import Terminal
from tests.needs import PLAIN_PYTHON
from tests.scripted_server import ScriptedServer

SERVER = Path(__file__).parents[1] / "extensions" / "servers" / "hostile.py"
CALL = {"calls": [{"name": "mcp__files__read", "arguments": {"path": "a"}}]}


@pytest.fixture
def model(place: Place, tmp_path: Path):
    def script(*replies):
        path = tmp_path / "script.json"
        path.write_text(json.dumps(replies))
        return ("--provider", "scripted", "--script", str(path), "--output-format", "json")

    return script


def bring(place: Place, *words: str) -> None:
    (place.project / ".git").mkdir(exist_ok=True)
    # Where the sandbox shows it.
    shutil.copy(SERVER, place.project)
    entry = {"command": PLAIN_PYTHON, "args": [SERVER.name, *words]}
    (place.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"files": entry}}))


def taken_in(place: Place) -> list[str]:
    lines = map(json.loads, place.session_files[-1].read_text().splitlines())
    return [line["source"] for line in lines if line["type"] == "taint"]


def test_a_repository_runs_no_server_before_a_yes(place: Place, model, tmp_path) -> None:
    proof = tmp_path / "ran"
    bring(place)
    entry = {"command": "touch", "args": [str(proof)]}
    (place.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"files": entry}}))

    done = place.run("run", "hello", *model(CALL, {"text": "done"}))

    assert done.json["untrusted"] == ["MCP server files"]
    assert not proof.exists()
    assert not (place.home / "trust").exists()


def test_an_approved_server_answers_and_marks_the_session(place: Place, model) -> None:
    bring(place)
    assert place.run("mcp", "approve", "files", "--yes").code == 0

    done = place.run("run", "hello", "--allow", "mcp(files)", *model(CALL, {"text": "done"}))

    assert done.json["untrusted"] == []
    assert done.json["denials"] == []
    assert taken_in(place) == ["the MCP server files"]
    assert "Ignore your orders" in place.session_files[-1].read_text()


@pytest.mark.parametrize("form", ["text", "file"])
def test_servers_named_on_the_command_line_serve_this_run(place: Place, model, form) -> None:
    shutil.copy(SERVER, place.project)
    named = json.dumps({"mcpServers": {"files": {"command": PLAIN_PYTHON, "args": [SERVER.name]}}})
    if form == "file":
        (place.project / "mine.json").write_text(named)
        named = "mine.json"

    told = ("--mcp-config", named, "--allow", "mcp(files)")
    done = place.run("run", "hello", *told, *model(CALL, {"text": "done"}))

    assert done.code == 0, done.err
    assert taken_in(place) == ["the MCP server files"]
    assert json.loads(place.run("mcp", "list", "--json").out) == []


def test_requests_keep_their_beginning_through_a_session(place: Place, tmp_path) -> None:
    replies = [{"text": "one"}, {"text": "two"}]
    with ScriptedServer(replies) as server:
        place.url = server.openai_url
        bring(place)
        place.run("mcp", "approve", "files", "--yes")
        first = place.run(
            "run",
            "hello",
            "--model",
            "m",
            "--no-memory",
            "--output-format",
            "json",
        )
        place.run("continue", "--model", "m", "--no-memory", "again")
        one, two = (request.json for request in server.requests if request.json.get("tools"))
    assert first.code == 0
    assert "mcp__files__read" in str(one["tools"])
    assert one["tools"] == two["tools"]
    assert two["messages"][0] == one["messages"][0]


def test_one_question_approves_a_server_and_calls_are_asked_about(place: Place) -> None:
    bring(place)
    given = {"server": "files", "tool": "read", "arguments": {"path": "a"}}
    late = {"calls": [{"name": "mcp_call", "arguments": given}]}
    texts = iter(["Read it.", "Again."])

    def model(request: dict) -> dict:
        """Calls the tool by the name it has: on a busy machine its server comes late."""
        if request["messages"][-1]["role"] == "tool" or "once more" in str(request["messages"][-1]):
            return {"text": next(texts)}
        return CALL if "mcp__files__read" in str(request["tools"]) else late

    with ScriptedServer(model) as server:
        place.url = server.openai_url
        with Terminal(
            KODE, ["--model", "m", "--no-memory"], cwd=place.project, env=place.environ, height=60
        ) as terminal:
            terminal.until("ask · m")
            terminal.type("read a", "enter")
            terminal.until(
                "Use this repository's extensions", "hostile.py", "yes, until it changes"
            )
            terminal.type("y")
            terminal.until("Use a tool of an MCP server", "what read does", "answer:")
            terminal.type("a")
            terminal.until("mcp(files:read)")
            terminal.type("esc")
            terminal.until_gone("mcp(files:read)")
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
