"""`kode mcp serve` as clients start it: over stdin and stdout, to its end, killed at any moment."""

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.background import until
from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer

WRITING = {"calls": [{"name": "write_file", "arguments": {"path": "a.txt", "content": "new\n"}}]}
RUNNING = {"calls": [{"name": "shell", "arguments": {"command": "touch begun; sleep 60"}}]}


class Served:
    """A client of its own making, of the oldest revision: a line is a message."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.sent = 0
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=KNOWN)
        self.write({"method": "notifications/initialized"})

    def write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def send(self, method: str, **params: Any) -> None:
        self.sent += 1
        self.write({"id": self.sent, "method": method, "params": params})

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer; everything on stdout is a message. Raises: EOFError."""
        self.send(method, **params)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            if message.get("id") == self.sent:
                result: dict[str, Any] = message["result"]
                return result
        raise EOFError

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        done = self.ask("tools/call", name=tool, arguments=arguments)
        assert not done.get("isError"), done
        state: dict[str, Any] = done["structuredContent"]
        return state


KNOWN = {"name": "a test", "version": "1"}


@pytest.fixture
def serve(place: Place) -> Iterator[Callable[..., Served]]:
    started: list[subprocess.Popen[str]] = []

    def start(*flags: str) -> Served:
        started.append(place.start("mcp", "serve", *flags, stdin=subprocess.PIPE))
        return Served(started[-1])

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=20)


def prompts(place: Place) -> list[str]:
    (session,) = place.session_files
    lines = map(json.loads, session.read_text().splitlines())
    said = [line for line in lines if line["type"] == "message" and line["role"] == "user"]
    return [part["text"] for line in said for part in line["parts"] if not part.get("source")]


def test_a_person_takes_up_a_session_that_a_client_began(
    place: Place, server: ScriptedServer, serve: Any
) -> None:
    server.play([WRITING, {"text": "made it"}, {"text": "I am still here"}])
    client = serve()

    state = client.call("kode_start", prompt="make it", cwd=str(place.project))
    assert state["status"] == "asks"
    asked = state["question"]["id"]
    state = client.call("kode_answer", session=state["session"], question=asked, choice="once")

    assert state["result"]["result"] == "made it"
    assert (place.project / "a.txt").read_text() == "new\n"
    out, err = client.process.communicate(timeout=30)
    assert (client.process.returncode, out, err) == (0, "", "")
    again = place.run("continue", "--id", state["session"], "and now?")
    assert again.out.strip() == "I am still here"
    assert prompts(place) == ["make it", "and now?"]


@pytest.mark.parametrize("leave", ["eof", "term"])
def test_a_turn_whose_client_leaves_is_interrupted_and_kept(
    place: Place, server: ScriptedServer, serve: Any, leave: str
) -> None:
    server.play([RUNNING])
    client = serve()
    client.call("kode_start", prompt="make it", cwd=str(place.project), mode="auto-edit", wait_s=0)
    until(lambda: calls(place))
    if leave == "term":
        client.process.send_signal(signal.SIGTERM)
    client.process.communicate(timeout=30)

    assert client.process.returncode == 0
    (session,) = place.session_files
    last = json.loads(session.read_text().splitlines()[-1])
    assert (last["type"], last["status"]) == ("turn", "interrupted")
    assert "no damage" in place.run("session", "check").out


def calls(place: Place) -> list[str]:
    """The model's calls that are on disk."""
    lines = map(json.loads, place.session_files[0].read_text().splitlines())
    parts = [part for line in lines for part in line.get("parts", ())]
    return [part["name"] for part in parts if part["type"] == "tool_call"]


def test_memory_alone_over_stdio(place: Place, serve: Any) -> None:
    client = serve("--memory-only")
    tools = [tool["name"] for tool in client.ask("tools/list")["tools"]]
    added = client.call("memory_add", text="prefers tabs over spaces")
    client.process.communicate(timeout=30)

    assert all(name.startswith("memory_") for name in tools)
    listed = place.run("memory", "approve").out
    assert "from a test" in listed
    (waiting,) = re.findall(r"^  (\w+)$", listed, re.MULTILINE)
    assert place.run("memory", "approve", waiting).code == 0
    assert "tabs" in place.run("memory", "show").out
    assert added["id"] in place.run("memory", "log").out
