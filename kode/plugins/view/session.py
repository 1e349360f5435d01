"""A session prepared for display: its turns with messages, calls and undos.

Unlike the model's view, this is the entire file: rewound parts are included and marked. The diff of
an edit comes from the call's arguments; if a file was replaced, its previous content comes from the
records of `/undo`. Nothing here needs a server.
"""

import difflib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kode.plugin import (
    FileChanges,
    Image,
    Spending,
    Text,
    Transcript,
    builtin_tools,
    object_of,
    shorten,
)

TITLE_CHARS = 100  # one line of the list of turns
SUBJECT_CHARS = 200  # two lines of a page
MAX_DIFF_LINES = 20_000  # a browser shows no longer page well

EVENTS: Mapping[str, tuple[str, Sequence[str]]] = {
    "compaction": (
        "Compacted: a summary stands for {tokens_before:,} tokens",
        ("plan", "summary", "dropped"),
    ),
    "hook": ("Hook {name} {outcome}", ("detail", "updated_input")),
    "job": ("The background job {name}", ("title", "outcome")),
    "plan": ("Plan", ("text",)),
    "restore": ("A compaction or a rewind was undone", ()),
    "rewind": ("Rewound to before an earlier message", ()),
    "taint": ("Text from outside was read: {source}", ()),
    "trim": ("Trimmed: what is above is no longer sent to the model", ()),
    "turn": ("The turn ended: {status}", ("error",)),
    "unbound": ("The server did not take thinking back", ("reason",)),
    "undo": ("Undid turn {turn}", ("files",)),
    "redo": ("Redid turn {turn}", ("files",)),
}
"""The types of entries that are shown → a title with their fields, and the fields below it."""


@dataclass(frozen=True, kw_only=True)
class TextView:
    """A text that was said, or an event of the session."""

    kind: str
    """Who said it: `you` or `kode`; `added` for what kode added to a message; `event`."""
    title: str = ""
    text: str = ""


DiffLine = tuple[str, str]
"""A sign (`+`, `-`, a space, or `@` for a gap) and a line."""


@dataclass(frozen=True, kw_only=True)
class CallView:
    """A call of a tool with its outcome."""

    name: str
    subject: str
    """What it is about, on one line: a path, a command."""
    arguments: str
    diff: Sequence[DiffLine]
    """The diff of an edit; () for other calls, whose arguments are shown instead."""
    outcome: str
    """`done`, `failed` or `without a result`."""
    output: str
    kind: str = "call"


@dataclass(frozen=True, kw_only=True)
class TurnView:
    """Everything after one message of the person; number 0 precedes the first."""

    turn: Any
    """The turn of the transcript."""
    title: str
    """The beginning of the message, on one line."""
    items: Sequence[TextView | CallView]
    files: Sequence[str]
    """The files that the turn changed, relative to the session's folder."""
    spent: Any


def view_turns(transcript: Transcript, changed: FileChanges) -> Iterator[TurnView]:
    """The turns of a session, oldest first."""
    cwd = transcript.header.cwd
    for turn in transcript.turns:
        parts = turn.items[0].parts if turn.number else ()
        words = (it.typed or it.text for it in parts if isinstance(it, Text) and not it.source)
        items = [
            shown for item in turn.items for shown in _view_items(item, turn.number, cwd, changed)
        ]
        spent = Spending.of(turn.entries).total
        if turn.number or items or spent.requests:
            yield TurnView(
                turn=turn,
                title=shorten(" ".join(words), TITLE_CHARS),
                items=items,
                files=[_relative_path(path, cwd) for path in turn.end.files_changed]
                if turn.end
                else (),
                spent=spent,
            )


def _view_items(
    item: Any, turn: int, cwd: str, changed: FileChanges
) -> Iterator[TextView | CallView]:
    message = item.entry
    if message.type != "message":
        yield from _view_events(item)
        return
    for part in item.parts:
        if part.type == "call":
            yield _view_call(part, cwd, lambda path: changed.before(turn, str(Path(cwd, path))))
            continue
        source = part.source if isinstance(part, Text) else part.type
        text = part.description if isinstance(part, Image) else part.text
        kind, title = "added", f"Added: {source}"
        if source in ("", "steering"):
            kind, title = "you" if message.role == "user" else "kode", source and "while it worked"
        if text.strip():
            yield TextView(kind=kind, title=title, text=text)
    if message.stop == "malformed_call":
        yield TextView(kind="event", title="The call in this text could not be read")
    elif message.stop in ("length", "refusal", "interrupted"):
        yield TextView(kind="event", title=f"The reply ended early: {message.stop}")


def _view_events(item: Any) -> Iterator[TextView]:
    """The event that an entry other than a message shows, if its type is in `EVENTS` or `x-…`."""
    entry, fields = item.entry, vars(item.entry)
    kind = "redo" if fields.get("redo") else entry.type
    if kind.startswith("x-"):
        yield TextView(kind="event", title=f"Record {kind[2:]}", text=_field_text(fields["value"]))
    elif kind in EVENTS and fields.get("error", True):
        title, below = EVENTS[kind]
        undone = " (undone)" if item.is_rewound else ""
        text = "\n\n".join(filter(None, (_field_text(fields[name]) for name in below)))
        yield TextView(kind="event", title=title.format(**fields).strip() + undone, text=text)


def _field_text(value: Any) -> str:
    """A field of an entry for a person; "" for an empty one."""
    if isinstance(value, str) or not value:
        return value or ""
    if isinstance(value, tuple):
        return "\n".join(map(str, value))
    return json.dumps(value, indent=1, ensure_ascii=False)


def _view_call(call: Any, cwd: str, before: Callable[[str], str]) -> CallView:
    """A call for display. `before` gives the content of a file before its turn, "" if unknown."""
    name, arguments, result = call.call.name, object_of(call.call.arguments) or {}, call.result
    has_failed = result is not None and result.is_error
    diff: Sequence[DiffLine] = ()
    if name == "edit_file":
        diff = _read_edits(arguments)
    elif name == "write_file" and isinstance(content := arguments.get("content"), str):
        is_done = result is not None and not has_failed
        diff = _diff_lines(before(str(arguments.get("path"))) if is_done else "", content)
    subjects = {tool.name: tool.subject for tool in builtin_tools}
    subject = str(arguments.get(subjects.get(name) or "description") or "")
    subject = _relative_path(subject, cwd) if name.endswith("_file") else subject
    return CallView(
        name=name,
        subject=shorten(subject, SUBJECT_CHARS),
        arguments="" if diff else _field_text(arguments) or call.call.arguments,
        diff=diff,
        outcome="without a result" if result is None else "failed" if has_failed else "done",
        output=result.text if result is not None else "",
    )


def _relative_path(path: str, cwd: str) -> str:
    return path.removeprefix(cwd.rstrip("/") + "/")


def _read_edits(arguments: Mapping[str, Any]) -> Sequence[DiffLine]:
    listed = arguments.get("edits")
    lines: list[DiffLine] = []
    for edit in listed if isinstance(listed, list) else [arguments]:
        old, new = (
            (edit.get("old_text"), edit.get("new_text")) if isinstance(edit, dict) else ("", "")
        )
        if isinstance(old, str) and isinstance(new, str):
            lines += [*([("@", "")] if lines else []), *_diff_lines(old, new)]
    return lines


def _diff_lines(old: str, new: str) -> Sequence[DiffLine]:
    """Removed and added lines, with three lines of context."""
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > MAX_DIFF_LINES:
        return [("@", f"{len(before):,} lines became {len(after):,}: too many to compare")]
    lines = [*difflib.unified_diff(before, after, lineterm="")][3:]
    return [("@", "") if line[0] == "@" else (line[0], line[1:]) for line in lines]


@dataclass(frozen=True, kw_only=True)
class SessionView:
    transcript: Transcript
    folder: Path
    """The folder with the session's other files, such as the records of its subagents."""
    title: str
    turns: Sequence[TurnView]
    spending: Spending
    """The cost of all turns, also rewound ones, which were paid for too."""


def session_view(transcript: Transcript) -> SessionView:
    """A session for display. Raises: StorageError."""
    assert transcript.path is not None  # it was read
    folder = transcript.path.with_suffix("")
    turns = [*view_turns(transcript, FileChanges(folder))]
    titles = (turn.title for turn in turns if turn.title)
    return SessionView(
        transcript=transcript,
        folder=folder,
        title=transcript.name or next(titles, f"Session {transcript.header.id}"),
        turns=turns,
        spending=Spending.of(transcript.entries),
    )
