"""One session as a person looks back on it: turns, with what was said, called and undone.

Unlike what the model gets, this is all of the file: also what was rewound, marked as such.
"""

import difflib
import functools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, assert_never, cast

from kode import paths
from kode.credentials import redact
from kode.images import describe
from kode.messages import Image, Text, Thinking, ToolCall, ToolResult, shorten
from kode.session.change_log import Change, Group
from kode.session.checkpoints import Checkpoints
from kode.session.content_store import Contents
from kode.session.entries import (
    AnyEntry,
    CompactionEntry,
    Header,
    HookEntry,
    MessageEntry,
    PlanEntry,
    PruneEntry,
    RestoreEntry,
    RewindEntry,
    StateEntry,
    SystemEntry,
    TaintEntry,
    TrimEntry,
    TurnEntry,
    UsageEntry,
)
from kode.session.messages import effective, is_turn
from kode.tools import BUILTIN

ASKED_CHARS = 100
MAX_DIFF_LINES = 20_000

Sign = Literal["+", "-", " ", "@"]


@dataclass(frozen=True, kw_only=True)
class Words:
    """What somebody said, or kode put beside it."""

    who: Literal["You", "kode"]
    text: str
    at: str
    source: str = ""
    """Who added it, where it was not the speaker: `memory`, `attachment`, `thinking`, ..."""
    kind: Literal["words"] = "words"


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of a tool with its outcome."""

    name: str
    subject: str
    """What it is about, on one line: a path, a command."""
    arguments: str
    diff: tuple[tuple[Sign, str], ...]
    """(sign, line) of what an edit changed; () for other calls, whose arguments are shown."""
    outcome: Literal["done", "failed", "without a result"]
    output: str
    at: str
    kind: Literal["call"] = "call"


@dataclass(frozen=True, kw_only=True)
class Event:
    """What happened to the session itself: a compaction, a rewind, a hook."""

    title: str
    at: str
    detail: str = ""
    kind: Literal["event"] = "event"


Item = Words | Call | Event


@dataclass(kw_only=True)
class Turn:
    """What followed from one message of the person; number 0 is what came before the first."""

    number: int
    id: str
    """Of its first entry."""
    at: str
    asked: str = ""
    """The beginning of the message, on one line."""
    items: list[Item] = field(default_factory=list)
    entries: list[AnyEntry] = field(default_factory=list)
    end: TurnEntry | None = None
    """None while it runs, and where a crash ended it."""
    is_rewound: bool = False
    files: tuple[tuple[str, bool], ...] = ()
    """(path, whether its change was undone) of each changed file."""


@dataclass(frozen=True, kw_only=True)
class Changed:
    """What a session did to files, as the record of `/undo` has it."""

    groups: tuple[Group, ...] = ()
    undone: frozenset[int] = frozenset()
    """Numbers of groups that were taken back."""
    contents: Contents | None = None


def changed_files(session_folder: Path) -> Changed:
    """The record beside a session; an empty one where there is none."""
    folder = paths.checkpoints_folder(session_folder)
    # Nothing is kept by looking, so the limits do not matter.
    contents = Contents(folder=folder, max_file_bytes=0, max_bytes=0)
    history = Checkpoints(folder=folder, contents=contents).history()
    return Changed(groups=history.groups, undone=frozenset(history.undone), contents=contents)


def turns_of(header: Header, entries: Sequence[AnyEntry], changed: Changed) -> list[Turn]:
    """The turns of a session, oldest first."""
    kept = {entry.id for entry in effective(entries)}
    calls = _Calls(header.cwd, _results(entries), changed)
    turns: list[Turn] = []
    counted = 0
    numbers: dict[str, int] = {}
    """Entry → how many turns there were before it."""
    for entry in entries:
        numbers[entry.id] = counted
        if is_turn(entry):
            counted += 1
            turns.append(Turn(number=counted, id=entry.id, at=entry.at, asked=_asked(entry)))
        elif not turns:
            turns.append(Turn(number=0, id=entry.id, at=entry.at))
        if isinstance(entry, RewindEntry):
            counted = numbers.get(entry.to, counted)
        turn = turns[-1]
        turn.entries.append(entry)
        if isinstance(entry, RewindEntry):
            title = f"Rewound to before turn {counted + 1}"
            turn.items.append(Event(title=title, at=entry.at))
        turn.items += _items(entry, turn.number, calls, kept)
        if isinstance(entry, TurnEntry):
            turn.end = entry
        turn.is_rewound = turn.number > 0 and turn.id not in kept
    _set_files(turns, header.cwd, changed)
    return [turn for turn in turns if turn.number or turn.items]


def _asked(entry: AnyEntry) -> str:
    if not isinstance(entry, MessageEntry):
        return ""
    said = (part.text for part in entry.parts if isinstance(part, Text) and not part.source)
    return shorten(" ".join(said), ASKED_CHARS)


def _set_files(turns: Sequence[Turn], cwd: str, changed: Changed) -> None:
    """Groups have the number of their turn; after a rewind there are several of one number, in the
    order of the turns."""
    waiting = list(changed.groups)
    for turn in turns:
        own = next((group for group in waiting if group.turn == turn.number), None)
        if own is None or (turn.end is not None and not own.has_effect):
            continue
        waiting.remove(own)
        names = (path for path, done in own.files.items() if any(c.has_effect for c in done))
        is_undone = own.number in changed.undone
        turn.files = tuple((_relative(path, cwd), is_undone) for path in names)


def _results(entries: Sequence[AnyEntry]) -> Mapping[str, ToolResult]:
    found: dict[str, ToolResult] = {}
    for entry in entries:
        if isinstance(entry, MessageEntry) and entry.role == "tool":
            for part in entry.parts:
                if isinstance(part, ToolResult):
                    found.setdefault(part.call_id, part)
    return found


def _items(entry: AnyEntry, turn: int, calls: "_Calls", kept: set[str]) -> Iterator[Item]:
    at = entry.at
    match entry:
        case MessageEntry():
            yield from _said(entry, turn, calls)
        case CompactionEntry():
            title = f"Compacted: a summary stands for {entry.tokens_before:,} tokens"
            undone = "" if entry.id in kept else " (undone)"
            parts = (entry.plan, entry.summary, "\n".join(entry.dropped))
            yield Event(title=title + undone, at=at, detail="\n\n".join(filter(None, parts)))
        case PruneEntry():
            undone = "" if entry.id in kept else " (undone)"
            yield Event(title=f"Old outputs of calls dropped from the context{undone}", at=at)
        case TrimEntry():
            yield Event(title="Trimmed: what is above is no longer sent to the model", at=at)
        case RestoreEntry():
            yield Event(title="A compaction was undone", at=at)
        case PlanEntry():
            yield Event(title="Plan" if entry.text else "Plan dropped", at=at, detail=entry.text)
        case TaintEntry():
            yield Event(title=f"Text from outside was read: {entry.source}", at=at)
        case HookEntry():
            outcome = f": {entry.outcome}" if entry.outcome else ""
            yield Event(title=f"Hook {entry.name}{outcome}", at=at, detail=entry.detail)
        case TurnEntry(error=str(error)) if error:
            yield Event(title=f"The turn ended: {entry.status}", at=at, detail=error)
        case SystemEntry() | StateEntry() | UsageEntry() | TurnEntry() | RewindEntry():
            pass
        case _:
            assert_never(entry)


def _said(entry: MessageEntry, turn: int, calls: "_Calls") -> Iterator[Item]:
    if entry.role == "tool":
        return  # beside the calls
    who: Literal["You", "kode"] = "You" if entry.role == "user" else "kode"
    for part in entry.parts:
        match part:
            case Text():
                if part.text.strip():
                    yield Words(who=who, text=part.text, at=entry.at, source=part.source)
            case Thinking():
                if part.text.strip():
                    yield Words(who=who, text=part.text, at=entry.at, source="thinking")
            case Image():
                yield Words(who=who, text=describe(part), at=entry.at, source="picture")
            case ToolCall():
                yield calls.shown(part, turn, entry.at)
            case ToolResult():
                pass
            case _:
                assert_never(part)
    if entry.stop in ("length", "refusal", "interrupted"):
        yield Event(title=f"The reply ended early: {entry.stop}", at=entry.at)


class _Calls:
    """Calls as they are shown; made for one pass over a session."""

    def __init__(self, cwd: str, results: Mapping[str, ToolResult], changed: Changed) -> None:
        self._cwd = cwd
        self._results = results
        self._changed = changed
        self._seen: Counter[tuple[int, str]] = Counter()

    def shown(self, call: ToolCall, turn: int, at: str) -> Call:
        arguments = _object(call.arguments)
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
            arguments="" if diff else _written(arguments, call.arguments),
            diff=tuple(diff),
            outcome=_outcome(result),
            output=result.text if result is not None else "",
            at=at,
        )

    def _before(self, turn: int, path: str) -> str:
        """What a file held before its first change in a turn; "" where that is not known."""
        absolute = str(Path(self._cwd, path))
        self._seen[turn, absolute] += 1
        contents = self._changed.contents
        if contents is None or self._seen[turn, absolute] > 1:
            return ""
        for group in self._changed.groups:
            changes: Sequence[Change] = group.files.get(absolute, ())
            if group.turn == turn and changes and changes[0].before is not None:
                # The copy is of the file as it was, keys included.
                return redact((contents.data(changes[0].before) or b"").decode("utf-8", "replace"))
        return ""


def _outcome(result: ToolResult | None) -> Literal["done", "failed", "without a result"]:
    if result is None:
        return "without a result"
    return "failed" if result.is_error else "done"


def _object(text: str) -> dict[str, Any]:
    """The arguments of a call; empty for a text that is no JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


@functools.cache
def _subjects() -> Mapping[str, str]:
    return {tool.name: tool.subject or "" for tool in BUILTIN}


def _subject(name: str, arguments: Mapping[str, Any], cwd: str) -> str:
    value = arguments.get(_subjects().get(name) or "description", "")
    text = value if isinstance(value, str) else ""
    return shorten(_relative(text, cwd) if name.endswith("_file") else text, 2 * ASKED_CHARS)


def _relative(path: str, cwd: str) -> str:
    return path.removeprefix(cwd.rstrip("/") + "/")


def _written(arguments: Mapping[str, Any], raw: str) -> str:
    """A line an argument; texts of several lines below their name."""
    lines = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        lines.append(f"{name}:\n{text}" if "\n" in text else f"{name}: {text}")
    return "\n".join(lines) or raw


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
    """What went and what came, with three lines around it."""
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
