"""A run that could not do all of its work does not say it succeeded."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer


@pytest.fixture
def server(place: Place) -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        place.url = server.openai_url
        yield server


def write(path: str) -> dict[str, Any]:
    return {"name": "write_file", "arguments": {"path": path, "content": "x"}}


def shell(command: str) -> dict[str, Any]:
    return {"name": "shell", "arguments": {"command": command}}


ONLY_B = ("--allow", "edit(b.txt)")


@pytest.mark.parametrize(
    ("steps", "flags", "status", "refused"),
    [
        ([[write("a.txt")]], (), "incomplete", ["a.txt"]),
        ([[write("a.txt"), write("b.txt")]], ONLY_B, "incomplete", ["a.txt"]),
        ([[write("b.txt")]], ONLY_B, "success", []),
        ([[write("a.txt")]], ("--permission-mode", "plan"), "success", []),
        ([[shell("git push")]], (), "incomplete", ["git push"]),
        ([[shell("git push")]], ("--deny", "shell(git push:*)"), "incomplete", ["git push"]),
        ([[{"name": "read_file", "arguments": {"path": ".env"}}]], (), "success", []),
    ],
)
def test_refused_work_makes_a_run_incomplete(
    place: Place,
    server: ScriptedServer,
    steps: list[list[dict[str, Any]]],
    flags: tuple[str, ...],
    status: str,
    refused: list[str],
) -> None:
    server.play([*({"calls": calls} for calls in steps), {"text": "All of it is done."}])
    done = place.run("run", "Work", "--output-format", "json", *flags)

    assert done.json["status"] == status
    assert done.code == (0 if status == "success" else 1)
    assert [one["subject"] for one in done.json["refused"]] == refused
    assert done.json["result"] == "All of it is done."
    assert bool(done.json["error"]) == (status != "success")


def test_every_output_says_that_a_run_is_incomplete(place: Place, server: ScriptedServer) -> None:
    server.play([{"calls": [write("a.txt")]}, {"text": "Done."}] * 2)
    text = place.run("run", "Write")
    lines = place.run("run", "Write", "--output-format", "stream-json").lines
    session = lines[-1]["session_id"]
    shown = place.run("session", "show", session)
    kept = [
        json.loads(line)
        for line in (place.home / "sessions" / f"{session}.jsonl").read_text().splitlines()
    ]
    end = next(entry for entry in kept if entry["type"] == "turn")

    assert (text.code, text.out) == (1, "Done.\n")
    assert "--permission-mode auto-edit" in text.err
    assert lines[-1]["status"] == end["status"] == "incomplete"
    assert lines[-1]["refused"] == end["refused"]
    assert "incomplete" in shown.out


def test_a_subagent_reports_refused_work(place: Place, server: ScriptedServer) -> None:
    server.play([{"calls": [write("a.txt")]}, {"text": "Done."}])
    done = place.run("subagent", "--goal", "Write a.txt", "--quiet")
    result = json.loads(done.out.splitlines()[-1])

    assert (done.code, result["status"], result["summary"]) == (1, "incomplete", "Done.")
    assert [one["subject"] for one in result["refused"]] == ["a.txt"]
