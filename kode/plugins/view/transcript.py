"""A session as a person looks back on it: turns with messages, calls and undos.

Unlike what the model gets, this is the entire file: rewound parts are included and marked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, assert_never

from kode.plugin import FileChanges
from kode.plugin import effective_entries as effective
from kode.plugin.entries import (
    AnyEntry,
    CompactionEntry,
    Header,
    HookEntry,
    MessageEntry,
    PlanEntry,
    PluginEntry,
    PruneEntry,
    RequestEntry,
    RestoreEntry,
    RewindEntry,
    StateEntry,
    SystemEntry,
    TaintEntry,
    ToldEntry,
    TrimEntry,
    TurnEntry,
    UnboundEntry,
    UndoEntry,
    UsageEntry,
    is_turn,
)
from kode.plugin.messages import Image, ServerItem, Text, Thinking, ToolCall, ToolResult, shorten
from kode.plugins.view.calls import Call, Calls, relative, results_of

ASKED_CHARS = 100


@dataclass(frozen=True, kw_only=True)
class Words:
    """A message, or what kode added to one."""

    who: Literal["You", "kode"]
    text: str
    at: str
    source: str = ""
    """Who added it, if not the speaker: `memory`, `attachment`, `thinking`, ..."""
    kind: Literal["words"] = "words"


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened to the session itself: a compaction, a rewind, a hook."""

    title: str
    at: str
    detail: str = ""
    kind: Literal["event"] = "event"


Item = Words | Call | Event


@dataclass(kw_only=True)
class Turn:
    """Everything after one message of the person; number 0 precedes the first."""

    number: int
    id: str
    """The id of its first entry."""
    at: str
    asked: str = ""
    """The beginning of the message, on one line."""
    items: list[Item] = field(default_factory=list)
    entries: list[AnyEntry] = field(default_factory=list)
    end: TurnEntry | None = None
    """None while it runs, and after a crash."""
    is_rewound: bool = False
    files: tuple[tuple[str, bool], ...] = ()
    """(path, whether its change was undone) of each changed file."""


def turns_of(header: Header, entries: Sequence[AnyEntry], changed: FileChanges) -> list[Turn]:
    """The turns of a session, oldest first."""
    kept = {entry.id for entry in effective(entries)}
    calls = Calls(header.cwd, results_of(entries), changed)
    turns: list[Turn] = []
    counted = 0
    numbers: dict[str, int] = {}
    """Entry → the number of turns before it."""
    for entry in entries:
        numbers[entry.id] = counted
        if is_turn(entry):
            counted += 1
            turns.append(Turn(number=counted, id=entry.id, at=entry.at, asked=_prompt_start(entry)))
        elif not turns:
            turns.append(Turn(number=0, id=entry.id, at=entry.at))
        turn = turns[-1]
        turn.entries.append(entry)
        if isinstance(entry, RewindEntry):
            counted = numbers.get(entry.to, counted)
            title = f"Rewound to before turn {counted + 1}"
            turn.items.append(Event(title=title, at=entry.at))
        turn.items += _items(entry, turn.number, calls, kept)
        if isinstance(entry, TurnEntry):
            turn.end = entry
        turn.is_rewound = turn.number > 0 and turn.id not in kept
    _set_files(turns, header.cwd, changed)
    return [turn for turn in turns if turn.number or turn.items]


def _prompt_start(entry: AnyEntry) -> str:
    if not isinstance(entry, MessageEntry):
        return ""
    said = (part.text for part in entry.parts if isinstance(part, Text) and not part.source)
    return shorten(" ".join(said), ASKED_CHARS)


def _set_files(turns: Sequence[Turn], cwd: str, changed: FileChanges) -> None:
    """Assigns groups to turns by number. After a rewind several turns share a number: then a group
    belongs to the turn that names its files, else to the first without one."""
    for group in changed.groups:
        names = [path for path, done in group.files.items() if any(c.has_effect for c in done)]
        same = [turn for turn in turns if turn.number == group.turn]
        free = [turn for turn in same if not turn.files] or same
        naming = [turn for turn in free if turn.end and {*names} & {*turn.end.files_changed}]
        is_undone = group.number in changed.undone
        for turn in (naming or free)[:1]:
            turn.files += tuple((relative(path, cwd), is_undone) for path in names)


def _items(entry: AnyEntry, turn: int, calls: Calls, kept: set[str]) -> Iterator[Item]:
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
        case UndoEntry():
            did = "Redid" if entry.redo else "Undid"
            yield Event(title=f"{did} turn {entry.turn}", at=at, detail="\n".join(entry.files))
        case PlanEntry():
            yield Event(title="Plan" if entry.text else "Plan dropped", at=at, detail=entry.text)
        case TaintEntry():
            yield Event(title=f"Text from outside was read: {entry.source}", at=at)
        case HookEntry():
            outcome = f": {entry.outcome}" if entry.outcome else ""
            yield Event(title=f"Hook {entry.name}{outcome}", at=at, detail=entry.detail)
        case TurnEntry(error=str(error)) if error:
            yield Event(title=f"The turn ended: {entry.status}", at=at, detail=error)
        case UnboundEntry():
            yield Event(title="The server did not take thinking back", at=at, detail=entry.reason)
        case SystemEntry() | ToldEntry() | StateEntry() | RequestEntry() | UsageEntry():
            pass
        case TurnEntry() | RewindEntry() | PluginEntry():
            pass
        case _:
            assert_never(entry)


def _said(entry: MessageEntry, turn: int, calls: Calls) -> Iterator[Item]:
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
                yield Words(who=who, text=part.description, at=entry.at, source="picture")
            case ToolCall():
                yield calls.shown(part, turn, entry.at)
            case ServerItem():
                if part.text:
                    yield Words(who=who, text=part.text, at=entry.at, source="server")
            case ToolResult():
                pass
            case _:
                assert_never(part)
    if entry.stop == "malformed_call":
        yield Event(title="The call in this text could not be read", at=entry.at)
    elif entry.stop in ("length", "refusal", "interrupted"):
        yield Event(title=f"The reply ended early: {entry.stop}", at=entry.at)
