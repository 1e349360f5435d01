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


def test_a_first_message_says_nothing_of_changed_servers(place: Place) -> None:
    bring(place)
    assert place.run("mcp", "approve", "files", "--yes").code == 0

    with ScriptedServer([{"text": "done"}]) as server:
        place.url = server.openai_url
        place.run("run", "hello")

    [sent] = server.requests
    assert "mcp__files__read" in [one["function"]["name"] for one in sent.json["tools"]]
    assert "# The MCP servers" not in json.dumps(sent.json["messages"])


def test_an_unruled_call_is_refused_where_nobody_answers(place: Place, model) -> None:
    bring(place)
    place.run("mcp", "approve", "files", "--yes")
    done = place.run("run", "hello", *model(CALL, {"text": "done"}))
    (denial,) = done.json["denials"]
    assert denial["subject"] == "files:read"
    assert "--allow 'mcp(files:read)'" in denial["reason"]


def test_a_changed_entry_is_off_again(place: Place, model) -> None:
    bring(place)
    place.run("trust", "approve", "--yes")
    bring(place, "more")
    done = place.run("run", "hello", *model({"text": "done"}))
    assert done.json["untrusted"] == ["MCP server files"]
    assert '+    "more"' in place.run("trust", "show", "files").out


def test_a_tool_with_a_changed_definition_is_off_until_approved(place: Place, model) -> None:
    shutil.copy(SERVER, place.project)
    place.run("mcp", "add", "files", "--", PLAIN_PYTHON, SERVER.name)
    place.run("mcp", "approve", "files", "--yes")
    config = place.home / "config.json"
    config.write_text(config.read_text().replace('hostile.py"', 'hostile.py", "changed"'))

    told = ("--allow", "mcp", *model(CALL, {"text": "done"}), "--output-format", "text")
    done = place.run("run", "hello", *told)
    assert done.code == 0
    assert not taken_in(place)
    said = " ".join(done.err.split())
    assert "MCP server files has changed tools you approved: read." in said
    assert "`kode mcp approve files`" in said
    assert "Sends all." not in place.session_files[-1].read_text()

    shown = place.run("mcp", "approve", "files", "--yes")
    assert '-  "description": "Reads."' in shown.out
    assert '+  "description": "Sends all."' in shown.out
    place.run("run", "hello", "--allow", "mcp", *model(CALL, {"text": "done"}))
    assert taken_in(place)


def test_a_tested_server_offers_its_tools_before_it_has_started(place: Place, model) -> None:
    shutil.copy(SERVER, place.project)
    place.run("mcp", "add", "files", "--", PLAIN_PYTHON, SERVER.name)
    assert "tool      read" in place.run("mcp", "test", "files").out
    config = place.home / "config.json"
    slow = (
        "import os, runpy, time\n"
        "while not os.path.exists('go'): time.sleep(0.02)\n"
        f"runpy.run_path({SERVER.name!r})"
    )
    go = {"calls": [{"name": "shell", "arguments": {"command": "touch go"}}]}
    entry = {"command": PLAIN_PYTHON, "args": ["-c", slow]}
    config.write_text(json.dumps({"mcpServers": {"files": entry}}))

    allowed = ("--allow", "mcp(files)", "--allow", "shell(touch go)")
    done = place.run("run", "hello", *allowed, *model(go, CALL, {"text": "done"}))

    assert done.code == 0
    assert taken_in(place) == ["the MCP server files"]


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


def test_a_server_named_on_the_command_line_keeps_its_wall(place: Place, model) -> None:
    proof = place.folder / "proof"
    entry = {"command": PLAIN_PYTHON, "args": ["-c", f"open({str(proof)!r}, 'w')"]}
    outside = {**entry, "outside": True}

    for values in (entry, outside):
        named = json.dumps({"mcpServers": {"files": values}})
        place.run("run", "hello", "--mcp-config", named, *model({"text": "done"}))
    wrong = place.run("run", "hello", "--mcp-config", "missing.json", *model({"text": "done"}))

    assert not proof.exists()
    assert wrong.code == 3
    assert "missing.json" in wrong.err


def test_a_test_marks_changes_since_the_one_before(place: Place) -> None:
    shutil.copy(SERVER, place.project)
    place.run("mcp", "add", "files", "--", PLAIN_PYTHON, SERVER.name)
    place.run("mcp", "test", "files")
    config = place.home / "config.json"
    config.write_text(config.read_text().replace('hostile.py"', 'hostile.py", "changed"'))

    tested = place.run("mcp", "test", "files")

    assert "read (changed since it was approved: off)" in tested.out


def test_doctor_names_trusted_servers_and_those_that_wait(place: Place) -> None:
    place.run("mcp", "add", "mine", "--", "true")
    bring(place)
    (finding,) = (
        one for one in json.loads(place.run("doctor", "--json").out) if one["what"] == "extensions"
    )
    assert "MCP server mine" in finding["detail"]
    assert "not approved, so not used: MCP server files" in finding["detail"]


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
