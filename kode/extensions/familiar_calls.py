"""Understands calls in the terms of other agents: `Bash(command)`, `Edit(file_path, old_string)`.

Models have learned these names elsewhere. The tables are data; a name that the tool itself has
always means what the tool says. The session keeps the call as the model wrote it.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kode.permissions.names import TOOLS
from kode.tool import Tool
from kode.tools.builtin import index_tools

__all__ = ["arguments", "find_called_tool"]


def _table(*rows: str) -> dict[str, str]:
    """Another agent's name → the own name, of rows `OWN: OTHER OTHER ...`; of `-: OTHER ...` the
    own name is "", for what changes nothing here."""
    pairs = (row.split(":") for row in rows)
    return {other: own.strip("-") for own, others in pairs for other in others.split()}


_PATH = "path: file_path filePath filepath absolute_path target_file dir_path directory"
_EDIT = (
    "old_text: old_string oldString old_str oldText",
    "new_text: new_string newString new_str newText",
    "replace_all: replaceAll allow_multiple expected_replacements",
    "-: instruction",
)

ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "read_file": _table(_PATH, "offset: start_line", "-: end_line pages"),
    "write_file": _table(_PATH, "content: contents file_text text"),
    "edit_file": _table(_PATH, *_EDIT, "edits: changes"),
    "apply_patch": _table("input: patchText patch"),
    "search_files": _table(
        _PATH,
        "pattern: query regex",
        "glob: include include_pattern",
        "context: -C -A -B",
        "ignore_case: -i",
        "-: -n type multiline output_mode head_limit limit offset case_sensitive",
    ),
    "list_files": _table(_PATH, "pattern: glob", "-: ignore depth limit offset case_sensitive"),
    "shell": _table(
        "command: cmd script",
        "timeout_s: timeout timeout_ms",
        "background: run_in_background is_background",
        "-: justification login tty yield_time_ms restart with_escalated_permissions",
        "-: sandbox_permissions max_output_tokens",
    ),
    "job": _table("id: bash_id shell_id task_id", "wait_s: timeout", "-: block filter"),
    "todo": _table("items: todos plan", "-: explanation"),
    "fetch_url": _table("-: prompt format timeout"),
    "delegate_tasks": {},
}
"""Tool → another agent's name of an argument → its own; "" for one that changes nothing here."""

ITEMS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("edit_file", "edits"): _table(*_EDIT),
    ("todo", "items"): _table("text: content step description", "-: activeForm id priority"),
}
"""The same for the objects in a list."""

MAX_TIMEOUT_S = 600  # as `tools.shell.MAX_TIMEOUT_S`

_STATUS = {"in_progress": "doing", "completed": "done", "cancelled": "done"}

VALUES: Mapping[str, Callable[[Any], Any]] = {
    # No command may take 600 ms at most, and none may take more than 600 s.
    "timeout": lambda value: _number(value, lambda n: n if n <= MAX_TIMEOUT_S else n / 1000),
    "timeout_ms": lambda value: _number(value, lambda n: n / 1000),
    "expected_replacements": lambda value: _number(value, lambda n: n > 1),
    "status": lambda value: _STATUS.get(str(value), value),
}
"""An argument's name elsewhere → what its value means here."""

_WORK_IN = ("workdir", "cwd", "directory", "dir_path")
"""Where a command is to run; kode's shell has no such argument."""


def find_called_tool(tools: Sequence[Tool], name: str) -> Tool | None:
    """The tool with this name, else the one that another agent calls by it."""
    for tool in tools:
        if tool.name == name:
            return tool
    by_name = index_tools(tools)
    return by_name.get(name) or by_name.get(TOOLS.get(name, ""))


def arguments(tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by the tool's own names and types, as far as they are known. Whatever is not
    stays for the tool to refuse."""
    if tool.name not in ARGUMENTS:
        return dict(given)
    schema = tool.parameters()
    properties = schema.get("properties", {})
    own = _rename_arguments(given, ARGUMENTS[tool.name], properties)
    for name, value in own.items():
        kind = properties.get(name, {}).get("type")
        if kind in ("array", "object") and isinstance(value, str):
            value = _parse_value(value, kind)
        items = ITEMS.get((tool.name, name))
        if items and isinstance(value, list):
            names = properties[name].get("items", {}).get("properties", {})
            value = [
                _rename_arguments(element, items, names) if isinstance(element, dict) else element
                for element in value
            ]
        own[name] = value
    required = schema.get("required", ())
    own = {name: value for name, value in own.items() if value is not None or name in required}
    if tool.name == "shell":
        return _of_shell(own)
    if tool.name == "job" and "shell_id" in given:  # only Claude Code's KillShell has it
        own["stop"] = True
    if tool.name == "delegate_tasks" and "tasks" not in own and "prompt" in own:
        return _of_task(own, properties)
    return own


def _rename_arguments(
    given: Mapping[str, Any], names: Mapping[str, str], own: Mapping[str, Any]
) -> dict[str, Any]:
    """`own` has the tool's properties. A name given under both keeps the tool's own."""
    renamed: dict[str, Any] = {}
    for name, value in given.items():
        target = name if name in own else names.get(name, name)
        if target and (target == name or target not in given):
            renamed[target] = VALUES[name](value) if name in VALUES else value
    return renamed


def _of_shell(own: dict[str, Any]) -> dict[str, Any]:
    """A command as a list of words, and the folder it is to run in."""
    command = own.get("command")
    if isinstance(command, str) and command.startswith("["):
        command = _parse_value(command, "array")
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        is_script = len(command) == 3 and command[1] in ("-c", "-lc") and command[0][-2:] == "sh"
        command = command[2] if is_script else shlex.join(command)
    folder = next((own.pop(name) for name in _WORK_IN if name in own), "")
    if folder and isinstance(command, str):
        command = f"cd {shlex.quote(str(folder))} && {command}"
    return {**own, "command": command} if command is not None else own


def _of_task(own: dict[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """One task for a subagent, as Claude Code's `Task` has it."""
    knows = "agent" in properties["tasks"]["items"]["properties"]
    agent = own.get("subagent_type")
    named = {"agent": agent} if knows and agent not in (None, "general-purpose") else {}
    task = {"goal": own["prompt"], **named}
    about = {"description": own["description"]} if "description" in own else {}
    return {**about, "tasks": [task]}


def _parse_value(text: str, kind: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, list if kind == "array" else dict) else text


def _number(value: Any, meaning: Callable[[float], Any]) -> Any:
    try:
        return meaning(float(value))
    except (TypeError, ValueError):
        return value
