"""The tools of other agents and kode's own: their names, and what a person reads for them.

Files that were written for other agents name `Bash` and `Edit`; a hook's script looks at
`.tool_input.file_path`. Which rules there are is `kode.permissions.rules`.
"""

import re
from collections.abc import Mapping

FAMILIES: Mapping[str, str] = {
    "Agent": "delegate",
    "Bash": "shell",
    "Edit": "edit",
    "Glob": "list_files",
    "Grep": "search_files",
    "LS": "list_files",
    "MultiEdit": "edit",
    "Read": "read",
    "Skill": "skill",
    "Task": "delegate",
    "TodoWrite": "todo",
    "WebFetch": "fetch",
    "Write": "edit",
}
"""What a permission rule calls them."""

TOOLS: Mapping[str, str] = {
    "Agent": "delegate_tasks",
    "Bash": "shell",
    "Edit": "edit_file",
    "Glob": "list_files",
    "Grep": "search_files",
    "LS": "list_files",
    "MultiEdit": "edit_file",
    "Read": "read_file",
    "Skill": "skill",
    "Task": "delegate_tasks",
    "TodoWrite": "todo",
    "WebFetch": "fetch_url",
    "Write": "write_file",
}
"""The tool that does the same."""

VERBS = {
    "read_file": ("Reading", "Read"),
    "write_file": ("Writing", "Wrote"),
    "edit_file": ("Editing", "Edited"),
    "search_files": ("Searching", "Searched"),
    "list_files": ("Listing", "Listed"),
    "shell": ("Running", "Ran"),
    "fetch_url": ("Fetching", "Fetched"),
    "todo": ("Todo", "Todo"),
    "delegate_tasks": ("Subagents:", "Subagents:"),
    "memory": ("Remembering", "Memory"),
    "mcp_search": ("Looking for a tool:", "Looked for a tool:"),
}
"""Tool name → what it is doing, what it did. A tool without verbs shows its name."""

_SEPARATORS = re.compile(r"[,\s]+(?![^(]*\))")
"""Between the rules of a list; those within parentheses belong to a rule."""


def verbs_of(name: str) -> tuple[str, str]:
    """A tool of an MCP server is named by its subject."""
    of_server = name.startswith(("mcp__", "mcp_call"))
    return VERBS.get(name) or (("Calling", "Called") if of_server else (name, name))


def rules_of(text: str) -> list[str]:
    """Permission rules from a list with commas or spaces, other agents' names of tools included:
    `Bash(git log:*),Edit` → `shell(git log:*)`, `edit`. Whether each is a rule is not checked."""
    return [_rule(word) for word in _SEPARATORS.split(text.strip()) if word]


def tools_of(text: str) -> frozenset[str]:
    """The tools that such a list names, whatever stands in parentheses."""
    names = (word.partition("(")[0] for word in _SEPARATORS.split(text.strip()) if word)
    return frozenset(TOOLS.get(name, name) for name in names)


def _rule(word: str) -> str:
    name, parenthesis, rest = word.partition("(")
    if name == "Bash":
        rest = re.sub(r" \*\)$", ":*)", rest)
    if name == "WebFetch":
        rest = rest.removeprefix("domain:")
    return f"{FAMILIES.get(name, name)}{parenthesis}{rest}"
