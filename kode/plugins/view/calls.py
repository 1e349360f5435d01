"""Tool calls for display: subject, edits as diffs, outcome.

A diff comes from the call itself; the previous content of a replaced file comes from the record of
`/undo`.
"""

import difflib
import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from kode import paths
from kode.broken_json import object_of
from kode.credentials import redact
from kode.messages import ToolCall, ToolResult, shorten
from kode.session.change_log import Change, Group
from kode.session.checkpoints import Checkpoints
from kode.session.content_store import Contents
from kode.session.entries import AnyEntry, MessageEntry
from kode.session.export import readable_arguments
from kode.tools import BUILTIN

SUBJECT_CHARS = 200
MAX_DIFF_LINES = 20_000

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


@dataclass(frozen=True, kw_only=True)
class Changed:
    """A session's file changes, from the record of `/undo`."""

    groups: tuple[Group, ...] = ()
    undone: frozenset[int] = frozenset()
    """Numbers of undone groups."""
    contents: Contents | None = None


def changed_files(session_folder: Path) -> Changed:
    """The record beside a session; empty if there is none."""
    folder = paths.checkpoints_folder(session_folder)
    # Reading stores nothing, so the limits do not matter.
    contents = Contents(folder=folder, max_file_bytes=0, max_bytes=0)
    history = Checkpoints(folder=folder, contents=contents).history()
    return Changed(groups=history.groups, undone=frozenset(history.undone), contents=contents)


def results_of(entries: Sequence[AnyEntry]) -> Mapping[str, ToolResult]:
    found: dict[str, ToolResult] = {}
    for entry in entries:
        if isinstance(entry, MessageEntry) and entry.role == "tool":
            for part in entry.parts:
                if isinstance(part, ToolResult):
                    found.setdefault(part.call_id, part)
    return found


class Calls:
    """Converts calls for display, in one pass over a session."""

    def __init__(self, cwd: str, results: Mapping[str, ToolResult], changed: Changed) -> None:
        self._cwd = cwd
        self._results = results
        self._changed = changed
        self._seen: Counter[tuple[int, str]] = Counter()

    def shown(self, call: ToolCall, turn: int, at: str) -> Call:
        arguments = object_of(call.arguments) or {}
        result = self._results.get(call.id)
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
        contents = self._changed.contents
        if contents is None or self._seen[turn, absolute] > 1:
            return ""
        for group in self._changed.groups:
            changes: Sequence[Change] = group.files.get(absolute, ())
            if group.turn == turn and changes and changes[0].before is not None:
                # The copy is the original file, keys included.
                return redact((contents.data(changes[0].before) or b"").decode("utf-8", "replace"))
        return ""


def _outcome(result: ToolResult | None) -> Literal["done", "failed", "without a result"]:
    if result is None:
        return "without a result"
    return "failed" if result.is_error else "done"


@functools.cache
def _subjects() -> Mapping[str, str]:
    return {tool.name: tool.subject or "" for tool in BUILTIN}


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
