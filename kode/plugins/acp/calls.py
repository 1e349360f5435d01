"""A tool call for display in a client: kind, title and place, and its edits as old and new text.
Pure functions of the call and a diff."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acp.schema import (
    ContentToolCallContent,
    FileEditToolCallContent,
    TerminalToolCallContent,
    TextContentBlock,
    ToolCallLocation,
    ToolKind,
)

from kode.plugin import (
    Tool,
    ToolCall,
    ToolError,
    calling,
    parts_of,
    paths,
    shorten,
    subject_of,
    verbs_of,
)

Content = ContentToolCallContent | FileEditToolCallContent | TerminalToolCallContent

KINDS: Mapping[str, ToolKind] = {
    "read": "read",
    "edit": "edit",
    "run": "execute",
    "fetch": "fetch",
    "delegate": "think",
    "none": "think",
}
"""By the tool's effect; anything else is `other`."""

SEARCHES = ("search_files", "list_files")
TITLE_CHARS = 200  # two lines of an editor's panel
MAX_LINE = 2**32 - 1
"""The protocol's maximum line number."""
NO_LINE_FEED = "\\ No newline at end of file"

_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A call for display before its outcome is known."""

    id: str
    name: str
    title: str
    kind: ToolKind
    arguments: Mapping[str, Any]
    """Empty if they are not a JSON object."""
    subject: str = ""
    path: str = ""
    """Absolute; "" for a call about no file."""
    line: int | None = None

    @property
    def locations(self) -> list[ToolCallLocation] | None:
        return [ToolCallLocation(path=self.path, line=self.line)] if self.path else None


def show_call(call: ToolCall, tools: Sequence[Tool], cwd: Path) -> Shown:
    """A call of the model, using the available tools."""
    tool = calling.called(tools, call.name)
    arguments = _arguments(call.arguments)
    if tool is not None:
        tool, arguments = _first_part(tool, call)
    name = tool.name if tool is not None else call.name
    subject = _subject(tool, arguments)
    kind: ToolKind = "search" if name in SEARCHES else "other"
    if tool is not None and kind == "other":
        kind = KINDS.get(tool.effect, "other")
    path = arguments.get("path") if kind in ("read", "edit", "search") else None
    line = arguments.get("offset") if kind == "read" else None
    return Shown(
        id=call.id,
        name=name,
        title=title_of(name, subject),
        kind=kind,
        arguments=arguments,
        subject=subject,
        path=absolute(cwd, path) if isinstance(path, str) and path else "",
        line=line if isinstance(line, int) and 0 < line <= MAX_LINE else None,
    )


def title_of(name: str, subject: str) -> str:
    """One line: a command unchanged, `Reading a.py` for others."""
    words = subject if name == "shell" else f"{verbs_of(name)[0]} {subject}"
    return shorten(words, TITLE_CHARS) or name


def absolute(cwd: Path, path: str) -> str:
    return str(cwd / paths.expand(path))


def text_content(text: str) -> ContentToolCallContent:
    block = TextContentBlock(type="text", text=text)
    return ContentToolCallContent(type="content", content=block)


def proposed_edits(shown: Shown) -> list[Content]:
    """The old and new text in an edit's arguments; [] for other calls."""
    given = shown.arguments
    if shown.kind != "edit" or not shown.path:
        return []
    if isinstance(given.get("content"), str):
        return [_edit(shown.path, None, given["content"])]
    listed = given.get("edits")
    edits = listed if isinstance(listed, list) else [given]
    return [
        _edit(shown.path, edit["old_text"], edit["new_text"])
        for edit in edits
        if isinstance(edit, dict)
        and isinstance(edit.get("old_text"), str)
        and isinstance(edit.get("new_text"), str)
    ]


@dataclass(frozen=True)
class Hunk:
    """One changed place of a file."""

    path: str
    line: int
    """Its line in the new text, from 1."""
    old: str | None
    """None for a new file."""
    new: str


def hunks_of(diff: str, cwd: Path) -> Iterator[Hunk]:
    """The changed places of a unified diff whose names are relative to `cwd`; anything else, or a
    truncated part, is skipped."""
    lines, position, path = diff.split("\n"), 0, ""
    while position < len(lines):
        line = lines[position]
        position += 1
        if line.startswith("+++ b/"):
            path = absolute(cwd, line[len("+++ b/") :].rstrip("\t"))
        elif path and (header := _HEADER.match(line)):
            begin, old, new = int(header[3]), int(header[2] or 1), int(header[4] or 1)
            removed: list[str] = []
            added: list[str] = []
            while position < len(lines) and (len(removed) < old or len(added) < new):
                mark, text = lines[position][:1], lines[position][1:] + "\n"
                if mark not in ("", " ", "-", "+"):
                    break
                if mark != "+":
                    removed.append(text)
                if mark != "-":
                    added.append(text)
                position += 1
                if lines[position : position + 1] == [NO_LINE_FEED]:
                    position += 1
                    for side in (removed if mark != "+" else [], added if mark != "-" else []):
                        side[-1:] = [text[:-1]] if side else []
            before = None if header[1] == "0" and old == 0 else "".join(removed)
            yield Hunk(path, max(1, begin), before, "".join(added))


def edits_of(diff: str, cwd: Path) -> tuple[list[Content], list[ToolCallLocation]]:
    """A diff as old and new texts, and their locations."""
    hunks = list(hunks_of(diff, cwd))
    return (
        [_edit(hunk.path, hunk.old, hunk.new) for hunk in hunks],
        [ToolCallLocation(path=hunk.path, line=hunk.line) for hunk in hunks],
    )


def _edit(path: str, old: str | None, new: str) -> FileEditToolCallContent:
    return FileEditToolCallContent(type="diff", path=path, old_text=old, new_text=new)


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        # `NaN` is not JSON for the client.
        value = json.loads(text, parse_constant=lambda name: None)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _first_part(tool: Tool, call: ToolCall) -> tuple[Tool, Mapping[str, Any]]:
    """What a call is, or first is, in the tools' own terms."""
    given = {"input": call.arguments} if tool.grammar else {}
    arguments = calling.arguments(tool, _arguments(call.arguments) or given)
    try:
        return parts_of(tool, arguments)[0]
    except ToolError:
        return tool, arguments


def _subject(tool: Tool | None, arguments: Mapping[str, Any]) -> str:
    try:
        return subject_of(tool, arguments) if tool is not None else ""
    except Exception:  # a tool expects valid arguments here; these may not be
        return ""
