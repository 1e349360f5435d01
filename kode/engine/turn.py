"""A turn: from a person's text to an answer, in steps. Read this first.

Two promises hold, even through Ctrl-C and kill -9. Every message is on disk before the next step
starts. Every tool call in a session has a result, or gets one on loading, so that the session can
always be sent to a model again.

    run_turn     records the text, runs the steps within the time limit, returns how it ended
      _run_steps ask → record → no calls: done; calls: run and record each, repeat
        _ask_step       one recorded reply, after recovery from faults that allow it
        call.run_calls  one recorded result for each call of a reply, whatever happens
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

from kode.engine.agent import Agent
from kode.engine.call import note_late_changes, run_calls
from kode.engine.context import (
    compact,
    context_tokens,
    describe_news,
    drop_for_memory,
    missing_sections,
    prepare_request,
    record_pending,
    reduce_after_overflow,
)
from kode.engine.reply import ask_model, mark_search
from kode.engine.run import CIRCLE, Run
from kode.engine.tokens import chars_of, clip_middle
from kode.errors import (
    ContextOverflow,
    KodeError,
    ProviderError,
    RefusedError,
    Setting,
    StorageError,
    ThinkingRefused,
    Unavailable,
)
from kode.events import Notice, Replied, Status, Steered, StepStarted, TurnEnded, TurnStarted
from kode.memory.contract import Turn
from kode.messages import (
    Image,
    Message,
    Text,
    Usage,
    calls_of,
    failure_of,
    plural,
    text_of,
    user_message,
)
from kode.provider import Request
from kode.providers.models import cost_usd
from kode.session.entries import StateEntry, TaintEntry, TurnEntry, UnboundEntry
from kode.session.log import Session
from kode.session.messages import notes_on, visible_messages
from kode.values import fields, replace

LEAST_PARTIAL_CHARS = 60_000  # of an incomplete reply are kept; more if its model may write more
UNREAD_CALL = (
    "Nothing was run: your reply has a tool call in its text, and it cannot be read as one. "
    "Call tools through the tool interface, with all required arguments and no words before them. "
    "The tools: {tools}. "
    "To show a call without making it, write a sentence after it."
)
SILENT = "Your reply was empty. Continue with the task, or give your answer."
"""Sent once in a turn: some models fall silent after a result, and most answer when asked."""
OF_TREE = " for the agent and its subagents together"
CUT_CALL = (
    "Not run: the reply hit the output limit of {model}, so this call may be incomplete. "
    "Do it in smaller pieces, for example several edits instead of one large file."
)
RECORDED = {it.name for it in fields(TurnEnded)} & {it.name for it in fields(TurnEntry)} - {"type"}
"""The fields of the event of a turn's end that its entry records, too."""
_UNUSABLE = {
    "length": (
        3,
        "3 replies in a row were cut at the output limit of {model} in the middle of a tool call. "
        "Ask for smaller steps.",
    ),
    "malformed_call": (
        2,
        "The model {model} writes tool calls into its text, and they cannot be read: nothing was "
        "run. Have the server read them by the model's chat template (llama.cpp: start it with "
        "`--jinja`; vLLM: `--enable-auto-tool-choice --tool-call-parser NAME`; Ollama, LM Studio: "
        "take a model marked for tools), or use another model.",
    ),
    "paused": (
        10,
        "The server of {model} paused 10 times in a row while it ran its own tools. Send "
        "`continue` to go on.",
    ),
}
"""Stop reason of a reply that cannot be used as it is (a call cut at the output limit; a call in
its text that cannot be read; a pause amid a server's tools) → how many such replies in a row end
the turn, and what the person reads then."""


async def run_turn(
    run: Run, text: str, attachments: Sequence[Text | Image] = (), typed: str | None = None
) -> TurnEnded:
    """Runs one turn to its end and returns how it ended; everything is on disk by then. `typed` is
    the part of the text that the person typed; None: all of it.

    The status `incomplete` means that the model answered, but work was refused or a check failed
    last; `interrupted`, that the calling task was cancelled; `timeout`, that time ran out; `error`,
    a fault of the provider or the disk, or a limit that was reached.

    Raises: StorageError when the person's own text could not be recorded: nothing was done.
    """
    agent, session, timeout_s = run.agent, run.context.session, run.agent.config.timeout_s
    ends_at = None if timeout_s is None else run.started + timeout_s
    agent.spend.steps, agent.spend.turn_ends_at = 0, ends_at
    begins_at = len(session.entries)
    turn = Turn(number=session.turns + 1, text=text, tainted=bool(session.tainted_by))
    record = partial(_record_text, run, text, attachments, typed)
    status: Status = "success"
    error: str | None = None
    setting: Setting | None = None
    try:
        async with asyncio.timeout_at(ends_at):
            record(await agent.memory.recall(turn))
            run.emit(TurnStarted(text=text))
            await _run_steps(run)
            await note_late_changes(run)
        if error := run.evidence.explain_missing() or None:
            status = "incomplete"
    except TimeoutError:
        status, error = "timeout", f"The time limit of {timeout_s:g} s was reached."
    except asyncio.CancelledError:
        status, error = "interrupted", "Interrupted."
        _absorb_cancellation()
    except KodeError as fault:
        if not run.is_recorded:
            raise
        status, error, setting = "error", str(fault), fault.setting
    if not run.is_recorded:  # ended while memory was recalling: still keep the prompt
        record("")
    ended = TurnEnded(
        status=status,
        result=run.answer,
        error=error,
        setting=setting,
        steps=run.steps,
        usage=run.usage,
        cost_usd=run.cost_usd,
        files_changed=tuple(run.files_changed),
        denials=tuple(run.denials),
        refused=run.evidence.find_refused(),
        checks=run.evidence.checks(),
        checked=run.evidence.judge_checks(),
        fallback_model=run.fallback_model,
        duration_ms=int((time.monotonic() - run.started) * 1000),
    )
    messages = tuple(visible_messages(session.entries[begins_at:]))
    turn = replace(
        turn, answer=run.answer, status=status, messages=messages, tainted=bool(session.tainted_by)
    )
    await _settle_turn(run, turn, ended)
    run.emit(ended)
    return ended


def memory_state(agent: Agent, session: Session) -> tuple[StateEntry, ...]:
    """An entry with memory's state, if it differs from the one that the session has recorded."""
    name, state = agent.memory.name, dict(agent.memory.state())
    is_news = state != dict(session.states.get(name, {}))
    return (StateEntry(system=name, state=state),) if is_news else ()


def _record_text(
    run: Run, text: str, attachments: Sequence[Text | Image], typed: str | None, recalled: str
) -> None:
    context, session = run.context, run.context.session
    unreported = session.unreported
    record_pending(context)
    if "outside" in [getattr(part, "source", "") for part in attachments]:
        session.append(TaintEntry(source="an attached or piped text"))
    news = tuple(map(describe_news, context.news))
    name = "recall" if run.agent.small else ""
    memory = (Text(text=recalled, source="memory", section_name=name),) if recalled else ()
    opening = missing_sections(session, "opening", context.opening)
    parts = (*opening, *news, *memory, *notes_on(unreported), *attachments)
    session.begin_prompt(text, typed, parts, unreported)
    if news:
        session.append(*context.news)
        context.news = ()
    run.is_recorded = True


async def _run_steps(run: Run) -> None:
    trouble, in_a_row, was_silent = "", 0, False
    while True:
        _check_limits(run)
        if not run.steps:
            await drop_for_memory(run.agent, run.context, run.emit)
        message = await _ask_step(run)
        calls, before = calls_of(message), trouble
        is_answer = message.stop not in _UNUSABLE or (message.stop == "length" and not calls)
        trouble = "" if is_answer else message.stop or ""
        in_a_row = in_a_row + 1 if trouble == before else 1
        if trouble:
            _handle_trouble(run, message, trouble, in_a_row)
            continue
        if calls:
            await run_calls(run, calls)
            if run.repeats.circling:
                raise ProviderError(CIRCLE.format(name=run.repeats.circling))
        else:
            run.answer = text_of(message)
            if message.stop == "end" and not run.answer.strip() and not was_silent:
                was_silent = True
                run.context.session.append_message(user_message(SILENT, "note"))
                continue
            _check_answer(run, message)
        if steering := run.steering():
            _record_steering(run, steering)
        elif not calls:
            return


def _handle_trouble(run: Run, message: Message, trouble: str, in_a_row: int) -> None:
    """Lets the model reply again after a reply of no use. Raises: ProviderError to give up."""
    model, (most, advice) = run.agent.provider.model, _UNUSABLE[trouble]
    if trouble == "length":
        cut = (failure_of(call, CUT_CALL.format(model=model)) for call in calls_of(message))
        run.context.session.append_message(Message(role="tool", parts=tuple(cut)))
    elif trouble == "malformed_call" and in_a_row < most:
        tools = ", ".join(
            f"{spec.name}({', '.join(spec.parameters.get('required', ()))})"
            for spec in run.context.specs
        )
        note = user_message(UNREAD_CALL.format(tools=tools), "note")
        run.context.session.append_message(note)
    if in_a_row == most:
        raise ProviderError(advice.format(model=model))


def _record_steering(run: Run, texts: Iterable[Text]) -> None:
    """Records what the person typed since the last step."""
    for text in texts:
        message = Message(role="user", parts=(replace(text, source="steering"),))
        run.context.session.append_message(message)
        run.emit(Steered(text=text.text))


def _check_answer(run: Run, message: Message) -> None:
    if message.stop == "length":
        cut = f"The answer was cut at the output limit of {run.agent.provider.model}."
        raise ProviderError(f"{cut} Send `continue` to get the rest.")
    if message.stop == "refusal":
        raise ProviderError("The model refused this request. Rephrase the task.")
    if not run.answer.strip():
        raise ProviderError("The model gave an empty answer. Try again, or use another model.")


def _check_limits(run: Run) -> None:
    config, spend = run.agent.config, run.agent.spend
    max_tree_steps = spend.max_tree_steps or config.max_steps
    for whose, steps, most in (
        ("", run.steps, config.max_steps),
        (OF_TREE, spend.steps + spend.rest_of_tree_steps, max_tree_steps),
    ):
        if steps >= most:
            limit = f"The limit of {plural(most, 'step')}{whose}"
            raise KodeError(f"{limit} was reached. Raise it with `--max-steps`.")
    spent_usd = spend.cost_usd + spend.rest_of_tree_usd
    if config.max_budget_usd is not None and spent_usd >= config.max_budget_usd:
        budget = f"The budget of ${config.max_budget_usd:g} is used up (${spent_usd:.4f} spent)."
        raise KodeError(f"{budget} Continue with a higher `--max-budget-usd`.")
    if spend.shared is not None:
        spend.shared.check()


async def _ask_step(run: Run) -> Message:
    """Runs one step: gets and records a reply; of one that fails, what was streamed, and raises."""
    run.steps += 1
    run.agent.spend.steps += 1
    faults = Counter[type[BaseException]]()
    while True:
        agent, context = run.agent, run.context
        request = await prepare_request(agent, context, run.emit)
        run.emit(StepStarted(step=run.steps))
        asked_at, streamed = time.monotonic(), list[str]()
        try:
            message = await ask_model(agent, request, run.emit, streamed)
            break
        except (asyncio.CancelledError, ProviderError) as fault:
            faults[type(fault)] += 1
            if not await _try_recovery(run, fault, faults[type(fault)], request):
                _record_partial(run, "".join(streamed))
                raise
    usage, session, seconds = message.usage or Usage(), context.session, time.monotonic() - asked_at
    mark_search(session, message)
    cost, before = cost_usd(agent.provider.info, usage), run.cost_usd
    session.append_message(message, cost)
    run.usage += usage
    run.cost_usd = None if cost is None or before is None else before + cost
    agent.spend.count_request(usage, cost, agent.provider.model, seconds)
    if usage.input_tokens:  # the count includes the reply
        context.known_tokens = usage.input_tokens + usage.output_tokens
        context.known_messages = len(session.messages)
    run.emit(
        Replied(
            message=message,
            usage=usage,
            cost_usd=cost,
            context_tokens=context_tokens(context),
            context_window=agent.provider.info.context_window,
        )
    )
    return message


async def _try_recovery(run: Run, fault: BaseException, times: int, request: Request) -> bool:
    """Tries to remove the cause of a fault that came for the `times`-th time; False: it cannot."""
    agent, context, emit = run.agent, run.context, run.emit
    match fault:
        case ContextOverflow() if times == 1:
            await reduce_after_overflow(agent, context, emit, request)
        case ThinkingRefused() if times == 1:
            context.session.append(UnboundEntry(reason=str(fault)))
            context.known_messages = 0
            emit(Notice(text=f"{fault} kode continues without what the model thought so far."))
        case ThinkingRefused() if times == 2:
            emit(Notice(text=f"{fault} kode continues from a summary of what was said."))
            await compact(agent, context, emit, drops_all=True)
        case RefusedError() if context.answer_schema is not None and times == 1:
            context.answer_schema = None
            text = f"The server does not hold answers to this schema; asked without. {fault}"
            emit(Notice(text=text))
        case Unavailable() if agent.fall_back is not None:
            other = await agent.fall_back(agent, fault)
            if other is None:
                return False
            run.agent, run.fallback_model = other, other.provider.model
        case _:
            return False
    return True


def _record_partial(run: Run, partial: str) -> None:
    """Records what arrived of a reply, cut in the middle if it is longer than a reply can be."""
    run.answer, model = partial, run.agent.provider.model
    if partial.strip():
        most_chars = chars_of(run.agent.provider.info.max_output_tokens)
        parts = (Text(text=clip_middle(partial, max(LEAST_PARTIAL_CHARS, most_chars))),)
        message = Message(role="assistant", parts=parts, stop="interrupted", model=model)
        run.context.session.append_message(message)


async def _settle_turn(run: Run, turn: Turn, ended: TurnEnded) -> None:
    """Shows the turn to memory, then records its end. The turn counts even if this fails."""
    agent, session = run.agent, run.context.session
    try:
        await agent.memory.after_turn(turn)
    except asyncio.CancelledError:
        _absorb_cancellation()
    try:
        entry = TurnEntry(
            number=turn.number,
            total_usage=session.spent.usage,
            total_cost_usd=session.spent.cost_usd,
            session_name=session.name,
            **{name: getattr(ended, name) for name in RECORDED},
        )
        session.append(*memory_state(agent, session), entry)
    except StorageError as fault:
        if str(fault) != ended.error:  # a full disk ended the turn already
            run.emit(Notice(text=str(fault), level="error"))


def _absorb_cancellation() -> None:
    """Marks the interruption as handled: later awaits of this task are not cancelled by it."""
    if task := asyncio.current_task():
        task.uncancel()
