"""Runs the calls of one reply: each is parsed, checked, put to the gate, run and clipped.

Neighbours run concurrently if their tools allow it, others alone. Each result is recorded first and
shown second: what a person saw as done is on disk. Every call gets a result, whatever happens.
"""

import asyncio
import difflib
import json
import os
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

from kode.contracts import Tool, ToolContext, ToolOutput, Verdict
from kode.credentials import mask
from kode.engine.agent import Agent
from kode.engine.fence import fence_text
from kode.engine.run import Run
from kode.engine.tokens import clip_middle
from kode.engine.trial import Command, run_command, settle_ended
from kode.errors import KodeError, ToolError, ToolRefused
from kode.events import STOPPED, Denial, Emit, Event, ToolFinished, ToolStarted
from kode.events import ToolOutput as OutputEvent
from kode.function_tool import parse_arguments
from kode.messages import Image, ToolCall, ToolResult, failure_of
from kode.session.entries import MessageEntry, TaintEntry
from kode.session.messages import text_by_id
from kode.workplace import as_seen, located, real_path

MAX_RESULT_CHARS = 60_000
"""A safety net over the tools' own limits, so that one result cannot fill a window."""

INTERRUPTED = "[Interrupted before it finished; its effect is unknown. Check before you repeat it.]"
NOT_RUN = "[Not run: the person interrupted the turn.]"


async def run_calls(run: Run, calls: Sequence[ToolCall]) -> None:
    """Runs the calls of one reply and records each result. On a cancellation or a disk error, calls
    without a result get one that says so. Raises: StorageError."""
    waiting = {call.id: call for call in calls}

    def record(*parts: ToolResult | Image) -> None:
        taints = [TaintEntry(source=source) for source in run.untrusted]
        run.context.session.append(*taints, MessageEntry(role="tool", parts=parts))
        run.untrusted.clear()
        for part in parts:
            if isinstance(part, ToolResult):
                waiting.pop(part.call_id, None)

    try:
        for side_by_side, group in groupby(calls, key=partial(_may_run_beside, run.agent)):
            if side_by_side:
                await _run_together(_run_one(run, call, record) for call in group)
                continue
            for call in group:
                await _run_one(run, call, record)
    finally:
        if waiting:
            cut_short = list(waiting.values())
            record(*(_cut_short(run, call) for call in cut_short))
            for call in cut_short:
                if call.id in run.begun:
                    run.emit(_stopped(run, call))


async def run_aside(run: Run, call: ToolCall) -> ToolResult:
    """Runs a call made by the person's own command as if by the model: the gate decides, events are
    emitted, outside sources go to `run.untrusted`. The result is not recorded."""
    results: list[ToolResult] = []
    await _run_one(run, call, lambda result, *pictures: results.append(result))
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
    return failure_of(call, INTERRUPTED if call.id in run.begun else NOT_RUN)


def _stopped(run: Run, call: ToolCall) -> ToolFinished:
    subject, started = run.begun[call.id]
    return ToolFinished(
        call_id=call.id,
        name=call.name,
        subject=subject,
        is_error=True,
        summary=STOPPED,
        text=INTERRUPTED,
        duration_ms=int((time.monotonic() - started) * 1000),
    )


async def _run_one(run: Run, call: ToolCall, record: Callable[..., None]) -> None:
    agent, started = run.agent, time.monotonic()
    subject, untrusted, refused, is_work = "", "", False, False
    try:
        tool = _tool_named(agent, call.name)
        arguments = _without_label(agent, tool, parse_arguments(call))
        subject = mask(subject_of(tool, arguments), agent.secrets)
        arguments = tool.check(arguments)
        is_work = _is_work(tool, arguments)
        judged = _real_path(agent, tool, arguments)
        context = _tool_context(run, call, judged)
        verdict = await agent.gate.check(tool, arguments, context)
        if not verdict.allowed:
            raise ToolRefused(verdict.reason)
        run.emit(ToolStarted(call_id=call.id, name=call.name, subject=subject))
        started = time.monotonic()
        run.tools.append((call.name, subject))
        run.begun[call.id] = (subject, started)
        is_work = is_work and not verdict.only_reads
        untrusted = verdict.untrusted
        run_it = partial(_run_kept, agent, tool, arguments, context, verdict)
        output = await agent.around(tool, arguments, context, run_it)
        run.files_changed.update(dict.fromkeys(output.files_changed))
        run.evidence.note(verdict.checks, output.exit_status, bool(output.files_changed))
        untrusted = output.untrusted or untrusted or _outside_source(agent, tool, output, verdict)
        failed = False
    except KodeError as error:
        refused = isinstance(error, ToolRefused)
        untrusted = (error.untrusted if isinstance(error, ToolError) else "") or untrusted
        output, failed = ToolOutput(text=str(error), summary=_first_line(str(error))), True
        output = replace(output, denied=str(error) if refused else "")
    except Exception as error:  # a fault in kode must not end the turn
        output, failed = _bug(agent, call.name, error), True
    if is_work and output.denied:
        run.held_back = True
    elif is_work:
        run.acted = True
    if output.denied:
        reason = mask(output.denied, agent.secrets)
        run.denials.append(Denial(tool=call.name, subject=subject, reason=reason))
    if untrusted:
        run.untrusted.append(untrusted)
    agent.marks.record(output.files_changed, untrusted)
    text = clip_middle(mask(output.text, agent.secrets), MAX_RESULT_CHARS)
    for_model = fence_text(text, mask(untrusted, agent.secrets)) if untrusted else text
    await settle_ended()
    if agent.background is not None and (news := agent.background.news(run.context.session.id)):
        for_model = f"{for_model}\n\n{mask(news, agent.secrets)}"
    if reminder := run.repeats.note(call, text):
        for_model = f"{for_model}\n\n{reminder}"
    took_s = time.monotonic() - started if output.ran_s is None else output.ran_s
    # No await in between: what is shown is recorded, and what is recorded is shown.
    result = ToolResult(
        call_id=call.id,
        name=call.name,
        text=for_model,
        is_error=failed,
        lasting=output.lasting,
    )
    record(result, *(replace(picture, call_id=call.id) for picture in output.pictures))
    run.emit(
        ToolFinished(
            call_id=call.id,
            name=call.name,
            subject=subject,
            is_error=failed,
            summary=output.summary or _first_line(text),
            text=text,
            diff=mask(output.diff, agent.secrets),
            duration_ms=int(took_s * 1000),
            refused=refused,
        )
    )


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
    keeper, path = agent.keeper, context.judged_path
    if tool.effect != "edit" or not path:
        return _as_output(await tool.run(context, arguments))
    if (
        as_seen(agent.place, path) != path
    ):  # the session's own /tmp: no part of the work, or of undo
        return replace(_as_output(await tool.run(context, arguments)), files_changed=())
    keeper.before_edit(path)
    state: str | None = None
    try:
        output = _as_output(await tool.run(context, arguments))
        state = agent.seen_files.get(path) if path in output.files_changed else None
        if agent.sandbox is not None:
            await asyncio.to_thread(agent.sandbox.show, output.files_changed)
        return output
    finally:
        keeper.after_edit(path, state)


def _is_work(tool: Tool, arguments: Mapping[str, Any]) -> bool:
    """Whether a call does more than read or remember."""
    effect = tool.effect_of(arguments) if tool.effect_of else tool.effect
    return effect in ("edit", "run", "fetch", "mcp", "delegate")


def _outside_source(agent: Agent, tool: Tool, output: ToolOutput, verdict: Verdict) -> str:
    """The outside source of the project files that were read."""
    read = verdict.reads if tool.effect == "run" else output.files_read
    return "" if read == () else agent.marks.among(read)


def _as_output(output: ToolOutput | str) -> ToolOutput:
    return ToolOutput(text=output) if isinstance(output, str) else output


def subject_of(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """The argument that identifies a call, on one line."""
    if tool.target is not None:
        return tool.target(arguments)
    value = arguments.get(tool.subject, "") if tool.subject else ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _may_run_beside(agent: Agent, call: ToolCall) -> bool:
    return any(tool.name == call.name and tool.parallel for tool in agent.tools)


def _tool_named(agent: Agent, name: str) -> Tool:
    for tool in agent.tools:
        if tool.name == name:
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
        full = os.path.join(agent.place.cwd, os.path.expanduser(path))
        return bool(path) and os.path.lexists(located(agent.place, full))
    except ValueError:  # a NUL, which the tool refuses
        return False


def _tool_context(run: Run, call: ToolCall, judged_path: str) -> ToolContext:
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
