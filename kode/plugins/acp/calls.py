"""A tool call for display in a client: kind, title and place, and its edits as old and new text.
Pure functions of the call and a diff."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acp import schema
from acp.helpers import start_tool_call, text_block, tool_content, tool_diff_content

from kode.plugin import describe_event, expand_path, shorten

Edit = schema.FileEditToolCallContent
Content = schema.ContentToolCallContent | Edit | schema.TerminalToolCallContent

KINDS: Mapping[str, schema.ToolKind] = {
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

_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_LINE_FEED = "\n\\ No newline at end of file"


@dataclass(frozen=True, kw_only=True)
class ShownCall:
    """A call whose outcome is not known yet, as the client shows it."""

    name: str
    subject: str
    start: schema.ToolCallStart

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Empty if they are not a JSON object."""
        arguments: Mapping[str, Any] = self.start.raw_input or {}
        return arguments


def show_call(event: Any, action: Any, cwd: Path) -> ShownCall:
    """A call of the model: see `Conversation.preview_call`."""
    name, arguments = event.name, dict(action.arguments) if action is not None else {}
    effect = action.tool.effect if action is not None else ""
    kind = "search" if name in SEARCHES else KINDS.get(effect, "other")
    path = arguments.get("path") if kind in ("read", "edit", "search") else None
    path = str(cwd / expand_path(path)) if isinstance(path, str) and path else ""
    line = arguments.get("offset") if kind == "read" else None
    line = line if isinstance(line, int) and 0 < line <= MAX_LINE else None
    described = describe_event(event, TITLE_CHARS)
    title = event.subject if name == "shell" else described.text if described else ""
    start = start_tool_call(
        event.call_id,
        shorten(title, TITLE_CHARS) or name,
        kind=kind,
        status="pending",
        content=_proposed_edits(path, arguments) if kind == "edit" and path else None,
        locations=[schema.ToolCallLocation(path=path, line=line)] if path else None,
        raw_input=arguments,
    )
    return ShownCall(name=name, subject=event.subject, start=start)


def text_content(text: str) -> schema.ContentToolCallContent:
    return tool_content(text_block(text))


def edits_of(diff: str, cwd: Path) -> Iterator[tuple[Edit, schema.ToolCallLocation]]:
    """The changed places of a unified diff whose names are relative to `cwd`, as old and new text
    with their locations; anything else is skipped. A new file has no old text."""
    lines = iter(diff.replace(_NO_LINE_FEED, "\0").split("\n"))
    path = ""
    for line in lines:
        if line.startswith("+++ b/"):
            path = str(cwd / line[len("+++ b/") :].rstrip("\t"))
        header = _HEADER.match(line)
        if header is None or not path:
            continue
        left = {"-": int(header[2] or 1), "+": int(header[4] or 1)}
        is_new = header[1] == "0" and not left["-"]
        texts = {"-": "", "+": ""}
        while max(left.values()) > 0 and (part := next(lines, "end"))[:1] in ("", *" -+"):
            text = part[1:-1] if part.endswith("\0") else f"{part[1:]}\n"
            for sign in part[:1].strip() or "-+":
                texts[sign] += text
                left[sign] -= 1
        location = schema.ToolCallLocation(path=path, line=max(1, int(header[3])))
        yield tool_diff_content(path, texts["+"], None if is_new else texts["-"]), location


def _proposed_edits(path: str, arguments: Mapping[str, Any]) -> list[Content] | None:
    """The old and new text in an edit's arguments."""
    if isinstance(arguments.get("content"), str):
        return [tool_diff_content(path, arguments["content"])]
    listed = arguments.get("edits")
    edits = listed if isinstance(listed, list) else [arguments]
    texts = [(e.get("old_text"), e.get("new_text")) for e in edits if isinstance(e, dict)]
    return [
        tool_diff_content(path, new, old)
        for old, new in texts
        if isinstance(old, str) and isinstance(new, str)
    ] or None
