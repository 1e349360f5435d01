"""`kode subagent` as a real process, against a real server."""

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from kode.tools import processes
from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer

FIELDS = [
    *("type", "status", "summary", "error", "files_changed", "refused", "checks", "checked"),
    *("tokens_used", "steps", "parent_session", "untrusted"),
]
MARK = processes.new_mark()
USES = {"usage": {"input_tokens": 100, "output_tokens": 10}}


class Ran:
    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code, self.stderr = code, stderr
        self.lines: list[dict[str, Any]] = [json.loads(line) for line in stdout.splitlines()]
        self.result = self.lines[-1]
        assert list(self.result) == FIELDS
        assert [line["type"] for line in self.lines].count("result") == 1


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path, extra={"KODE_MODEL": "gpt-4o", processes.MARK: MARK})
    (place.project / "full.json").write_text('{"goal": "g", "permission_mode": "full"}')
    return place


def finished(process: "subprocess.Popen[str]") -> Ran:
    stdout, stderr = process.communicate(timeout=30)
    return Ran(process.returncode, stdout, stderr)


def run(place: Place, *arguments: str) -> Ran:
    return finished(place.start("subagent", *arguments))


@pytest.mark.smoke
def test_a_reached_goal_has_its_result_as_the_last_line(
    place: Place, server: ScriptedServer
) -> None:
    call = {"name": "write_file", "arguments": {"path": "sub/a.txt", "content": "x\n"}}
    server.play([{"calls": [call], **USES}, {"text": "Wrote it.", **USES}])
    task = {"goal": "write a.txt", "permission_mode": "auto-edit"}
    (place.project / "task.json").write_text(json.dumps(task))

    ran = run(place, "--task", "task.json", "--parent-session", "20260101-000000-abcdef")

    assert ran.code == 0
    assert ran.result == {
        "type": "result",
        "status": "success",
        "summary": "Wrote it.",
        "error": None,
        "files_changed": ["sub/a.txt"],
        "refused": [],
        "checks": [],
        "checked": "not_since_last_edit",
        "tokens_used": 220,
        "steps": 2,
        "parent_session": "20260101-000000-abcdef",
        "untrusted": False,
    }
    assert "Wrote sub/a.txt" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "--goal or --task"),
        (("--goal", "g", "--task", "t.json"), "exactly one of"),
        (("--goal", "g", "--gaol", "x"), "Did you mean --goal"),
        (("--task", "bad.json"), "Invalid JSON"),
        (("--task", "odd.json"), "goal"),
        (("--goal", "g", "--memory-snapshot", "missing.json"), "missing.json"),
        (("--goal", "g", "--memory-snapshot", "odd.json"), "system"),
        (("--goal", "g", "--provider", "anthropic", "--model", "claude-x"), "ANTHROPIC_API_KEY"),
    ],
)
def test_a_subagent_that_cannot_start_exits_with_3(
    place: Place, server: ScriptedServer, arguments: tuple[str, ...], says: str
) -> None:
    (place.project / "bad.json").write_text("{")
    (place.project / "odd.json").write_text('{"gaol": "x"}')

    ran = run(place, *arguments, "--parent-session", "p")

    assert ran.code == 3
    assert ran.result["status"] == "error"
    assert says in ran.result["error"]
    assert ran.result["parent_session"] == "p"
    assert server.count == 0


@pytest.mark.parametrize(
    ("script", "arguments", "says"),
    [
        ([{"error": {"status": 401}}], (), "key"),
        ([{"calls": [{"name": "list_files"}], **USES}] * 3, ("--max-steps", "2"), "limit of 2"),
    ],
)
def test_a_task_that_fails_ends_with_exit_1(
    place: Place,
    server: ScriptedServer,
    script: list[dict[str, Any]],
    arguments: tuple[str, ...],
    says: str,
) -> None:
    server.play(script)

    ran = run(place, "--goal", "g", *arguments)

    assert ran.code == 1
    assert ran.result["status"] == "error"
    assert says in ran.result["error"]
    assert ran.result["summary"].startswith("Not finished")


def test_a_timeout_ends_the_whole_tree_and_tells_the_progress(
    place: Place, server: ScriptedServer
) -> None:
    command = "(setsid sleep 61.5 &) ; echo begun; sleep 61.5"
    call = {"name": "shell", "arguments": {"command": command}}
    server.play([{"text": "I begin.", "calls": [call], **USES}])

    ran = run(place, "--task", "full.json", "--timeout", "4")

    assert ran.code == 2
    assert ran.result["status"] == "timeout"
    assert "Last said: I begin." in ran.result["summary"]
    assert "sleep 61.5" in ran.result["summary"]
    assert not living()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_with_a_result_and_exit_130(
    place: Place, server: ScriptedServer, number: int
) -> None:
    call = {"name": "shell", "arguments": {"command": "touch begun; sleep 61.5"}}
    server.play([{"calls": [call], **USES}])
    process = place.start("subagent", "--task", "full.json")
    while not (place.project / "begun").exists():
        time.sleep(0.02)

    process.send_signal(number)
    ran = finished(process)

    assert ran.code == 130
    assert ran.result["status"] == "interrupted"
    assert not living()


def living() -> list[processes.Process]:
    """The processes that were started in this place."""
    return processes.ProcessTree(MARK).find()
