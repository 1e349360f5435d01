"""Runs the calls of one reply: each is parsed, checked, put to the gate, run and clipped.

Neighbours run concurrently if their tools allow it, others alone. Each result is recorded first and
shown second: what a person saw as done is on disk. Every call gets a result, whatever happens.
"""

import asyncio
import contextlib
import difflib
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, repeat
from typing import Any

from kode import durable, paths
from kode.credentials import mask, redact
from kode.engine.agent import Agent
from kode.engine.context import room_for_results
from kode.engine.fence import fence_text
from kode.engine.run import Effect, Run
from kode.engine.tokens import clip_middle
from kode.engine.trial import LATE, Command, Settled, refusal_of, run_command, settle_ended
from kode.errors import KodeError, StorageError, ToolError, ToolRefused
from kode.events import Denial, Emit, Event, Notice, ToolFinished, ToolStarted
from kode.events import ToolOutput as OutputEvent
from kode.extensions.familiar_calls import arguments as translate
from kode.extensions.familiar_calls import called
from kode.function_tool import parse_arguments
from kode.messages import Image, Refusal, ToolCall, ToolResult, failure_of, shorten
from kode.session.entries import JobEntry, MessageEntry, TaintEntry
from kode.session.messages import text_by_id
from kode.session.notes import notes
from kode.tool import (
    Opinion,
    Rewritten,
    Tool,
    ToolContext,
    ToolOutput,
    Verdict,
    WorkStep,
    group_changes,
)
from kode.workplace import as_seen, located, real_path

MAX_RESULT_CHARS = 60_000
"""A safety net over the tools' own limits."""
NOTE_CHARS = 500
"""Room for what a tool says below its result."""

MAX_CHANGE_CHARS = 500
"""Of a call that was changed, in the line about it; the session has all of it."""

INTERRUPTED = "[Interrupted before it finished; its effect is unknown. Check before you repeat it.]"
STOPPED = "[The person interrupted the turn, and the command was stopped. Its output so far:]"
NOT_RUN = "[Not run: the person interrupted the turn.]"


@dataclass
class Room:
    """What the results of one reply may still take of the window; what a call leaves of its share,
    later ones may use."""

    left: int
    """In characters."""
    calls: int
    """Those that have no share yet."""

    def share(self) -> int:
        """The share of the next call."""
        share = min(MAX_RESULT_CHARS, self.left // max(1, self.calls))
        self.left, self.calls = self.left - share, self.calls - 1
        return share


async def run_calls(run: Run, calls: Sequence[ToolCall]) -> None:
    """Runs the calls of one reply and records each result. On a cancellation or a disk error, calls
    without a result get one that says so. Raises: StorageError."""
    waiting = {call.id: call for call in calls}
    room = Room(room_for_results(run.agent, run.context), len(calls))

    def record(*parts: ToolResult | Image, ended_job: str = "") -> None:
        session, (first, *rest) = run.context.session, parts
        untold = session.untold
        unknown = (
            one for one in untold if not (isinstance(one, JobEntry) and one.name == ended_job)
        )
        if isinstance(first, ToolResult) and (news := notes(unknown)):
            text = "\n".join(note.text for note in news)
            first = replace(first, text=f"{first.text}\n\n{mask(text, run.agent.secrets)}")
        taints = [TaintEntry(source=source) for source in run.untrusted]
        ids = tuple(entry.id for entry in untold)
        message = MessageEntry(role="tool", parts=(first, *rest), notes_of=ids)
        session.append(*taints, message)
        run.untrusted.clear()
        for part in parts:
            if isinstance(part, ToolResult):
                waiting.pop(part.call_id, None)

    try:
        for side_by_side, group in groupby(calls, key=partial(_may_run_beside, run.agent)):
            if side_by_side:
                await _run_together(_run_one(run, call, record, room) for call in group)
                continue
            for call in group:
                await _run_one(run, call, record, room)
    finally:
        if waiting:
            cut_short = [(call, _cut_short(run, call)) for call in waiting.values()]
            record(*(result for _, result in cut_short))
            for call, result in cut_short:
                if call.id in run.begun:
                    run.emit(_stopped(run, call, result.text))


async def run_aside(run: Run, call: ToolCall) -> tuple[ToolResult, Sequence[Image]]:
    """Runs a call made by the person's own command as if by the model: the gate decides, events are
    emitted, outside sources go to `run.untrusted`. The result is not recorded, nor its pictures."""
    results: list[tuple[ToolResult, Sequence[Image]]] = []
    room = Room(room_for_results(run.agent, run.context), 1)

    def keep(result: ToolResult, *pictures: Image, ended_job: str = "") -> None:
        results.append((result, pictures))

    await _run_one(run, call, keep, room)
    return results[0]


async def _run_together(running: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Waits for all; the first fault cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for one in running:
                tasks.create_task(one)
    except ExceptionGroup as faults:
        raise faults.exceptions[0] from None


def _cut_short(run: Run, call: ToolCall) -> ToolResult:
    if call.id not in run.begun:
        return failure_of(call, NOT_RUN, cut="not_run")
    output = run.outputs.get(call.id)
    if output is None:
        return failure_of(call, INTERRUPTED, cut="interrupted")
    text = mask("\n".join((STOPPED, output.text, *output.notes)), run.agent.secrets)
    if output.untrusted:
        run.untrusted.append(output.untrusted)
        text = fence_text(text, output.untrusted)
    return failure_of(call, text, cut="interrupted")


def _stopped(run: Run, call: ToolCall, text: str) -> ToolFinished:
    name, subject, started = run.begun[call.id]
    return ToolFinished(
        call_id=call.id,
        name=name,
        subject=subject,
        is_error=True,
        summary="stopped",
        stopped=True,
        text=text,
        duration_ms=int((time.monotonic() - started) * 1000),
    )


async def _run_one(run: Run, call: ToolCall, record: Callable[..., None], room: Room) -> None:
    agent, started, share = run.agent, time.monotonic(), room.share()
    name, subject, untrusted, refused, is_work, command_failed = (
        call.name,
        "",
        "",
        False,
        False,
        False,
    )
    try:
        tool = _tool_named(agent, call.name)
        name = tool.name
        arguments = translate(tool, parse_arguments(call, free_text=bool(tool.grammar)))
        subject = mask(subject_of(tool, arguments), agent.secrets)
        parts = parts_of(tool, arguments)
        name = parts[0][0].name
        parts = [(tool, _without_label(agent, tool, given)) for tool, given in parts]
        subjects = dict.fromkeys(subject_of(tool, given) for tool, given in parts)
        subject = mask(", ".join(subjects), agent.secrets)
        parts = [(tool, tool.check(given)) for tool, given in parts]
        is_work = any(_is_work(tool, arguments) for tool, arguments in parts)
        steps = [await _allowed(run, call, tool, given, share) for tool, given in parts]
        if any(step.context.rewritten for step in steps):
            is_work = any(_is_work(step.tool, step.arguments) for step in steps)
            subjects = dict.fromkeys(subject_of(step.tool, step.arguments) for step in steps)
            subject = mask(", ".join(subjects), agent.secrets)
        for step in steps if len(steps) > 1 else ():
            if step.tool.preview:  # all can be done, or none is
                step.tool.preview(step.context, step.arguments)
        run.emit(ToolStarted(call_id=call.id, name=name, subject=subject))
        started = time.monotonic()
        run.tools.append((name, subject))
        run.begun[call.id] = (name, subject, started)
        is_work = is_work and not all(step.verdict.only_reads for step in steps)
        outputs = []
        for step in steps:
            tool, verdict = step.tool, step.verdict
            untrusted = verdict.untrusted or untrusted
            run_it = partial(_run_kept, agent, tool, step.arguments, step.context, verdict)
            output = await agent.around(tool, step.arguments, step.context, run_it)
            if step.context.rewritten:
                output = replace(output, notes=(*output.notes, f"[{step.context.rewritten}]"))
            outputs.append(output)
            run.files_changed.update(dict.fromkeys(output.files_changed))
            for work in output.agent_steps or (_work_step(agent, tool, output, verdict),):
                run.evidence.note(work)
            command_failed = command_failed or _is_failure(output, verdict)
            untrusted = (
                output.untrusted or untrusted or _outside_source(agent, tool, output, verdict)
            )
        output, failed = _joined(outputs), False
    except KodeError as error:
        refused = isinstance(error, ToolRefused)
        said = str(error)
        untrusted = (error.untrusted if isinstance(error, ToolError) else "") or untrusted
        output, failed = ToolOutput(text=said, summary=_first_line(said)), True
        if isinstance(error, ToolRefused):
            text = f"{said} {error.instead}".strip()
            output = ToolOutput(text=text, summary=said, refusals=(error.refusal,))
    except Exception as error:  # a fault in kode must not end the turn
        output, failed = _bug(agent, name, error), True
    refusals = tuple(_masked(refusal, agent.secrets) for refusal in output.refusals)
    denials = [Denial(tool=name, subject=subject, reason=refusal.for_model) for refusal in refusals]
    run.denials += denials
    effects = {_effect(agent, tool, given) for tool, given in parts} if is_work else set()
    made = {*zip(repeat("edit"), output.files_changed, strict=False)}
    run.evidence.did(made if refusals or failed else made | effects)
    for effect in effects if refusals and refusals[0].by != "mode" else ():
        run.evidence.refuse(effect, denials, zip(repeat("edit"), output.lost, strict=False))
    if untrusted:
        run.untrusted.append(untrusted)
    by_commands = agent.undo.changed_by_commands
    if changed := (*output.files_changed, *by_commands):
        agent.marks.record(changed, untrusted)
        by_commands.clear()
    text, *cut = _within(agent, call, mask(output.text, agent.secrets), share, untrusted)
    notes = (*(mask(note, agent.secrets) for note in output.notes), *cut)
    whole = "\n".join((text, *notes))
    room.left += max(0, share - _size(whole))
    for_model = fence_text(whole, mask(untrusted, agent.secrets)) if untrusted else whole
    if LATE:
        await note_late_changes(run)
    if reminder := run.repeats.note(call, whole):
        for_model = f"{for_model}\n\n{reminder}"
    took_s = time.monotonic() - started if output.ran_s is None else output.ran_s
    # No await in between: what is shown is recorded, and what is recorded is shown.
    result = ToolResult(
        call_id=call.id,
        name=call.name,
        text=for_model,
        is_error=failed,
        lasting=output.lasting,
        refusals=refusals,
        exit_status=output.exit_status,
    )
    pictures = (replace(picture, call_id=call.id) for picture in output.pictures)
    record(result, *pictures, ended_job=output.ended_job)
    run.emit(
        ToolFinished(
            call_id=call.id,
            name=name,
            subject=subject,
            is_error=failed,
            summary=output.summary or _first_line(text),
            text=text,
            notes=notes,
            diff=mask(output.diff, agent.secrets),
            duration_ms=int(took_s * 1000),
            refused=refused,
            failed=command_failed,
            exit_status=output.exit_status,
            checks=output.checks,
            refusals=refusals,
        )
    )


@dataclass(frozen=True)
class _Step:
    """A call that the gate has allowed."""

    tool: Tool
    arguments: Mapping[str, Any]
    context: ToolContext
    verdict: Verdict


async def _allowed(
    run: Run, call: ToolCall, tool: Tool, arguments: Mapping[str, Any], room: int
) -> _Step:
    """Raises: ToolRefused, and ToolError if the call cannot succeed."""
    agent, asked = run.agent, arguments
    context = _tool_context(run, call, _real_path(agent, tool, arguments), room)
    for intercept in agent.interceptors:
        said = await intercept(tool, arguments, context)
        if isinstance(said, Verdict):
            verdict = said
            break
        if isinstance(said, Rewritten):
            arguments = _rewritten(agent, tool, said)
            context = replace(
                context,
                judged_path=_real_path(agent, tool, arguments),
                opinion=_gravest(_but_allowing(context.opinion), said.opinion),
                rewritten=_change(tool, asked, arguments, said.by) if arguments != asked else "",
            )
            if context.rewritten:
                run.emit(Notice(text=mask(context.rewritten, agent.secrets)))
        elif said is not None:
            context = replace(context, opinion=_gravest(context.opinion, said))
    else:
        verdict = await agent.gate.check(tool, arguments, context)
    if not verdict.allowed:
        instead = f"{verdict.instead} {context.rewritten}".strip()
        raise ToolRefused(verdict.reason, refusal=refusal_of(verdict), instead=instead)
    context = replace(context, checks=verdict.checks, only_seen=verdict.only_seen)
    return _Step(tool, arguments, context, verdict)


_GRAVITY = ("allow", "ask", "plan")


def _but_allowing(opinion: Opinion | None) -> Opinion | None:
    return None if opinion is None or opinion.outcome == "allow" else opinion


def _gravest(before: Opinion | None, now: Opinion | None) -> Opinion | None:
    """The opinion that counts: nothing that allows outweighs what asks."""
    opinions = [opinion for opinion in (now, before) if opinion is not None]
    return max(opinions, key=lambda one: _GRAVITY.index(one.outcome), default=None)


def _rewritten(agent: Agent, tool: Tool, wanted: Rewritten) -> Mapping[str, Any]:
    """Raises: ToolError."""
    try:
        given = translate(tool, wanted.arguments)
        return tool.check(_without_label(agent, tool, given))
    except ToolError as error:
        raise ToolError(f"{wanted.by} made a call of this one that cannot run: {error}") from error


def _change(tool: Tool, asked: Mapping[str, Any], now: Mapping[str, Any], by: str) -> str:
    """What somebody changed in a call, in a sentence."""
    before, after = subject_of(tool, asked), subject_of(tool, now)
    if before != after:
        return f"{by} changed this call: `{_short(after)}` instead of `{_short(before)}`."
    names = [name for name in {**asked, **now} if asked.get(name) != now.get(name)]
    parts = (f"`{name}` is now {_short(json.dumps(now.get(name), default=str))}" for name in names)
    return f"{by} changed this call: {', '.join(parts)}."


def _short(text: str) -> str:
    return shorten(text, MAX_CHANGE_CHARS)


def _masked(refusal: Refusal, secrets: tuple[str, ...]) -> Refusal:
    message, decisive = mask(refusal.message, secrets), mask(refusal.decisive, secrets)
    return replace(refusal, message=message, decisive=decisive)


def parts_of(tool: Tool, arguments: Mapping[str, Any]) -> Sequence[tuple[Tool, Mapping[str, Any]]]:
    """The calls that a call stands for, with unchecked arguments. Raises: ToolError."""
    return ((tool, arguments),) if tool.parts is None else tool.parts(tool.check(arguments))


def _joined(outputs: Sequence[ToolOutput]) -> ToolOutput:
    """The result of a call that stands for several."""
    first, *others = outputs
    if not others:
        return first
    return replace(
        first,
        text="\n".join(output.text for output in outputs),
        notes=tuple(note for output in outputs for note in output.notes),
        refusals=tuple(refusal for output in outputs for refusal in output.refusals),
        summary=", ".join(output.summary for output in outputs),
        diff="".join(output.diff for output in outputs),
        lost=tuple(path for output in outputs for path in output.lost),
        files_changed=tuple(path for output in outputs for path in output.files_changed),
    )


def _work_step(agent: Agent, tool: Tool, output: ToolOutput, verdict: Verdict) -> WorkStep:
    is_edit = bool(output.files_changed)
    # Of a line that changed files and ran programs, nothing tells which came last.
    is_harmless = verdict.only_reads or (is_edit and verdict.only_edits)
    ran_programs = tool.effect in ("run", "mcp", "delegate") and not is_harmless
    is_watched = agent.background is not None and agent.background.is_busy
    return WorkStep(checks=output.checks, is_edit=is_edit, ran_programs=ran_programs or is_watched)


async def note_late_changes(run: Run) -> None:
    """Notes what commands and subagents in the background changed and checked that have ended."""
    if run.agent.background is not None:
        for output in run.agent.background.take_work(run.context.session.id):
            run.files_changed.update(dict.fromkeys(output.files_changed))
            for work in output.agent_steps:
                run.evidence.note(work)
    for command, settled in await settle_ended(run.context.session.id):
        run.files_changed.update(dict.fromkeys(settled.files_changed))
        run.evidence.note(WorkStep(is_edit=bool(settled.files_changed), ran_programs=True))
        if denials := list_denials(command, settled):
            run.denials += denials
            lost = (group.path for group in group_changes(settled.dropped))
            effect = _effect(run.agent, command.tool, command.arguments)
            run.evidence.refuse(effect, denials, zip(repeat("edit"), lost, strict=False))


def list_denials(command: Command, settled: Settled) -> list[Denial]:
    """What was not kept of a command in the background, as the result of a turn lists it."""
    secrets = command.agent.secrets
    subject = mask(subject_of(command.tool, command.arguments), secrets)
    return [
        Denial(tool=command.tool.name, subject=subject, reason=mask(refusal.for_model, secrets))
        for refusal in settled.refusals
        if refusal.by != "mode"
    ]


def _is_failure(output: ToolOutput, verdict: Verdict) -> bool:
    """Whether a command failed, or a check in it."""
    well = (None, 0, 1) if verdict.answers else (None, 0)
    return output.exit_status not in well or any(status for _, status in output.checks)


async def _run_kept(
    agent: Agent,
    tool: Tool,
    arguments: Mapping[str, Any],
    context: ToolContext,
    verdict: Verdict,
) -> ToolOutput:
    """Runs a tool after saving what it may change, so that the turn can be undone."""
    if tool.effect == "run":
        context = replace(context, untrusted=verdict.untrusted)
        command = Command(agent=agent, tool=tool, arguments=arguments, context=context)
        return await run_command(command, verdict)
    path = context.judged_path
    if tool.effect != "edit" or not path:
        return _as_output(await tool.run(context, arguments))
    if (
        as_seen(agent.place, path) != path
    ):  # the session's own /tmp: no part of the work, or of undo
        return replace(_as_output(await tool.run(context, arguments)), files_changed=())
    async with agent.undo.step([path]) as saved:
        if saved.problem:
            raise StorageError(saved.problem)
        output = _as_output(await tool.run(context, arguments))
        # At once: checkers that look at the edit may take long, and other sessions may begin.
        agent.marks.record(output.files_changed)
        if path in output.files_changed and path in agent.seen_files:
            saved.written[path] = agent.seen_files[path]
        if agent.sandbox is not None:
            await asyncio.to_thread(agent.sandbox.show, output.files_changed)
        return output


def _is_work(tool: Tool, arguments: Mapping[str, Any]) -> bool:
    """Whether a call does more than read or remember."""
    effect = tool.effect_of(arguments) if tool.effect_of else tool.effect
    return effect in ("edit", "run", "fetch", "mcp", "delegate")


def _effect(agent: Agent, tool: Tool, arguments: Mapping[str, Any]) -> Effect:
    """Calls with the same effect: an edit of the same file, whatever the tool; the same command; of
    other tools, the same arguments."""
    if path := _real_path(agent, tool, arguments):
        return "edit", path
    same = subject_of(tool, arguments) if tool.effect == "run" else ""
    return tool.name, same or json.dumps(arguments, sort_keys=True, default=str)


def _outside_source(agent: Agent, tool: Tool, output: ToolOutput, verdict: Verdict) -> str:
    """The outside source of the project files that were read."""
    read = verdict.reads if tool.effect == "run" else output.files_read
    return "" if read == () else agent.marks.find_source(read)


def _as_output(output: ToolOutput | str) -> ToolOutput:
    return ToolOutput(text=output) if isinstance(output, str) else output


def subject_of(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """The argument that identifies a call, on one line."""
    if tool.target is not None:
        return tool.target(arguments)
    value = arguments.get(tool.subject, "") if tool.subject else ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class PreviewedCall:
    """A call whose outcome is not known yet, as far as its arguments tell."""

    event: ToolStarted
    """As its start would be announced."""
    effect: str = ""
    """The tool's; "" for a name that means no tool."""
    arguments: Mapping[str, Any]
    """In the tool's terms, credentials in use masked; empty if they are no JSON object."""


def preview_call(agent: Agent, call: ToolCall) -> PreviewedCall:
    """A call for display. Never raises, whatever its arguments are."""
    text = mask(call.arguments, agent.secrets)
    try:
        arguments = json.loads(text, parse_constant=lambda name: None)  # `NaN` is not JSON
    except (ValueError, RecursionError):
        arguments = None
    is_object = isinstance(arguments, dict)
    tool, subject = called(agent.tools, call.name), ""
    if tool is None:
        event = ToolStarted(call_id=call.id, name=call.name, subject="")
        return PreviewedCall(event=event, arguments=arguments if is_object else {})
    whole = arguments if is_object else {"input": text} if tool.grammar else {}
    arguments = translate(tool, whole)
    with contextlib.suppress(ToolError):
        tool, arguments = parts_of(tool, arguments)[0]
    with contextlib.suppress(Exception):  # a tool expects valid arguments; these may not be
        subject = subject_of(tool, arguments)
    event = ToolStarted(call_id=call.id, name=tool.name, subject=subject)
    return PreviewedCall(event=event, effect=tool.effect, arguments=arguments)


def _may_run_beside(agent: Agent, call: ToolCall) -> bool:
    tool = called(agent.tools, call.name)
    return tool is not None and tool.parallel


def _tool_named(agent: Agent, name: str) -> Tool:
    if tool := called(agent.tools, name):
        return tool
    names = [tool.name for tool in agent.tools]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean `{near[0]}`?" if near else ""
    raise ToolError(f"There is no tool `{name}`.{hint} The tools are: {', '.join(names)}.")


def _real_path(agent: Agent, tool: Tool, arguments: Mapping[str, Any]) -> str:
    """The real path of a file tool's call, before it is judged; "" for other calls. An impossible
    path is left for the tool to refuse."""
    if tool.effect not in ("read", "edit") or "path" not in arguments:
        return ""
    value = arguments["path"]
    try:
        return real_path(agent.place, value if isinstance(value, str) else "")
    except (OSError, ValueError):
        return ""


def _without_label(agent: Agent, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Strips `path:` from a path `path:a.py` if only `a.py` exists: small models copy the
    argument's name into its value."""
    path = arguments.get("path")
    if tool.effect not in ("read", "edit") or not isinstance(path, str):
        return arguments
    plain = path.removeprefix("path:").lstrip()
    exists = partial(_exists, agent)
    return {**arguments, "path": plain} if not exists(path) and exists(plain) else arguments


def _exists(agent: Agent, path: str) -> bool:
    try:
        full = str(agent.place.cwd / paths.expand(path))
        return bool(path) and os.path.lexists(located(agent.place, full))
    except ValueError:  # a NUL, which the tool refuses
        return False


def _size(text: str) -> int:
    """In bytes: a character of some scripts takes as much of the window as three others."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _within(agent: Agent, call: ToolCall, text: str, room: int, untrusted: str) -> tuple[str, ...]:
    """The text if it fits, else its two ends, with a note: then all of it is in a file, which is
    named, and marked, since sessions without a file share a folder."""
    size = _size(text)
    if size <= room + NOTE_CHARS:
        return (text,)
    name = re.sub(r"\W", "_", call.name, flags=re.ASCII)[:60]
    path = agent.place.outputs / f"{name}-{secrets.token_hex(4)}.txt"
    try:
        durable.make_folder(path.parent)
        durable.replace(path, redact(text).encode("utf-8", "replace"))
        agent.marks.record((str(path),), untrusted)
        where = f"[All of it is in {path}: read it with read_file, or search it.]"
    except (StorageError, OSError) as error:
        where = f"[It could not be kept whole: {error}]"
    return clip_middle(text, room * len(text) // size), where


def _tool_context(run: Run, call: ToolCall, judged_path: str, room: int) -> ToolContext:
    agent = run.agent
    return ToolContext(
        place=agent.place,
        call_id=call.id,
        session_id=run.context.session.id,
        emit=_masking(run.emit, agent.secrets),
        seen_files=agent.seen_files,
        judged_path=judged_path,
        earlier=partial(text_by_id, run.context.session.entries),
        background=agent.background,
        room=room,
        keep_output=partial(run.outputs.__setitem__, call.id),
    )


def _masking(emit: Emit, secrets: tuple[str, ...]) -> Emit:
    """Masks the output that a tool emits while running, like its result."""

    def masked(event: Event) -> None:
        if isinstance(event, OutputEvent):
            text, partial = mask(event.text, secrets), mask(event.partial, secrets)
            event = replace(event, text=text, partial=partial)
        emit(event)

    return masked if secrets else emit


def _bug(agent: Agent, name: str, error: Exception) -> ToolOutput:
    where = f" {agent.report_bug(error)}" if agent.report_bug else ""
    text = f"{name} failed because of an internal error in kode ({type(error).__name__}: {error})."
    return ToolOutput(text=f"{text} Try another way.", summary=f"internal error in kode.{where}")


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= 100 else line[:99] + "…"
