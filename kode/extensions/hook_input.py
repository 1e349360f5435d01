"""Builds a hook's input: one JSON object on stdin, in the terms of the agent it was written for.

So `edit_file` is `Edit` with `old_string`, and a path is absolute. A matcher may also use kode's
own tool names.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from kode import paths
from kode.permissions.modes import PermissionMode
from kode.permissions.tool_names import TOOLS
from kode.tool import Tool, ToolOutput

Event = Literal[
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "PostToolUseFailure",
    "PreCompact",
    "Stop",
    "SubagentStop",
    "Notification",
    "SessionEnd",
    "StatusLine",
]

MAX_TEXT_CHARS = 100_000
"""Limit of a tool's output."""

MODES: Mapping[PermissionMode, str] = {
    "ask": "default",
    "auto-edit": "acceptEdits",
    "plan": "plan",
    "full": "bypassPermissions",
}

_NAMES: Mapping[str, str] = {
    "shell": "Bash",
    "edit_file": "Edit",
    "write_file": "Write",
    "read_file": "Read",
    "search_files": "Grep",
    "list_files": "Glob",
    "fetch_url": "WebFetch",
    "delegate_tasks": "Task",
    "todo": "TodoWrite",
    "skill": "Skill",
}

TOPICS = ("tool_name", "source", "trigger", "notification_type", "reason", "agent_type")
"""What a matcher is compared with, by event: at most one of these is in its input."""

_FILE_TOOLS = ("read_file", "write_file", "edit_file", "search_files", "list_files")

_TODO = {"pending": "pending", "doing": "in_progress", "done": "completed"}


def line_of(event: str, common: Mapping[str, Any], fields: Mapping[str, Any]) -> bytes:
    """The line that a hook gets on stdin."""
    value = {**common, "hook_event_name": event, **fields}
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def sample_line(event: str, matcher: str, common: Mapping[str, Any], cwd: Path) -> bytes:
    """A line about a call that does nothing, of the first tool that a matcher names."""
    tool = next(iter(re.findall(r"\w+", matcher)), "Bash")
    missing = str(cwd / "kode-sample")
    given = {"command": "true", "file_path": missing, "path": missing, "content": ""}
    fields = {"tool_name": tool, "tool_input": given, "tool_use_id": "sample"}
    return line_of(event, common, fields)


def name_of(tool: str, arguments: Mapping[str, Any]) -> str:
    """A tool's name for hooks: `Bash`; an unknown one keeps its name."""
    if tool == "edit_file" and (arguments.get("edits") or len(arguments.get("hunks", ())) > 1):
        return "MultiEdit"
    return _NAMES.get(tool, tool)


def other_names(name: str) -> tuple[str, ...]:
    """A tool's name with its synonyms: `Bash` and `shell`."""
    return tuple(dict.fromkeys((name, _NAMES.get(name, name), TOOLS.get(name, name))))


def names_of(tool: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The names by which a matcher may refer to it."""
    return tuple(dict.fromkeys((name_of(tool, arguments), _NAMES.get(tool, tool), tool)))


def call_fields(tool: str, arguments: Mapping[str, Any], cwd: Path) -> dict[str, Any]:
    """`tool_name` and `tool_input` of a call."""
    given = {key: _plain(value) for key, value in arguments.items() if value is not None}
    return {"tool_name": name_of(tool, arguments), "tool_input": _input(tool, given, cwd)}


def updated_call(tool: str, given: Mapping[str, Any], updated: Mapping[str, Any]) -> dict[str, Any]:
    """The unchecked arguments of a call that a hook changed. Of one that hands on tasks, whichever
    was changed counts, the tasks or what another agent knows of them."""
    if tool == "delegate_tasks" and updated.get("tasks") == given.get("tasks"):
        return {key: value for key, value in updated.items() if key != "tasks"}
    extra = ("prompt", "subagent_type") if tool == "delegate_tasks" else ()
    return {key: value for key, value in updated.items() if key not in extra}


def output_fields(tool: Tool, output: ToolOutput, text: str) -> dict[str, Any]:
    """`tool_response` of a finished call."""
    text = text[:MAX_TEXT_CHARS]
    if tool.effect == "run":
        return {"tool_response": {"stdout": text, "stderr": "", "exit_code": output.exit_status}}
    files = output.files_changed or output.files_read
    response = {"success": True, "text": text, **({"filePath": files[0]} if files else {})}
    return {"tool_response": response}


def _input(tool: str, given: dict[str, Any], cwd: Path) -> dict[str, Any]:
    if "path" in given and tool in _FILE_TOOLS:
        given["path"] = os.path.normpath(cwd / paths.expand(str(given["path"])))
    match tool:
        case "shell":
            timeout_ms = int(given.pop("timeout_s", 0) * 1000)
            stays = {"run_in_background": True} if given.pop("background", False) else {}
            return {**given, **stays, **({"timeout": timeout_ms} if timeout_ms else {})}
        case "read_file" | "write_file":
            return {("file_path" if key == "path" else key): v for key, v in given.items()}
        case "edit_file":
            hunks = [_hunk(hunk) for hunk in given.get("hunks") or ()]
            edits = [_edit(edit) for edit in given.get("edits") or ()] or hunks
            texts = {"edits": edits} if edits else _edit(given)
            return {"file_path": given["path"], **(hunks[0] if len(hunks) == 1 else texts)}
        case "search_files":
            given["-i"] = given.pop("ignore_case", False)
            return given
        case "todo":
            items: Any = given.get("items", ())
            return {"todos": [_todo(item["text"], item["status"]) for item in items]}
        case "delegate_tasks":
            tasks: Any = given.get("tasks", ())
            prompt = "\n\n".join(str(task["goal"]) for task in tasks)
            agents = [str(task["agent"]) for task in tasks if task.get("agent")]
            kind = agents[0] if agents else "general-purpose"
            about = {"description": given.get("description", ""), "subagent_type": kind}
            return {**about, "prompt": prompt, "tasks": tasks}
        case "fetch_url":
            return {"prompt": "", **given}
    return given


def _todo(text: str, status: str) -> dict[str, str]:
    return {"content": text, "activeForm": text, "status": _TODO[status]}


def _edit(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "old_string": given.get("old_text", ""),
        "new_string": given.get("new_text", ""),
        "replace_all": bool(given.get("replace_all")),
    }


def _hunk(hunk: Any) -> dict[str, Any]:
    old, new = "\n".join(hunk.old), "\n".join(hunk.new)
    return {"old_string": old, "new_string": new, "replace_all": False}


def _plain(value: Any) -> Any:
    """Arguments are checked by then: converts pydantic models back to plain values."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
