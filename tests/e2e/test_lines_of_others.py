"""Command lines as users of two other agents type them: they work, or say what to type instead."""

import json
from collections.abc import Iterator

import pytest

from kode.cli import hints
from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer

pytestmark = pytest.mark.sampled(of=2)

ID = "20260102-030405-a1b2c3"
SCHEMA = '{"type": "object"}'

WORK = [
    ["-p", "say hi"],
    ["-p", "hi", "--output-format", "text"],
    ["-p", "hi", "--model", "gpt-x"],
    ["-p", "hi", "--max-turns", "3"],
    ["-p", "hi", "--permission-mode", "acceptEdits"],
    ["-p", "hi", "--permission-mode", "plan"],
    ["-p", "hi", "--dangerously-skip-permissions"],
    ["-p", "hi", "--allowedTools", "Bash(git log:*),Read"],
    ["-p", "hi", "--disallowedTools", "WebFetch"],
    ["-p", "hi", "--append-system-prompt", "Be brief."],
    ["-p", "hi", "--append-system-prompt-file", "brief.txt"],
    ["-p", "hi", "--system-prompt-file", "brief.txt"],
    ["-p", "hi", "--session-id", ID],
    ["-p", "hi", "--add-dir", "more"],
    ["-p", "hi", "--mcp-config", '{"mcpServers": {}}'],
    ["-p", "hi", "--no-session-persistence"],
    ["-p", "hi", "--fallback-model", "gpt-y"],
    ["-p", "hi", "--settings", "{}"],
    ["-p", "hi", "--settings", "settings.json"],
    ["exec", "hi"],
    ["exec", "-m", "gpt-x", "hi"],
    ["exec", "-C", ".", "hi"],
    ["exec", "--yolo", "hi"],
    ["--plain", "run", "hi"],
]
HINTS = [
    ("flags", "--full-auto", ["exec", "--full-auto", "hi"]),
    ("flags", "--json", ["exec", "--json", "hi"]),
    ("flags", "--image", ["exec", "--image", "a.png", "hi"]),
    ("flags", "--profile", ["exec", "--profile", "work", "hi"]),
    ("flags", "--output-last-message", ["exec", "--output-last-message", "a.txt", "hi"]),
    ("flags", "--skip-git-repo-check", ["exec", "--skip-git-repo-check", "hi"]),
    ("sandbox", "read-only", ["exec", "--sandbox", "read-only", "hi"]),
    ("sandbox", "workspace-write", ["exec", "--sandbox", "workspace-write", "hi"]),
    ("commands", "login", ["login"]),
]
TABLES = {
    "flags": hints.FLAG_HINTS,
    "sandbox": hints.SANDBOX_MODES,
    "commands": hints.COMMAND_HINTS,
}


@pytest.fixture
def server(place: Place) -> Iterator[ScriptedServer]:
    (place.project / "brief.txt").write_text("Be brief.")
    (place.project / "settings.json").write_text('{"env": {"STAGE": "test"}, "model": "opus"}')
    (place.project / "more").mkdir()
    with ScriptedServer([{"text": "hello"}]) as server:
        place.url = server.openai_url
        yield server


@pytest.mark.parametrize("words", WORK, ids=" ".join)
def test_a_line_of_other_agents_runs_the_task(
    place: Place, server: ScriptedServer, words: list[str]
) -> None:
    done = place.run(*words)
    assert (done.code, done.out) == (0, "hello\n"), done.err


@pytest.mark.parametrize(("table", "word", "line"), HINTS, ids=lambda one: str(one))
def test_a_line_without_an_equal_says_what_to_type(
    place: Place, server: ScriptedServer, table: str, word: str, line: list[str]
) -> None:
    done = place.run(*line)
    assert done.code == 3
    assert TABLES[table][word] in done.err
    assert not server.requests


def test_a_setting_is_set_from_the_command_line(place: Place) -> None:
    assert place.run("config", "set", "max_steps", "7").code == 0
    assert json.loads((place.home / "config.json").read_text())["max_steps"] == 7


def test_an_export_without_an_id_takes_the_newest(place: Place, server: ScriptedServer) -> None:
    place.run("-p", "hi", "--session-id", ID)
    assert json.loads(place.run("session", "export").out)["id"] == ID


def test_a_schema_of_other_agents_is_taken(place: Place, server: ScriptedServer) -> None:
    server.play([{"text": "{}"}])
    assert place.run("exec", "hi", "--output-schema", SCHEMA).out == "{}\n"
