"""Builds what replaces the messages that a compaction drops: the model's hand-over note, and what
is kept verbatim beside it. `context` decides when to compact.

The lists are made from the whole session, so that nothing fades over several compactions.
"""

from collections.abc import Iterable, Mapping, Sequence

from kode.engine.agent import Agent
from kode.engine.reply import ask_model, mark_search
from kode.engine.tokens import chars_of, clip_middle, thinking_room, tokens_of, tokens_of_text
from kode.errors import ContextOverflow, ThinkingRefused, ToolError
from kode.events import no_emit
from kode.messages import (
    Image,
    Message,
    Part,
    Text,
    ToolCall,
    ToolResult,
    calls_of,
    failure_of,
    results_of,
    shorten,
    text_of,
    user_message,
)
from kode.prompts import compaction_prompt
from kode.provider import ModelInfo, Request
from kode.providers.models import cost_usd
from kode.session.entries import CompactionEntry, MessageEntry, UsageEntry
from kode.session.log import Session
from kode.session.messages import EARLIER, effective, visible_messages
from kode.tool import parse_arguments
from kode.values import replace

NOTE_TOKENS = 2_000
QUESTION_TOKENS = 300  # about what the question for the note takes
WORDS_PER_TOKEN = 0.35  # asked of the model, so that the note ends before its token limit
NO_CALLS = "Not run: write what you were asked for as text, and call no tool."
CALL_CHARS = 2_000  # shown in a transcript of a call, and of its result
LISTED_FILES = 100  # a few hundred tokens
TOKENS_FOR_A_LISTED_FILE = 300  # of the window for each: a small window lists fewer
SUBJECT_CHARS = 60  # a path or a short command


def note_tokens(info: ModelInfo) -> int:
    """The token limit of a note: an eighth of a small window."""
    return max(1, min(NOTE_TOKENS, info.max_output_tokens, info.context_window // 8))


async def write_note(
    agent: Agent, session: Session, conversation: Request, wish: str, free: int
) -> str:
    """Asks the session's model for a hand-over note, at the end of the conversation: the model
    knows what it has read, and the server has the beginning in its cache. `free` is the number of
    tokens still free in the window. If they are too few, or the server refuses the messages, the
    same request carries a transcript in place of the messages, cut in the middle.

    Raises: ProviderError; StorageError.
    """
    info, messages = agent.provider.info, conversation.messages
    note = note_tokens(info)
    # A note of half the length is better than one on half the messages.
    least = note // 2 + QUESTION_TOKENS
    question = compaction_prompt(int(note * WORDS_PER_TOKEN), wish)
    limit = min(
        note + thinking_room(info), info.max_output_tokens, max(free, least) - QUESTION_TOKENS
    )
    request = replace(conversation, max_output_tokens=limit, answer_schema=None, aside=True)

    async def ask_for_note(transcripts: int = 0) -> str:
        """Asks after the messages (0), or after 1/`transcripts` of the longest transcript."""
        before, text = messages, question
        if transcripts:
            # A transcript can also take the room of the messages that it stands for.
            room = max(free + sum(map(tokens_of, messages)) - least, info.context_window // 8)
            text = clip_middle(render_transcript(messages), chars_of(room))
            text = clip_middle(text, len(text) // transcripts)
            before, text = (), f"<transcript>\n{text}\n</transcript>\n\n{question}"
        asked = replace(request, messages=(*before, user_message(text, "note")))
        return await ask_aside(agent, session, asked, "compaction")

    try:
        return await ask_for_note(int(free < least))
    except ThinkingRefused:
        return await ask_for_note(1)
    except ContextOverflow:
        # The window is smaller than kode believed: a quarter of the transcript still says the most.
        return await ask_for_note(4)


async def ask_aside(agent: Agent, session: Session, request: Request, purpose: str) -> str:
    """Returns the answer to a request beside the conversation. Recorded are only its cost, under
    `purpose`, and that it searched the web. A model that calls a tool is asked once more, its call
    refused. Raises: ProviderError; StorageError."""
    for _ in range(2):
        reply = await ask_model(agent, request, no_emit, [])
        if reply.usage is not None:
            usage, cost = reply.usage, cost_usd(agent.provider.info, reply.usage)
            model = reply.model or agent.provider.model
            agent.spend.count_request(usage, cost)
            session.append(UsageEntry(purpose=purpose, usage=usage, cost_usd=cost, model=model))
        mark_search(session, reply)
        if not (calls := calls_of(reply)):
            break
        results = tuple(failure_of(call, NO_CALLS) for call in calls)
        refused = Message(role="tool", parts=results)
        request = replace(request, messages=(*request.messages, reply, refused))
    return text_of(reply).strip()


def render_transcript(messages: Sequence[Message]) -> str:
    """Messages as plain text, for when they do not fit as they are."""
    lines = (_describe_part(message, part) for message in messages for part in message.parts)
    return "\n".join(filter(None, lines))


def _describe_part(message: Message, part: Part) -> str:
    match part:
        case Image():
            return f"[{message.role} showed the image {part.name}]"
        case Text(source="compaction"):
            return f"[earlier hand-over note]\n{part.text}"
        case Text() if part.source not in ("instructions", "opening"):  # they outlast the summary
            return f"[{message.role}] {part.text}"
        case ToolCall():
            return f"[call {part.name}] {clip_middle(part.arguments, CALL_CHARS)}"
        case ToolResult():
            return f"[result of {part.name}] {clip_middle(part.text, CALL_CHARS)}"
    return ""


def find_newest_exchange(messages: Sequence[Message]) -> int:
    """The index at which the newest exchange begins: that of the newest reply, or of the first
    message if there is no reply."""
    replies = (index for index, message in enumerate(messages) if message.role == "assistant")
    return max(replies, default=0)


def find_first_kept(messages: Sequence[Message], keep: int | None, room: int, most: int) -> int:
    """The index of the first message that stays, so that the last `keep` stay, or as many as fit
    `room` tokens. The newest exchange stays too, if it has at most `most` tokens; with `keep`, only
    what no request has carried of it. A result never stays without its call."""
    start, newest = len(messages), find_newest_exchange(messages)
    if keep is not None:
        start = max(0, len(messages) - keep)
        follows = [message.role for message in messages[newest : newest + 2]]
        newest += follows[:1] == ["assistant"] and follows[1:] != ["tool"]
    else:
        while start > 0 and (room := room - tokens_of(messages[start - 1])) >= 0:
            start -= 1
    if sum(map(tokens_of, messages[newest:])) <= most:
        start = min(start, newest)
    while start < len(messages) and messages[start].role == "tool":
        start += 1
    # Keeping everything would free nothing; an old note is always rewritten.
    return start if start > 0 else min(1, len(messages))


def messages_before(session: Session, tail: Sequence[Message]) -> list[Message]:
    """All messages of the session, earlier compacted ones included, but for those of the tail."""
    ids = {getattr(message, "id", None) for message in tail}
    messages = visible_messages(session.entries)
    return [message for message in messages if getattr(message, "id", "") not in ids]


def verbatim_texts(messages: Iterable[Message], room: int) -> tuple[str, ...]:
    """The person's messages, oldest first; if they do not fit `room` tokens, the newest of them.
    The newest, the current task, is cut in the middle only if it alone is too large."""
    newest: list[str] = []
    texts = (text_of(message) for message in messages if message.role == "user")
    for text in reversed([*filter(None, texts)]):
        size = tokens_of_text(text)
        if room <= 0 or (size > room and newest):
            break
        newest.append(clip_middle(text, chars_of(room)))
        room -= size
    return tuple(reversed(newest))


def list_used_files(agent: Agent, messages: Sequence[Message]) -> dict[str, tuple[str, ...]]:
    """`read` and `edit`: the files that calls read and changed, in order of first use, the latest
    up to a limit; `todo`: the unfinished items of the to-do list as last written. Calls that
    failed do not count."""
    effects = {tool.name: tool.effect for tool in agent.tools if tool.subject == "path"}
    files: dict[str, dict[str, None]] = {"read": {}, "edit": {}}
    items: object = None
    failed = {r.call_id for m in messages for r in results_of(m) if r.is_error}
    for call in (call for m in messages for call in calls_of(m) if call.id not in failed):
        arguments, effect = _parse_arguments(call), effects.get(call.name, "")
        path = arguments.get("path")
        if effect in files and isinstance(path, str) and not path.startswith(EARLIER):
            files[effect][path] = None
        if call.name == "todo":
            items = arguments.get("items")
    window = agent.provider.info.context_window
    most = max(1, min(LISTED_FILES, window // TOKENS_FOR_A_LISTED_FILE))
    todo = tuple(
        f"{item.get('text')} ({item.get('status')})"
        for item in (items if isinstance(items, list) else ())
        if isinstance(item, dict) and item.get("status") != "done"
    )
    return {"todo": todo, **{name: tuple(paths)[-most:] for name, paths in files.items()}}


def dropped_lines(session: Session, kept_from: str | None) -> tuple[str, ...]:
    """A line `id: what it is (tokens)` for each text that will no longer be sent if `kept_from` is
    the first message that stays (None: none stays)."""
    entries = effective(session.entries)
    sent = {getattr(message, "id", None) for message in session.messages}
    first = next((index for index, entry in enumerate(entries) if entry.id in sent), len(entries))
    calls: dict[str, ToolCall] = {}
    lines: list[str] = []
    for entry in entries[first:]:
        if isinstance(entry, CompactionEntry) and entry.dropped and entry.id in sent:
            lines.append(f"{entry.id}: the list of what was dropped before")
        if entry.id == kept_from:
            break
        if not isinstance(entry, MessageEntry):
            continue
        calls |= {call.id: call for call in calls_of(entry)}
        if what := _name_message(entry, calls):
            # The opening is sent again with the note.
            parts = (part for part in entry.parts if getattr(part, "source", "") != "opening")
            tokens = tokens_of(replace(entry, parts=tuple(parts)))
            lines.append(f"{entry.id}: {what} ({tokens:,} tokens)")
    return tuple(lines)


def _name_message(entry: MessageEntry, calls: Mapping[str, ToolCall]) -> str:
    names = []
    for result in results_of(entry):
        call = calls.get(result.call_id)
        values = _parse_arguments(call).values() if call is not None else ()
        subject = next((value for value in values if isinstance(value, str)), "")
        names.append(f"{result.name} {shorten(subject, SUBJECT_CHARS)}".rstrip())
    text = shorten(text_of(entry), SUBJECT_CHARS)
    speaker = "the person" if entry.role == "user" else "you"
    return ", ".join(names) or (f"{speaker}: {text}" if text else "")


def _parse_arguments(call: ToolCall) -> Mapping[str, object]:
    try:
        return parse_arguments(call)
    except ToolError:
        return {}
