"""Builds what the model gets: the system prompt, the tools, and messages that fit its window.

Memory, project files and compaction enter the loop through this module alone. What is sent
is a pure function of the session's entries: each decision made here becomes an entry first.

A compaction keeps the newest exchange and replaces older messages by a note. The note is asked for
inside the conversation, so the model has read all that the note replaces (see `compaction`). The
results of the newest reply's calls, which the model has not seen, stay if they fit half the window.
"""

from collections.abc import Mapping
from typing import Any

from kode.credentials import redact
from kode.engine import compaction
from kode.engine.agent import Agent
from kode.engine.tokens import MESSAGE_TOKENS, chars_of, tokens_of, tokens_of_part, tokens_of_text
from kode.errors import LARGER_WINDOW, KodeError
from kode.events import ContextReduced, Emit, Working
from kode.memory.contract import Drop, InjectReason
from kode.messages import Message, Text, ToolCall, ToolResult, calls_of, text_of, user_message
from kode.provider import ModelInfo, Request, ToolSpec
from kode.session.entries import (
    CompactionEntry,
    RequestEntry,
    SectionUpdateEntry,
    SystemEntry,
    to_plain,
)
from kode.session.log import Session
from kode.session.messages import add_message
from kode.session.plan import Plan
from kode.tool import CALLS_ANY
from kode.tools.builtin import format_tools
from kode.values import dataclass, field, replace

# Shares of the window:
KEPT_TAIL_SHARE = 0.1  # for the latest messages after a compaction
KEPT_EXCHANGE_SHARE = 0.5  # up to which the newest exchange stays as it is
RESULTS_SHARE = 0.2  # for the results of one reply
LEAST_RESULTS_SHARE = 0.05  # for those results in a nearly full window: less would show nothing
LEAST_OUTPUT_SHARE = 1 / 16  # for a reply in any case
SPARE_SHARE = 0.06  # left free, because kode's token estimate may be too low by this much

MAX_FRUITLESS_COMPACTIONS = 3  # each costs a request, and frees too little
MIN_COMPACTED_TOKENS = 1_000  # what a hand-over note with its lists usually takes
MAX_TOKEN_SCALE = 2.0
"""No tokenizer makes more than twice the estimate of ordinary text; a server that refuses smaller
requests has a smaller window than kode knows."""
HEADINGS = {
    "given": "# Your instructions have changed since this session began",
    "appended": "# Further instructions have changed since this session began",
    "servers": "# The MCP servers have changed since this session began: see mcp_search",
}
"""Section → the heading of the text that tells the model about its change; memory tells its own."""
NO_LONGER = "There is no such thing any more: what was said of it before no longer counts."
"""Sent in place of a section that disappeared while the session was closed."""
QUESTION = "A question beside the work: answer in short, from this conversation. Call no tool."
_KINDS = {"opening": "system prompt", "memory": "memory", "compaction": "summary of before"}
"""Source of a text → its kind in `window_parts`; any other source counts as conversation."""


@dataclass
class Context:
    """An open session, with the state that the session itself need not keep."""

    session: Session
    news: tuple[SectionUpdateEntry, ...] = ()
    """The changed sections that the next message tells the model of."""
    opening: Mapping[str, str] = field(default_factory=dict)
    """The sections that messages must contain, by name; see `missing_sections`."""
    pending_memory: Text | None = None
    """Memory's text to send before the next user message."""
    known_tokens: int = 0
    """Tokens of the first `known_messages` messages, the system prompt and tools included."""
    known_messages: int = 0
    token_scale: float = 1.0
    """Factor for kode's estimates, raised when a server refuses a request that fits by them."""
    fruitless: int = 0
    """Consecutive compactions that freed nothing; each halves what the next one keeps verbatim."""
    memory_declined_at: int = 0
    """The message count when memory's window was last full but it dropped nothing; 0: never."""
    answer_schema: Mapping[str, Any] | None = None
    """The JSON schema that the server must hold the model's answers to; None: any answer."""

    @property
    def sections(self) -> Mapping[str, str]:
        """The sections of the system prompt, by name; empty before it was rendered."""
        return self.session.beginning.sections if self.session.beginning is not None else {}

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as they are sent; empty before the session has begun."""
        return self.session.beginning.tools if self.session.beginning is not None else ()


async def open_context(agent: Agent, context: Context, reason: InjectReason) -> None:
    """Prepares the context for the next message, when a session opens and after a compaction.
    System prompt and tools are rendered once and recorded, and are then the same bytes in every
    request until a compaction; a later change of them goes into the next message."""
    session, injection = context.session, await agent.memory.inject(reason)
    beginning = session.beginning if session.messages and reason != "compacted" else None
    memory, section = injection.system, ""
    if agent.small and (beginning is None or "memory" not in beginning.sections):
        # In the system prompt, memory would precede the tools, which distract a weak model.
        now = {"memory": memory} if memory else {}
        missing = {it.section_name: it.text for it in missing_sections(session, "memory", now)}
        memory, section = "", missing.get("memory", "")  # what was recalled is no section
    first = "\n\n".join(filter(None, (section, injection.first_user)))
    name = "memory" if section else "recall" if agent.small else ""
    pending = Text(text=first, source="memory", section_name=name)
    context.pending_memory = pending if first else None
    # Masked, because a later process has only what is on disk.
    rendered = agent.render_system({"memory": memory})
    sections = {name: redact(text) for name, text in rendered.items()}
    if beginning is None:
        _record_beginning(agent, session, sections)
    texts = {**context.sections, **session.section_texts}
    has_pair = any(spec.name == CALLS_ANY for spec in context.specs)
    sections["servers"] = "\n".join(agent.servers) if has_pair else texts.get("servers", "")
    context.news = section_changes(sections, texts)
    context.opening = agent.opening(agent.provider.info.context_window)
    context.known_tokens = context.known_messages = 0


def _record_beginning(agent: Agent, session: Session, sections: Mapping[str, str]) -> None:
    tools = format_tools(agent.tools, "kode" if agent.small else agent.tool_format)
    specs = (ToolSpec(**to_plain(tool.spec)[0]) for tool in tools)
    last = session.entries[-1] if session.entries else None
    entry = SystemEntry(
        sections={**sections},
        tools=tuple(specs),
        after=last.id if isinstance(last, CompactionEntry) else None,
    )
    beginning = session.beginning
    if beginning is None or (beginning.text, beginning.tools) != (entry.text, entry.tools):
        servers = SectionUpdateEntry(section="servers", text="\n".join(agent.servers))
        session.append(entry, *([servers] if agent.servers else ()))


def section_changes(
    now: Mapping[str, str], before: Mapping[str, str]
) -> tuple[SectionUpdateEntry, ...]:
    """The sections that differ from what the model knows. Both mappings are section name → text. A
    section that has become empty counts as unchanged, except `servers`."""
    return tuple(
        SectionUpdateEntry(section=name, text=text)
        for name in HEADINGS
        if (text := now.get(name, "")).split() != before.get(name, "").split()
        and (text or name == "servers")
    )


def describe_news(entry: SectionUpdateEntry) -> Text:
    """What tells the model about a changed section."""
    text = entry.text or "There is nothing in it any more."
    return Text(text=f"{HEADINGS[entry.section]}\n{text}", source="news")


def missing_sections(session: Session, source: str, now: Mapping[str, str]) -> list[Text]:
    """What the messages lack of the sections from a source (name → text) as they are `now`, for the
    next message: the text of each that is new or has changed, a notice of each that is gone."""
    sent: dict[str, str] = {}
    for message in reversed(session.messages):
        for part in message.parts:
            if isinstance(part, Text) and part.source == source and part.section_name:
                sent.setdefault(part.section_name, part.text)
    missing = [
        Text(text=text, source=source, section_name=name)
        for name, text in now.items()
        # A session's file holds no keys.
        if (before := sent.pop(name, "")) != text and before != redact(text)
    ]
    for name, text in sent.items():
        if text != (end := text.partition("\n")[0] + "\n" + NO_LONGER):
            missing.append(Text(text=end, source=source, section_name=name))
    return missing


def record_pending(context: Context) -> None:
    """Records memory's pending text as a separate message. Raises: StorageError."""
    if context.pending_memory is not None:
        context.session.append_message(Message(role="user", parts=(context.pending_memory,)))
        context.pending_memory = None


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
    tools = (spec.name + spec.description + str(spec.parameters) for spec in context.specs)
    return tokens_of_text(context.session.system) + sum(map(tokens_of_text, tools))


async def prepare_request(agent: Agent, context: Context, emit: Emit) -> Request:
    """Builds and records the next request, reducing the context first if the window is too full.

    Raises: KodeError after compactions that freed nothing; ProviderError from the summary's
    request; StorageError.
    """
    info, session, tokens = agent.provider.info, context.session, context_tokens(context)
    limit = int(info.context_window * agent.config.context.compact_at)
    while tokens > limit and _can_free(agent, context, tokens):
        tokens = (await compact(agent, context, emit)).tokens_after
    session.append(
        RequestEntry(
            provider=agent.provider.name,
            model=agent.provider.model,
            context_window=info.context_window,
            begins_process=not session.has_requested,
        )
    )
    return _make_request(agent, context, tokens)


async def answer_question(agent: Agent, context: Context, question: str) -> str:
    """Answers a question from the conversation, even while a turn runs, and adds neither question
    nor answer to it; the request begins like the turn's. Raises: ProviderError; StorageError."""
    request = _make_request(agent, context, context_tokens(context))
    messages = [*context.session.messages]
    add_message(messages, [], user_message(f"{QUESTION}\n\n{question}", "note"))
    request = replace(request, messages=messages, answer_schema=None, aside=True)
    return await compaction.ask_aside(agent, context.session, request, "question")


def _make_request(agent: Agent, context: Context, tokens: int) -> Request:
    session, info = context.session, agent.provider.info
    # Without a limit a model that repeats itself never ends; servers refuse a request that exceeds
    # the window together with its limit.
    room = max(int(info.context_window * LEAST_OUTPUT_SHARE), _free_tokens(info, tokens))
    beginning = session.beginning or SystemEntry(sections={}, tools=())
    return Request(
        system=beginning.text,
        messages=session.messages,
        tools=beginning.tools,
        max_output_tokens=max(1, min(info.max_output_tokens, room)),
        small=agent.small,
        effort=agent.effort,
        search=agent.search,
        answer_schema=context.answer_schema,
        # Sibling subagents begin alike: a common name lets a server's cache find that.
        conversation=session.header.parent or session.header.id,
    )


def _can_free(agent: Agent, context: Context, tokens: int) -> bool:
    """Whether messages precede the newest exchange, or the free tokens are too few for a reply."""
    messages = context.session.messages
    first_parts = messages[0].parts if messages else ()
    begins_with_note = any(getattr(part, "source", "") == "compaction" for part in first_parts)
    info = agent.provider.info
    is_old = compaction.find_newest_exchange(messages) > begins_with_note
    least = int(info.context_window * LEAST_OUTPUT_SHARE)
    return is_old or _free_tokens(info, tokens) < least


def room_for_results(agent: Agent, context: Context) -> int:
    """The characters that the results of one reply's calls may have: a fifth of the window, or less
    if a compaction would otherwise have no room to ask for its note after them."""
    info, used = agent.provider.info, context_tokens(context)
    window = info.context_window
    free = _free_tokens(info, used) - compaction.note_tokens(info) - compaction.QUESTION_TOKENS
    tokens = max(window * LEAST_RESULTS_SHARE, min(window * RESULTS_SHARE, free))
    return chars_of(tokens / context.token_scale)


def _free_tokens(info: ModelInfo, used: int) -> int:
    """The tokens that are still free in the window, less the reserve of `SPARE_SHARE`."""
    return int(info.context_window * (1 - SPARE_SHARE)) - used


async def compact(
    agent: Agent,
    context: Context,
    emit: Emit,
    drop: Drop | None = None,
    wish: str | None = None,
    *,
    drops_all: bool = False,
) -> ContextReduced:
    """Replaces the messages so far by a note, verbatim texts, lists, and the newest messages, in
    one entry; with `drops_all` no message stays, because a server refuses them. `drop` is memory's
    answer, if it was asked already. `wish` says what the person who asked for the compaction wants
    in the note; None if no person asked.

    Raises: KodeError after three in a row that freed nothing; ProviderError; StorageError.
    """
    session, window = context.session, agent.provider.info.context_window
    if context.fruitless >= MAX_FRUITLESS_COMPACTIONS:
        raise KodeError(
            f"The conversation does not fit the window of {agent.provider.model} ({window} tokens) "
            f"even after {MAX_FRUITLESS_COMPACTIONS} compactions. Start over with `/new`, "
            f"{LARGER_WINDOW}"
        )
    emit(Working(what="Compacting the conversation"))
    if agent.before_compaction is not None:
        wish = await agent.before_compaction(wish is not None, wish or "")
    before_tokens, messages = context_tokens(context), list(session.messages)
    drop = drop or await agent.memory.before_drop(messages, "window")
    # The prompt, instructions and memory may leave less room than usual.
    share = 0.5**context.fruitless
    start = len(messages)
    if not drops_all:
        # Keeping more than a quarter of the conversation would free too little.
        room = int(min(window * KEPT_TAIL_SHARE, before_tokens / 4) * share)
        most = int(window * KEPT_EXCHANGE_SHARE * share)
        start = compaction.find_first_kept(messages, drop.keep, room, most)
    tail = messages[start:]
    kept_from = getattr(tail[0], "id", None) if tail else None
    before = compaction.messages_before(session, tail)
    summary = drop.recap
    if summary is None:
        free = _free_tokens(agent.provider.info, before_tokens)
        request = _make_request(agent, context, before_tokens)
        summary = await compaction.write_note(agent, session, request, wish or "", free)
    room = int(min(agent.config.context.keep_user_tokens, window / 5) * share)
    work = compaction.list_used_files(agent, [*before, *tail])
    session.append(
        CompactionEntry(
            opening=agent.opening(window),
            summary=summary,
            user_messages=compaction.verbatim_texts(before, room),
            plan=Plan(agent.place.plan).text_in_force,
            open_items=work["todo"],
            files_read=work["read"],
            files_changed=work["edit"],
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


async def reduce_after_overflow(
    agent: Agent, context: Context, emit: Emit, refused: Request
) -> None:
    """Compacts after a server refused a request as too large, whatever kode's own count says, and
    raises `token_scale` to match the server's. Raises as `compact`."""
    # Servers refuse a request that exceeds the window together with its output limit: by the
    # server's count it held at least the rest of the window.
    counted = agent.provider.info.context_window - (refused.max_output_tokens or 0)
    too_low = max(1.0, counted / max(1, context_tokens(context)))
    context.token_scale = min(MAX_TOKEN_SCALE, context.token_scale * too_low)
    context.known_messages = 0
    context.fruitless = max(context.fruitless, 1)  # what usually stays may be too large itself
    await compact(agent, context, emit)


async def drop_for_memory(agent: Agent, context: Context, emit: Emit) -> None:
    """Compacts if there are more messages than memory leaves unprocessed, in any window, and memory
    agrees. Raises as `compact`."""
    window, messages = agent.memory.message_window, context.session.messages
    if window is None or len(messages) < context.memory_declined_at + window:
        return
    # User messages and final answers, not tool traffic.
    said = sum(bool(text_of(m)) and not calls_of(m) for m in messages if m.role != "tool")
    if said <= window:
        return
    drop = await agent.memory.before_drop(list(messages), "window")
    if drop.keep is not None:
        await compact(agent, context, emit, drop)
    else:  # memory is asked again once the session has grown, not in every turn
        context.memory_declined_at = len(messages)


def is_compactable(agent: Agent, context: Context) -> bool:
    """Whether a compaction would free more tokens than its note takes: the newest exchange stays,
    and the opening and the person's own words are sent again beside the note."""
    messages = context.session.messages
    old = messages[: compaction.find_newest_exchange(messages)]
    typed = sum(tokens_of_text(text_of(message)) for message in old if message.role == "user")
    opening = sum(map(tokens_of_text, context.opening.values()))
    stays = opening + min(typed, agent.config.context.keep_user_tokens)
    return sum(map(tokens_of, old)) - stays >= MIN_COMPACTED_TOKENS


def window_parts(context: Context) -> dict[str, int]:
    """The tokens that the next request would have now, by kind, without empty kinds. They are
    estimates, scaled so that their sum matches `context_tokens`."""
    system = tokens_of_text(context.session.system)
    memory = min(tokens_of_text(context.sections.get("memory", "")), system)
    tools = fixed_tokens(context) - system
    kinds = {"system prompt": system - memory, "tools": tools, "memory": memory}
    kinds |= dict.fromkeys(("conversation", "calls and results", "summary of before"), 0)
    for message in context.session.messages:
        kinds["conversation"] += MESSAGE_TOKENS
        for part in message.parts:
            kind = _KINDS.get(getattr(part, "source", ""), "conversation")
            is_call = isinstance(part, ToolCall | ToolResult)
            kinds["calls and results" if is_call else kind] += tokens_of_part(part)
    scale = context_tokens(context) / max(1, sum(kinds.values()))
    return {kind: round(tokens * scale) for kind, tokens in kinds.items() if tokens}
