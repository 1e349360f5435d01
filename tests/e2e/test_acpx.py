"""A client that others wrote drives `kode acp`: acpx, installed from npm."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import KODE, Place
from tests.needs import skip_without

WRITE = {"name": "write_file", "arguments": {"path": "a.txt", "content": "one\ntwo\n"}}
SLEEP = {"name": "shell", "arguments": {"command": "sleep 60"}}
SCRIPT = [
    {"match": "write a file", "calls": [WRITE], "then": [{"text": "I have written it."}]},
    {"match": "take your time", "text": "I will.", "calls": [SLEEP]},
    {"match": "where were we", "text": "We were at a file."},
]


@pytest.fixture(scope="module")
def acpx(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The command. Skips where it cannot be had."""
    skip_without("npm")
    folder = tmp_path_factory.mktemp("acpx")
    npm = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(folder), "acpx"]
    if subprocess.run(npm, capture_output=True, timeout=300, check=False).returncode:
        pytest.skip("npm could not install acpx: is there a network?")
    return str(folder / "node_modules" / ".bin" / "acpx")


class Acpx:
    """acpx in a project, with kode as its agent; its own state is in the place's folder."""

    def __init__(self, command: str, place: Place) -> None:
        script: Path = place.folder / "script.json"
        script.write_text(json.dumps(SCRIPT))
        agent = f"{KODE} acp --no-memory --script {script}"
        self.argv = [command, "--format", "json", "--ttl", "60", "--agent", agent]
        self.place = place

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*self.argv, *words],
            cwd=self.place.project,
            env=self.place.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str) -> str:
        with self.start(*words) as process:
            out, _ = process.communicate(timeout=90)
        return out


@pytest.fixture
def client(acpx: str, place: Place) -> Iterator[Acpx]:
    client = Acpx(acpx, place)
    yield client
    client.run("sessions", "close")
    end_agents(place)


def messages(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines() if line.startswith('{"jsonrpc"')]


def stop_reason(out: str) -> str:
    return str(messages(out)[-1]["result"]["stopReason"])


def test_an_edit_is_asked_about_and_done_or_not_done(place: Place, client: Acpx) -> None:
    denied = client.run("--deny-all", "exec", "write a file")
    assert "session/request_permission" in denied
    assert stop_reason(denied) == "end_turn"
    assert not (place.project / "a.txt").exists()

    allowed = client.run("--approve-all", "exec", "write a file")
    assert stop_reason(allowed) == "end_turn"
    assert (place.project / "a.txt").read_text() == "one\ntwo\n"


def test_a_session_is_cancelled_and_resumed(place: Place, client: Acpx) -> None:
    client.run("sessions", "new")
    client.run("--approve-all", "prompt", "write a file")
    with client.start("prompt", "take your time") as running:
        assert running.stdout is not None
        seen = ""
        while '"in_progress"' not in seen:
            line = running.stdout.readline()
            assert line, f"it ended before the call began:\n{seen}"
            seen += line
        client.run("cancel")
        rest, _ = running.communicate(timeout=90)
    assert stop_reason(rest) == "cancelled"

    # The process that held the session ends with it; the next one opens it from the disk.
    end_agents(place)
    resumed = client.run("prompt", "where were we?")

    assert "session/load" in resumed or "session/resume" in resumed
    assert stop_reason(resumed) == "end_turn"
    (session,) = place.session_files
    kept = session.read_text()
    assert "write a file" in kept
    assert "where were we?" in kept


def end_agents(place: Place) -> None:
    """Ends the agents that acpx has started for this place, as a person ends them."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"acp" in words and str(place.folder / "script.json").encode() in words:
            subprocess.run(["kill", process.name], check=False)
