"""Signals from outside: the session is saved, what was started has ended, the terminal is as it
was, and the exit code says that kode was interrupted.
"""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.background import until
from tests.e2e.command import KODE, Place
from tests.scripted_server import ScriptedServer

SLEEP = {
    "calls": [
        {"name": "shell", "arguments": {"command": "echo $$ > pid; touch begun; exec sleep 60"}}
    ]
}
BOTH = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])


def last_turn(place: Place) -> dict[str, Any]:
    (session,) = place.session_files
    turn: dict[str, Any] = json.loads(session.read_text().splitlines()[-1])
    assert turn["type"] == "turn"
    return turn


def is_gone(pid_file: Path) -> bool:
    try:
        os.kill(int(pid_file.read_text()), 0)
    except ProcessLookupError:
        return True
    return False


@BOTH
def test_a_signal_ends_the_running_command_too(
    place: Place, server: ScriptedServer, number: signal.Signals
) -> None:
    server.play([SLEEP])
    with place.start("run", "--permission-mode", "full", "hi") as process:
        until((place.project / "begun").exists)
        process.send_signal(number)
        _, err = process.communicate(timeout=20)

    assert process.returncode == 130
    assert "resumes it" in err
    assert last_turn(place)["status"] == "interrupted"
    assert is_gone(place.project / "pid")


def test_a_signal_before_the_task_is_reported_in_the_format(place: Place) -> None:
    with place.start("run", "--output-format", "json", "-", stdin=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert "standard input" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=20)

    assert process.returncode == 130
    assert json.loads(out)["status"] == "interrupted"


@pytest.mark.parametrize("form", ["text", "stream-json"])
def test_a_reader_that_leaves_ends_it_quietly(
    place: Place, server: ScriptedServer, form: str
) -> None:
    server.play([{"text": " ".join(map(str, range(20_000)))}])
    command = f'"{KODE}" run --output-format {form} hi | head -c 1'
    done = subprocess.run(
        ["sh", "-c", command], cwd=place.project, env=place.environ, capture_output=True, timeout=60
    )

    assert done.stderr == b""
    assert last_turn(place)["status"] == "success"


@BOTH
def test_a_signal_at_the_prompt_leaves_the_terminal_as_before(
    place: Place, server: ScriptedServer, number: signal.Signals
) -> None:
    server.play([{"text": "one line\n\n" * 200, "wire": {"chunk_delay_s": 0.25}}])
    with place.terminal() as prompt:
        prompt.until("? for help", " · ")
        prompt.type("hi", "enter")
        prompt.until("one line")
        os.kill(prompt.process.pid, number)
        assert prompt.ended() == 130
        assert b"\x1b[?2004l" in prompt.raw  # bracketed paste is off again
        assert "kode -r" in prompt.text
        assert "Traceback" not in prompt.text
    assert last_turn(place)["status"] == "interrupted"


def test_a_closed_terminal_ends_the_turn_and_its_command(
    place: Place, server: ScriptedServer
) -> None:
    server.play([SLEEP])
    full = ["--permission-mode", "full"]
    with place.terminal(*full) as prompt:
        prompt.until("? for help", " · ")
        prompt.type("hi", "enter")
        until(lambda: prompt.read() and (place.project / "begun").exists())
        prompt.process.ptyproc.fileobj.close()
        until(lambda: os.waitpid(prompt.process.pid, os.WNOHANG)[0])
        prompt.process.ptyproc.fd = prompt.process.child_fd = -1
        prompt.process.ptyproc.terminated = prompt.process.terminated = True
        prompt.process.ptyproc.closed = prompt.process.closed = True

    assert last_turn(place)["status"] == "interrupted"
    assert is_gone(place.project / "pid")
