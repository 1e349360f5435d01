"""Understands calls in the terms of other agents: `Bash(command)`, `Edit(file_path, old_string)`.

Models have learned these names elsewhere. The tables are data; a name that the tool itself has
always keeps the tool's meaning. The session keeps the call as the model wrote it.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kode.permissions.names import TOOLS
from kode.tool import Tool
from kode.tools.builtin import find_tool


def _parse_table(*rows: str) -> dict[str, list[str]]:
    """Another agent's name → kode's names that it may mean, from rows `OWN: OTHER OTHER ...`."""
    names: dict[str, list[str]] = {}
    for name, others in (row.split(": ") for row in rows):
        for other in others.split():
            names.setdefault(other, []).append(name)
    return names


NAMES: Mapping[str, Sequence[str]] = _parse_table(
    "path: file_path filePath filepath absolute_path target_file dir_path directory",
    "offset: start_line",
    "content: contents file_text text",
    "old_text: old_string oldString old_str oldText",
    "new_text: new_string newString new_str newText",
    "replace_all: replaceAll allow_multiple expected_replacements",
    "edits: changes",
    "input: patchText patch",
    "pattern: query regex glob",
    "glob: include include_pattern",
    "context: -C -A -B",
    "ignore_case: -i",
    "command: cmd script",
    "timeout_s: timeout timeout_ms",
    "background: run_in_background is_background",
    "id: bash_id shell_id task_id",
    "wait_s: timeout",
    "items: todos plan",
    "text: content step description",  # fields of a to-do item
)
"""Another agent's name for an argument → kode's names, of which the first counts that the tool, or
the object in one of its lists, has."""
WITHOUT_EFFECT = frozenset(
    "end_line pages instruction -n type multiline output_mode head_limit limit offset depth ignore "
    "case_sensitive justification login tty yield_time_ms restart with_escalated_permissions "
    "sandbox_permissions max_output_tokens block filter explanation activeForm id priority prompt "
    "format timeout".split()
)
"""Arguments that have no meaning here and are dropped, unless the tool has one of that name."""

MAX_TIMEOUT_S = 600  # as `tools.shell.MAX_TIMEOUT_S`

_STATUS = {"in_progress": "doing", "completed": "done", "cancelled": "done"}

VALUES: Mapping[str, Callable[[Any], Any]] = {
    # Up to 600 means seconds, as no command has 600 ms or less; more means ms.
    "timeout": lambda value: _number(value, lambda n: n if n <= MAX_TIMEOUT_S else n / 1000),
    "timeout_ms": lambda value: _number(value, lambda n: n / 1000),
    "expected_replacements": lambda value: _number(value, lambda n: n > 1),
    "status": lambda value: _STATUS.get(str(value), value),
}
"""Another agent's name for an argument → what converts its value to kode's meaning."""

_WORK_IN = ("workdir", "cwd", "directory", "dir_path")
"""Names for the folder in which to run a command; kode's shell has no such argument."""


def find_called_tool(tools: Sequence[Tool], name: str) -> Tool | None:
    """The tool with this name, else the one for which another agent uses this name."""
    return find_tool(tools, name) or find_tool(tools, TOOLS.get(name, ""))


def translate_arguments(tool: Tool, foreign: Mapping[str, Any]) -> dict[str, Any]:
    """Translates the `foreign` arguments to the tool's own names and types, as far as they are
    known. Unknown ones are kept, for the tool to refuse."""
    if tool.name not in {*TOOLS.values(), "apply_patch"}:
        return dict(foreign)
    schema = tool.parameters()
    properties, required = schema.get("properties", {}), schema.get("required", ())
    if tool.name == "delegate_tasks" and "tasks" not in foreign and "prompt" in foreign:
        return _convert_task_call(foreign, properties)
    renamed = _rename_arguments(foreign, properties)
    for name, value in list(renamed.items()):
        if value is None and name not in required:
            del renamed[name]
            continue
        kind = properties.get(name, {}).get("type")
        if kind in ("array", "object") and isinstance(value, str):
            value = _parse_value(value, kind)
        fields = properties.get(name, {}).get("items", {}).get("properties", {})
        if fields and isinstance(value, list):
            value = [_rename_arguments(it, fields) if isinstance(it, dict) else it for it in value]
        renamed[name] = value
    if tool.name == "shell":
        return _convert_shell_call(renamed)
    if tool.name == "job" and "shell_id" in foreign:  # only Claude Code's KillShell has it
        renamed["stop"] = True
    return renamed


def _rename_arguments(
    arguments: Mapping[str, Any], properties: Mapping[str, Any]
) -> dict[str, Any]:
    """Renames arguments to the tool's `properties`. If both names are given, the tool's counts."""
    renamed: dict[str, Any] = {}
    for name, value in arguments.items():
        target = name
        if name not in properties:
            meant = (*NAMES.get(name, ()), *(("",) if name in WITHOUT_EFFECT else ()))
            target = next((it for it in meant if it in properties or not it), name)
        if target and (target == name or target not in arguments):
            renamed[target] = VALUES[name](value) if name in VALUES else value
    return renamed


def _convert_shell_call(arguments: dict[str, Any]) -> dict[str, Any]:
    """Joins a command given as a list of words, and adds `cd` to the folder it is to run in."""
    command = arguments.get("command")
    if isinstance(command, str) and command.startswith("["):
        command = _parse_value(command, "array")
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        is_script = len(command) == 3 and command[1] in ("-c", "-lc") and command[0][-2:] == "sh"
        command = command[2] if is_script else shlex.join(command)
    folder = next((arguments.pop(name) for name in _WORK_IN if name in arguments), "")
    if folder and isinstance(command, str):
        command = f"cd {shlex.quote(str(folder))} && {command}"
    return {**arguments, "command": command} if command is not None else arguments


def _convert_task_call(
    arguments: Mapping[str, Any], properties: Mapping[str, Any]
) -> dict[str, Any]:
    """Makes one task for a subagent from a call of Claude Code's `Task`."""
    task, agent = {"goal": arguments["prompt"]}, arguments.get("subagent_type")
    if "agent" in properties["tasks"]["items"]["properties"] and agent != "general-purpose":
        task |= {"agent": agent} if agent else {}
    about = {"description": arguments["description"]} if "description" in arguments else {}
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
