"""A session as a person looks back on it: turns with messages, calls and undos.

Unlike what the model gets, this is the entire file: rewound parts are included and marked.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, assert_never

from kode.plugin import (
    AnyEntry,
    CompactionEntry,
    FileChanges,
    HookEntry,
    Image,
    JobEntry,
    MessageEntry,
    NoteEntry,
    PlanEntry,
    PluginEntry,
    PruneEntry,
    RequestEntry,
    RestoreEntry,
    RewindEntry,
    ServerItem,
    StateEntry,
    SystemEntry,
    TaintEntry,
    Text,
    Thinking,
    ToldEntry,
    Transcript,
    TranscriptCall,
    TranscriptItem,
    TrimEntry,
    TurnEntry,
    UnboundEntry,
    UndoEntry,
    UsageEntry,
    shorten,
)
from kode.plugins.view.calls import Call, Calls, relative

ASKED_CHARS = 100  # one line of the list of turns


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
    entries: Sequence[AnyEntry] = ()
    end: TurnEntry | None = None
    """None while it runs, and after a crash."""
    is_rewound: bool = False
    files: tuple[tuple[str, bool], ...] = ()
    """(path, whether its change was undone) of each changed file."""


def turns_of(transcript: Transcript, changed: FileChanges) -> list[Turn]:
    """The turns of a session, oldest first."""
    calls = Calls(transcript.header.cwd, changed)
    started = {
        entry.id: turn.number + (number > 0)
        for turn in transcript.turns
        for number, entry in enumerate(turn.entries)
    }
    """Entry → the turn that a rewind to it would bring next."""
    turns = [
        Turn(
            number=turn.number,
            id=turn.id,
            at=turn.at,
            asked=_prompt_start(turn.entries[0]) if turn.number else "",
            items=[
                shown for item in turn.items for shown in _items(item, turn.number, calls, started)
            ],
            entries=turn.entries,
            end=turn.end,
            is_rewound=turn.is_rewound,
        )
        for turn in transcript.turns
    ]
    _set_files(turns, transcript.header.cwd, changed)
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


def _items(
    item: TranscriptItem, turn: int, calls: Calls, started: Mapping[str, int]
) -> Iterator[Item]:
    entry, at = item.entry, item.entry.at
    undone = "" if item.gone in ("", "trimmed") else " (undone)"
    match entry:
        case MessageEntry():
            yield from _said(item, entry, turn, calls)
        case RewindEntry():
            title = f"Rewound to before turn {started.get(entry.to, turn + 1)}"
            yield Event(title=title, at=at)
        case CompactionEntry():
            title = f"Compacted: a summary stands for {entry.tokens_before:,} tokens"
            parts = (entry.plan, entry.summary, "\n".join(entry.dropped))
            yield Event(title=title + undone, at=at, detail="\n\n".join(filter(None, parts)))
        case PruneEntry():
            yield Event(title=f"Old outputs of calls dropped from the context{undone}", at=at)
        case TrimEntry():
            yield Event(title="Trimmed: what is above is no longer sent to the model", at=at)
        case RestoreEntry():
            yield Event(title="A compaction or a rewind was undone", at=at)
        case UndoEntry():
            did = "Redid" if entry.redo else "Undid"
            yield Event(title=f"{did} turn {entry.turn}", at=at, detail="\n".join(entry.files))
        case JobEntry():
            what = f"has ended: {entry.outcome}" if entry.outcome else "has begun"
            yield Event(title=f"The background job {entry.name} {what}", at=at, detail=entry.title)
        case PlanEntry():
            yield Event(title="Plan" if entry.text else "Plan dropped", at=at, detail=entry.text)
        case TaintEntry():
            yield Event(title=f"Text from outside was read: {entry.source}", at=at)
        case HookEntry():
            outcome = f": {entry.outcome}" if entry.outcome else ""
            updated = entry.updated_input
            made = "" if updated is None else f"It made of the call: {json.dumps(updated)}"
            detail = "\n".join(filter(None, (entry.detail, made)))
            yield Event(title=f"Hook {entry.name}{outcome}", at=at, detail=detail)
        case TurnEntry(error=str(error)) if error:
            yield Event(title=f"The turn ended: {entry.status}", at=at, detail=error)
        case UnboundEntry():
            yield Event(title="The server did not take thinking back", at=at, detail=entry.reason)
        case (
            NoteEntry() | SystemEntry() | ToldEntry() | StateEntry() | RequestEntry() | UsageEntry()
        ):
            pass
        case TurnEntry() | PluginEntry():
            pass
        case _:
            assert_never(entry)


def _said(item: TranscriptItem, entry: MessageEntry, turn: int, calls: Calls) -> Iterator[Item]:
    who: Literal["You", "kode"] = "You" if entry.role == "user" else "kode"
    for part in item.parts:
        match part:
            case Text():
                if part.text.strip():
                    yield Words(who=who, text=part.text, at=entry.at, source=part.source)
            case Thinking():
                if part.text.strip():
                    yield Words(who=who, text=part.text, at=entry.at, source="thinking")
            case Image():
                yield Words(who=who, text=part.description, at=entry.at, source="picture")
            case TranscriptCall():
                yield calls.shown(part, turn, entry.at)
            case ServerItem():
                if part.text:
                    yield Words(who=who, text=part.text, at=entry.at, source="server")
            case _:
                assert_never(part)
    if entry.stop == "malformed_call":
        yield Event(title="The call in this text could not be read", at=entry.at)
    elif entry.stop in ("length", "refusal", "interrupted"):
        yield Event(title=f"The reply ended early: {entry.stop}", at=entry.at)
