"""A session as whoever looks back on it reads it: turns, and in each what happened, every call with
its result. Nothing is left out; what no longer counts is marked.

What the model gets is another view of the same entries: see `messages.py`.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
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
    calls_of,
    failure_of,
    images_of,
    results_of,
    text_of,
)
from kode.session.entries import (
    AnyEntry,
    Header,
    MessageEntry,
    PluginEntry,
    RestoreEntry,
    RewindEntry,
    SystemEntry,
    TrimEntry,
    TurnEntry,
    is_turn,
    line_of,
)
from kode.session.index import read
from kode.session.messages import UNKNOWN_RESULT, as_message, effective


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of a tool with what came back."""

    call: ToolCall
    message: MessageEntry | None = None
    """The message with its result; None while it runs, and after a crash."""
    type: Literal["call"] = "call"

    @property
    def result(self) -> ToolResult | None:
        """None without a `message`."""
        answers = results_of(self.message) if self.message is not None else ()
        return next((answer for answer in answers if answer.call_id == self.call.id), None)

    @property
    def answer(self) -> ToolResult:
        """The result; without one, that it is unknown, as the model is told."""
        return self.result or failure_of(self.call, UNKNOWN_RESULT)

    @property
    def pictures(self) -> tuple[Image, ...]:
        """Those that came with the result."""
        if self.message is None or results_of(self.message)[0].call_id != self.call.id:
            return ()  # of several results in one message the first has them
        return images_of(self.message)


Part = Text | Image | Thinking | ServerItem | Call
Gone = Literal["", "rewound", "undone", "trimmed"]


@dataclass(frozen=True, kw_only=True)
class Item:
    """An entry of the session; results are with their calls and no items of their own."""

    entry: AnyEntry
    parts: tuple[Part, ...] = ()
    """Those of a message, in order; () for any other entry."""
    gone: Gone = ""
    """Why it no longer counts, if so: it was rewound; a compaction, or the system prompt
    after one, was undone; or the person trimmed what came before a message."""

    @property
    def message(self) -> MessageEntry | None:
        """The entry, if it is a message."""
        return self.entry if isinstance(self.entry, MessageEntry) else None

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of a reply, in order."""
        return tuple(part for part in self.parts if isinstance(part, Call))


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Everything from one message of the person to the next."""

    number: int
    """From 1, in the session as it was then: after a rewind a number comes again. 0 is what
    precedes the first message."""
    entries: tuple[AnyEntry, ...]
    """All of the file, results included; never empty."""
    items: tuple[Item, ...]

    @property
    def id(self) -> str:
        """The id of its first entry."""
        return self.entries[0].id

    @property
    def at(self) -> str:
        return self.entries[0].at

    @property
    def end(self) -> TurnEntry | None:
        """None while it runs, and after a crash."""
        ends = (entry for entry in reversed(self.entries) if isinstance(entry, TurnEntry))
        return next(ends, None)

    @property
    def is_rewound(self) -> bool:
        return self.number > 0 and self.items[0].gone == "rewound"


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """A session to look back on."""

    header: Header
    entries: Sequence[AnyEntry]
    """As in the file."""
    faults: tuple[str, ...] = ()
    """A plain sentence for each thing that could not be read."""
    path: Path | None = None
    """The file; None for a session without one."""

    @classmethod
    def read(cls, path: Path) -> "Transcript":
        """The session in a file. Raises: SessionError for a file of a newer version; StorageError.

        Takes no lock: an unfinished line is ignored.
        """
        header, entries, faults = read(path)
        return cls(header=header, entries=entries, faults=tuple(faults), path=path)

    @classmethod
    def of_agent(cls, entries: Sequence[AnyEntry], faults: Sequence[str], **about: Any) -> Self:
        """A session of another agent, which has no file of kode's; `about` has its `id` there,
        `cwd`, `model` and `provider`."""
        header = Header(created_at=entries[0].at if entries else "", **about)
        return cls(header=header, entries=entries, faults=tuple(faults))

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
    def turns(self) -> tuple[Turn, ...]:
        """Oldest first."""
        items = {item.entry.id: item for item in self._items()}
        groups: list[tuple[int, list[AnyEntry]]] = []
        count, before = 0, dict[str, int]()  # entry → the number of turns before it
        rewinds = {entry.id for entry in self.entries if isinstance(entry, RewindEntry)}
        for entry in self.entries:
            before[entry.id] = count
            count += is_turn(entry)
            if is_turn(entry) or not groups:
                groups.append((count, []))
            groups[-1][1].append(entry)
            if isinstance(entry, RewindEntry):
                count = before.get(entry.to, count)
            elif isinstance(entry, RestoreEntry) and entry.of in rewinds:
                count = before.get(entry.of, count)
        return tuple(
            Turn(
                number=number,
                entries=tuple(entries),
                items=tuple(items[entry.id] for entry in entries if entry.id in items),
            )
            for number, entries in groups
        )

    @property
    def items(self) -> Iterator[Item]:
        """Those of all turns."""
        return (item for turn in self.turns for item in turn.items)

    @property
    def messages(self) -> Iterator[tuple[MessageEntry, Item]]:
        """Each message that still counts, with its item, and undo and redo as messages of kode's. A
        compaction hides none of them."""
        for item in self.items:
            message = as_message(item.entry)
            if message is not None and not item.gone:
                parts = item.parts if item.message else tuple(_parts(message, {}))
                yield message, replace(item, parts=parts)

    def _items(self) -> Iterator[Item]:
        ids = {entry.id for entry in effective(self.entries)}
        undone = {
            entry.of
            for entry in self.entries
            if isinstance(entry, RestoreEntry) and entry.id in ids
        }
        trimmed, results = _trimmed(self.entries, ids), _results(self.entries, ids)
        for index, entry in enumerate(self.entries):
            gone: Gone = "trimmed" if index < trimmed else ""
            if entry.id not in ids and not isinstance(entry, RewindEntry):
                about = entry.after if isinstance(entry, SystemEntry) else entry.id
                gone = "undone" if about in undone else "rewound"
            if not isinstance(entry, MessageEntry):
                yield Item(entry=entry, gone=gone)
            elif entry.role != "tool":
                yield Item(entry=entry, parts=tuple(_parts(entry, results)), gone=gone)


Results = Mapping[tuple[str, str], MessageEntry]


def _parts(message: MessageEntry, results: Results) -> Iterator[Part]:
    for part in message.parts:
        if isinstance(part, ToolCall):
            yield Call(call=part, message=results.get((message.id, part.id)))
        elif not isinstance(part, ToolResult):
            yield part


def _trimmed(entries: Sequence[AnyEntry], ids: Set[str]) -> int:
    """How many entries at the beginning were trimmed."""
    count, places = 0, dict[str, int]()
    for place, entry in enumerate(entries):
        if entry.id in ids and isinstance(entry, MessageEntry):
            places[entry.id] = place
        elif entry.id in ids and isinstance(entry, TrimEntry):
            count = place if entry.kept_from is None else max(count, places.get(entry.kept_from, 0))
    return count


def _results(entries: Sequence[AnyEntry], ids: Set[str]) -> Results:
    """(message, id of a call in it) → the message with the result, however late it came. Servers
    use an id again: a result belongs to the last call that has none. One that was rewound while its
    call was not is left out."""
    messages: dict[tuple[str, str], MessageEntry] = {}
    waiting: dict[str, str] = {}
    for entry in entries:
        if not isinstance(entry, MessageEntry):
            continue
        waiting.update((call.id, entry.id) for call in calls_of(entry))
        for result in results_of(entry):
            caller = waiting.get(result.call_id)
            if caller is not None and (entry.id in ids or caller not in ids):
                del waiting[result.call_id]
                messages[caller, result.call_id] = entry
    return messages
