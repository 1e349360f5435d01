"""Calls as Claude Code, Codex, Gemini CLI and opencode have them, in kode's own terms."""

from collections.abc import Mapping
from typing import Any

import pytest

from kode.errors import ToolError
from kode.extensions.familiar_calls import find_called_tool, translate_arguments
from kode.permissions.names import TOOLS
from kode.subagents.tool import delegate_tool
from kode.tools.builtin import BUILTIN
from tests.tables import for_each

EDIT = {"old_text": "a", "new_text": "b"}
CLAUDES = {"file_path": "f", "old_string": "a", "new_string": "b"}
TEXT = '[{"old_string": "a", "new_string": "b"}]'
IN_A_B = {"command": "cd 'a b' && ls"}


def checked(name: str, given: dict[str, Any], tool: str = "") -> Mapping[str, Any]:
    """The call of this name as the tool gets it."""
    found = find_called_tool(BUILTIN, name)
    assert found is not None
    assert tool in ("", found.name)
    return found.check(translate_arguments(found, given))


@for_each(
    ("name", "given", "tool", "own"),
    [
        ("Bash", {"command": "ls", "timeout": 120_000}, "shell", {"timeout_s": 120}),
        ("bash", {"cmd": "ls", "timeout": 60}, "shell", {"command": "ls", "timeout_s": 60}),
        ("shell", {"command": ["bash", "-lc", "ls | wc"]}, "shell", {"command": "ls | wc"}),
        ("shell", {"command": '["git", "log", "a b"]'}, "shell", {"command": "git log 'a b'"}),
        ("shell", {"command": "[ -f a ] && b"}, "shell", {"command": "[ -f a ] && b"}),
        ("exec_command", {"cmd": "ls", "workdir": "a b", "yield_time_ms": 1000}, "shell", IN_A_B),
        ("shell", {"command": "ls", "timeout_ms": "500"}, "shell", {"timeout_s": 0.5}),
        ("Edit", {**CLAUDES, "replace_all": "true"}, "edit_file", {**EDIT, "replace_all": True}),
        ("MultiEdit", {"file_path": "f", "edits": TEXT}, "edit_file", {"path": "f"}),
        ("replace", {**CLAUDES, "expected_replacements": 2}, "edit_file", {"replace_all": True}),
        ("edit", {"filePath": "f", "oldString": "a", "newString": "b"}, "edit_file", EDIT),
        ("edit_file", {"path": "f", **EDIT, "old_string": "x"}, "edit_file", EDIT),
        ("read", {"filePath": "f", "offset": "3", "limit": None}, "read_file", {"offset": 3}),
        ("Grep", {"pattern": "x", "-i": True, "-C": 2}, "search_files", {"ignore_case": True}),
        ("grep", {"pattern": "x", "include": "*.py"}, "search_files", {"glob": "*.py"}),
        ("list_directory", {"dir_path": "d", "ignore": ["x"]}, "list_files", {"path": "d"}),
        ("KillShell", {"shell_id": "job-1"}, "job", {"id": "job-1", "stop": True}),
        ("apply_patch", {"patchText": "p"}, "apply_patch", {"input": "p"}),
        ("WebFetch", {"url": "https://a.b", "prompt": "p"}, "fetch_url", {"url": "https://a.b"}),
    ],
)
def test_a_call_from_elsewhere_means_what_it_says(
    name: str, given: dict[str, Any], tool: str, own: dict[str, Any]
) -> None:
    assert checked(name, given, tool).items() >= own.items()


@for_each(
    ("name", "given"),
    [
        ("TodoWrite", {"todos": [{"content": "a", "status": "in_progress", "activeForm": "A"}]}),
        ("update_plan", {"plan": '[{"step": "a", "status": "in_progress"}]', "explanation": "e"}),
        ("todo", {"items": '[{"text": "a", "status": "doing"}]'}),
    ],
)
def test_a_plan_from_elsewhere_becomes_a_todo_list(name: str, given: dict[str, Any]) -> None:
    (item,) = checked(name, given, "todo")["items"]
    assert (item.text, item.status) == ("a", "doing")


def test_an_unknown_call_is_refused_as_before() -> None:
    assert find_called_tool(BUILTIN, "teleport") is None
    for more in ({"colour": "red"}, {"edits": "not a list"}):
        with pytest.raises(ToolError):
            checked("Edit", {"file_path": "f", **more})


def test_every_name_from_elsewhere_leads_to_a_tool() -> None:
    assert set(TOOLS.values()) - {tool.name for tool in BUILTIN} == {"delegate_tasks", "skill"}


@for_each("kind", ["general-purpose", None])
def test_a_task_for_one_subagent_becomes_a_list_of_one(kind: str | None) -> None:
    tool = delegate_tool(None)  # type: ignore[arg-type]
    given = {"description": "Look", "prompt": "Find it", "subagent_type": kind}
    call = tool.check(translate_arguments(tool, given))
    assert call["description"] == "Look"
    assert [task.goal for task in call["tasks"]] == ["Find it"]
