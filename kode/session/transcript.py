"""A session as whoever looks back on it reads it: turns, and in each what happened, every call with
its result. Nothing is left out; what no longer counts is marked.

What the model gets is another view of the same entries: see `messages.py`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from kode.messages import (
    Image,
    ServerItem,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    failure_of,
    images_of,
    text_of,
)
from kode.session.entries import (
    Entry,
    Header,
    MessageEntry,
    PluginEntry,
    RestoreEntry,
    RewindEntry,
    TurnEntry,
    is_turn,
    line_of,
)
from kode.session.index import read
from kode.session.messages import UNKNOWN_RESULT, as_message, conversation_messages, effective


@dataclass(kw_only=True)
class PastCall:
    """A call of a tool with what came back, however late."""

    call: ToolCall
    result: ToolResult | None = None
    """None while it runs, and after a crash."""
    pictures: tuple[Image, ...] = ()
    """Those that came with the result."""
    type: Literal["call"] = "call"

    @property
    def answer(self) -> ToolResult:
        """The result; without one, that it is unknown, as the model is told."""
        return self.result or failure_of(self.call, UNKNOWN_RESULT)


Part = Text | Image | Thinking | ServerItem | PastCall


@dataclass(frozen=True, kw_only=True)
class Item:
    """An entry of the session; results are with their calls and no items of their own."""

    entry: Entry
    parts: Sequence[Part]
    """Those of a message, in order; of an undo or a redo, what the model is told of it."""
    is_rewound: bool
    """Whether it no longer counts: it was rewound or, as a compaction, undone."""

    @property
    def calls(self) -> tuple[PastCall, ...]:
        """The calls of a reply, in order."""
        return tuple(part for part in self.parts if isinstance(part, PastCall))


@dataclass(frozen=True, kw_only=True)
class PastTurn:
    """Everything from one message of the person to the next."""

    number: int
    """From 1, in the session as it was then: after a rewind a number comes again. 0 is what
    precedes the first message."""
    entries: list[Entry] = field(default_factory=list)
    """All of the file, results included; never empty."""
    items: list[Item] = field(default_factory=list)

    @property
    def end(self) -> TurnEntry | None:
        """None while it runs, and after a crash."""
        return next((e for e in reversed(self.entries) if isinstance(e, TurnEntry)), None)

    @property
    def is_rewound(self) -> bool:
        return self.number > 0 and self.items[0].is_rewound


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """A session to look back on."""

    header: Header
    entries: Sequence[Entry]
    """As in the file."""
    faults: Sequence[str] = ()
    """A plain sentence for each thing that could not be read."""
    path: Path | None = None
    """The file; None for a session without one."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """The session in a file, without its unfinished line, if it has one: nothing is locked.
        Raises: SessionError for a file of a newer version; StorageError."""
        header, entries, faults = read(path)
        return cls(header=header, entries=entries, faults=faults, path=path)

    @classmethod
    def of_agent(cls, entries: Sequence[Entry], faults: Sequence[str], **about: Any) -> Self:
        """A session of another agent, which has no file of kode's; `about` has its `id` there,
        `cwd`, `model` and `provider`."""
        header = Header(created_at=entries[0].at if entries else "", **about)
        return cls(header=header, entries=entries, faults=faults)

    def records(self, plugin: str) -> list[Mapping[str, Any]]:
        """What a plug-in has recorded, rewound records included."""
        records = (entry for entry in self.entries if isinstance(entry, PluginEntry))
        return [record.value for record in records if record.type == f"x-{plugin}"]

    @property
    def pending_text(self) -> str:
        """What the person asked last, if no turn has begun with it; "" for nothing."""
        last = self.entries[-1] if self.entries else None
        return text_of(last) if isinstance(last, MessageEntry) and last.is_pending else ""

    def lines(self) -> Iterator[bytes]:
        """The lines of its file, without line feeds and with credentials masked."""
        yield line_of(self.header)
        yield from map(line_of, self.entries)

    @cached_property
    def turns(self) -> Sequence[PastTurn]:
        """Oldest first."""
        ids = {entry.id for entry in effective(self.entries)}
        turns, count, waiting = list[PastTurn](), 0, dict[str, PastCall]()
        # Entry → the number of turns before it; rewind → that before its effect.
        before, rewinds = dict[str, int](), dict[str, int]()
        for entry in self.entries:
            before[entry.id] = count
            count += is_turn(entry)
            if is_turn(entry) or not turns:
                turns.append(PastTurn(number=count))
            turns[-1].entries.append(entry)
            if isinstance(entry, RewindEntry):
                rewinds[entry.id], count = count, before.get(entry.to, count)
            elif isinstance(entry, RestoreEntry):
                count = rewinds.get(entry.of, count)
            message = as_message(entry)
            parts = tuple(_parts(message, waiting)) if message else ()
            if message is None or message.role != "tool":
                is_change = isinstance(entry, RewindEntry | RestoreEntry)
                is_rewound = entry.id not in ids and not is_change
                turns[-1].items.append(Item(entry=entry, parts=parts, is_rewound=is_rewound))
        return turns

    @property
    def items(self) -> Iterator[Item]:
        """Those of all turns."""
        return (item for turn in self.turns for item in turn.items)

    @property
    def messages(self) -> Iterator[tuple[MessageEntry, Item]]:
        """Each message that still counts, with its item, and undo and redo as messages of kode's. A
        compaction hides none of them."""
        ids = {getattr(message, "id", "") for message in conversation_messages(self.entries)}
        for item in self.items:
            if item.entry.id in ids and (message := as_message(item.entry)):
                yield message, item


def _parts(message: MessageEntry, waiting: dict[str, PastCall]) -> Iterator[Part]:
    """The parts that are no results. A result goes to the last call with its id, which servers use
    again, that has none: it is `waiting`."""
    pictures = images_of(message)
    for part in message.parts:
        if isinstance(part, ToolCall):
            waiting[part.id] = PastCall(call=part)
            yield waiting[part.id]
        elif not isinstance(part, ToolResult):
            yield part
        elif call := waiting.pop(part.call_id, None):
            call.result, call.pictures = part, pictures
            pictures = ()  # of several results in one message the first has them
