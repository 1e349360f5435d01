"""The messages the model gets: a pure function of a session's entries.

The list can always be sent: each call has its result, each result its call. No file is read here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest

from kode.messages import (
    Image,
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
    MessageEntry,
    PruneEntry,
    RestoreEntry,
    RewindEntry,
    SystemEntry,
    TrimEntry,
    UnboundEntry,
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
DROPPED_OUTPUT = "[Old output dropped to save space. Run the tool again if you need it.]"


def messages_so_far(entries: Sequence[AnyEntry]) -> tuple[list[Message], list[Message]]:
    """The messages, and the incomplete answers to calls of the last one: see `add_message`."""
    messages: list[Message] = []
    answers: list[Message] = []
    for entry in effective(entries):
        match entry:
            case MessageEntry():
                add_message(messages, answers, entry)
            case CompactionEntry():
                kept_messages = _from(messages, entry.kept_from)
                lasting = lasting_texts(messages[: len(messages) - len(kept_messages)])
                messages = [compaction_message(entry, lasting), *kept_messages]
            case TrimEntry():
                messages = _begin_with_person(_trim(messages, entry), entry)
            case PruneEntry():
                messages = _prune(messages, entry)
            case UnboundEntry():
                messages = [
                    replace(message, moved=True) if message.bound else message
                    for message in messages
                ]
        if answers and not (messages and calls_of(messages[-1])):
            answers.clear()
    return messages, answers


def visible_messages(entries: Sequence[AnyEntry]) -> list[Message]:
    """The messages for a person to look back on: includes what a compaction or pruning hides from
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
    """The entries except rewound ones and undone compactions and prunings."""
    if {RewindEntry, RestoreEntry}.isdisjoint(map(type, entries)):
        return list(entries)
    kept: list[AnyEntry] = []
    rewound: dict[str, tuple[int, list[AnyEntry]]] = {}
    for entry in entries:
        if isinstance(entry, RewindEntry):
            ids = [known.id for known in kept]
            at = ids.index(entry.to) if entry.to in ids else len(kept)
            rewound[entry.id] = at, kept[at:]
            del kept[at:]
        elif isinstance(entry, RestoreEntry) and entry.of in rewound:
            at, dropped = rewound.pop(entry.of)
            kept[at:at] = dropped
        else:
            kept.append(entry)
    undone = {entry.of for entry in kept if isinstance(entry, RestoreEntry)}
    return [
        entry
        for entry in kept
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
    asked = bool(messages) and messages[-1].role == "assistant" and bool(calls_of(messages[-1]))
    if message.role != "tool":
        if asked:
            unknown = unknown_results(unanswered(messages[-1], answers))
            _join(messages, [*answers, unknown] if unknown.parts else answers)
            answers.clear()
        if not messages and message.role == "assistant":
            # Not every server accepts a conversation that begins with a reply.
            note = Text(text=UNREADABLE_BEGINNING, source="note")
            messages.append(Message(role="user", parts=(note,)))
        messages.append(message)
        return
    if not asked:
        return
    answers.append(message)
    if not unanswered(messages[-1], answers):
        _join(messages, answers)
        answers.clear()


def unanswered(message: Message, answers: Iterable[Message]) -> tuple[ToolCall, ...]:
    """The calls of an assistant message without a result in `answers`."""
    answered = {result.call_id for answer in answers for result in results_of(answer)}
    return tuple(call for call in calls_of(message) if call.id not in answered)


def unknown_results(calls: Iterable[ToolCall]) -> Message:
    """A tool message that answers these calls: the result is unknown."""
    return Message(
        role="tool", parts=tuple(failure_of(call, UNKNOWN_RESULT, cut="unknown") for call in calls)
    )


def _join(messages: list[Message], answers: Sequence[Message]) -> None:
    """Appends the answers to all calls of the last message as one, in call order; it takes the id
    of the last answer that has one."""
    results: dict[str, ToolResult] = {}
    for answer in answers:
        for result in results_of(answer):
            results.setdefault(result.call_id, result)
    asked = {call.id: call for call in calls_of(messages[-1])}
    pictures = [image for answer in answers for image in images_of(answer)]
    parts: tuple[Part, ...] = (*[results[call_id] for call_id in asked], *pictures)
    last = next((a for a in reversed(answers) if isinstance(a, MessageEntry)), answers[-1])
    messages.append(replace(last, parts=parts))


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
    pieces = ["[The conversation so far was shortened to make room.]"]
    if entry.user_messages:
        quoted = "\n".join(f"- {words}" for words in entry.user_messages)
        pieces.append(f"# What the person said, verbatim\n{quoted}")
    if entry.plan:
        pieces.append(f"# The plan, verbatim\n{entry.plan}")
    if entry.open_items:
        pieces.append(f"# Open in the todo list\n{_list(entry.open_items)}")
    if entry.summary:
        pieces.append(f"# Hand-over note\n{entry.summary}")
    if entry.files_changed:
        pieces.append(f"# Files changed so far\n{_list(first_of(entry.files_changed, MAX_NAMED))}")
    if entry.files_read:
        pieces.append(f"# Files read so far\n{_list(first_of(entry.files_read, MAX_NAMED))}")
    if entry.dropped:
        pieces.append(_dropped(entry))
    pieces.append("Continue from here; read a file again before you edit it.")
    return MessageEntry(
        role="user",
        parts=(
            *(
                Text(text=text, source="opening", section_name=name)
                for text, name in zip_longest(entry.opening, entry.opening_names, fillvalue="")
            ),
            Text(text="\n\n".join(pieces), source="compaction"),
            # Four characters per token, and a quarter of them.
            *(Text(text=t, source="instructions") for t in _newest(lasting, entry.tokens_before)),
        ),
        id=entry.id,
        at=entry.at,
    )


def _newest(texts: Sequence[str], room_chars: int) -> list[str]:
    kept: list[str] = []
    for text in reversed(texts):
        room_chars -= len(text)
        if room_chars < 0:
            break
        kept.insert(0, text)
    return kept


def _dropped(entry: CompactionEntry) -> str:
    shown = _newest(entry.dropped[-LISTED_DROPPED:], entry.tokens_before // 2)
    older = len(entry.dropped) - len(shown)
    lines = [f"# Dropped; `read_file` with `path: {EARLIER}ID` shows it again"]
    if older > 0:
        lines.append(f"- {entry.id}: the list of {older} older ones")
    return "\n".join([*lines, _list(shown)])


def text_by_id(entries: Sequence[AnyEntry], entry_id: str) -> str | None:
    """The full text of an entry that is no longer sent: texts, calls and results of a message, or
    the list of what a compaction dropped. None for an unknown id."""
    entry = next((one for one in entries if one.id == entry_id), None)
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
    kept_messages = messages[position:] if position is not None else []
    while kept_messages and kept_messages[0].role == "tool":
        kept_messages = kept_messages[1:]
    return kept_messages


def _trim(messages: list[Message], trim: TrimEntry) -> list[Message]:
    """Applies a trim. It may keep more than is sent, after a compaction: then nothing changes."""
    is_there = trim.kept_from is None or _index(messages, trim.kept_from) is not None
    return _from(messages, trim.kept_from) if is_there else messages


def _begin_with_person(messages: list[Message], trim: TrimEntry) -> list[Message]:
    """With a user message first, because not every server accepts another."""
    if not messages or messages[0].role == "user":
        return messages
    note = Text(text="[What was said before was trimmed by the person.]", source="note")
    return [MessageEntry(role="user", parts=(note,), id=trim.id, at=trim.at), *messages]


def _index(messages: Sequence[Message], entry_id: str | None) -> int | None:
    """The index of the message with this id."""
    for index, message in enumerate(messages):
        if isinstance(message, MessageEntry) and message.id == entry_id:
            return index
    return None


def _prune(messages: list[Message], entry: PruneEntry) -> list[Message]:
    end = _index(messages, entry.before)
    if end is None:
        return messages
    kept_messages = messages[end:]
    if entry.results:
        kept_messages[0] = _without_output(kept_messages[0], entry.results)
    return [*map(_without_output, messages[:end]), *kept_messages]


def _without_output(message: Message, count: int | None = None) -> Message:
    """Without the output and the pictures of its first `count` results; None: of all."""
    if message.role != "tool":
        return message
    stay = (
        {result.call_id for result in results_of(message)[count:]} if count is not None else set()
    )
    return replace(
        message,
        parts=tuple(
            replace(part, text=DROPPED_OUTPUT)
            if isinstance(part, ToolResult)
            and part.call_id not in stay
            and not part.lasting
            and len(part.text) > len(DROPPED_OUTPUT)
            else part
            for part in message.parts
            if not isinstance(part, Image) or part.call_id in stay
        ),
    )


def _list(paths: Iterable[str]) -> str:
    return "\n".join(f"- {path}" for path in paths)
