"""A turn: from a person's text to an answer, in steps. Read this first.

Two promises hold, Ctrl-C and kill -9 included. Every message is on disk before the next thing
starts. Every tool call in a session has a result, or is given one when the session is loaded, so
that it can always be sent to a model again.

    run_turn     records the text, runs the steps under the time limit, tells how it ended
      _steps     ask → record → no calls: done; calls: run and record each, again
        _ask     one reply; after an overflow room is made, once
        _act     the results of a reply's calls, one for each, recorded whatever happens
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from kode.contracts import Turn
from kode.engine.act import Tally, cut_short, run_calls
from kode.engine.agent import Agent
from kode.engine.context import (
    Context,
    context_tokens,
    make_room_after_overflow,
    note_usage,
    prepare,
    tell_pending,
)
from kode.engine.reply import Partial, ask
from kode.engine.tokens import BYTES_PER_TOKEN, clip_middle
from kode.errors import KodeError, LimitError, OverflowError_, ProviderError, StorageError
from kode.events import (
    Emit,
    Notice,
    Replied,
    Status,
    StepStarted,
    TurnEnded,
    TurnStarted,
)
from kode.messages import Image, Message, Text, ToolResult, Usage, calls_of, failure_of, text_of
from kode.session.entries import MessageEntry, StateEntry, TaintEntry, TurnEntry
from kode.session.log import Session
from kode.session.told import said

MAX_CUT_REPLIES = 3
"""Replies in a row whose calls the token limit cut, before the turn gives up."""

LEAST_PARTIAL_CHARS = 60_000
"""Of a reply that broke off at least so much is kept, and what the model may say at most."""

CUT_CALL = (
    "Not run: the reply hit the output limit of {model}, so this call may be incomplete. "
    "Do it in smaller pieces, for example several edits instead of one large file."
)


@dataclass
class Progress:
    """What a turn has come to so far; the same figures end on disk and on the screen."""

    started: float = field(default_factory=time.monotonic)
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    answer: str = ""
    tally: Tally = field(default_factory=Tally)
    first_message: int = 0
    """Index in the session's entries where this turn begins."""


async def run_turn(
    agent: Agent,
    session: Session,
    context: Context,
    text: str,
    emit: Emit,
    attachments: Sequence[Text | Image] = (),
) -> TurnEnded:
    """Runs one turn to its end and says how it ended; what happened is on disk by then.

    A cancellation of the calling task becomes the status `interrupted`, the time limit becomes
    `timeout`, any fault of provider, limits or disk becomes `error`.

    Raises: StorageError when the person's own text could not be recorded: nothing was done.
    """
    number = session.turns + 1
    progress = Progress(first_message=len(session.entries))
    status: Status = "success"
    error: str | None = None
    timeout_s = agent.limits.timeout_s
    agent.spend.steps = 0
    agent.spend.turn_ends_at = None if timeout_s is None else progress.started + timeout_s
    try:
        async with asyncio.timeout(timeout_s):
            recalled = await agent.memory.recall(
                Turn(number=number, text=text, tainted=session.tainted)
            )
            _record_text(session, context, text, recalled, attachments)
            emit(TurnStarted(text=text))
            await _steps(agent, session, context, progress, emit)
    except TimeoutError:
        status, error = "timeout", f"The time limit of {agent.limits.timeout_s:g} s was reached."
    except asyncio.CancelledError:
        status, error = "interrupted", "Interrupted."
        _absorb_cancellation()
    except KodeError as fault:
        if session.turns < number:
            raise
        status, error = "error", str(fault)
    if session.turns < number:  # ended while memory was recalling: what was asked is kept
        _record_text(session, context, text, "", attachments)
    turn = Turn(
        number=number,
        text=text,
        answer=progress.answer,
        status=status,
        messages=tuple(said(session.entries[progress.first_message :])),
        steps=progress.steps,
        tools=tuple(progress.tally.tools),
        files_changed=tuple(progress.tally.files_changed),
        tainted=session.tainted,
    )
    ended = TurnEnded(
        status=status,
        result=progress.answer,
        error=error,
        steps=progress.steps,
        usage=progress.usage,
        cost_usd=progress.cost_usd,
        files_changed=turn.files_changed,
        denials=tuple(progress.tally.denials),
        duration_ms=int((time.monotonic() - progress.started) * 1000),
    )
    await _settle(agent, session, turn, ended, emit)
    emit(ended)
    return ended


def save_memory_state(agent: Agent, session: Session) -> None:
    """Keeps what memory wants kept in the session, when it has changed."""
    state = dict(agent.memory.state())
    if state != dict(session.state(agent.memory.name)):
        session.append(StateEntry(system=agent.memory.name, state=state))


def _record_text(
    session: Session,
    context: Context,
    text: str,
    recalled: str,
    attachments: Sequence[Text | Image],
) -> None:
    tell_pending(session, context)
    if any(isinstance(part, Text) and part.source == "outside" for part in attachments):
        session.append(TaintEntry(source="an attached or piped text"))
    memory = (Text(text=recalled, source="memory"),) if recalled else ()
    session.append_message(Message(role="user", parts=(*memory, *attachments, Text(text=text))))


async def _steps(
    agent: Agent, session: Session, context: Context, progress: Progress, emit: Emit
) -> None:
    cut = 0
    while True:
        _check_limits(agent, progress)
        progress.steps += 1
        agent.spend.steps += 1
        message = await _ask(agent, session, context, progress, emit)
        calls = calls_of(message)
        if calls and message.stop == "length":
            cut += 1
            refused = CUT_CALL.format(model=agent.provider.model)
            results = tuple(failure_of(call, refused) for call in calls)
            session.append_message(Message(role="tool", parts=results))
            if cut == MAX_CUT_REPLIES:
                raise ProviderError(
                    f"{MAX_CUT_REPLIES} replies in a row were cut at the output limit of "
                    f"{agent.provider.model} in the middle of a tool call. Ask for smaller steps."
                )
            continue
        cut = 0
        if calls:
            await _act(agent, session, message, progress, emit)
            continue
        progress.answer = text_of(message)
        return _check_answer(agent, message)


def _check_answer(agent: Agent, message: Message) -> None:
    if message.stop == "length":
        raise ProviderError(
            f"The answer was cut at the output limit of {agent.provider.model}. "
            "Ask it to go on to get the rest."
        )
    if message.stop == "refusal":
        raise ProviderError("The model refused this request. Put the task in other words.")
    if not text_of(message).strip():
        raise ProviderError("The model gave an empty answer. Ask again, or use another model.")


def _check_limits(agent: Agent, progress: Progress) -> None:
    limits = agent.limits
    if progress.steps >= limits.max_steps:
        raise LimitError(
            f"The limit of {limits.max_steps} steps was reached. Go on with `kode continue`, or "
            "raise it with `--max-steps`."
        )
    tree_steps = agent.spend.steps + agent.spend.elsewhere_steps
    if limits.max_tree_steps is not None and tree_steps >= limits.max_tree_steps:
        raise LimitError(
            f"The limit of {limits.max_tree_steps} steps for the agent and its subagents together "
            "was reached. Go on with `kode continue`, or raise it with `--max-steps`."
        )
    spent_usd = agent.spend.cost_usd + agent.spend.elsewhere_usd
    if limits.max_budget_usd is not None and spent_usd >= limits.max_budget_usd:
        raise LimitError(
            f"The budget of ${limits.max_budget_usd:g} is used up "
            f"(${spent_usd:.4f} spent). Go on with a higher `--max-budget-usd`."
        )


async def _ask(
    agent: Agent, session: Session, context: Context, progress: Progress, emit: Emit
) -> Message:
    """One reply, recorded. What had streamed of a reply that never came whole is recorded too."""
    overflowed = False
    while True:
        request = await prepare(agent, session, context, emit)
        emit(StepStarted(step=progress.steps))
        partial = Partial(emit)
        try:
            message = await ask(agent.provider, request, partial, agent.limits.max_attempts)
            break
        except OverflowError_:
            if overflowed:
                raise
            overflowed = True
            await make_room_after_overflow(agent, session, context, emit)
        except (asyncio.CancelledError, ProviderError):
            progress.answer = partial.text
            _record_partial(agent, session, partial.text)
            raise
    _record_reply(agent, session, context, message, progress, emit)
    return message


def _record_reply(
    agent: Agent,
    session: Session,
    context: Context,
    message: Message,
    progress: Progress,
    emit: Emit,
) -> None:
    usage = message.usage or Usage()
    cost_usd = agent.cost_usd(usage)
    session.append_message(message, cost_usd)
    progress.usage += usage
    progress.cost_usd = (
        None if cost_usd is None or progress.cost_usd is None else progress.cost_usd + cost_usd
    )
    agent.spend.add(usage, cost_usd)
    note_usage(session, context, message)
    emit(
        Replied(
            message=message,
            usage=usage,
            cost_usd=cost_usd,
            context_tokens=context_tokens(session, context),
            context_window=agent.provider.info.context_window,
        )
    )


def _record_partial(agent: Agent, session: Session, partial: str) -> None:
    """What the session keeps of a reply that broke off: all, unless it is a flood that no model
    says, which the next request would have to carry."""
    if not partial.strip():
        return
    model = agent.provider.model
    most = max(LEAST_PARTIAL_CHARS, int(agent.provider.info.max_output_tokens * BYTES_PER_TOKEN))
    parts = (Text(text=clip_middle(partial, most)),)
    session.append_message(Message(role="assistant", parts=parts, stop="interrupted", model=model))


async def _act(
    agent: Agent, session: Session, message: Message, progress: Progress, emit: Emit
) -> None:
    calls = {call.id: call for call in calls_of(message)}
    tally = progress.tally

    def record(*results: ToolResult) -> None:
        taints = [TaintEntry(source=source) for source in tally.untrusted]
        session.append(*taints, MessageEntry(role="tool", parts=results))
        tally.untrusted.clear()
        for result in results:
            calls.pop(result.call_id, None)

    try:
        await run_calls(agent, session.id, tuple(calls.values()), record, tally, emit)
    finally:
        if calls:
            record(*cut_short(calls.values(), tally))


async def _settle(agent: Agent, session: Session, turn: Turn, ended: TurnEnded, emit: Emit) -> None:
    """Memory sees the turn, then the turn's end goes on disk. Neither may undo the turn itself."""
    try:
        await agent.memory.after_turn(turn)
    except asyncio.CancelledError:
        _absorb_cancellation()
    try:
        save_memory_state(agent, session)
        session.append(
            TurnEntry(
                number=turn.number,
                status=ended.status,
                error=ended.error,
                steps=ended.steps,
                usage=ended.usage,
                cost_usd=ended.cost_usd,
                files_changed=ended.files_changed,
                duration_ms=ended.duration_ms,
                total_usage=session.usage,
                total_cost_usd=session.cost_usd + (ended.cost_usd or 0.0),
            )
        )
    except StorageError as fault:
        emit(Notice(text=str(fault), level="error"))


def _absorb_cancellation() -> None:
    """The interruption has been dealt with: later awaits of this task are not cancelled by it."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
