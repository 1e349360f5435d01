"""The messages the model gets, their digests, and the notes that go with the next one: functions of
a session's entries. The list can always be sent: each call has its result, each result its call."""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import accumulate, dropwhile
from operator import attrgetter
from pathlib import Path

from kode.messages import (
    Image,
    Message,
    Text,
    ToolCall,
    ToolResult,
    calls_of,
    cut_list,
    failure_of,
    results_of,
)
from kode.session.entries import (
    CompactionEntry,
    Entry,
    JobEntry,
    MessageEntry,
    NoteEntry,
    RestoreEntry,
    RewindEntry,
    SystemEntry,
    TrimEntry,
    UnboundEntry,
    UndoEntry,
    to_json,
    to_plain,
)
from kode.values import dataclass, field, replace

MAX_NAMED = 200  # files that a compaction names; the rest are only counted

UNKNOWN_RESULT = (
    "[Interrupted: the result of this call is unknown. It may or may not have taken effect; check "
    "before you repeat it.]"
)
EARLIER = "session:"
"""Prefix of an entry id in `read_file`, to read what a compaction dropped."""
LISTED_DROPPED = 40  # dropped texts that a compaction lists; its own id reads all of them

UNREADABLE_BEGINNING = Text(text="[What was said before this could not be read.]", source="note")
TRIMMED_BEGINNING = Text(text="[What was said before was trimmed by the person.]", source="note")
"""Not every server accepts a conversation that begins with a reply."""


def revise(messages: list[Message], entry: Entry) -> list[Message]:
    """The messages after an entry that changes what was said before it."""
    match entry:
        case CompactionEntry():
            rest = _cut(messages, entry.kept_from, [])
            lasting = _lasting_texts(messages[: len(messages) - len(rest)])
            messages = [compaction_message(entry, lasting), *rest]
        case TrimEntry():
            messages = _cut(messages, entry.kept_from, messages)
            if messages and messages[0].role != "user":
                parts = (TRIMMED_BEGINNING,)
                first = MessageEntry(role="user", parts=parts, id=entry.id, at=entry.at)
                messages = [first, *messages]
        case UnboundEntry():
            messages = [replace(m, moved=True) if m.bound else m for m in messages]
    return messages


def visible_messages(entries: Iterable[Entry]) -> list[Message]:
    """The messages that a person can look back on: all but trimmed and rewound ones."""
    messages, answers = list[Message](), list[Message]()
    for entry in effective(entries):
        if isinstance(entry, MessageEntry):
            add_message(messages, answers, entry)
        elif isinstance(entry, TrimEntry):
            messages = _cut(messages, entry.kept_from, messages)
    return messages


def effective(entries: Iterable[Entry]) -> list[Entry]:
    """Returns the entries that count: all except rewound ones and undone compactions."""
    entries, counting = [*entries], list[Entry]()
    if {RewindEntry, RestoreEntry}.isdisjoint(map(type, entries)):
        return entries
    rewound: dict[str, tuple[int, list[Entry]]] = {}
    for entry in entries:
        if isinstance(entry, RewindEntry):
            ids = [earlier.id for earlier in counting]
            at = ids.index(entry.to) if entry.to in ids else len(ids)
            rewound[entry.id] = at, counting[at:]
            del counting[at:]
        elif isinstance(entry, RestoreEntry) and entry.of in rewound:
            at, dropped = rewound.pop(entry.of)
            counting[at:at] = dropped
        else:
            counting.append(entry)
    undone = {entry.of for entry in counting if isinstance(entry, RestoreEntry)}
    return [e for e in counting if e.id not in undone and getattr(e, "after", None) not in undone]


def add_message(messages: list[Message], answers: list[Message], message: Message) -> None:
    """Appends a message; adds missing results, and drops results without a call. Results arrive in
    separate tool messages, which wait in `answers`; once every call of a reply has its result, they
    are appended as one message, in call order."""
    if messages and messages[-1].role == "assistant" and (calls := calls_of(messages[-1])):
        is_answer = message.role == "tool"
        answers.append(message if is_answer else unknown_results(open_calls(messages, answers)))
        if (joined := _join(calls, answers)) is not None:
            messages.append(joined)
    if message.role != "tool":
        if not messages and message.role == "assistant":
            messages.append(Message(role="user", parts=(UNREADABLE_BEGINNING,)))
        messages.append(message)
        answers.clear()


def _join(calls: Iterable[ToolCall], answers: Sequence[Message]) -> Message | None:
    """Joins the answers into one message, in call order; None if a call has no result yet."""
    results, pictures, last = dict[str, ToolResult](), list[Image](), answers[-1]
    for answer in answers:
        last = answer if isinstance(answer, MessageEntry) else last
        for part in answer.parts:
            if isinstance(part, ToolResult):
                results.setdefault(part.call_id, part)
            elif isinstance(part, Image):
                pictures.append(part)
    ids = dict.fromkeys(map(attrgetter("id"), calls))
    if not results.keys() >= ids.keys():
        return None
    return replace(last, parts=(*map(results.__getitem__, ids), *pictures))


def open_calls(messages: Sequence[Message], answers: Iterable[Message]) -> tuple[ToolCall, ...]:
    """The calls of the last message without a result in `answers`."""
    answered = {result.call_id for answer in answers for result in results_of(answer)}
    calls = calls_of(messages[-1]) if messages else ()
    return tuple([call for call in calls if call.id not in answered])


def unknown_results(calls: Iterable[ToolCall]) -> Message:
    """A tool message that answers these calls: the result is unknown."""
    parts = tuple(failure_of(call, UNKNOWN_RESULT, cut="unknown") for call in calls)
    return Message(role="tool", parts=parts)


def _lasting_texts(messages: Iterable[Message]) -> list[str]:
    """Returns the instructions in these messages that outlast a compaction, oldest first."""
    texts: dict[str, None] = {}
    for part in (part for message in messages for part in message.parts):
        match part:
            case Text(source="instructions", text=text) | ToolResult(lasting=True, text=text):
                texts[text] = None
    return list(texts)


def compaction_message(entry: CompactionEntry, lasting: Sequence[str] = ()) -> Message:
    """A compaction as the model sees it: a user message with the summary and the instructions that
    outlast it. If those exceed a quarter of the text before, only the newest of them stay."""
    sections = {
        "What the person said, verbatim": _list(entry.user_messages),
        "The plan, verbatim": entry.plan,
        "Open in the todo list": _list(entry.open_items),
        "Hand-over note": entry.summary,
        "Files changed so far": _list(cut_list(entry.files_changed, MAX_NAMED)),
        "Files read so far": _list(cut_list(entry.files_read, MAX_NAMED)),
        f"Dropped; `read_file` with `path: {EARLIER}ID` shows it again": _list_dropped(entry),
    }
    pieces = (
        "[The conversation so far was shortened to make room.]",
        *(f"# {title}\n{text}" for title, text in sections.items() if text),
        "Continue from here; read a file again before you edit it.",
    )
    opening = entry.opening.items()
    parts = (
        *(Text(text=text, source="opening", section_name=name) for name, text in opening),
        Text(text="\n\n".join(pieces), source="compaction"),
        # At four characters per token, this many characters are a quarter of the text.
        *(Text(text=text, source="instructions") for text in _newest(lasting, entry.tokens_before)),
    )
    return MessageEntry(role="user", parts=parts, id=entry.id, at=entry.at)


def _newest(texts: Sequence[str], max_chars: int) -> list[str]:
    count = sum(length <= max_chars for length in accumulate(map(len, reversed(texts))))
    return list(texts[len(texts) - count :])


def _list_dropped(entry: CompactionEntry) -> str:
    newest = _newest(entry.dropped[-LISTED_DROPPED:], entry.tokens_before // 2)
    older = len(entry.dropped) - len(newest)
    return _list([*([f"{entry.id}: the list of {older} older ones"] if older else []), *newest])


def text_by_id(entries: Iterable[Entry], entry_id: str) -> str | None:
    """The text of an entry that is no longer sent: texts, calls and results of a message, or the
    list of what a compaction dropped. None for an unknown id."""
    entry = next((entry for entry in entries if entry.id == entry_id), None)
    if isinstance(entry, CompactionEntry):
        return "\n".join(entry.dropped) or None
    if not isinstance(entry, MessageEntry):
        return None
    return "\n".join(
        f"[call of {part.name}] {part.arguments}" if isinstance(part, ToolCall) else part.text
        for part in entry.parts
        if isinstance(part, Text | ToolResult | ToolCall)
    )


def _cut(messages: list[Message], first: str | None, missing: list[Message]) -> list[Message]:
    """The messages from `first` on, without results whose call is cut; `missing` if not found."""
    if first is None:
        return []
    ids = [message.id if isinstance(message, MessageEntry) else "" for message in messages]
    if first not in ids:
        return missing
    return list(dropwhile(lambda message: message.role == "tool", messages[ids.index(first) :]))


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


# Notes in the next message follow from the entries alone, so that they outlast a kill. A message
# names the entries that its notes are about; once it is rewound, they are due again.


CHANGES_NOTES = UndoEntry, JobEntry, NoteEntry, RewindEntry, RestoreEntry
"""The entries after which other notes may be due, besides messages with notes."""


def note_of(entry: Entry) -> str:
    """What the model is told about an entry; "" if nothing."""
    match entry:
        case UndoEntry():
            did, files = "redid" if entry.redo else "undid", ", ".join(entry.files)
            return f"[The person {did} your changes to: {files}. Read them again.]"
        case JobEntry() if entry.outcome:
            where = f" Its output is in {entry.output}." if entry.output else ""
            job = f"{entry.name} (`{entry.title}`)"
            return f"[The background job {job} has ended: {entry.outcome}.{where}]"
        case NoteEntry():
            return entry.text
    return ""


def find_unreported(entries: Sequence[Entry]) -> list[Entry]:
    """The entries that the model has yet to be told about, oldest first. A rewind drops notes, but
    not an undo or the end of a job if the turn or the beginning that it refers to still counts."""
    counting = effective(entries)
    ids = {entry.id for entry in counting}
    reported = {id for e in counting if isinstance(e, MessageEntry) for id in e.notes_of}
    return [
        e for e in entries if note_of(e) and e.id not in reported and getattr(e, "of", e.id) in ids
    ]


def notes_on(entries: Iterable[Entry]) -> tuple[Text, ...]:
    """The notes with which a message tells the model about these entries."""
    return tuple(Text(text=text, source="note") for text in dict.fromkeys(map(note_of, entries)))


def as_message(entry: Entry) -> MessageEntry | None:
    """Returns a message as it is, an undo or redo as a message by kode, otherwise None."""
    if isinstance(entry, UndoEntry):
        return MessageEntry(role="user", parts=notes_on([entry]), id=entry.id, at=entry.at)
    return entry if isinstance(entry, MessageEntry) else None


def conversation_messages(entries: Iterable[Entry]) -> list[Message]:
    """The visible messages, with each undo and redo as a message by kode where it happened."""
    return visible_messages([as_message(entry) or entry for entry in entries])


def running_jobs(entries: Iterable[Entry]) -> list[JobEntry]:
    """The background jobs that have begun and not ended, as far as the entries tell."""
    jobs = [entry for entry in entries if isinstance(entry, JobEntry)]
    ended = {job.of for job in jobs}
    return [job for job in jobs if not job.outcome and job.id not in ended]


# Digests of text masked as on disk show later what was sent, and what a reply answered.

_NOT_SENT = ("section_name", "refusals", "cut")  # fields of parts that are kode's own


def _digest_with(before: str, message: Message) -> str:
    """Extends the digest `before` by one message: by its sent parts, masked, as JSON."""
    parts = list[dict[str, object]]()
    for part in message.parts:
        value, _ = to_plain(vars(part))
        for name in (*_NOT_SENT, "own", "call_id"):
            if name in _NOT_SENT or not value.get(name):
                value.pop(name, None)
        if isinstance(part, Image):  # only the name of kode's copy, whose folder may move
            value["kept_in"] = Path(part.kept_in).name
        parts.append(value)
    return _digest(before + to_json({"role": message.role, "parts": parts}))


@dataclass
class Chain:
    """The digests of a growing list of messages; each stands for all messages up to its own."""

    messages: Sequence[Message] = ()
    digests: list[str] = field(default_factory=list)
    masked: list[int] = field(default_factory=list)
    """The indexes of messages that are masked now, but had been sent unmasked."""
    beginning: tuple[SystemEntry | None, str] = None, ""
    """The last system prompt, with its tools, that was digested, and the digest."""

    def of(self, messages: Sequence[Message]) -> list[str]:
        """One digest per message, read only. While the list stays the same object, as a session's
        does until its past changes, only new messages are hashed."""
        if messages is not self.messages or len(messages) < len(self.digests):
            self.messages, self.digests, self.masked = messages, [], []
        for message in messages[len(self.digests) :]:
            if getattr(message, "masked", False):
                self.masked.append(len(self.digests))
            self.digests.append(_digest_with("".join(self.digests[-1:]), message))
        return self.digests

    def digest_at(self, begun: SystemEntry | None, messages: Sequence[Message], count: int) -> str:
        """The digest of a system prompt with tools, and of the first `count` messages as sent."""
        if begun is not None and begun is not self.beginning[0]:
            tools = to_json(to_plain(begun.tools, masks=False)[0])
            self.beginning = begun, _digest(f"{len(begun.text)} {begun.text}{tools}")
        prefix = self.beginning[1] if begun is not None else ""
        digest = self.of(messages)[count - 1] if count else ""
        masked = [position for position in self.masked if position < count]
        return _digest(f"{prefix}{digest}{masked or ''}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
