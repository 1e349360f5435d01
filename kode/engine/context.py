"""Builds what the model gets: the system prompt, the tools, and messages that fit its window.

`prepare` is the only way in: memory, project files and compaction enter the loop through it. What
is sent is a pure function of the session's entries; each decision made here becomes an entry first.

A compaction keeps the newest exchange and replaces what is older by a note. The note is asked for
inside the conversation, so the model has read all that it replaces (see `compaction`). Nothing is
dropped that no request has carried: of what the newest reply asked for, every result stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from kode.credentials import redact
from kode.engine import compaction
from kode.engine.agent import Agent
from kode.engine.tokens import (
    MESSAGE_TOKENS,
    chars_of,
    room_for_note,
    tokens_of,
    tokens_of_part,
    tokens_of_text,
)
from kode.errors import LARGER_WINDOW, LimitError
from kode.events import ContextReduced, Emit, Working
from kode.memory.contract import Drop, InjectReason
from kode.messages import Message, Part, Text, ToolCall, ToolResult, calls_of, text_of
from kode.provider import ModelInfo, Request, ToolSpec
from kode.session.entries import (
    BETWEEN_SECTIONS,
    CompactionEntry,
    MessageEntry,
    RequestEntry,
    SectionUpdateEntry,
    SystemEntry,
)
from kode.session.log import Session
from kode.session.masking import mask
from kode.session.plan import plan_in_force
from kode.session.requests import tool_object
from kode.tool import CALLS_ANY
from kode.tools.builtin import format_tools

MAX_FRUITLESS_COMPACTIONS = 3  # each costs a request, and frees too little
KEPT_TAIL_SHARE = 0.1
"""Share of the window for the latest messages after a compaction (and at most a quarter of what
there was, or little would be gained)."""
MIN_COMPACTED_TOKENS = 1_000
"""What a hand-over note with its lists usually takes."""
KEPT_EXCHANGE_SHARE = 0.5
"""Share of the window up to which the newest exchange stays as it is."""
RESULTS_SHARE = 0.2
"""Share of the window for the results of one reply."""
LEAST_RESULTS_SHARE = 0.05
"""Of a window that is nearly full, too: less would show nothing."""
SPARE_SHARE = 0.06
"""Share of the window by which kode's token estimate may be too low."""
MAX_TOKEN_SCALE = 2.0
"""No tokenizer makes more than twice the estimate of ordinary text; a server that refuses smaller
requests has a smaller window than kode knows."""
HEADINGS = {
    "given": "# Your instructions have changed since this session began",
    "appended": "# Further instructions have changed since this session began",
    "servers": "# The MCP servers have changed since this session began: see mcp_search",
}
"""Sections whose changes the model is told at the end, because what was sent stays as it was. A
session keeps kode's own text that it began with. Memory tells its own changes."""
NO_LONGER = "There is no such thing any more: what was said of it before no longer counts."
"""Replaces a section of the opening that disappeared while the session was closed."""
_KINDS = {"opening": "system prompt", "memory": "memory", "compaction": "summary of before"}
"""Source of a text → what it counts as in a `Window`, if that is not the conversation."""


@dataclass
class Context:
    """An open session, with the state that the session itself need not keep."""

    session: Session
    sections: Mapping[str, str] = field(default_factory=dict)
    """The sections of the system prompt, by name."""
    news: tuple[tuple[SectionUpdateEntry, str], ...] = ()
    """What the next message tells the model of changed sections, with the record of it."""
    specs: tuple[ToolSpec, ...] = ()
    opening: Mapping[str, str] = field(default_factory=dict)
    """The sections that messages must contain, by name; see `missing_opening`."""
    pending_first_user: str = ""
    """Memory's text to send before the next user message."""
    pending_section: str = ""
    """`memory` if that text begins with memory's section."""
    known_tokens: int = 0
    """Tokens of the first `known_messages` messages, system and tools included."""
    known_messages: int = 0
    token_scale: float = 1.0
    """Factor for kode's estimates, raised when a server refuses a request that fits by them."""
    fruitless: int = 0
    """Consecutive compactions that freed nothing; each halves what the next one keeps verbatim."""
    memory_declined_at: int = 0
    """Message count when memory wanted to process some and failed."""
    answer_schema: Mapping[str, Any] | None = None
    """The JSON schema that the server must hold the model's answers to; None: any answer."""


async def open_context(agent: Agent, context: Context, reason: InjectReason) -> None:
    """Called when a session opens and after a compaction. A session has one beginning: system
    prompt and tools are rendered once and stored, and are the same bytes in every request until a
    compaction. What has changed since goes into the next message."""
    session, injection = context.session, await agent.memory.inject(reason)
    memory, first_user, begun = injection.system, injection.first_user, session.beginning
    if begun is None or not begun.tools or not session.messages or reason == "compacted":
        begun = None
    context.pending_section = ""
    if agent.small and (begun is None or "memory" not in begun.sections):
        # In a system prompt tools follow it, and distract a weak model.
        section, memory = _memory_to_send(session, memory), ""
        context.pending_section = "memory" if section else ""
        first_user = "\n\n".join(filter(None, (section, first_user)))
    # Masked, because a later process has only what is on disk.
    rendered = agent.render_system({"memory": memory})
    sections = {name: redact(text) for name, text in rendered.items()}
    begun = begun or _begin(agent, session, sections, reason)
    context.sections = begun.texts
    context.specs = tuple(ToolSpec(**tool) for tool in begun.tools)
    known = {**context.sections, **session.section_texts}
    has_pair = any(spec.name == CALLS_ANY for spec in context.specs)
    sections["servers"] = "\n".join(agent.servers) if has_pair else known.get("servers", "")
    context.news = section_changes(sections, known)
    context.opening = agent.opening(agent.provider.info.context_window)
    context.pending_first_user = first_user
    context.known_tokens = context.known_messages = 0


def _begin(
    agent: Agent, session: Session, sections: Mapping[str, str], reason: InjectReason
) -> SystemEntry:
    """Records the beginning of the requests to come, unless it is the same."""
    tools = format_tools(agent.tools, "kode" if agent.small else agent.tool_format)
    specs = (tool.brief_spec if agent.small else tool.spec for tool in tools)
    last = session.entries[-1] if session.entries else None
    entry = SystemEntry(
        text=BETWEEN_SECTIONS.join(sections.values()),
        reason=reason,
        sections={name: len(text) for name, text in sections.items()},
        tools=tuple(mask(tool_object(spec)) for spec in specs),
        after=last.id if isinstance(last, CompactionEntry) else None,
    )
    begun = session.beginning
    if begun is None or (begun.text, begun.tools) != (entry.text, entry.tools):
        servers = SectionUpdateEntry(section="servers", text="\n".join(agent.servers))
        session.append(entry, *([servers] if agent.servers else ()))
        assert session.beginning is not None
        begun = session.beginning
    return begun


def section_changes(
    now: Mapping[str, str], known: Mapping[str, str]
) -> tuple[tuple[SectionUpdateEntry, str], ...]:
    """For each section that differs from what the model knows: the record of the new text, and the
    words for the model. Both map a section's name to its text. Instructions that are not given
    again still hold."""
    return tuple(
        (
            SectionUpdateEntry(section=name, text=text),
            f"{heading}\n{text or 'There is nothing in it any more.'}",
        )
        for name, heading in HEADINGS.items()
        if _lines(text := now.get(name, "")) != _lines(known.get(name, ""))
        and (text or name == "servers")
    )


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _memory_to_send(session: Session, section: str) -> str:
    """Memory's section for a message before the person's next one; "" if the messages contain
    it."""
    parts = (part for message in reversed(session.messages) for part in message.parts)
    sent = (p.text for p in parts if isinstance(p, Text) and p.section_name == "memory")
    newest = next(sent, "")
    section = section if section or not newest else _no_longer(newest)
    return "" if _is_same(newest, section) else section


def missing_opening(context: Context) -> tuple[Text, ...]:
    """The opening sections that the messages lack, for the next message: all in a new session,
    later those that changed, so that what was sent stays unchanged."""
    sent: dict[str, str] = {}
    for message in reversed(context.session.messages):
        # They are always the first parts of their message.
        for part in takewhile(_is_opening, message.parts):
            assert isinstance(part, Text)
            sent.setdefault(part.section_name, part.text)
    missing = {
        name: text
        for name, text in context.opening.items()
        if not _is_same(sent.pop(name, ""), text)
    }
    gone = {name: _no_longer(text) for name, text in sent.items() if text != _no_longer(text)}
    return tuple(
        Text(text=text, source="opening", section_name=name)
        for name, text in (*missing.items(), *gone.items())
    )


def _is_opening(part: Part) -> bool:
    return isinstance(part, Text) and part.source == "opening"


def _is_same(sent: str, text: str) -> bool:
    return sent in (text, redact(text))  # a session's file holds no keys


def _no_longer(section: str) -> str:
    """What takes the place of a section."""
    return section.partition("\n")[0] + "\n" + NO_LONGER


def record_pending(context: Context) -> None:
    """Records memory's pending text as a separate message. Raises: StorageError."""
    if context.pending_first_user:
        section = context.pending_section
        first = Text(text=context.pending_first_user, source="memory", section_name=section)
        context.session.append_message(Message(role="user", parts=(first,)))
        context.pending_first_user = ""


def context_tokens(context: Context) -> int:
    """How full the window is: the provider's last count, plus an estimate for newer messages."""
    messages = context.session.messages
    if context.known_messages == 0 or context.known_messages > len(messages):
        context.known_tokens = int(fixed_tokens(context) * context.token_scale)
        context.known_messages = 0
    for message in messages[context.known_messages :]:
        context.known_tokens += int(tokens_of(message) * context.token_scale)
    context.known_messages = len(messages)
    return context.known_tokens


def fixed_tokens(context: Context) -> int:
    """Tokens of the system prompt and the tools, which every request carries."""
    tools = sum(
        tokens_of_text(spec.name + spec.description + str(spec.parameters))
        for spec in context.specs
    )
    return tokens_of_text(context.session.system) + tools


def note_usage(context: Context, message: Message) -> None:
    """Updates the token count from a reply's usage, which includes the reply."""
    if message.usage is not None and message.usage.input_tokens:
        context.known_tokens = message.usage.input_tokens + message.usage.output_tokens
        context.known_messages = len(context.session.messages)


async def prepare(agent: Agent, context: Context, emit: Emit) -> Request:
    """Builds the next request, reducing the context first if the window is too full.

    Raises: LimitError after compactions that freed nothing; ProviderError from the summary's
    request; StorageError.
    """
    info = agent.provider.info
    if _outgrows_memory_window(agent, context):
        await _let_memory_take(agent, context, emit)
    limit = int(info.context_window * agent.limits.compact_at)
    while context_tokens(context) > limit and _can_free(agent, context):
        await compact(agent, context, emit)
    # Without a limit a model that repeats itself never ends; servers refuse a request that exceeds
    # the window together with its limit.
    room = max(_least_output(info), _room_behind(agent, context))
    return replace(
        _request(agent, context), max_output_tokens=max(1, min(info.max_output_tokens, room))
    )


def _request(agent: Agent, context: Context) -> Request:
    return Request(
        system=context.session.system,
        messages=context.session.messages,
        tools=context.specs,
        small=agent.small,
        effort=agent.effort,
        search=agent.search,
        answer_schema=context.answer_schema,
        # Siblings, and a fork and its origin, begin alike: one name lets a server find that.
        conversation=context.session.header.parent or context.session.header.id,
    )


def _can_free(agent: Agent, context: Context) -> bool:
    """Whether a compaction would free anything, or has to: if there is only the newest exchange,
    it is sent as long as it fits."""
    messages = context.session.messages
    begins_with_note = any(
        isinstance(part, Text) and part.source == "compaction"
        for message in messages[:1]
        for part in message.parts
    )
    if compaction.newest_exchange(messages) > begins_with_note:
        return True
    return _room_behind(agent, context) < _least_output(agent.provider.info)


def room_for_results(agent: Agent, context: Context) -> int:
    """The characters that the results of one reply may have: a fifth of the window, or what leaves
    a compaction room to ask for its note behind them."""
    info = agent.provider.info
    window = info.context_window
    free = _room_behind(agent, context) - room_for_note(info)
    tokens = max(window * LEAST_RESULTS_SHARE, min(window * RESULTS_SHARE, free))
    return chars_of(tokens / context.token_scale)


def _room_behind(agent: Agent, context: Context) -> int:
    """The tokens that the window has left behind the conversation so far."""
    window = agent.provider.info.context_window
    return int(window * (1 - SPARE_SHARE)) - context_tokens(context)


def _least_output(info: ModelInfo) -> int:
    return info.context_window // 16


def record_request(agent: Agent, context: Context, request: Request) -> None:
    """Records a request before it is sent. Raises: StorageError."""
    session = context.session
    digests = session.chain.of(request.messages)
    session.append(
        RequestEntry(
            provider=agent.provider.name,
            model=agent.provider.model,
            max_output_tokens=request.max_output_tokens,
            context_window=agent.provider.info.context_window,
            begins_process=not session.has_requested,
            messages=len(digests),
            digest=digests[-1] if digests else "",
        )
    )


async def compact(
    agent: Agent,
    context: Context,
    emit: Emit,
    drop: Drop | None = None,
    wish: str = "",
    *,
    by_person: bool = False,
    drops_all: bool = False,
) -> ContextReduced:
    """Replaces the messages so far by a note, verbatim texts, lists, and the newest messages, in
    one entry; with `drops_all` no message stays, because a server refuses them. `drop` is memory's
    answer if it was asked already; `wish` is the person's wish for a note that memory does not
    write.

    Raises: LimitError after three in a row that freed nothing; ProviderError; StorageError.
    """
    info, session = agent.provider.info, context.session
    window = info.context_window
    if context.fruitless >= MAX_FRUITLESS_COMPACTIONS:
        raise LimitError(
            f"The conversation does not fit the window of {agent.provider.model} ({window} tokens) "
            f"even after {MAX_FRUITLESS_COMPACTIONS} compactions. Start over with `/new`, "
            f"{LARGER_WINDOW}"
        )
    emit(Working(what="Compacting the conversation"))
    if agent.before_compaction is not None:
        wish = await agent.before_compaction(by_person, wish)
    before_tokens, messages = context_tokens(context), list(session.messages)
    drop = drop or await agent.memory.before_drop(messages, "window")
    # The prompt, instructions and memory may leave less room than usual.
    share = 0.5**context.fruitless
    room = min(window * KEPT_TAIL_SHARE, before_tokens / 4) * share
    most = window * KEPT_EXCHANGE_SHARE * share
    start = len(messages)
    if not drops_all:
        start = compaction.first_kept(messages, drop.keep, int(room), int(most))
    tail = messages[start:]
    first = tail[0] if tail else None
    kept_from = first.id if isinstance(first, MessageEntry) else None
    before = compaction.words_before(session, tail)
    summary = drop.recap
    if summary is None:
        behind, request = _room_behind(agent, context), _request(agent, context)
        summary = await compaction.note_on(agent, session, request, wish, behind)
    room = min(agent.limits.keep_user_tokens, window / 5) * share
    read, changed = compaction.files_of(agent, [*before, *tail])
    session.append(
        CompactionEntry(
            opening=agent.opening(window),
            summary=summary,
            user_messages=compaction.own_words(before, int(room)),
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
    emit(event := ContextReduced(tokens_before=before_tokens, tokens_after=after_tokens))
    return event


async def _let_memory_take(agent: Agent, context: Context, emit: Emit) -> None:
    """Lets memory process messages although the window has room. If that fails, nothing is dropped,
    and memory is asked again only when the session has grown: a failing memory must not cost a
    compaction per request. Raises as `compact`."""
    drop = await agent.memory.before_drop(list(context.session.messages), "window")
    if drop.keep is None:
        context.memory_declined_at = len(context.session.messages)
    else:
        await compact(agent, context, emit, drop)


async def reduce_after_overflow(
    agent: Agent, context: Context, emit: Emit, refused: Request
) -> None:
    """Compacts after the provider refused a request as too large, whatever kode's own count says.
    Raises as `compact`."""
    # Servers refuse a request that exceeds the window together with its output limit: by the
    # server's count it held at least the rest of the window.
    counted = agent.provider.info.context_window - (refused.max_output_tokens or 0)
    too_low = max(1.0, counted / max(1, context_tokens(context)))
    context.token_scale = min(MAX_TOKEN_SCALE, context.token_scale * too_low)
    context.known_messages = 0
    context.fruitless = max(context.fruitless, 1)  # what usually stays may be what is too much
    await compact(agent, context, emit)


def _outgrows_memory_window(agent: Agent, context: Context) -> bool:
    """Whether memory wants to process messages before the window is full: counts user messages and
    final answers, not tool traffic."""
    window, messages = agent.memory.message_window, context.session.messages
    declined_at = context.memory_declined_at
    if window is None or len(messages) <= window:
        return False
    if declined_at and len(messages) < declined_at + window:
        return False
    spoken = sum(bool(text_of(m)) and not calls_of(m) for m in messages if m.role != "tool")
    return spoken > window


def is_compactable(agent: Agent, context: Context) -> bool:
    """Whether a note would replace more than it takes: the newest exchange stays, and the opening
    and the person's words go beside the note."""
    messages = context.session.messages
    old = messages[: compaction.newest_exchange(messages)]
    typed = sum(tokens_of_text(text_of(message)) for message in old if message.role == "user")
    opening = sum(map(tokens_of_text, context.opening.values()))
    stays = opening + min(typed, agent.limits.keep_user_tokens)
    return sum(map(tokens_of, old)) - stays >= MIN_COMPACTED_TOKENS


@dataclass(frozen=True, kw_only=True)
class Window:
    """What fills the model's window. Amounts in tokens; the kinds are estimates, whose sum matches
    the provider's last count, if any."""

    size: int
    used: int
    parts: tuple[tuple[str, int], ...]
    """(kind, tokens) of each non-empty kind."""
    makes_room_at: int
    """The size at which the context is reduced."""


def window_of(agent: Agent, context: Context) -> Window:
    """What the next request would carry right now."""
    system = tokens_of_text(context.session.system)
    memory = min(tokens_of_text(context.sections.get("memory", "")), system)
    tools = fixed_tokens(context) - system
    kinds = {"system prompt": system - memory, "tools": tools, "memory": memory}
    kinds |= dict.fromkeys(("conversation", "calls and results", "summary of before"), 0)
    for message in context.session.messages:
        kinds["conversation"] += MESSAGE_TOKENS
        for part in message.parts:
            kind = (
                "calls and results" if isinstance(part, ToolCall | ToolResult) else "conversation"
            )
            kind = _KINDS.get(part.source, kind) if isinstance(part, Text) else kind
            kinds[kind] += tokens_of_part(part)
    used, estimated = context_tokens(context), sum(kinds.values())
    scale = used / estimated if estimated else 1.0
    size = agent.provider.info.context_window
    return Window(
        size=size,
        used=used,
        parts=tuple((kind, round(tokens * scale)) for kind, tokens in kinds.items() if tokens),
        makes_room_at=int(size * agent.limits.compact_at),
    )
