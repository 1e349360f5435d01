"""A session as it is shown to somebody who looks back on it: its turns, what happened in each, and
every call with its result. Nothing is left out; what no longer counts is marked. `as_json` and
`as_markdown` export it.

What the model gets is another view of the same entries: see `messages.py`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from kode.broken_json import object_of
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
from kode.plain_text import sanitize
from kode.session.entries import (
    Entry,
    Header,
    MessageEntry,
    NameEntry,
    PluginEntry,
    RestoreEntry,
    RewindEntry,
    StateEntry,
    SystemEntry,
    TurnEntry,
    encode_line,
    is_turn,
)
from kode.session.index import read
from kode.session.messages import UNKNOWN_RESULT, as_message, conversation_messages, effective
from kode.session.spending import Spending
from kode.values import Value, asdict, dataclass, field


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
        """The result; without one, the failure that tells the model that it is unknown."""
        return self.result or failure_of(self.call, UNKNOWN_RESULT)


Part = Text | Image | Thinking | ServerItem | PastCall


class Item(Value):
    """An entry of the session. A result belongs to its call and is no item of its own."""

    entry: Entry
    parts: Sequence[Part]
    """The parts of a message, in order; for an undo or redo, what the model is told about it."""
    is_rewound: bool
    """Whether it no longer counts: it was rewound or, as a compaction, undone."""

    @property
    def calls(self) -> tuple[PastCall, ...]:
        """The calls of a reply, in order."""
        return tuple(part for part in self.parts if isinstance(part, PastCall))


class PastTurn(Value):
    """Everything from one message of the person to the next."""

    number: int
    """From 1, in the session as it was then: numbers repeat after a rewind. 0 is what
    precedes the first message."""
    entries: list[Entry] = field(default_factory=list)
    """All its entries in the file, results included; never empty."""
    items: list[Item] = field(default_factory=list)

    @property
    def end(self) -> TurnEntry | None:
        """The entry for its end; None while it runs, and after a crash."""
        return next((e for e in reversed(self.entries) if isinstance(e, TurnEntry)), None)

    @property
    def is_rewound(self) -> bool:
        return self.number > 0 and self.items[0].is_rewound


class Transcript(Value):
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
        """Reads the session in a file without locking it; an unfinished last line is ignored.
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
    def name(self) -> str:
        """What the person calls it."""
        return next((e.text for e in reversed(self.entries) if isinstance(e, NameEntry)), "")

    @property
    def pending_text(self) -> str:
        """What the person asked last, if no turn has begun with it; "" for nothing."""
        last = self.entries[-1] if self.entries else None
        return text_of(last) if isinstance(last, MessageEntry) and last.is_pending else ""

    def lines(self) -> Iterator[bytes]:
        """The lines of its file, without line feeds and with credentials masked."""
        yield encode_line(self.header)
        yield from map(encode_line, self.entries)

    @cached_property
    def turns(self) -> Sequence[PastTurn]:
        """All turns, oldest first, rewound ones included."""
        ids = {entry.id for entry in effective(self.entries)}
        turns, count, waiting = list[PastTurn](), 0, dict[str, PastCall]()
        # Entry → how many turns precede it; rewind → how many there were before it took effect.
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
            parts = tuple(_attach_results(message, waiting)) if message else ()
            if message is None or message.role != "tool":
                is_change = isinstance(entry, RewindEntry | RestoreEntry)
                is_rewound = entry.id not in ids and not is_change
                turns[-1].items.append(Item(entry=entry, parts=parts, is_rewound=is_rewound))
        return turns

    @property
    def items(self) -> Iterator[Item]:
        """The items of all turns."""
        return (item for turn in self.turns for item in turn.items)

    @property
    def messages(self) -> Iterator[tuple[MessageEntry, Item]]:
        """Each message that still counts, with its item, and undo and redo as messages by kode.
        Compacted messages are included."""
        ids = {getattr(message, "id", "") for message in conversation_messages(self.entries)}
        for item in self.items:
            if item.entry.id in ids and (message := as_message(item.entry)):
                yield message, item


def _attach_results(message: MessageEntry, waiting: dict[str, PastCall]) -> Iterator[Part]:
    """Yields the parts other than results. A result goes to the last call with its id in `waiting`,
    the calls that have no result yet, since servers reuse ids."""
    pictures = images_of(message)
    for part in message.parts:
        if isinstance(part, ToolCall):
            waiting[part.id] = PastCall(call=part)
            yield waiting[part.id]
        elif not isinstance(part, ToolResult):
            yield part
        elif call := waiting.pop(part.call_id, None):
            call.result, call.pictures = part, pictures
            pictures = ()  # if a message has several results, the first gets them


def as_json(transcript: Transcript) -> dict[str, Any]:
    """The document of `kode session export --format json`. `messages` are all messages, the system
    prompt first, except trimmed and rewound ones; `buffer` is that of the last memory system
    with one."""
    header, entries = transcript.header, transcript.entries
    spent = Spending.of(entries).total
    systems = [entry.text for entry in entries if isinstance(entry, SystemEntry) and entry.text]
    states = [entry.state.get("buffer") for entry in entries if isinstance(entry, StateEntry)]
    buffers = [buffer for buffer in states if isinstance(buffer, list)]
    messages = [{"role": "system", "content": text} for text in systems[-1:]]
    for message, item in transcript.messages:
        messages.append(_message_object(message, item))
        messages += [_result_object(call) for call in item.calls if call.result]
    return {
        **asdict(header),
        "name": transcript.name,
        "updated_at": entries[-1].at if entries else header.created_at,
        "turns": sum(map(is_turn, effective(entries))),
        "messages": messages,
        "buffer": list(map(str, buffers[-1])) if buffers else [],
        "usage": asdict(spent.usage),
        "cost_usd": None if spent.unpriced else round(spent.cost_usd, 6),
        "warnings": list(transcript.faults),
    }


def _message_object(message: MessageEntry, item: Item) -> dict[str, Any]:
    """One message as plain JSON. Additions to a person's message by memory or attachments are in
    `added`; pictures are described without their bytes."""
    parts = [part for part in message.parts if isinstance(part, Text) and part.source]
    words, added = text_of(message), [_pick(part, "source", "text") for part in parts]
    plain = {"role": message.role, "content": words or "\n".join(part.text for part in parts)}
    pictures = [_pick(i, "name", "media_type", "width", "height") for i in images_of(message)]
    calls = [_pick(part.call, "id", "name", "arguments") for part in item.calls]
    lists = {"added": added if words else [], "images": pictures, "tool_calls": calls}
    return plain | {name: items for name, items in lists.items() if items}


def _pick(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _result_object(call: PastCall) -> dict[str, Any]:
    answer = _pick(call.answer, "name", "is_error")
    return {"role": "tool", "tool_call_id": call.call.id, "content": call.answer.text, **answer}


def as_markdown(transcript: Transcript) -> str:
    """A readable transcript of messages and calls, each call with its result; nothing in it
    controls a terminal."""
    header = transcript.header
    lines = [f"# Session {header.id}", ""]
    lines += [f"{header.created_at} · {header.cwd} · {header.model}", ""]
    if (origin := header.forked_from) is not None:
        lines += [f"A fork of session {origin.session}, at {origin.entry or 'its end'}.", ""]
    for message, item in transcript.messages:
        author = "You" if message.role == "user" else "kode"
        lines += [f"## {author} · {message.at} · {message.id}", ""]
        for part in item.parts:
            match part:
                case Text():
                    lines += [f"*({part.source})*", ""] if part.source else []
                    lines += [part.text, ""]
                case PastCall(call=call):
                    lines += [f"`{call.name}`", *_fence_code(_readable_arguments(call.arguments))]
                    lines += ["Result:", *_fence_code(part.result.text)] if part.result else []
                    lines += map(_describe_picture, part.pictures)
                case Image():
                    lines.append(_describe_picture(part))
    end = next((e for e in reversed(transcript.entries) if isinstance(e, TurnEntry)), None)
    if end is not None and end.error:
        lines.append(f"*(the turn ended: {end.status}. {end.error})*")
    return sanitize("\n".join(lines).rstrip()) + "\n"


def _describe_picture(picture: Image) -> str:
    return f"*(image: {picture.description})*\n"


def _fence_code(text: str) -> tuple[str, ...]:
    """In a code fence that the text cannot close."""
    fence = "```"
    while fence in text:
        fence += "`"
    return fence, text, fence, ""


def _readable_arguments(text: str) -> str:
    """The arguments of a call for a person: one a line, a text of several lines below its name.
    Anything that is not a JSON object stays as it is."""
    lines = []
    for name, value in (object_of(text) or {}).items():
        plain = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"{name}:\n{plain}" if "\n" in plain else f"{name}: {plain}")
    return "\n".join(lines) or text
