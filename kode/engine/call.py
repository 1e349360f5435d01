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
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from kode import durable
from kode.credentials import mask, redact
from kode.engine.action import Progress, effect_of, judge, parse
from kode.engine.agent import Agent
from kode.engine.command import Command, join_outputs, run_command, settle_ended
from kode.engine.context import room_for_results
from kode.engine.run import Effect, Run
from kode.engine.tokens import clip_middle, size_of
from kode.errors import KodeError, StorageError, ToolRefused
from kode.events import Denial, ToolStarted
from kode.extensions.familiar_calls import called
from kode.messages import Image, Refusal, ToolCall, ToolResult, failure_of, shorten
from kode.plain_text import fence_text
from kode.session.entries import JobEntry, MessageEntry
from kode.session.messages import notes
from kode.tool import ToolOutput, WorkStep
from kode.workplace import as_seen

MAX_RESULT_CHARS = 60_000  # a safety net over the tools' own limits
NOTE_CHARS = 500  # room for what a tool says below its result
SUMMARY_CHARS = 100  # one line

INTERRUPTED = "[Interrupted before it finished; its effect is unknown. Check before you repeat it.]"
STOPPED = "[The person interrupted the turn, and the command was stopped. Its output so far:]"
NOT_RUN = "[Not run: the person interrupted the turn.]"


async def run_calls(run: Run, calls: Sequence[ToolCall]) -> None:
    """Runs the calls of one reply and records each result. On a cancellation or a disk error, calls
    without a result get one that says so. Raises: StorageError."""
    waiting = {call.id: Progress(call, run.agent.secrets) for call in calls}
    run.result_chars, run.calls_left = room_for_results(run.agent, run.context), len(calls)

    async def run_one(progress: Progress) -> None:
        result, output = await _run_call(run, progress)
        # No await from here on: what is shown is recorded, and what is recorded is shown.
        _record(run, result, *output.pictures, ended_job=output.ended_job)
        del waiting[progress.call.id]
        run.emit(progress.finish(output))

    def find_company(progress: Progress) -> str:
        """Neighbours with the same company run side by side."""
        tool = called(run.agent.tools, progress.call.name)
        return "" if tool is not None and tool.parallel else progress.call.id

    try:
        for _, group in groupby([*waiting.values()], key=find_company):
            async with asyncio.TaskGroup() as tasks:
                for progress in group:
                    tasks.create_task(run_one(progress))
    except ExceptionGroup as faults:  # the first has cancelled the others
        raise faults.exceptions[0] from None
    finally:
        if waiting:
            _cut_short(run, waiting.values())


def _record(run: Run, result: ToolResult, *others: ToolResult | Image, ended_job: str = "") -> None:
    """Records results, with what the model has not been told yet; not of the job whose end they
    tell."""
    unreported = run.context.session.unreported
    news = notes(
        entry
        for entry in unreported
        if not (isinstance(entry, JobEntry) and entry.name == ended_job)
    )
    if news:
        text = mask("\n".join(note.text for note in news), run.agent.secrets)
        result = replace(result, text=f"{result.text}\n\n{text}")
    ids = tuple(entry.id for entry in unreported)
    run.record(MessageEntry(role="tool", parts=(result, *others), notes_of=ids))


def _cut_short(run: Run, waiting: Collection[Progress]) -> None:
    """Records a result for each call that the end of the turn leaves without one."""
    results = [_result_of_cut(run, progress) for progress in waiting]
    _record(run, *results)
    for progress, result in zip(waiting, results, strict=True):
        if progress.started:
            output = ToolOutput(text=result.text, summary="stopped")
            run.emit(progress.finish(output, stopped=True))


def _result_of_cut(run: Run, progress: Progress) -> ToolResult:
    if not progress.started:
        return failure_of(progress.call, NOT_RUN, cut="not_run")
    output, text = progress.output_so_far, INTERRUPTED
    if output is not None:
        text = mask("\n".join((STOPPED, output.text, *output.notes)), run.agent.secrets)
        if output.untrusted:
            run.untrusted.append(output.untrusted)
            text = fence_text(text, output.untrusted)
    return failure_of(progress.call, text, cut="interrupted")


async def run_aside(run: Run, call: ToolCall) -> tuple[ToolResult, Sequence[Image]]:
    """Runs a call made by the person's own command as if by the model: the gate decides, events are
    emitted. Only the outside sources of its result are recorded. Raises: StorageError."""
    progress = Progress(call, run.agent.secrets)
    run.result_chars, run.calls_left = room_for_results(run.agent, run.context), 1
    result, output = await _run_call(run, progress)
    if run.untrusted:
        run.record()
    run.emit(progress.finish(output))
    return result, output.pictures


async def _run_call(run: Run, progress: Progress) -> tuple[ToolResult, ToolOutput]:
    """The result of a call, as it is recorded, and its output, as it is shown."""
    progress.share = min(MAX_RESULT_CHARS, run.result_chars // max(1, run.calls_left))
    run.result_chars, run.calls_left = run.result_chars - progress.share, run.calls_left - 1
    try:
        output = await _perform(run, progress)
    except ToolRefused as fault:
        progress.error, text = fault, f"{fault} {fault.instead}".strip()
        output = ToolOutput(text=text, summary=str(fault), refusals=(fault.refusal,))
    except KodeError as fault:
        progress.error, output = fault, ToolOutput(text=str(fault))
    except Exception as fault:  # a fault in kode must not end the turn
        progress.error, output = fault, _bug(run.agent, progress.name, fault)
    progress.untrusted = getattr(progress.error, "untrusted", "") or progress.untrusted
    return await _conclude(run, progress, output)


async def _perform(run: Run, progress: Progress) -> ToolOutput:
    """Parses, judges and runs a call. Raises: KodeError; anything for a fault in kode."""
    commands = [await judge(run, action, progress) for action in parse(run.agent, progress)]
    progress.actions = [command.action for command in commands]
    for command in commands if len(commands) > 1 else ():
        if preview := command.action.tool.preview:  # all can be done, or none is
            preview(command.context, command.action.arguments)
    name, subject = progress.name, progress.subject
    run.emit(ToolStarted(call_id=progress.call.id, name=name, subject=subject))
    progress.started = time.monotonic()
    if all(command.context.decision.only_reads for command in commands):
        progress.effects = set()
    return join_outputs([await _run_action(run, progress, command) for command in commands])


async def _run_action(run: Run, progress: Progress, command: Command) -> ToolOutput:
    agent, action, decision = run.agent, command.action, command.context.decision
    line, is_command = decision.line, action.tool.effect == "run"
    progress.untrusted = decision.untrusted or progress.untrusted
    runs_programs = action.tool.effect in ("run", "mcp", "delegate") and not decision.only_reads
    if runs_programs:  # also where it is cut short
        run.evidence.note(WorkStep(ran_programs=True))
    output = await agent.around(action, partial(_run_tool, command))
    if action.change:
        output = replace(output, notes=(*output.notes, f"[{action.change}]"))
    # Of a line that changed files and ran programs, nothing tells which came last.
    is_edit = bool(output.files_changed)
    runs_programs = runs_programs and not (is_edit and line is not None and line.only_edits)
    is_watched = agent.background is not None and bool(agent.background.running())
    step = WorkStep(checks=output.checks, is_edit=is_edit, ran_programs=runs_programs or is_watched)
    run.note_work(output.files_changed, output.agent_steps or (step,))
    well = (None, 0, 1) if line is not None and line.exit_one_is_answer else (None, 0)
    if output.exit_status not in well or any(status for _, status in output.checks):
        progress.has_failed = True
    read: Sequence[str] | None = output.files_read
    if is_command:
        read = line.reads if line is not None else None
    source = output.untrusted or progress.untrusted
    progress.untrusted = source or agent.marks.find_source(read)
    return output


async def _run_tool(command: Command) -> ToolOutput:
    """Runs a tool after saving for undo what it may change."""
    agent, effect, path = command.agent, command.action.tool.effect, command.action.path
    if effect == "run":
        return await run_command(command)
    if effect != "edit" or not path:
        return await command.run()
    if as_seen(agent.place, path) != path:
        # The session's own /tmp: no part of the work, or of undo.
        return replace(await command.run(), files_changed=())
    async with agent.undo.step([path]) as saved:
        if saved.problem:
            raise StorageError(saved.problem)
        output = await command.run()
        # At once: checkers that look at the edit may take long, and other sessions may begin.
        agent.marks.record(output.files_changed)
        if path in output.files_changed and path in agent.seen_files:
            saved.written[path] = agent.seen_files[path]
        if agent.sandbox is not None:
            await asyncio.to_thread(agent.sandbox.refresh_running_commands, output.files_changed)
        return output


async def note_late_changes(run: Run) -> None:
    """Notes what commands and subagents in the background changed and checked that have ended."""
    agent, session_id = run.agent, run.context.session.id
    if agent.background is not None:
        for output in agent.background.take_work(session_id):
            run.note_work(output.files_changed, output.agent_steps)
    for command, output in await settle_ended(agent, session_id):
        run.note_work(output.files_changed, output.agent_steps)
        if denials := list_denials(command, output):
            run.denials += denials
            run.evidence.refuse(effect_of(command.action), denials, _edits_of(output.lost))


def list_denials(command: Command, output: ToolOutput) -> list[Denial]:
    """What was not kept of a command in the background, as the result of a turn lists it."""
    tool, subject = command.action.tool.name, command.action.subject
    refusals = (refusal for refusal in output.refusals if refusal.by != "mode")
    return [_denial(tool, subject, refusal, command.agent.secrets) for refusal in refusals]


def _denial(tool: str, subject: str, refusal: Refusal, values: tuple[str, ...]) -> Denial:
    # Whoever reads the result of a turn needs no word about what the model is to do then.
    reason = refusal.for_person if refusal.by == "person" else refusal.for_model
    return Denial(tool=tool, subject=mask(subject, values), reason=mask(reason, values))


def _edits_of(paths: Iterable[str]) -> set[Effect]:
    return {("edit", path) for path in paths}


async def _conclude(
    run: Run, progress: Progress, output: ToolOutput
) -> tuple[ToolResult, ToolOutput]:
    agent, call, source = run.agent, progress.call, progress.untrusted
    output = _mask_all(output, agent.secrets)
    _note_effects(run, progress, output)
    if source:
        run.untrusted.append(source)
    agent.marks.record((*output.files_changed, *agent.undo.changed_by_commands), source)
    agent.undo.changed_by_commands.clear()
    text, *cut = _clip_to_share(agent, progress, output.text)
    output = replace(
        output,
        text=text,
        notes=(*output.notes, *cut),
        summary=output.summary or shorten(text.strip().partition("\n")[0], SUMMARY_CHARS),
        pictures=tuple(replace(picture, call_id=call.id) for picture in output.pictures),
    )
    whole = output.for_model
    run.result_chars += max(0, progress.share - size_of(whole))
    for_model = fence_text(whole, mask(source, agent.secrets)) if source else whole
    await note_late_changes(run)
    if reminder := run.repeats.note(call, whole):
        for_model = f"{for_model}\n\n{reminder}"
    result = ToolResult(
        call_id=call.id,
        name=call.name,
        text=for_model,
        is_error=progress.error is not None,
        lasting=output.lasting,
        refusals=output.refusals,
        exit_status=output.exit_status,
    )
    return result, output


def _mask_all(output: ToolOutput, values: tuple[str, ...]) -> ToolOutput:
    hide = partial(mask, values=values)
    return replace(
        output,
        text=hide(output.text),
        summary=hide(output.summary),
        notes=tuple(map(hide, output.notes)),
        diff=hide(output.diff),
        refusals=tuple(
            replace(refusal, message=hide(refusal.message), decisive=hide(refusal.decisive))
            for refusal in output.refusals
        ),
    )


def _note_effects(run: Run, progress: Progress, output: ToolOutput) -> None:
    """Notes what was refused of a call, and what it did."""
    name, subject = progress.name, progress.subject
    denials = [_denial(name, subject, refusal, ()) for refusal in output.refusals]
    run.denials += denials
    effects, edits = progress.effects, _edits_of(output.files_changed)
    run.evidence.note_effects(edits if denials or progress.error else edits | effects)
    for effect in effects if denials and output.refusals[0].by != "mode" else ():
        run.evidence.refuse(effect, denials, _edits_of(output.lost))


def _clip_to_share(agent: Agent, progress: Progress, text: str) -> tuple[str, ...]:
    """The text if it fits, else its two ends, with a note: then all of it is in a file, which is
    named, and marked, since sessions without a file share a folder."""
    size, room = size_of(text), progress.share
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
