"""Builds what the model gets: the system prompt, the tools, and messages that fit its window.

`prepare` is the only way in: memory, project files and compaction enter the loop through it. What
is sent is a pure function of the session's entries; each decision made here becomes an entry first.

A compaction keeps the newest exchange and replaces what is older by a note (see `compaction`). The
note is asked for inside the conversation, so the model has read all that it replaces. Only where
that does not fit is the oldest output of calls dropped before: each loses facts that nobody wrote
down, and changes the beginning that a server has in its cache. Nothing is dropped that no request
has carried: of what the newest reply asked for, every result stays.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile

from kode.credentials import redact
from kode.engine import compaction
from kode.engine.agent import Agent
from kode.engine.tokens import chars_of, least_for_note, room_for_note, tokens_of, tokens_of_text
from kode.errors import LARGER_WINDOW, LimitError
from kode.events import ContextReduced, Emit, Working
from kode.memory.contract import Drop, InjectReason
from kode.messages import Message, Part, Text, calls_of, results_of, text_of
from kode.provider import ModelInfo, Request, ToolSpec
from kode.session.entries import (
    BETWEEN_SECTIONS,
    CompactionEntry,
    MessageEntry,
    PruneEntry,
    RequestEntry,
    SectionUpdateEntry,
    SystemEntry,
)
from kode.session.log import Session
from kode.session.masking import mask
from kode.session.plan import plan_in_force
from kode.session.requests import tool_object
from kode.tool import CALLS_ANY
from kode.tools.builtin import offered

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
MIN_PRUNED_SHARE = 0.05
"""Dropping less than this share of the window is not worth a changed prefix."""
HEADINGS = {
    "given": "# Your instructions have changed since this session began",
    "appended": "# Further instructions have changed since this session began",
    "servers": "# The MCP servers have changed since this session began: see mcp_search",
}
"""Sections whose changes the model is told at the end, because what was sent stays as it was. A
session keeps kode's own text that it began with. Memory tells its own changes."""
NO_LONGER = "There is no such thing any more: what was said of it before no longer counts."
"""Replaces a section of the opening that disappeared while the session was closed."""


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

    @property
    def system(self) -> str:
        return self.session.system

    @property
    def memory(self) -> str:
        """Memory's section of the system prompt."""
        return self.sections.get("memory", "")


async def open_context(agent: Agent, context: Context, reason: InjectReason) -> None:
    """Called when a session opens and after a compaction. A session has one beginning: system
    prompt and tools are rendered once and stored, and are the same bytes in every request until a
    compaction. What has changed since goes into the next message."""
    session, injection = context.session, await agent.memory.inject(reason)
    context.pending_section = ""
    begun = session.beginning
    if begun is None or not begun.tools or not session.messages or reason == "compacted":
        begun = None
    if agent.small and (begun is None or "memory" not in begun.sections):
        section = _memory_to_send(session, injection.system)
        context.pending_section = "memory" if section else ""
        first_user = "\n\n".join(filter(None, (section, injection.first_user)))
        injection = replace(injection, system="", first_user=first_user)
    # Masked, because a later process has only what is on disk.
    rendered = agent.render_system({"memory": injection.system})
    sections = {name: redact(text) for name, text in rendered.items()}
    begun = begun or _begin(agent, session, sections, reason)
    context.sections = begun.texts
    context.specs = tuple(ToolSpec(**tool) for tool in begun.tools)
    known = {**context.sections, **session.section_texts}
    has_pair = any(spec.name == CALLS_ANY for spec in context.specs)
    sections["servers"] = "\n".join(agent.servers) if has_pair else known.get("servers", "")
    context.news = section_changes(sections, known)
    context.opening, context.pending_first_user = _opening(agent), injection.first_user
    context.known_tokens = context.known_messages = 0


def _begin(
    agent: Agent, session: Session, sections: Mapping[str, str], reason: InjectReason
) -> SystemEntry:
    """Records the beginning of the requests to come, unless it is the same."""
    tools = offered(agent.tools, "kode" if agent.small else agent.tool_format)
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
    told = SectionUpdateEntry(section="servers", text="\n".join(agent.servers))
    if begun is not None and (begun.text, begun.tools) == (entry.text, entry.tools):
        return begun
    session.append(entry, *([told] if agent.servers else ()))
    assert session.beginning is not None
    return session.beginning


def section_changes(
    now: Mapping[str, str], known: Mapping[str, str]
) -> tuple[tuple[SectionUpdateEntry, str], ...]:
    """For each section that differs from what the model knows: the record of the new text, and the
    words for the model. Both map a section's name to its text. Instructions that are not given
    again still hold."""
    return tuple(
        (
            SectionUpdateEntry(section=name, text=text),
            f"{heading}\n{_describe_change(known.get(name, ''), text)}",
        )
        for name, heading in HEADINGS.items()
        if _lines(text := now.get(name, "")) != _lines(known.get(name, ""))
        and (text or name == "servers")
    )


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _describe_change(before: str, after: str) -> str:
    """The lines of a section that are new, and those that are gone; all of it where that is
    shorter."""
    if not after:
        return "There is nothing in it any more."
    old, new = _lines(before), _lines(after)
    steps = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    added = [line for kind, _, _, i, j in steps if kind != "equal" for line in new[i:j]]
    gone = [line for kind, i, j, _, _ in steps if kind != "equal" for line in old[i:j]]
    lines = (["New:", *added] if added else []) + (["No longer there:", *gone] if gone else [])
    changed = "\n".join(lines)
    return changed if before and len(changed) < len(after) else after


def news_parts(context: Context) -> tuple[Text, ...]:
    """What the next message tells of the changed sections."""
    return tuple(Text(text=text, source="news") for _, text in context.news)


def record_news(context: Context) -> None:
    """Records that it has been told. Raises: StorageError."""
    told, context.news = context.news, ()
    if told:
        context.session.append(*(entry for entry, _ in told))


def _memory_to_send(session: Session, section: str) -> str:
    """Memory's section for a message before the person's next one; "" if the messages contain it.
    In a system prompt tools follow it, and distract a weak model."""
    texts = (
        part.text
        for message in reversed(session.messages)
        for part in message.parts
        if isinstance(part, Text) and part.section_name == "memory"
    )
    held = next(texts, "")
    section = section if section or not held else _no_longer(held)
    return "" if _is_same(held, section) else section


def _opening(agent: Agent) -> Mapping[str, str]:
    return agent.opening(agent.provider.info.context_window)


def missing_opening(context: Context) -> tuple[Text, ...]:
    """The opening sections that the messages lack, for the next message: all in a new session,
    later those that changed, so that what was sent stays unchanged."""
    held: dict[str, str] = {}
    for message in reversed(context.session.messages):
        # They are always the first parts of their message.
        for part in takewhile(_is_opening, message.parts):
            assert isinstance(part, Text)
            held.setdefault(part.section_name, part.text)
    missing = {
        name: text
        for name, text in context.opening.items()
        if not _is_same(held.pop(name, ""), text)
    }
    gone = {name: _no_longer(text) for name, text in held.items() if text != _no_longer(text)}
    return tuple(
        Text(text=text, source="opening", section_name=name)
        for name, text in (*missing.items(), *gone.items())
    )


def _is_opening(part: Part) -> bool:
    return isinstance(part, Text) and part.source == "opening"


def _is_same(held: str, text: str) -> bool:
    return held == text or held == redact(text)  # a session's file holds no keys


def _no_longer(section: str) -> str:
    """What takes the place of a section."""
    heading = section.partition("\n")[0]
    return f"{heading}\n{NO_LONGER}"


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
    return tokens_of_text(context.system) + tools


def note_usage(context: Context, message: Message) -> None:
    """Updates the token count from a reply's usage, which includes the reply."""
    if message.usage is None or message.usage.input_tokens == 0:
        return
    context.known_tokens = message.usage.input_tokens + message.usage.output_tokens
    context.known_messages = len(context.session.messages)


async def prepare(agent: Agent, context: Context, emit: Emit) -> Request:
    """Builds the next request, reducing the context first if the window is too full.

    Raises: LimitError after compactions that freed nothing; ProviderError from the summary's
    request; StorageError.
    """
    limit = int(agent.provider.info.context_window * agent.limits.compact_at)
    if _outgrows_memory_window(agent, context):
        await _let_memory_take(agent, context, emit)
    while context_tokens(context) > limit and _can_free(agent, context):
        await compact(agent, context, emit)
    limit = _room_for_output(agent.provider.info, context_tokens(context))
    return replace(_request(agent, context), max_output_tokens=limit)


def _request(agent: Agent, context: Context) -> Request:
    return Request(
        system=context.system,
        messages=context.session.messages,
        tools=context.specs,
        small=agent.small,
        effort=agent.effort,
        search=agent.search,
        # Siblings, and a fork and its origin, begin alike: one name lets a server find that.
        conversation=context.session.header.parent or context.session.header.id,
    )


def _can_free(agent: Agent, context: Context) -> bool:
    """Whether a compaction would free anything, or has to: if there is only the newest exchange,
    it is sent as long as it fits."""
    messages, info = context.session.messages, agent.provider.info
    is_compacted = _is_note(messages[0]) if messages else False
    if compaction.newest_exchange(messages) > is_compacted:
        return True
    most = info.context_window * (1 - SPARE_SHARE) - _least_output(info)
    return context_tokens(context) > most


def _is_note(message: Message) -> bool:
    return any(isinstance(part, Text) and part.source == "compaction" for part in message.parts)


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


def _room_for_output(info: ModelInfo, context_tokens: int) -> int:
    """The token limit of the reply: the model's maximum, or what the request leaves of the window.
    Without a limit a model that repeats itself never ends; servers refuse a request that exceeds
    the window together with its limit."""
    room = info.context_window * (1 - SPARE_SHARE) - context_tokens
    return max(1, min(info.max_output_tokens, max(_least_output(info), int(room))))


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


def prune(agent: Agent, context: Context, emit: Emit) -> bool:
    """Drops the oldest output of calls, all but the newest `keep_tool_output_tokens` (at most a
    quarter of the window, so that small windows gain too) and the results of the newest reply. In
    one large step, since each changes the beginning that a server has in its cache; returns whether
    there was enough of it."""
    before_tokens = context_tokens(context)
    entry = _old_output(agent, context.session)
    if entry is None:
        return False
    context.session.append(entry)
    context.known_messages = 0
    after_tokens = context_tokens(context)
    emit(ContextReduced(kind="tool_output", tokens_before=before_tokens, tokens_after=after_tokens))
    return True


def _old_output(agent: Agent, session: Session) -> PruneEntry | None:
    window = agent.provider.info.context_window
    room = min(agent.limits.keep_tool_output_tokens, window // 4)
    entry, dropped = None, 0
    # Newest first. All but those of the last message were carried by the request that the next
    # reply answered.
    answered = [message for message in session.messages if message.role == "tool"]
    for message in reversed(answered):
        for count, result in reversed(list(enumerate(results_of(message), 1))):
            size = tokens_of_text(result.text)
            room -= size
            if room < 0 and message is not answered[-1] and isinstance(message, MessageEntry):
                entry = entry or PruneEntry(before=message.id, results=count)
                dropped += size
    return entry if dropped >= window * MIN_PRUNED_SHARE else None


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
    if context.fruitless >= MAX_FRUITLESS_COMPACTIONS:
        raise LimitError(
            f"The conversation does not fit the window of {agent.provider.model} "
            f"({agent.provider.info.context_window} tokens) even after "
            f"{MAX_FRUITLESS_COMPACTIONS} compactions. Start over with `/new`, {LARGER_WINDOW}"
        )
    emit(Working(what="Compacting the conversation"))
    if agent.before_compaction is not None:
        wish = await agent.before_compaction(by_person, wish)
    info, session = agent.provider.info, context.session
    window = info.context_window
    before_tokens = context_tokens(context)
    drop = drop or await agent.memory.before_drop(list(session.messages), "window")
    if drop.recap is None and _room_behind(agent, context) < least_for_note(info):
        prune(agent, context, emit)
    messages = list(session.messages)
    # The prompt, instructions and memory may leave less room than usual.
    share = 0.5**context.fruitless
    room = min(window * KEPT_TAIL_SHARE, before_tokens / 4) * share
    most = window * KEPT_EXCHANGE_SHARE * share
    start = len(messages)
    if not drops_all:
        start = compaction.first_kept(messages, drop.keep, int(room), int(most))
    tail = messages[start:]
    before = compaction.words_before(session, tail)
    summary = drop.recap
    if summary is None:
        behind = _room_behind(agent, context)
        asked = _request(agent, context)
        summary = await compaction.note_on(agent, session, asked, wish, behind)
    room = min(agent.limits.keep_user_tokens, window / 5) * share
    words = compaction.own_words(before, int(room))
    read, changed = compaction.files_of(agent, [*before, *tail])
    first = tail[0] if tail else None
    kept_from = first.id if isinstance(first, MessageEntry) else None
    opening = _opening(agent)
    session.append(
        CompactionEntry(
            opening=tuple(opening.values()),
            opening_names=tuple(opening),
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
    """Lets memory process messages although the window has room. If that fails, nothing is dropped,
    and memory is asked again only when the session has grown: a failing memory must not cost a
    compaction per request. Raises as `compact`."""
    drop = await agent.memory.before_drop(list(context.session.messages), "window")
    if drop.keep is None:
        context.memory_declined_at = len(context.session.messages)
        return
    await compact(agent, context, emit, drop)


async def reduce_after_overflow(
    agent: Agent, context: Context, emit: Emit, refused: Request
) -> None:
    """Drops old output, or compacts, after the provider refused a request as too large, whatever
    kode's own count says. Raises as `compact`."""
    # Servers refuse a request that exceeds the window together with its output limit: by the
    # server's count it held at least the rest of the window.
    counted = agent.provider.info.context_window - (refused.max_output_tokens or 0)
    too_low = max(1.0, counted / max(1, context_tokens(context)))
    context.token_scale = min(MAX_TOKEN_SCALE, context.token_scale * too_low)
    context.known_messages = 0
    if not prune(agent, context, emit):
        # What usually stays may be what is too much.
        context.fruitless = max(context.fruitless, 1)
        await compact(agent, context, emit)


def _outgrows_memory_window(agent: Agent, context: Context) -> bool:
    """Whether memory wants to process messages before the window is full: counts user messages and
    final answers, not tool traffic."""
    window, messages = agent.memory.message_window, context.session.messages
    if window is None or len(messages) <= window:
        return False
    if context.memory_declined_at and len(messages) < context.memory_declined_at + window:
        return False
    spoken = sum(bool(text_of(m)) and not calls_of(m) for m in messages if m.role != "tool")
    return spoken > window


def compactable_tokens(agent: Agent, context: Context) -> int:
    """How many tokens a note would replace now; 0 if it would take as many. The newest exchange
    stays, and the opening and the person's words go beside the note."""
    messages, window = context.session.messages, agent.provider.info.context_window
    newest = compaction.newest_exchange(messages)
    fits = sum(map(tokens_of, messages[newest:])) <= window * KEPT_EXCHANGE_SHARE
    gone = messages[:newest] if fits else messages
    said = sum(tokens_of_text(text_of(message)) for message in gone if message.role == "user")
    opening = sum(tokens_of_text(text) for text in context.opening.values())
    most = min(agent.limits.keep_user_tokens, window // 5)
    tokens = sum(map(tokens_of, gone)) - min(said, most) - opening
    return tokens if tokens >= MIN_COMPACTED_TOKENS else 0
