"""What the model gets: the system prompt, the tools, and the messages that fit its window.

`prepare` is the one door: memory, project files and compaction enter the loop through it. What is
sent is a pure function of the session's entries; what this module decides becomes an entry first.

The context is reduced in two stages. First the output of old tool calls is dropped. Then comes a
compaction, which keeps the latest messages; what stands for the others is made in `compaction`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from kode.contracts import Drop, Injection, InjectReason, ModelInfo, Request, ToolSpec
from kode.credentials import redact
from kode.engine import compaction
from kode.engine.agent import Agent
from kode.engine.tokens import tokens_of, tokens_of_text
from kode.errors import LARGER_WINDOW, LimitError
from kode.events import ContextReduced, Emit, Working
from kode.messages import Message, Part, Text, calls_of, results_of, text_of
from kode.session.entries import CompactionEntry, MessageEntry, PruneEntry, SystemEntry
from kode.session.log import Session
from kode.session.plan import plan_in_force
from kode.session.requests import Chain, keep_tools, request_entry, system_text

MAX_FRUITLESS_COMPACTIONS = 3
KEPT_TAIL_SHARE = 0.1
"""Share of the window that the latest messages may take after a compaction (and at most a quarter
of what there was, or little would be gained by it)."""
MIN_COMPACTED_TOKENS = 1_000
"""What a hand-over note with its lists may take."""
SPARE_SHARE = 0.06
"""Of the window: by so much may kode's count of a request be too low."""
MIN_PRUNED_SHARE = 0.05
"""Dropping less than this share of the window is not worth a changed prefix."""
MEMORY_HEADING = "# Memory"
NO_LONGER = "There is no such thing any more: what was said of it before no longer counts."
"""Of a section of the opening that went away while the session was closed."""


@dataclass
class Context:
    """An open session, and what of its state the session itself need not keep."""

    session: Session
    system: str = ""
    sections: Mapping[str, str] = field(default_factory=dict)
    """Of the system prompt, by name."""
    memory: str = ""
    """Memory's section in it."""
    specs: tuple[ToolSpec, ...] = ()
    opening: tuple[str, ...] = ()
    """The sections that the messages must hold; see `missing_opening`."""
    opened: Sequence[Message] | None = None
    """The messages that hold them: a list that stays the same until the session's past changes."""
    pending_first_user: str = ""
    """Memory's text that goes before the next user message."""
    known_tokens: int = 0
    """Tokens of the first `known_messages` messages, system and tools included."""
    known_messages: int = 0
    fruitless: int = 0
    """Compactions in a row that freed nothing."""
    memory_declined_at: int = 0
    """Messages there were when memory wanted to take some in, and then could not."""
    chain: Chain = field(default_factory=Chain)
    """The digests of the messages sent so far."""


async def open_context(agent: Agent, context: Context, reason: InjectReason) -> None:
    """Renders the system prompt; called when a process opens a session and after a compaction."""
    injection = await agent.memory.inject(reason)
    if agent.small:
        injection = _before_the_person(context.session, injection)
    context.sections = agent.render_system({"memory": injection.system})
    context.system, context.memory = system_text(context.sections), injection.system
    context.specs = context.specs or tuple(
        tool.brief_spec if agent.small else tool.spec for tool in agent.tools
    )
    context.opening, context.pending_first_user = _opening(agent), injection.first_user
    context.opened = None
    context.known_tokens = context.known_messages = 0
    if context.system != context.session.system:
        context.session.append(SystemEntry(text=context.system, reason=reason))


def _before_the_person(session: Session, injection: Injection) -> Injection:
    """Memory's section as a message before the person's next one, where the messages do not hold it
    yet: in a system prompt the tools follow it, and a weak model looks at those."""
    texts = (
        part.text
        for message in reversed(session.messages)
        for part in message.parts
        if isinstance(part, Text) and part.source == "memory"
    )
    held = next((text for text in texts if _heading(text) == MEMORY_HEADING), "")
    section = injection.system
    if held and not section:
        section = f"{MEMORY_HEADING}\n{NO_LONGER}"
    new = "" if _is_same(held, section) else section
    return Injection(first_user="\n\n".join(filter(None, (new, injection.first_user))))


def _opening(agent: Agent) -> tuple[str, ...]:
    return agent.opening(agent.provider.info.context_window)


def missing_opening(context: Context) -> tuple[Text, ...]:
    """The sections of the opening that the messages do not hold, for the next message: of a new
    session all; later those that have changed since, so that what was sent stays as it was."""
    messages = context.session.messages
    if messages is context.opened:
        return ()
    held: dict[str, str] = {}
    for message in reversed(messages):
        # They are always the first parts of their message.
        for part in takewhile(_is_opening, message.parts):
            assert isinstance(part, Text)
            held.setdefault(_heading(part.text), part.text)
    missing = [text for text in context.opening if not _is_same(held.pop(_heading(text), ""), text)]
    gone = [f"{heading}\n{NO_LONGER}" for heading, text in held.items() if NO_LONGER not in text]
    return tuple(Text(text=text, source="opening") for text in (*missing, *gone))


def _is_opening(part: Part) -> bool:
    return isinstance(part, Text) and part.source == "opening"


def _is_same(held: str, text: str) -> bool:
    return held == text or held == redact(text)  # a session's file holds no keys


def _heading(section: str) -> str:
    return section.partition("\n")[0]


def record_pending(context: Context) -> None:
    """Memory's text that goes before the next user message, where there is one, becomes a message
    of its own. Raises: StorageError."""
    if context.pending_first_user:
        first = Text(text=context.pending_first_user, source="memory")
        context.session.append_message(Message(role="user", parts=(first,)))
        context.pending_first_user = ""


def context_tokens(context: Context) -> int:
    """How full the window is: what the provider last counted, plus an estimate for what is new."""
    messages = context.session.messages
    if context.known_messages == 0 or context.known_messages > len(messages):
        context.known_tokens = fixed_tokens(context)
        context.known_messages = 0
    for message in messages[context.known_messages :]:
        context.known_tokens += tokens_of(message)
    context.known_messages = len(messages)
    return context.known_tokens


def fixed_tokens(context: Context) -> int:
    """The system prompt and the tools, which every request carries."""
    tools = sum(
        tokens_of_text(spec.name + spec.description + str(spec.parameters))
        for spec in context.specs
    )
    return tokens_of_text(context.system) + tools


def note_usage(context: Context, message: Message) -> None:
    """After a reply: its usage says what the whole context costs, the reply included."""
    if message.usage is None or message.usage.input_tokens == 0:
        return
    context.known_tokens = message.usage.input_tokens + message.usage.output_tokens
    context.known_messages = len(context.session.messages)


async def prepare(agent: Agent, context: Context, emit: Emit) -> Request:
    """The next request; the context is reduced first where the window is too full.

    Raises: LimitError after compactions that freed nothing; ProviderError of the summary's
        request; StorageError.
    """
    limit = int(agent.provider.info.context_window * agent.limits.compact_at)
    if _outgrows_memory_window(agent, context):
        await _let_memory_take(agent, context, emit)
    if context_tokens(context) > limit:
        prune(agent, context, emit)
    while context_tokens(context) > limit:
        await compact(agent, context, emit)
    return Request(
        system=context.system,
        messages=context.session.messages,
        tools=context.specs,
        max_output_tokens=_room_for_output(agent.provider.info, context_tokens(context)),
        context_apart=agent.small,
    )


def _room_for_output(info: ModelInfo, context_tokens: int) -> int:
    """How long the reply may be: as long as the model can, in what the request leaves of the
    window. Without a limit a model that repeats itself has no end; servers refuse a request that
    together with its limit exceeds the window."""
    room = info.context_window * (1 - SPARE_SHARE) - context_tokens
    return max(1, min(info.max_output_tokens, max(info.context_window // 16, int(room))))


def record_request(agent: Agent, context: Context, request: Request) -> None:
    """What the request holds, as digests, before it is sent. Raises: StorageError."""
    session = context.session
    entry = request_entry(
        "turn",
        agent.provider,
        request,
        sections=context.sections,
        chain=context.chain,
        before=session.last_request,
    )
    if entry.tools and session.path is not None:
        entry = replace(entry, tools_kept=keep_tools(agent.place.home, request.tools))
    session.append(entry)


def prune(agent: Agent, context: Context, emit: Emit) -> None:
    """Drops the output of old tool calls; the newest `keep_tool_output_tokens` of it stay (at most
    a quarter of the window, so that small windows gain from it too)."""
    before_tokens = context_tokens(context)
    _, following = old_output(agent, context.session)
    if following is None:
        return
    context.session.append(PruneEntry(before=following))
    context.known_messages = 0
    after_tokens = context_tokens(context)
    emit(ContextReduced(kind="tool_output", tokens_before=before_tokens, tokens_after=after_tokens))


def old_output(agent: Agent, session: Session) -> tuple[int, str | None]:
    """The tool output that `prune` would drop, in tokens, and the id of the message before which
    it is; (0, None) where that is not worth a changed prefix."""
    window = agent.provider.info.context_window
    room = min(agent.limits.keep_tool_output_tokens, window // 4)
    boundary: str | None = None
    dropped = 0
    for message in reversed(session.messages):
        size = sum(tokens_of_text(result.text) for result in results_of(message))
        room -= size
        if room < 0 and size and isinstance(message, MessageEntry):
            boundary = boundary or message.id
            dropped += size
    following = _after(session.messages, boundary)
    if following is None or dropped < window * MIN_PRUNED_SHARE:
        return 0, None
    return dropped, following


async def compact(
    agent: Agent,
    context: Context,
    emit: Emit,
    drop: Drop | None = None,
    wish: str = "",
    *,
    by_person: bool = False,
) -> ContextReduced:
    """Replaces the messages so far by a summary, what is kept word for word, lists, and the latest
    messages, as one entry. `drop` is what memory wants, where it was asked already;
    `wish` what the person wants of the summary, where memory does not write it.

    Raises: LimitError after three in a row that freed nothing; ProviderError; StorageError.
    """
    if context.fruitless >= MAX_FRUITLESS_COMPACTIONS:
        raise LimitError(
            f"The conversation does not fit the window of {agent.provider.model} "
            f"({agent.provider.info.context_window} tokens) even after "
            f"{MAX_FRUITLESS_COMPACTIONS} compactions. Start over with `/new`, {LARGER_WINDOW}"
        )
    emit(Working(what="Compacting the conversation"))
    wish = await agent.before_compaction(by_person, wish)
    window, session = agent.provider.info.context_window, context.session
    messages = list(session.messages)
    before_tokens = context_tokens(context)
    drop = drop or await agent.memory.before_drop(messages, "window")
    room = min(int(window * KEPT_TAIL_SHARE), before_tokens // 4)
    start = compaction.first_kept(messages, drop.keep, room)
    tail = messages[start:]
    before = compaction.words_before(session, tail)
    summary = drop.recap
    if summary is None:
        summary = await compaction.summary_of(agent, session, messages[:start], wish)
    words = compaction.own_words(before, min(agent.limits.keep_user_tokens, window // 5))
    read, changed = compaction.files_of(agent, [*before, *tail])
    first = tail[0] if tail else None
    kept_from = first.id if isinstance(first, MessageEntry) else None
    session.append(
        CompactionEntry(
            opening=_opening(agent),
            summary=summary,
            user_messages=words,
            plan=plan_in_force(agent.place.plan),
            open_items=compaction.open_items([*before, *tail]),
            files_read=read,
            files_changed=changed,
            dropped=compaction.dropped_lines(session, kept_from),
            kept_from=kept_from,
            tokens_before=before_tokens,
        )
    )
    context.memory_declined_at = 0
    await open_context(agent, context, "compacted")
    record_pending(context)
    after_tokens = context_tokens(context)
    context.fruitless = context.fruitless + 1 if after_tokens > before_tokens * 0.9 else 0
    event = ContextReduced(
        kind="compaction", tokens_before=before_tokens, tokens_after=after_tokens
    )
    emit(event)
    return event


async def _let_memory_take(agent: Agent, context: Context, emit: Emit) -> None:
    """Memory wants to take messages in, though the model's window has room. When it then cannot,
    nothing is dropped, and it is asked again only once the session has grown: a memory that fails
    must not cost a compaction with every request. Raises as `compact`."""
    drop = await agent.memory.before_drop(list(context.session.messages), "window")
    if drop.keep is None:
        context.memory_declined_at = len(context.session.messages)
        return
    await compact(agent, context, emit, drop)


async def reduce_after_overflow(agent: Agent, context: Context, emit: Emit) -> None:
    """The provider said that the request does not fit: the same two stages, whatever kode's own
    count says. Raises as `compact`."""
    entries = len(context.session.entries)
    prune(agent, context, emit)
    if len(context.session.entries) == entries:
        await compact(agent, context, emit)


def _outgrows_memory_window(agent: Agent, context: Context) -> bool:
    """Whether memory wants to take messages in before the model's window is full: user messages
    and final answers count, tool traffic does not."""
    window, messages = agent.memory.message_window, context.session.messages
    if window is None or len(messages) <= window:
        return False
    if context.memory_declined_at and len(messages) < context.memory_declined_at + window:
        return False
    spoken = sum(bool(text_of(m)) and not calls_of(m) for m in messages if m.role != "tool")
    return spoken > window


def is_worth_compacting(session: Session) -> bool:
    """Whether a compaction by hand would free anything: a note takes room too."""
    return sum(map(tokens_of, session.messages)) >= MIN_COMPACTED_TOKENS


def _after(messages: Sequence[Message], boundary: str | None) -> str | None:
    """The id of the message that follows the one with id `boundary`."""
    found = boundary is None
    for message in messages:
        if not isinstance(message, MessageEntry):
            continue
        if found:
            return message.id if boundary is not None else None
        found = message.id == boundary
    return None
