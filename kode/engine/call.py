"""Runs the calls of one reply: each is parsed, checked, put to the gate, run and clipped.

Neighbours run concurrently if their tools allow it, others alone. Each result is recorded first and
shown second: what a person saw as done is on disk. Every call gets a result, whatever happens.

    run_calls     one recorded result for each call of a reply
      _run_call     its result, whatever happens
        _perform      parse → judge each action → run each action
        _conclude     mask, clip, mark, count
"""

import asyncio
import re
import secrets
import time
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

from kode import durable
from kode.credentials import mask, redact
from kode.engine.action import Progress, effect_of, judge, parse
from kode.engine.agent import Agent
from kode.engine.command import Command, Settled, run_command, settle_ended
from kode.engine.context import room_for_results
from kode.engine.run import Effect, Run
from kode.engine.tokens import clip_middle
from kode.errors import KodeError, StorageError, ToolError, ToolRefused
from kode.events import Denial, ToolFinished, ToolStarted
from kode.extensions.familiar_calls import called
from kode.messages import Image, Refusal, ToolCall, ToolResult, failure_of
from kode.plain_text import fence_text
from kode.session.entries import JobEntry, MessageEntry
from kode.session.messages import notes
from kode.tool import Action, Decision, ToolContext, ToolOutput, WorkStep, group_changes
from kode.workplace import as_seen

MAX_RESULT_CHARS = 60_000
"""A safety net over the tools' own limits."""
NOTE_CHARS = 500
"""Room for what a tool says below its result."""

INTERRUPTED = "[Interrupted before it finished; its effect is unknown. Check before you repeat it.]"
STOPPED = "[The person interrupted the turn, and the command was stopped. Its output so far:]"
NOT_RUN = "[Not run: the person interrupted the turn.]"


@dataclass
class ResultBudget:
    """What the results of one reply may still take of the window; what a call leaves of its share,
    later ones may use."""

    left: int
    """In characters."""
    calls: int
    """Those that have no share yet."""

    def take(self) -> int:
        """The share of the next call."""
        share = min(MAX_RESULT_CHARS, self.left // max(1, self.calls))
        self.left, self.calls = self.left - share, self.calls - 1
        return share


@dataclass(frozen=True, kw_only=True)
class CallResult:
    """The result of a call: for the model, for a person, and what it brings besides."""

    result: ToolResult
    pictures: tuple[Image, ...]
    event: ToolFinished
    ended_job: str
    """The name of the background job whose end it tells; "" for none."""


async def run_calls(run: Run, calls: Sequence[ToolCall]) -> None:
    """Runs the calls of one reply and records each result. On a cancellation or a disk error, calls
    without a result get one that says so. Raises: StorageError."""
    waiting = {call.id: Progress(call) for call in calls}
    budget = ResultBudget(room_for_results(run.agent, run.context), len(calls))

    async def run_one(progress: Progress) -> None:
        done = await _run_call(run, progress, budget)
        # No await from here on: what is shown is recorded, and what is recorded is shown.
        _record(run, (done.result, *done.pictures), done.ended_job)
        del waiting[progress.call.id]
        run.emit(done.event)

    def may_run_beside(progress: Progress) -> bool:
        tool = called(run.agent.tools, progress.call.name)
        return tool is not None and tool.parallel

    try:
        for side_by_side, group in groupby([*waiting.values()], key=may_run_beside):
            if side_by_side:
                await _run_together(map(run_one, group))
                continue
            for progress in group:
                await run_one(progress)
    finally:
        if waiting:
            results = [_cut_short(run, progress) for progress in waiting.values()]
            _record(run, results)
            for progress, result in zip(waiting.values(), results, strict=True):
                if progress.is_running:
                    output = ToolOutput(text=result.text, summary="stopped")
                    run.emit(progress.finish(output, is_error=True, stopped=True))


def _record(run: Run, parts: Sequence[ToolResult | Image], ended_job: str = "") -> None:
    """Records results, with what the model has not been told yet."""
    session, (first, *rest) = run.context.session, parts
    unreported = session.unreported
    news = notes(
        entry
        for entry in unreported
        if not (isinstance(entry, JobEntry) and entry.name == ended_job)
    )
    if isinstance(first, ToolResult) and news:
        text = "\n".join(note.text for note in news)
        first = replace(first, text=f"{first.text}\n\n{mask(text, run.agent.secrets)}")
    ids = tuple(entry.id for entry in unreported)
    run.record(MessageEntry(role="tool", parts=(first, *rest), notes_of=ids))


async def run_aside(run: Run, call: ToolCall) -> tuple[ToolResult, Sequence[Image]]:
    """Runs a call made by the person's own command as if by the model: the gate decides, events are
    emitted. Only the outside sources of its result are recorded. Raises: StorageError."""
    budget = ResultBudget(room_for_results(run.agent, run.context), 1)
    done = await _run_call(run, Progress(call), budget)
    if run.untrusted:
        run.record()
    run.emit(done.event)
    return done.result, done.pictures


async def _run_together(running: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Waits for all; the first fault cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for coroutine in running:
                tasks.create_task(coroutine)
    except ExceptionGroup as faults:
        raise faults.exceptions[0] from None


def _cut_short(run: Run, progress: Progress) -> ToolResult:
    if not progress.is_running:
        return failure_of(progress.call, NOT_RUN, cut="not_run")
    output, text = progress.output_so_far, INTERRUPTED
    if output is not None:
        text = mask("\n".join((STOPPED, output.text, *output.notes)), run.agent.secrets)
        if output.untrusted:
            run.untrusted.append(output.untrusted)
            text = fence_text(text, output.untrusted)
    return failure_of(progress.call, text, cut="interrupted")


async def _run_call(run: Run, progress: Progress, budget: ResultBudget) -> CallResult:
    progress.share, progress.started = budget.take(), time.monotonic()
    error: Exception | None = None
    try:
        output = await _perform(run, progress)
    except KodeError as fault:
        error, text = fault, str(fault)
        output = ToolOutput(text=text, summary=_first_line(text))
        if isinstance(fault, ToolRefused):
            for_model = f"{text} {fault.instead}".strip()
            output = ToolOutput(text=for_model, summary=text, refusals=(fault.refusal,))
        source = fault.untrusted if isinstance(fault, ToolError) else ""
        progress.untrusted = source or progress.untrusted
    except Exception as fault:  # a fault in kode must not end the turn
        error, output = fault, _bug(run.agent, progress.name, fault)
    return await _conclude(run, progress, output, error, budget)


async def _perform(run: Run, progress: Progress) -> ToolOutput:
    """Parses, judges and runs a call. Raises: KodeError; anything for a fault in kode."""
    judged = [await judge(run, action, progress) for action in parse(run.agent, progress)]
    if any(action.change for action, _ in judged):
        progress.describe(run.agent, [action for action, _ in judged])
    for action, context in judged if len(judged) > 1 else ():
        if action.tool.preview:  # all can be done, or none is
            action.tool.preview(context, action.arguments)
    name, subject = progress.name, progress.subject
    run.emit(ToolStarted(call_id=progress.call.id, name=name, subject=subject))
    progress.is_running, progress.started = True, time.monotonic()
    if all(context.decision.only_reads for _, context in judged):
        progress.effects = set()
    return _join([await _run_action(run, progress, *step) for step in judged])


async def _run_action(
    run: Run, progress: Progress, action: Action, context: ToolContext
) -> ToolOutput:
    agent, decision = run.agent, context.decision
    progress.untrusted = decision.untrusted or progress.untrusted
    runs_programs = action.tool.effect in ("run", "mcp", "delegate") and not decision.only_reads
    if runs_programs:  # also where it is cut short
        run.evidence.note(WorkStep(ran_programs=True))
    output = await agent.around(action, partial(_run_tool, agent, action, context))
    if action.change:
        output = replace(output, notes=(*output.notes, f"[{action.change}]"))
    # Of a line that changed files and ran programs, nothing tells which came last.
    is_edit, line = bool(output.files_changed), decision.line
    runs_programs = runs_programs and not (is_edit and line is not None and line.only_edits)
    is_watched = agent.background is not None and agent.background.is_busy
    step = WorkStep(checks=output.checks, is_edit=is_edit, ran_programs=runs_programs or is_watched)
    run.note_work(output.files_changed, output.agent_steps or (step,))
    well = (None, 0, 1) if line is not None and line.exit_one_is_answer else (None, 0)
    if output.exit_status not in well or any(status for _, status in output.checks):
        progress.has_failed = True
    source = output.untrusted or progress.untrusted
    progress.untrusted = source or _find_source(agent, action, output, decision)
    return output


def _find_source(agent: Agent, action: Action, output: ToolOutput, decision: Decision) -> str:
    """The outside source of the project files that were read; "" for none."""
    read: Sequence[str] | None = output.files_read
    if action.tool.effect == "run":
        read = decision.line.reads if decision.line is not None else None
    return "" if read == () else agent.marks.find_source(read)


async def _run_tool(agent: Agent, action: Action, context: ToolContext) -> ToolOutput:
    """Runs a tool after saving what it may change, so that the turn can be undone."""
    tool, path = action.tool, action.path

    async def run() -> ToolOutput:
        output = await tool.run(context, action.arguments)
        return ToolOutput(text=output) if isinstance(output, str) else output

    if tool.effect == "run":
        return await run_command(Command(agent=agent, action=action, context=context))
    if tool.effect != "edit" or not path:
        return await run()
    if as_seen(agent.place, path) != path:
        # The session's own /tmp: no part of the work, or of undo.
        return replace(await run(), files_changed=())
    async with agent.undo.step([path]) as saved:
        if saved.problem:
            raise StorageError(saved.problem)
        output = await run()
        # At once: checkers that look at the edit may take long, and other sessions may begin.
        agent.marks.record(output.files_changed)
        if path in output.files_changed and path in agent.seen_files:
            saved.written[path] = agent.seen_files[path]
        if agent.sandbox is not None:
            await asyncio.to_thread(agent.sandbox.refresh_running_commands, output.files_changed)
        return output


def _join(outputs: Sequence[ToolOutput]) -> ToolOutput:
    """The result of a call that stands for several."""
    first, *others = outputs
    if not others:
        return first
    return replace(
        first,
        text="\n".join(output.text for output in outputs),
        summary=", ".join(output.summary for output in outputs),
        diff="".join(output.diff for output in outputs),
        notes=tuple(note for output in outputs for note in output.notes),
        refusals=tuple(refusal for output in outputs for refusal in output.refusals),
        lost=tuple(path for output in outputs for path in output.lost),
        files_changed=tuple(path for output in outputs for path in output.files_changed),
    )


async def note_late_changes(run: Run) -> None:
    """Notes what commands and subagents in the background changed and checked that have ended."""
    session_id = run.context.session.id
    if run.agent.background is not None:
        for output in run.agent.background.take_work(session_id):
            run.note_work(output.files_changed, output.agent_steps)
    for command, settled in await settle_ended(run.agent, session_id):
        changed = settled.files_changed
        run.note_work(changed, (WorkStep(is_edit=bool(changed), ran_programs=True),))
        if denials := list_denials(command, settled):
            run.denials += denials
            lost = _edits_of(group.path for group in group_changes(settled.dropped))
            run.evidence.refuse(effect_of(command.action), denials, lost)


def list_denials(command: Command, settled: Settled) -> list[Denial]:
    """What was not kept of a command in the background, as the result of a turn lists it."""
    tool, subject = command.action.tool.name, command.action.subject
    refusals = (refusal for refusal in settled.refusals if refusal.by != "mode")
    return [_denial(tool, subject, refusal, command.agent.secrets) for refusal in refusals]


def _denial(tool: str, subject: str, refusal: Refusal, values: tuple[str, ...]) -> Denial:
    # Whoever reads the result of a turn needs no word about what the model is to do then.
    reason = refusal.for_person if refusal.by == "person" else refusal.for_model
    return Denial(tool=tool, subject=mask(subject, values), reason=mask(reason, values))


def _edits_of(paths: Iterable[str]) -> set[Effect]:
    return {("edit", path) for path in paths}


async def _conclude(
    run: Run,
    progress: Progress,
    output: ToolOutput,
    error: Exception | None,
    budget: ResultBudget,
) -> CallResult:
    """The result of a call, as it is recorded and shown."""
    agent, call, untrusted = run.agent, progress.call, progress.untrusted
    output = _mask_all(output, agent.secrets)
    _note_effects(run, progress, output, is_done=error is None)
    if untrusted:
        run.untrusted.append(untrusted)
    by_commands = agent.undo.changed_by_commands
    if changed := (*output.files_changed, *by_commands):
        agent.marks.record(changed, untrusted)
        by_commands.clear()
    text, *cut = _clip_to_share(agent, progress, output.text)
    output = replace(output, text=text, notes=(*output.notes, *cut))
    whole = output.for_model
    budget.left += max(0, progress.share - _size(whole))
    for_model = fence_text(whole, mask(untrusted, agent.secrets)) if untrusted else whole
    if agent.late:
        await note_late_changes(run)
    if reminder := run.repeats.note(call, whole):
        for_model = f"{for_model}\n\n{reminder}"
    return CallResult(
        result=ToolResult(
            call_id=call.id,
            name=call.name,
            text=for_model,
            is_error=error is not None,
            lasting=output.lasting,
            refusals=output.refusals,
            exit_status=output.exit_status,
        ),
        pictures=tuple(replace(picture, call_id=call.id) for picture in output.pictures),
        event=progress.finish(
            replace(output, summary=output.summary or _first_line(output.text)),
            is_error=error is not None,
            refused=isinstance(error, ToolRefused),
            failed=progress.has_failed,
        ),
        ended_job=output.ended_job,
    )


def _mask_all(output: ToolOutput, values: tuple[str, ...]) -> ToolOutput:
    hide = partial(mask, values=values)
    return replace(
        output,
        text=hide(output.text),
        notes=tuple(map(hide, output.notes)),
        diff=hide(output.diff),
        refusals=tuple(
            replace(refusal, message=hide(refusal.message), decisive=hide(refusal.decisive))
            for refusal in output.refusals
        ),
    )


def _note_effects(run: Run, progress: Progress, output: ToolOutput, *, is_done: bool) -> None:
    """Notes what was refused of a call, and what it did."""
    name, subject = progress.name, progress.subject
    denials = [_denial(name, subject, refusal, ()) for refusal in output.refusals]
    run.denials += denials
    effects, edits = progress.effects, _edits_of(output.files_changed)
    run.evidence.note_effects(edits | effects if is_done and not denials else edits)
    for effect in effects if denials and output.refusals[0].by != "mode" else ():
        run.evidence.refuse(effect, denials, _edits_of(output.lost))


def _size(text: str) -> int:
    """In bytes: a character of some scripts takes as much of the window as three others."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _clip_to_share(agent: Agent, progress: Progress, text: str) -> tuple[str, ...]:
    """The text if it fits, else its two ends, with a note: then all of it is in a file, which is
    named, and marked, since sessions without a file share a folder."""
    size, room = _size(text), progress.share
    if size <= room + NOTE_CHARS:
        return (text,)
    name = re.sub(r"\W", "_", progress.call.name, flags=re.ASCII)[:60]
    path = agent.place.outputs / f"{name}-{secrets.token_hex(4)}.txt"
    try:
        durable.make_folder(path.parent)
        durable.replace(path, redact(text).encode("utf-8", "replace"))
        agent.marks.record((str(path),), progress.untrusted)
        where = f"[All of it is in {path}: read it with read_file, or search it.]"
    except (StorageError, OSError) as error:
        where = f"[It could not be kept whole: {error}]"
    return clip_middle(text, room * len(text) // size), where


def _bug(agent: Agent, name: str, error: Exception) -> ToolOutput:
    where = f" {agent.report_bug(error)}" if agent.report_bug else ""
    text = f"{name} failed because of an internal error in kode ({type(error).__name__}: {error})."
    return ToolOutput(text=f"{text} Try another way.", summary=f"internal error in kode.{where}")


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= 100 else line[:99] + "…"
