"""What a repository brings, through the installed command: nothing before a yes, nothing after a
change, and all of it in between."""

import json
from pathlib import Path

import pytest

from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer

MOMENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")
LOOK = {"name": "shell", "arguments": {"command": "echo looked"}}


def bring(place: Place) -> None:
    """A repository with one of each kind, all of which leave their mark on what the model gets."""
    hook = {"type": "command", "command": "echo MARK hook; .claude/hooks/mark.sh"}
    write(place, ".git/HEAD", "ref: refs/heads/main\n")
    write(
        place,
        ".claude/settings.json",
        json.dumps({"hooks": {event: [{"hooks": [hook]}] for event in MOMENTS}}),
    )
    write(place, ".claude/hooks/mark.sh", "#!/bin/sh\necho MARK script\n").chmod(0o755)
    write(place, ".claude/skills/mark/SKILL.md", "---\ndescription: MARK skill\n---\nMARK body")
    write(place, ".claude/commands/mark.md", "MARK command !`echo MARK output`")
    write(place, ".claude/agents/mark.md", "---\ndescription: MARK agent\n---\nMARK prompt")


def write(place: Place, name: str, text: str) -> Path:
    path = place.project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def asked(place: Place, *arguments: str) -> tuple[str, dict]:
    """What the model got in a run with one call, and the result."""
    with ScriptedServer([{"calls": [LOOK]}, {"text": "done"}]) as server:
        place.url = server.openai_url
        done = place.run("run", *arguments, "--output-format", "json")
        return "\n".join(json.dumps(one.json) for one in server.requests), done.json


@pytest.mark.parametrize("mode", ["ask", "full"])
def test_a_strange_repository_neither_runs_nor_reaches_the_model(place: Place, mode: str) -> None:
    bring(place)

    seen, result = asked(place, "hello", "--permission-mode", mode)

    assert "MARK" not in seen
    assert result["status"] == "success"
    kinds = {one.split()[0] for one in result["untrusted"]}
    assert kinds == {"skill", "command", "agent", "hook"}


def test_once_approved_all_of_it_works(place: Place) -> None:
    bring(place)
    assert place.run("trust", "approve", "--yes").code == 0

    seen, result = asked(place, "/mark")

    assert result["untrusted"] == []
    for mark in ("hook", "script", "skill", "command", "output", "agent"):
        assert f"MARK {mark}" in seen
    assert "MARK prompt" not in seen


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (".claude/hooks/mark.sh", "hook"),
        (".claude/skills/mark/scripts/new.py", "skill"),
        (".claude/commands/mark.md", "command"),
        (".claude/agents/mark.md", "agent"),
    ],
)
def test_changed_extensions_are_off_again_and_the_rest_stay(
    place: Place, name: str, kind: str
) -> None:
    bring(place)
    place.run("trust", "approve", "--yes")
    path = place.project / name
    write(place, name, (path.read_text() if path.exists() else "") + "\necho MARK evil\n")

    seen, result = asked(place, "hello")

    assert "evil" not in seen
    assert {one.split()[0] for one in result["untrusted"]} == {kind}
