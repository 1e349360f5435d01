"""Names of modes and tools: kode's own, what they mean to a person, and those of other agents.

Files written for other agents name `Bash` and `acceptEdits`. Rules: `kode.permissions.rules`.
"""

import re
from collections.abc import Mapping
from typing import Literal

from kode.errors import ConfigError

PermissionMode = Literal["ask", "auto-edit", "plan", "full"]

MODE_MEANS: Mapping[PermissionMode, str] = {
    "ask": "Asks before edits, and before commands that change, send or destroy anything.",
    "auto-edit": "Edits and sandboxed commands may change the project; asks before anything else.",
    "plan": "Read-only: nothing can be changed.",
    "full": "Asks only for destructive commands and files with keys; your deny rules hold.",
}
"""What each permission mode lets run, for a person; `kode.permissions.decide` decides it."""

MODE_CALLED: Mapping[str, PermissionMode] = {
    **{mode: mode for mode in MODE_MEANS},
    "acceptEdits": "auto-edit",
    "bypassPermissions": "full",
    "default": "ask",
}
"""Accepted mode names → mode."""

TOOLS: Mapping[str, str] = {
    **dict.fromkeys(("Task", "Agent", "task"), "delegate_tasks"),
    **dict.fromkeys(("Bash", "bash"), "shell"),
    **dict.fromkeys(("exec_command", "local_shell", "run_shell_command", "shell_command"), "shell"),
    **dict.fromkeys(("Edit", "MultiEdit", "edit", "multiedit", "replace"), "edit_file"),
    **dict.fromkeys(("Glob", "LS", "glob", "list", "list_dir", "list_directory"), "list_files"),
    **dict.fromkeys(("Grep", "grep", "grep_files", "grep_search"), "search_files"),
    "search_file_content": "search_files",
    **dict.fromkeys(("Read", "read", "view_image"), "read_file"),
    **dict.fromkeys(("BashOutput", "TaskOutput", "KillBash", "KillShell"), "job"),
    "Skill": "skill",
    **dict.fromkeys(("TodoWrite", "todowrite", "update_plan", "write_todos"), "todo"),
    **dict.fromkeys(("WebFetch", "web_fetch", "webfetch"), "fetch_url"),
    **dict.fromkeys(("Write", "write"), "write_file"),
}
"""A tool of Claude Code, Codex, Gemini CLI or opencode → kode's equivalent. What their arguments
mean: `kode.extensions.familiar_calls`."""

_RULE_NAMES = {
    **{"delegate_tasks": "delegate", "fetch_url": "fetch", "read_file": "read"},
    **dict.fromkeys(("edit_file", "write_file"), "edit"),
}
"""A tool → its name in permission rules, if that name differs."""

VERBS = {
    "read_file": ("Reading", "Read"),
    "write_file": ("Writing", "Wrote"),
    "edit_file": ("Editing", "Edited"),
    "search_files": ("Searching", "Searched"),
    "list_files": ("Listing", "Listed"),
    "shell": ("Running", "Ran"),
    "job": ("Looking at", "Looked at"),
    "fetch_url": ("Fetching", "Fetched"),
    "todo": ("Todo", "Todo"),
    "delegate_tasks": ("Delegating", "Delegated"),
    "memory": ("Remembering", "Memory"),
    "mcp_search": ("Looking for a tool:", "Looked for a tool:"),
}
"""Tool name → what it is doing, what it did. A tool without verbs shows its name."""

_SEPARATORS = re.compile(r"[,\s]+(?![^(]*\))")  # of the rules in a list, not within parentheses


def tool_verbs(name: str) -> tuple[str, str]:
    """Verbs for what a tool does and did; its name if it has none, "Calling" for an MCP tool."""
    by_default = ("Calling", "Called") if name.startswith(("mcp__", "mcp_call")) else (name, name)
    return VERBS.get(TOOLS.get(name, name), by_default)


def split_rules(text: str) -> list[str]:
    """Splits a list of permission rules at commas or spaces, and translates other agents' tool
    names: `Bash(git log:*),Edit` → `shell(git log:*)`, `edit`. Does not validate them."""
    return [_translate_rule(word) for word in _SEPARATORS.split(text.strip()) if word]


def translate_rule(text: str) -> str:
    """Another agent's permission rule in kode's words; "" for one that kode cannot express."""
    from kode.permissions.rules import parse

    try:
        (rule,) = map(parse, split_rules(text))
    except (ValueError, ConfigError):
        return ""
    # `*` within the words of a command means more than any rule of kode's can.
    is_more = rule.kind == "shell" and "*" in rule.pattern.removesuffix(":*")
    return "" if is_more else str(rule)


def listed_tools(text: str) -> frozenset[str]:
    """The tools that a list of permission rules names, under kode's names and without patterns."""
    names = (word.partition("(")[0] for word in _SEPARATORS.split(text.strip()))
    return frozenset(TOOLS.get(name, name) for name in names if name)


def _translate_rule(word: str) -> str:
    name, parenthesis, rest = word.partition("(")
    if name == "WebFetch":
        rest = rest.removeprefix("domain:")
    if name[:1].isupper():  # kode's own names are in lower case
        name = TOOLS.get(name, name)
        name = _RULE_NAMES.get(name, name)
    return f"{name}{parenthesis}{rest}"
