"""Hooks and settings as people bring them from other agents, through the installed command."""

import json
import shlex
from typing import Any

import pytest

from tests.e2e.command import Place, needs_a_whole_sandbox
from tests.e2e.test_found_extensions import LOOK, write
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
ESCAPE = PREFIX.replace('"env STAGE=test " + given["command"]', '"touch escaped.txt"')
SHOW = {"name": "shell", "arguments": {"command": "printenv STAGE"}}
LATER = {"name": "shell", "arguments": {"command": "touch later.txt"}}
ECHO = {"name": "shell", "arguments": {"command": "echo it ran"}}


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


def test_a_notifying_hook_works_once_it_may_run_outside(place: Place) -> None:
    needs_a_whole_sandbox(place)
    told = place.folder / "told.txt"
    bring(place, "Stop", f"cat > {shlex.quote(str(told))}")
    place.run("trust", "approve", "--yes")
    done, _ = run(place)
    assert not told.exists()
    assert "no effect" in done.err
    assert str(told) in done.err
    tested = place.run("hooks", "test", "Stop")
    assert str(told) in tested.out
    assert "--write" in tested.out

    approved = place.run("trust", "approve", "Stop", "--outside", "--yes")
    assert approved.code == 0, approved.err
    done, _ = run(place)

    assert json.loads(told.read_text())["hook_event_name"] == "Stop"
    assert "no effect" not in done.err


def test_the_approval_says_what_a_hook_can_do(place: Place) -> None:
    bring(place, "Stop", "true")

    shown = place.run("trust", "show", "Stop").out

    for part in ("no network", "home hidden", "--network", "--write", "--outside"):
        assert part in shown


def test_an_async_hook_ends_before_kode_does(place: Place) -> None:
    done = place.folder / "done.txt"
    bring(place, "PostToolUse", f"sleep 0.3; echo done > {done}", "Bash", **{"async": True})
    place.run("trust", "approve", "PostToolUse:Bash", "--outside", "--yes")

    run(place, "--permission-mode", "full", calls=[LOOK])

    assert done.read_text() == "done\n"


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


def test_a_repositorys_settings_allow_nothing(place: Place) -> None:
    permissions = {"allow": ["Bash", "Write", "Edit"]}
    write(place, ".git/HEAD", "ref: refs/heads/main\n")
    write(place, ".claude/settings.local.json", json.dumps({"permissions": permissions}))
    made = {"name": "write_file", "arguments": {"path": "made.txt", "content": "made"}}

    run(place, calls=(made,))
    assert not (place.project / "made.txt").exists()

    assert place.run("trust", "approve", "--yes").code == 0
    run(place, calls=(made,))
    assert (place.project / "made.txt").exists()


def say(answer: dict[str, Any], then: str = "") -> str:
    """A program that prints this answer."""
    return f"echo {shlex.quote(json.dumps(answer))}{then}"


def test_texts_of_a_hook_reach_model_and_person(place: Place) -> None:
    needs_a_whole_sandbox(place)
    specific = {"hookEventName": "PostToolUse", "additionalContext": "The tide is high."}
    answer = {"systemMessage": "Mind the gap.", "hookSpecificOutput": specific}
    bring(place, "PostToolUse", say({**answer, "suppressOutput": True}), "Bash")
    place.run("trust", "approve", "--yes")

    done, seen = run(place, calls=(ECHO,))

    assert "The tide is high." in seen
    assert "Mind the gap." in done.err
    assert "Mind the gap." not in seen
    assert "suppressOutput" not in seen + done.err + done.out


def test_a_hook_that_prints_async_is_not_waited_for(place: Place) -> None:
    needs_a_whole_sandbox(place)
    waits = "until [ -e later.txt ]; do sleep 0.05; done"  # the next call makes it
    late = say({"systemMessage": "Mind the gap.", "decision": "block", "reason": "Stop."})
    bring(place, "PostToolUse", f"{say({'async': True})}; {waits}; {late}", "Bash", timeout=20)
    place.run("trust", "approve", "PostToolUse:Bash", "--outside", "--yes")

    done, seen = run(place, "--permission-mode", "full", calls=(ECHO, LATER))

    assert "it ran\\n" in seen
    assert "Stop." not in seen
    assert "Mind the gap." in done.err


def test_if_limits_a_hook_to_calls_that_may_match(place: Place) -> None:
    needs_a_whole_sandbox(place)
    answer = {"decision": "block", "reason": "Not echo."}
    bring(place, "PreToolUse", say(answer), "Bash", **{"if": "Bash(echo *)"})
    place.run("trust", "approve", "--yes")
    lines = ("echo plain", "printf free", "printf hidden; echo too")
    calls = [{"name": "shell", "arguments": {"command": line}} for line in lines]

    _, seen = run(place, calls=calls)

    results = [one["content"] for one in json.loads(seen.splitlines()[-1]) if one["role"] == "tool"]
    assert ["Not echo." in text for text in results] == [True, False, True]


def test_a_hook_that_runs_once_is_then_done(place: Place) -> None:
    needs_a_whole_sandbox(place)
    specific = {"hookEventName": "PostToolUse", "additionalContext": "Only once."}
    bring(place, "PostToolUse", say({"hookSpecificOutput": specific}), "Bash", once=True)
    place.run("trust", "approve", "--yes")

    _, seen = run(place, calls=(ECHO, ECHO, ECHO))

    assert seen.splitlines()[-1].count("Only once.") == 1


def test_a_hooks_folder_holds_after_calls_and_turns(place: Place) -> None:
    needs_a_whole_sandbox(place)
    logs = place.project / "logs"
    logs.mkdir()
    for event in ("PostToolUse", "Stop"):
        command = f"cat > logs/{event}.json; echo > beside.txt"
        bring(place, event, command)
        place.run("trust", "approve", "--yes")
        run(place, calls=(ECHO,))
        assert not (logs / f"{event}.json").exists()
        place.run("trust", "approve", event, "--write", str(logs), "--yes")

        run(place, calls=(ECHO,))

        assert json.loads((logs / f"{event}.json").read_text())["hook_event_name"] == event
        assert not (place.project / "beside.txt").exists()


@pytest.mark.slow
def test_a_slow_hook_at_the_end_is_named_and_ended(place: Place) -> None:
    needs_a_whole_sandbox(place)
    write(place, "../kode-home/config.json", json.dumps({"memory": {"exit_wait_s": 1}}))
    bring(place, "SessionEnd", "sleep 60; touch ended")
    assert place.run("trust", "approve", "--yes").code == 0

    with ScriptedServer([{"text": "done"}]) as server:
        place.url = server.openai_url
        done = place.run("run", "go", "--no-memory")

    assert done.code == 0
    assert "Running hooks; kode ends in 1 s at most" in done.err
    assert "memory;" not in done.err
    assert "hook SessionEnd" in done.err
