"""Command lines as users of two other agents type them: they work, or say what to type instead."""

from collections.abc import Iterator

import pytest

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


def test_a_schema_of_other_agents_is_taken(place: Place, server: ScriptedServer) -> None:
    server.play([{"text": "{}"}])
    assert place.run("exec", "hi", "--output-schema", SCHEMA).out == "{}\n"
