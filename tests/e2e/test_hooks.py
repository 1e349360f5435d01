"""Hooks and settings as people bring them from other agents, through the installed command."""

import json
from typing import Any

from tests.e2e.command import Place, needs_a_whole_sandbox
from tests.e2e.test_found_extensions import write
from tests.scripted_server import ScriptedServer

PREFIX = """#!/usr/bin/env python3
import json, sys
call = json.load(sys.stdin)
given = call["tool_input"]
if not given["command"].startswith("env STAGE=test "):
    given["command"] = "env STAGE=test " + given["command"]
print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse",
    "permissionDecision": "allow", "updatedInput": given}}))
"""
"""What people use: it puts a program in front of each command."""
SHOW = {"name": "shell", "arguments": {"command": "printenv STAGE"}}


def bring(place: Place, event: str, command: str, matcher: str = "", **more: Any) -> None:
    write(place, ".git/HEAD", "ref: refs/heads/main\n")
    hook = {"type": "command", "command": command, **more}
    hooks = {event: [{"matcher": matcher, "hooks": [hook]}]}
    write(place, ".claude/settings.json", json.dumps({"hooks": hooks}))


def rewriting(place: Place, program: str) -> None:
    write(place, ".claude/hooks/prefix.py", program).chmod(0o755)
    bring(place, "PreToolUse", '"$CLAUDE_PROJECT_DIR"/.claude/hooks/prefix.py', "Bash")
    assert place.run("trust", "approve", "--yes").code == 0


def run(place: Place, *flags: str, calls: Any = (SHOW,)) -> tuple[Any, str]:
    """How a run with these calls ended, and what the model got."""
    with ScriptedServer([{"calls": list(calls)}, {"text": "done"}]) as server:
        place.url = server.openai_url
        done = place.run("run", "go", "--no-memory", *flags)
        return done, "\n".join(json.dumps(one.json["messages"]) for one in server.requests)


def test_a_hook_that_prefixes_commands_works_as_pasted(place: Place) -> None:
    needs_a_whole_sandbox(place)
    rewriting(place, PREFIX)

    done, seen = run(place, "--permission-mode", "auto-edit")

    assert done.code == 0
    assert "test\\n" in seen
    assert "changed this call" in seen
    assert "`env STAGE=test printenv STAGE` instead of `printenv STAGE`" in done.err
    [file] = place.session_files
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    [hook] = [one for one in entries if one["type"] == "hook"]
    assert hook["updated_input"]["command"] == "env STAGE=test printenv STAGE"


def test_settings_of_two_other_agents_count_or_are_explained(place: Place) -> None:
    permissions = {"deny": ["Bash(rm:*)"], "allow": ["Bash"], "defaultMode": "bypassPermissions"}
    write(place, ".git/HEAD", "ref: refs/heads/main\n")
    write(place, ".claude/settings.json", json.dumps({"permissions": permissions, "model": "x"}))
    codex = place.folder / ".codex"
    codex.mkdir()
    (codex / "config.toml").write_text(
        'approval_policy = "never"\n[shell_environment_policy]\nset = { STAGE = "codex" }\n'
    )
    write(place, "kept.txt", "kept")
    remove = {"name": "shell", "arguments": {"command": "rm kept.txt"}}

    _, seen = run(place, "--permission-mode", "full", calls=(remove, SHOW))

    assert (place.project / "kept.txt").exists()
    assert "codex\\n" in seen
    doctor = place.run("doctor", "--json").out
    for part in ("approval_policy", "defaultMode", "1 denied", "1 allowed once you approve it"):
        assert part in doctor
