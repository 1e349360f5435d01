"""The messages the model gets, and the notes that go with the next one: pure functions of a
session's entries.

The list can always be sent: each call has its result, each result its call. No file is read here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kode.messages import (
    Message,
    Part,
    Text,
    ToolCall,
    ToolResult,
    calls_of,
    failure_of,
    first_of,
    images_of,
    results_of,
)
from kode.session.entries import (
    AnyEntry,
    CompactionEntry,
    JobEntry,
    MessageEntry,
    NoteEntry,
    RestoreEntry,
    RewindEntry,
    SystemEntry,
    TrimEntry,
    UnboundEntry,
    UndoEntry,
    is_turn,
)

MAX_NAMED = 200
"""Files that a compaction names; of more, how many."""

UNKNOWN_RESULT = (
    "[Interrupted: the result of this call is unknown. It may or may not have taken effect; check "
    "before you repeat it.]"
)
EARLIER = "session:"
"""Prefix of an entry id in `read_file`, to read what a compaction dropped."""
LISTED_DROPPED = 40
"""How many dropped texts a compaction lists; its own id reads all of them."""

UNREADABLE_BEGINNING = "[What was said before this could not be read.]"
TRIMMED_BEGINNING = "[What was said before was trimmed by the person.]"


def messages_so_far(entries: Sequence[AnyEntry]) -> tuple[list[Message], list[Message]]:
    """The messages, and the incomplete answers to calls of the last one: see `add_message`."""
    messages: list[Message] = []
    answers: list[Message] = []
    for entry in effective(entries):
        match entry:
            case MessageEntry():
                add_message(messages, answers, entry)
            case CompactionEntry():
                rest = _from(messages, entry.kept_from)
                lasting = lasting_texts(messages[: len(messages) - len(rest)])
                messages = [compaction_message(entry, lasting), *rest]
            case TrimEntry():
                messages = _trim(messages, entry)
                if messages and messages[0].role != "user":  # which not every server accepts
                    note = Text(text=TRIMMED_BEGINNING, source="note")
                    first = MessageEntry(role="user", parts=(note,), id=entry.id, at=entry.at)
                    messages = [first, *messages]
            case UnboundEntry():
                messages = [replace(m, moved=True) if m.bound else m for m in messages]
        if answers and not (messages and calls_of(messages[-1])):
            answers.clear()
    return messages, answers


def visible_messages(entries: Sequence[AnyEntry]) -> list[Message]:
    """The messages for a person to look back on: includes what a compaction hides from
    the model, but nothing trimmed or rewound."""
    messages: list[Message] = []
    answers: list[Message] = []
    for entry in effective(entries):
        if isinstance(entry, MessageEntry):
            add_message(messages, answers, entry)
        elif isinstance(entry, TrimEntry):
            messages = _trim(messages, entry)
    return messages


def effective(entries: Sequence[AnyEntry]) -> list[AnyEntry]:
    """The entries except rewound ones and undone compactions."""
    if {RewindEntry, RestoreEntry}.isdisjoint(map(type, entries)):
        return list(entries)
    counting: list[AnyEntry] = []
    rewound: dict[str, tuple[int, list[AnyEntry]]] = {}
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
    return [
        entry
        for entry in counting
        if entry.id not in undone and not (isinstance(entry, SystemEntry) and entry.after in undone)
    ]


def turns_of(entries: Iterable[AnyEntry]) -> int:
    """How many turns a person started in these entries."""
    return sum(map(is_turn, entries))


def add_message(messages: list[Message], answers: list[Message], message: Message) -> None:
    """Appends a message so that the list stays sendable: adds missing results, leaves out results
    without a call.

    A session stores each result at once, in its own tool message; a model gets those of one reply
    as one message, in call order. `answers` are those that wait for the others. They are not part
    of `messages` yet, so that what is in there never changes.
    """
    calls = calls_of(messages[-1]) if messages else ()
    if message.role == "tool":
        if calls:
            answers.append(message)
            if not unanswered(messages, answers):
                _join(messages, answers)
        return
    if calls:
        if lost := unanswered(messages, answers):
            answers.append(unknown_results(lost))
        _join(messages, answers)
    if not messages and message.role == "assistant":
        # Not every server accepts a conversation that begins with a reply.
        note = Text(text=UNREADABLE_BEGINNING, source="note")
        messages.append(Message(role="user", parts=(note,)))
    messages.append(message)


def unanswered(messages: Sequence[Message], answers: Iterable[Message]) -> tuple[ToolCall, ...]:
    """The calls of the last message without a result in `answers`."""
    answered = {result.call_id for answer in answers for result in results_of(answer)}
    calls = calls_of(messages[-1]) if messages else ()
    return tuple(call for call in calls if call.id not in answered)


def unknown_results(calls: Iterable[ToolCall]) -> Message:
    """A tool message that answers these calls: the result is unknown."""
    return Message(
        role="tool", parts=tuple(failure_of(call, UNKNOWN_RESULT, cut="unknown") for call in calls)
    )


def _join(messages: list[Message], answers: list[Message]) -> None:
    """Moves the answers to all calls of the last message there as one, in call order; it takes the
    id of the last answer that has one."""
    results: dict[str, ToolResult] = {}
    for answer in answers:
        for result in results_of(answer):
            results.setdefault(result.call_id, result)
    pictures = [image for answer in answers for image in images_of(answer)]
    ids = dict.fromkeys(call.id for call in calls_of(messages[-1]))
    parts: tuple[Part, ...] = (*[results[call_id] for call_id in ids], *pictures)
    last = next((a for a in reversed(answers) if isinstance(a, MessageEntry)), answers[-1])
    messages.append(replace(last, parts=parts))
    answers.clear()


def lasting_texts(messages: Sequence[Message]) -> list[str]:
    """Instructions in messages that a summary does not replace, without duplicates, oldest
    first."""
    texts: dict[str, None] = {}
    for message in messages:
        for part in message.parts:
            match part:
                case Text(source="instructions", text=text) | ToolResult(lasting=True, text=text):
                    texts[text] = None
    return list(texts)


def compaction_message(entry: CompactionEntry, lasting: Sequence[str] = ()) -> Message:
    """A compaction as the model sees it: one user message with the summary and the instructions
    that outlast it. If those exceed a quarter of the dropped text, the newest stay."""
    sections = {
        "What the person said, verbatim": _list(entry.user_messages),
        "The plan, verbatim": entry.plan,
        "Open in the todo list": _list(entry.open_items),
        "Hand-over note": entry.summary,
        "Files changed so far": _list(first_of(entry.files_changed, MAX_NAMED)),
        "Files read so far": _list(first_of(entry.files_read, MAX_NAMED)),
        f"Dropped; `read_file` with `path: {EARLIER}ID` shows it again": _dropped(entry),
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
        # Four characters per token, and a quarter of them.
        *(Text(text=text, source="instructions") for text in _newest(lasting, entry.tokens_before)),
    )
    return MessageEntry(role="user", parts=parts, id=entry.id, at=entry.at)


def _newest(texts: Sequence[str], max_chars: int) -> list[str]:
    newest: list[str] = []
    for text in reversed(texts):
        max_chars -= len(text)
        if max_chars < 0:
            break
        newest.insert(0, text)
    return newest


def _dropped(entry: CompactionEntry) -> str:
    newest = _newest(entry.dropped[-LISTED_DROPPED:], entry.tokens_before // 2)
    older = len(entry.dropped) - len(newest)
    return _list([*([f"{entry.id}: the list of {older} older ones"] if older else []), *newest])


def text_by_id(entries: Sequence[AnyEntry], entry_id: str) -> str | None:
    """The full text of an entry that is no longer sent: texts, calls and results of a message, or
    the list of what a compaction dropped. None for an unknown id."""
    entry = next((entry for entry in entries if entry.id == entry_id), None)
    if isinstance(entry, CompactionEntry):
        return "\n".join(entry.dropped) or None
    if not isinstance(entry, MessageEntry):
        return None
    texts = []
    for part in entry.parts:
        match part:
            case Text() | ToolResult():
                texts.append(part.text)
            case ToolCall():
                texts.append(f"[call of {part.name}] {part.arguments}")
    return "\n".join(texts)


def _from(messages: list[Message], first: str | None) -> list[Message]:
    """The messages from this id on, without results whose call is gone."""
    position = _index(messages, first)
    rest = messages[position:] if position is not None else []
    while rest and rest[0].role == "tool":
        rest = rest[1:]
    return rest


def _trim(messages: list[Message], trim: TrimEntry) -> list[Message]:
    """Applies a trim. It may keep more than is sent, after a compaction: then nothing changes."""
    is_there = trim.kept_from is None or _index(messages, trim.kept_from) is not None
    return _from(messages, trim.kept_from) if is_there else messages


def _index(messages: Sequence[Message], entry_id: str | None) -> int | None:
    """The index of the message with this id."""
    for index, message in enumerate(messages):
        if isinstance(message, MessageEntry) and message.id == entry_id:
            return index
    return None


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


# Notes to the model beside the person's words in the next message: the person undid its work, or
# something in the background has ended. They follow from the entries alone, so the model gets them
# after a kill and in another process too. A message names the entries that its notes are about;
# once it is rewound, they are due again.


def note_of(entry: AnyEntry) -> str:
    """What the model is told of an entry; "" for nothing."""
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


def find_unreported(entries: Sequence[AnyEntry]) -> list[AnyEntry]:
    """The entries that the model has yet to be told of, oldest first. What a rewind dropped matters
    no more, but an undo, or the end of a job, that came later than what it is about."""
    candidates = [entry for entry in entries if note_of(entry)]
    if not candidates:
        return []
    counting = effective(entries)
    ids = {entry.id for entry in counting}
    reported = {id for e in counting if isinstance(e, MessageEntry) for id in e.notes_of}
    return [
        entry
        for entry in candidates
        if entry.id not in reported
        and (entry.of if isinstance(entry, UndoEntry | JobEntry) else entry.id) in ids
    ]


def notes(entries: Iterable[AnyEntry]) -> tuple[Text, ...]:
    """What a message tells of these entries."""
    return tuple(Text(text=text, source="note") for text in dict.fromkeys(map(note_of, entries)))


def as_message(entry: AnyEntry) -> MessageEntry | None:
    """A message, or an undo or a redo as a message of kode's; None for any other entry."""
    if isinstance(entry, UndoEntry):
        return MessageEntry(role="user", parts=notes([entry]), id=entry.id, at=entry.at)
    return entry if isinstance(entry, MessageEntry) else None


def conversation_messages(entries: Iterable[AnyEntry]) -> list[Message]:
    """The visible messages, for whoever judges what was done: undo and redo are
    messages of kode's, where they happened."""
    return visible_messages([as_message(entry) or entry for entry in entries])


def running_jobs(entries: Iterable[AnyEntry]) -> list[JobEntry]:
    """What began in the background and has not ended, as far as the entries tell."""
    running: dict[str, JobEntry] = {}
    for entry in entries:
        if isinstance(entry, JobEntry) and not entry.outcome:
            running[entry.id] = entry
        elif isinstance(entry, JobEntry):
            running.pop(entry.of, None)
    return list(running.values())
