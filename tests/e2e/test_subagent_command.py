"""`kode subagent` as a real process, against a real server."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kode.tools import processes
from tests.e2e import command
from tests.scripted_server import ScriptedServer

KEY = "sk-test-0123456789abcdefghij"
FIELDS = [
    *("type", "status", "summary", "error", "files_changed", "refused", "checks", "checked"),
    *("tokens_used", "steps", "parent_session", "untrusted"),
]
MARK = processes.new_mark()
USES = {"usage": {"input_tokens": 100, "output_tokens": 10}}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


class Ran:
    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code, self.stderr = code, stderr
        self.lines: list[dict[str, Any]] = [json.loads(line) for line in stdout.splitlines()]
        self.result = self.lines[-1]
        assert list(self.result) == FIELDS
        assert [line["type"] for line in self.lines].count("result") == 1


@dataclass
class Place(command.Place):
    """A project, a home, and an environment that reaches nothing but the server."""

    server: ScriptedServer = field(kw_only=True)

    def begin(self, *arguments: str) -> "subprocess.Popen[str]":
        return self.start("subagent", *arguments)

    def subagent(self, *arguments: str) -> Ran:
        return finished(self.begin(*arguments))

    def file(self, name: str, value: Any) -> str:
        text = value if isinstance(value, str) else json.dumps(value)
        (self.project / name).write_text(text)
        return name


def finished(process: "subprocess.Popen[str]") -> Ran:
    stdout, stderr = process.communicate(timeout=30)
    return Ran(process.returncode, stdout, stderr)


@pytest.fixture
def place(tmp_path: Path, server: ScriptedServer) -> Place:
    extra = {"KODE_MODEL": "gpt-4o", "OPENAI_API_KEY": KEY, processes.MARK: MARK}
    return Place(tmp_path, server.openai_url, extra, server=server)


@pytest.mark.smoke
def test_a_reached_goal_has_its_result_as_the_last_line(place: Place) -> None:
    call = {"name": "write_file", "arguments": {"path": "sub/a.txt", "content": "x\n"}}
    place.server.play([{"calls": [call], **USES}, {"text": "Wrote it.", **USES}])
    task = place.file("task.json", {"goal": "write a.txt", "permission_mode": "auto-edit"})

    ran = place.subagent("--task", task, "--parent-session", "20260101-000000-abcdef")

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
        (("--goal", " "), "--goal is empty"),
        (("--goal", "g", "--from-parent"), "for kode's own use"),
        (("--goal", "g", "--gaol", "x"), "Did you mean --goal"),
        (("--goal", "g", "--timeout", "-1"), "above 0"),
        (("--goal", "g", "--max-steps", "0"), "1 or more"),
        (("--task", "missing.json"), "missing.json"),
        (("--task", "bad.json"), "Invalid JSON"),
        (("--task", "odd.json"), "goal"),
        (("--goal", "g", "--memory-snapshot", "missing.json"), "missing.json"),
        (("--goal", "g", "--memory-snapshot", "bad.json"), "Invalid JSON"),
        (("--goal", "g", "--memory-snapshot", "odd.json"), "system"),
        (("--goal", "g", "--provider", "anthropic", "--model", "claude-x"), "ANTHROPIC_API_KEY"),
    ],
)
def test_a_subagent_that_cannot_start_exits_with_3(
    place: Place, arguments: tuple[str, ...], says: str
) -> None:
    place.file("bad.json", "{")
    place.file("odd.json", {"gaol": "x"})

    ran = place.subagent(*arguments, "--parent-session", "p")

    assert ran.code == 3
    assert ran.result["status"] == "error"
    assert says in ran.result["error"]
    assert ran.result["parent_session"] == "p"
    assert place.server.count == 0


@pytest.mark.parametrize(
    ("script", "arguments", "says"),
    [
        ([{"error": {"status": "auth"}}], (), "key"),
        ([{"calls": [{"name": "list_files"}], **USES}] * 3, ("--max-steps", "2"), "limit of 2"),
    ],
)
def test_a_task_that_fails_ends_with_exit_1(
    place: Place, script: list[dict[str, Any]], arguments: tuple[str, ...], says: str
) -> None:
    place.server.play(script)

    ran = place.subagent("--goal", "g", *arguments)

    assert ran.code == 1
    assert ran.result["status"] == "error"
    assert says in ran.result["error"]
    assert ran.result["summary"].startswith("Not finished")


def test_a_timeout_ends_the_whole_tree_and_tells_the_progress(place: Place) -> None:
    command = "(setsid sleep 61.5 &) ; echo begun; sleep 61.5"
    call = {"name": "shell", "arguments": {"command": command}}
    place.server.play([{"text": "I begin.", "calls": [call], **USES}])
    task = place.file("t.json", {"goal": "g", "permission_mode": "full"})

    ran = place.subagent("--task", task, "--timeout", "4")

    assert ran.code == 2
    assert ran.result["status"] == "timeout"
    assert "Last said: I begin." in ran.result["summary"]
    assert "sleep 61.5" in ran.result["summary"]
    assert not living()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_with_a_result_and_exit_130(place: Place, number: int) -> None:
    call = {"name": "shell", "arguments": {"command": "touch begun; sleep 61.5"}}
    place.server.play([{"calls": [call], **USES}])
    task = place.file("t.json", {"goal": "g", "permission_mode": "full"})
    process = place.begin("--task", task)
    while not (place.project / "begun").exists():
        time.sleep(0.02)

    process.send_signal(number)
    ran = finished(process)

    assert ran.code == 130
    assert ran.result["status"] == "interrupted"
    assert not living()


def test_a_subagent_refuses_questions_that_no_person_answers(place: Place) -> None:
    call = {"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}
    place.server.play([{"calls": [call], **USES}, {"text": "could not"}])

    ran = place.subagent("--goal", "g")

    assert (ran.code, ran.result["status"]) == (1, "incomplete")
    assert [one["tool"] for one in ran.result["refused"]] == ["write_file"]
    assert ran.result["files_changed"] == []
    assert not (place.project / "a.txt").exists()


def living() -> list[processes.Process]:
    """The processes that were started in this place."""
    return processes.ProcessTree(MARK).find()
