"""Bundles through the installed command: added from git, used by a session, removed."""

import json
import subprocess
from pathlib import Path

from tests.e2e.command import Place, needs_a_whole_sandbox
from tests.e2e.test_found_extensions import write
from tests.needs import needs
from tests.scripted_server import ScriptedServer

SKILL = "---\nname: pdf\ndescription: Read PDF files.\n---\nThe word is marmalade.\n"
GUARD = """#!/bin/sh
echo "no, says $(basename "$CLAUDE_PLUGIN_ROOT")" >&2; exit 2
"""
LOOK = {"name": "shell", "arguments": {"command": "echo look"}}
LOAD = {"name": "skill", "arguments": {"name": "paper:pdf"}}


def repository(place: Place) -> str:
    """A repository with a bundle; its address."""
    folder = place.folder / "paper"
    hook = {"type": "command", "command": '"${CLAUDE_PLUGIN_ROOT}/hooks/guard.sh"'}
    hooks = {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}
    files = {
        ".claude-plugin/plugin.json": json.dumps({"name": "paper"}),
        "skills/pdf/SKILL.md": SKILL,
        "commands/greet.md": "Say good morning to $ARGUMENTS.",
        "hooks/hooks.json": json.dumps({"hooks": hooks}),
        "hooks/guard.sh": GUARD,
    }
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / "hooks/guard.sh").chmod(0o755)
    commit(folder)
    return f"file://{folder}"


def commit(folder: Path) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=folder, check=True)


def sent(place: Place, task: str, *calls: object, flags: tuple[str, ...] = ()) -> str:
    """What the model got in a session with this task and these calls."""
    script = [{"calls": list(calls)}] if calls else []
    with ScriptedServer([*script, {"text": "done"}]) as server:
        place.url = server.openai_url
        place.run("run", task, "--no-memory", "--permission-mode", "auto-edit", *flags)
        return "\n".join(json.dumps(one.json["messages"]) for one in server.requests)


@needs("git")
def test_a_bundle_from_git_is_used_until_it_is_removed(place: Place) -> None:
    needs_a_whole_sandbox(place)
    write(place, ".git/HEAD", "ref: refs/heads/main\n")
    address = repository(place)
    refused = place.run("extension", "add", address)
    assert refused.code == 3  # there is nobody to ask
    added = place.run("extensions", "add", address, "--yes")
    assert added.code == 0, added.err

    assert "marmalade" in sent(place, "go", LOAD)
    assert "good morning to Ann" in sent(place, "/paper:greet Ann")
    assert "no, says paper" in sent(place, "go", LOOK)

    assert place.run("extension", "remove", "paper").code == 0
    assert "no, says paper" not in sent(place, "go", LOOK)
    assert not (place.home / "bundles").exists()
    assert not (place.home / "bundles.json").exists()
