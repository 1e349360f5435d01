"""Tool calls for display: subject, edits as diffs, outcome.

A diff comes from the call itself; the previous content of a replaced file comes from the record of
`/undo`.
"""

import difflib
import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from kode.plugin import (
    FileChanges,
    ToolResult,
    TranscriptCall,
    builtin_tools,
    object_of,
    readable_arguments,
    shorten,
)

SUBJECT_CHARS = 200  # two lines of a page
MAX_DIFF_LINES = 20_000  # a browser shows no longer page well

Sign = Literal["+", "-", " ", "@"]


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of a tool with its outcome."""

    name: str
    subject: str
    """What it is about, on one line: a path, a command."""
    arguments: str
    diff: tuple[tuple[Sign, str], ...]
    """(sign, line) of an edit; () for other calls, whose arguments are shown."""
    outcome: Literal["done", "failed", "without a result"]
    output: str
    at: str
    kind: Literal["call"] = "call"


class Calls:
    """Converts calls for display, in one pass over a session."""

    def __init__(self, cwd: str, changed: FileChanges) -> None:
        self._cwd = cwd
        self._changed = changed
        self._seen: Counter[tuple[int, str]] = Counter()

    def shown(self, made: TranscriptCall, turn: int, at: str) -> Call:
        call, result = made.call, made.result
        arguments = object_of(call.arguments) or {}
        path = arguments.get("path")
        diff: list[tuple[Sign, str]] = []
        if call.name == "edit_file":
            diff = _edits(arguments)
        elif call.name == "write_file" and isinstance(path, str):
            content = arguments.get("content")
            is_done = result is not None and not result.is_error
            before = self._before(turn, path) if is_done else ""
            diff = _diff(before, content) if isinstance(content, str) else []
        return Call(
            name=call.name,
            subject=_subject(call.name, arguments, self._cwd),
            arguments="" if diff else readable_arguments(call.arguments),
            diff=tuple(diff),
            outcome=_outcome(result),
            output=result.text if result is not None else "",
            at=at,
        )

    def _before(self, turn: int, path: str) -> str:
        """A file's content before its first change in a turn; "" if unknown."""
        absolute = str(Path(self._cwd, path))
        self._seen[turn, absolute] += 1
        return self._changed.before(turn, absolute) if self._seen[turn, absolute] == 1 else ""


def _outcome(result: ToolResult | None) -> Literal["done", "failed", "without a result"]:
    if result is None:
        return "without a result"
    return "failed" if result.is_error else "done"


@functools.cache
def _subjects() -> Mapping[str, str]:
    return {tool.name: tool.subject or "" for tool in builtin_tools}


def _subject(name: str, arguments: Mapping[str, Any], cwd: str) -> str:
    value = arguments.get(_subjects().get(name) or "description", "")
    text = value if isinstance(value, str) else ""
    return shorten(relative(text, cwd) if name.endswith("_file") else text, SUBJECT_CHARS)


def relative(path: str, cwd: str) -> str:
    return path.removeprefix(cwd.rstrip("/") + "/")


def _edits(arguments: Mapping[str, Any]) -> list[tuple[Sign, str]]:
    listed = arguments.get("edits")
    lines: list[tuple[Sign, str]] = []
    for edit in listed if isinstance(listed, list) else [arguments]:
        if not isinstance(edit, dict):
            continue
        old, new = edit.get("old_text"), edit.get("new_text")
        if isinstance(old, str) and isinstance(new, str):
            lines += [("@", "")] if lines else []
            lines += _diff(old, new)
    return lines


def _diff(old: str, new: str) -> list[tuple[Sign, str]]:
    """Removed and added lines, with three lines of context."""
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > MAX_DIFF_LINES:
        return [("@", f"{len(before):,} lines became {len(after):,}: too many to compare")]
    lines: list[tuple[Sign, str]] = []
    for line in list(difflib.unified_diff(before, after, lineterm=""))[2:]:
        if line[0] != "@":
            lines.append((cast(Sign, line[0]), line[1:]))
        elif lines:
            lines.append(("@", ""))
    return lines
