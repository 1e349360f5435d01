"""Runs the calls of one reply: each is parsed, checked, put to the gate, run and clipped.

Neighbours run concurrently if their tools allow it, others alone. Each result is recorded first and
shown second: what a person saw as done is on disk. Every call gets a result, whatever happens.

    run_calls     one recorded result for each call of a reply
      _run_call     its result, whatever happens
        _judge_call   _parse_call → _check_action → _judge_action for each action
        _run_action   runs one action and notes what it did
        _finish_call  mask, clip, mark, count
"""

import asyncio
import contextlib
import difflib
import json
import os
import re
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, partial
from itertools import filterfalse, groupby, repeat
from operator import attrgetter, itemgetter
from typing import Any

from kode import durable, paths
from kode.credentials import mask, redact
from kode.engine.agent import Agent
from kode.engine.command import AllowedCommand, join_outputs, run_tool, settle_ended
from kode.engine.context import room_for_results
from kode.engine.run import Effect, Run
from kode.engine.tokens import clip_middle, utf8_size
from kode.errors import KodeError, StorageError, ToolError, ToolRefused
from kode.events import Denial, Event, Notice, ToolFinished, ToolOutput as OutputEvent, ToolStarted
from kode.extensions.familiar_calls import find_called_tool, translate_arguments as translate
from kode.messages import Image, Refusal, ToolCall, ToolResult, failure_of, shorten
from kode.plain_text import fence_text
from kode.session.entries import MessageEntry, TaintEntry
from kode.session.messages import notes_on, text_by_id
from kode.tool import Action, Decision, Tool, ToolContext, ToolOutput, WorkStep, parse_arguments
from kode.values import dataclass, field, fields, replace
from kode.workplace import real_path, to_host

MAX_RESULT_CHARS = 60_000  # a safety net over the tools' own limits
NOTE_CHARS = 500  # room for what a tool says below its result
SUMMARY_CHARS = 100  # one line
PATH_LABEL = re.compile(r"path:\s*|\s+")
MAX_CHANGE_CHARS = 500  # of a changed call in the line about it; the session has all of it
WORK = {"edit", "run", "fetch", "mcp", "delegate"}  # effects of calls that do more than read
SHOWN = {each.name for each in fields(ToolOutput)} & {each.name for each in fields(ToolFinished)}
"""The fields of a call's output that the event of its end has, too."""
INTERRUPTED = "[Interrupted before it finished; its effect is unknown. Check before you repeat it.]"
STOPPED = "[The person interrupted the turn, and the command was stopped. Its output so far:]"
NOT_RUN = "[Not run: the person interrupted the turn.]"


@dataclass
class CallProgress:
    """What is known about a call so far, even if it fails."""

    call: ToolCall
    agent: Agent
    actions: Sequence[Action] = ()
    """The actions that the call stands for; empty before it is parsed."""
    share: int = 0
    """Characters that its result may have."""
    started: float = 0.0
    """When its tool began to run; 0.0 before."""
    effects: set[Effect] = field(default_factory=set)
    """What the call is to change or run; empty if it only reads or remembers."""
    untrusted: str = ""
    """The outside source of the text that the call returns; "" for none."""
    error: Exception | None = None
    """Why the tool has given no result."""
    has_failed: bool = False
    """Whether one of the call's commands, or a check in one, failed."""
    output_so_far: ToolOutput | None = None
    """What a command had printed before it was stopped."""
    start: ToolStarted | None = None
    """How its start was announced, if it was."""
    is_by_person: bool = False
    """Whether the person's own command made it: the session gets no result."""
    is_recorded: bool = False
    """Whether its result is on disk."""

    @cached_property
    def tool(self) -> Tool | None:
        """The tool that the call names, offered or withheld; None if there is none."""
        name, agent = self.call.name, self.agent
        return find_called_tool(agent.tools, name) or find_called_tool(agent.withheld, name)

    @property
    def name(self) -> str:
        return self.actions[0].tool.name if self.actions else self.call.name

    @property
    def subject(self) -> str:
        subjects = dict.fromkeys(map(attrgetter("subject"), self.actions))
        return mask(", ".join(subjects), self.agent.secrets)

    def finish(self, output: ToolOutput, *, stopped: bool = False) -> ToolFinished:
        """The event of the call's end, with the fields of its output."""
        took_s = output.ran_s or (self.started and time.monotonic() - self.started)
        start = self.start or self
        return ToolFinished(
            call_id=self.call.id,
            name=start.name,
            subject=start.subject,
            duration_ms=int(took_s * 1000),
            is_error=stopped or self.error is not None,
            refused=isinstance(self.error, ToolRefused),
            failed=self.has_failed,
            stopped=stopped,
            **{name: getattr(output, name) for name in SHOWN},
        )


async def run_calls(run: Run, calls: Sequence[ToolCall]) -> None:
    """Runs the calls of one reply and records each result. On a cancellation or a disk error, calls
    without a result get one that says so. Raises: StorageError."""
    all_calls = [*map(CallProgress, calls, repeat(run.agent))]
    run.result_chars, run.calls_left = room_for_results(run.agent, run.context), len(calls)

    def find_company(progress: CallProgress) -> str:
        """A key: neighbouring calls with the same key run concurrently."""
        return "" if progress.tool and progress.tool.parallel else progress.call.id

    try:
        for _, group in groupby(all_calls, key=find_company):
            async with asyncio.TaskGroup() as tasks:
                for progress in group:
                    tasks.create_task(_run_call(run, progress))
    except ExceptionGroup as faults:  # the first has cancelled the others
        raise faults.exceptions[0] from None
    finally:
        if waiting := [*filterfalse(attrgetter("is_recorded"), all_calls)]:
            _record_cut_calls(run, waiting)


def _record(run: Run, result: ToolResult, *others: ToolResult | Image, ended_job: str = "") -> None:
    """Records results, with what else is news to the model; they tell the end of `ended_job`."""
    unreported = run.context.session.unreported
    if unreported:
        others_ended = [it for it in unreported if getattr(it, "name", None) != ended_job]
        notes = "\n".join(note.text for note in notes_on(others_ended))
        text = f"{result.text}\n\n{mask(notes, run.agent.secrets)}" if notes else result.text
        result = replace(result, text=text)
    ids = tuple(map(attrgetter("id"), unreported))
    run.record(MessageEntry(role="tool", parts=(result, *others), notes_of=ids))


def _record_cut_calls(run: Run, waiting: Collection[CallProgress]) -> None:
    """Records a result for each call that the end of the turn cut off before it had one."""
    results = [_make_cut_result(run, progress) for progress in waiting]
    _record(run, *results)
    for progress, result in zip(waiting, results, strict=True):
        if progress.started:
            output = ToolOutput(text=result.text, summary="stopped")
            run.emit(progress.finish(output, stopped=True))


def _make_cut_result(run: Run, progress: CallProgress) -> ToolResult:
    if not progress.started:
        return failure_of(progress.call, NOT_RUN, cut="not_run")
    output, text = progress.output_so_far, INTERRUPTED
    if output is not None:
        text = mask("\n".join((STOPPED, output.text, *output.notes)), run.agent.secrets)
        if output.untrusted:
            run.untrusted.append(TaintEntry(source=output.untrusted))
            text = fence_text(text, output.untrusted)
    return failure_of(progress.call, text, cut="interrupted")


async def run_person_call(run: Run, call: ToolCall) -> tuple[ToolResult, Sequence[Image]]:
    """Runs a call made by the person's own command like one of the model: the gate decides, events
    are emitted. Of the result only the outside sources are recorded. Raises: StorageError."""
    run.result_chars, run.calls_left = room_for_results(run.agent, run.context), 1
    result, output = await _run_call(run, CallProgress(call, run.agent, is_by_person=True))
    return result, output.pictures


async def _run_call(run: Run, progress: CallProgress) -> tuple[ToolResult, ToolOutput]:
    """Runs a call; returns its result, as it is recorded, and its output, as it is shown."""
    progress.share = min(MAX_RESULT_CHARS, run.result_chars // max(1, run.calls_left))
    run.result_chars, run.calls_left = run.result_chars - progress.share, run.calls_left - 1
    try:
        outputs = list[ToolOutput]()
        for command in await _judge_call(run, progress):
            outputs.append(await _run_action(run, progress, command))
        output = join_outputs(outputs)
    except ToolRefused as fault:
        progress.error, text = fault, f"{fault} {fault.instead}".strip()
        output = ToolOutput(text=text, summary=str(fault), refusals=(fault.refusal,))
    except KodeError as fault:
        progress.error, output = fault, ToolOutput(text=str(fault))
    except Exception as fault:  # a fault in kode must not end the turn
        progress.error, report = fault, run.agent.report_bug
        text = f"{progress.name} failed: an internal error in kode ({fault!r}). Try another way."
        summary = f"internal error in kode. {report(fault) if report else ''}".rstrip()
        output = ToolOutput(text=text, summary=summary)
    progress.untrusted = getattr(progress.error, "untrusted", "") or progress.untrusted
    result, output = await _finish_call(run, progress, output)
    # No await from here on: what is shown is recorded, and what is recorded is shown.
    if not progress.is_by_person:
        _record(run, result, *output.pictures, ended_job=output.ended_job)
        progress.is_recorded = True
    elif run.untrusted:
        run.record()
    run.emit(progress.finish(output))
    return result, output


async def _judge_call(run: Run, progress: CallProgress) -> list[AllowedCommand]:
    """Announces a call once all its actions are allowed. Raises: ToolError, ToolRefused."""
    _parse_call(progress)
    progress.actions = [*map(partial(_check_action, run.agent), progress.actions)]
    if not WORK.isdisjoint(map(attrgetter("effect"), progress.actions)):
        progress.effects = set(map(_effect_of, progress.actions))
    commands = [await _judge_action(run, action, progress) for action in progress.actions]
    progress.actions = [*map(attrgetter("action"), commands)]
    for command in commands if len(commands) > 1 else ():
        if preview := command.action.tool.preview:  # either all can be done, or none is
            preview(command.context, command.action.arguments)
    name, subject = progress.name, progress.subject
    progress.start = ToolStarted(call_id=progress.call.id, name=name, subject=subject)
    run.emit(progress.start)
    progress.started = time.monotonic()
    if progress.effects and all(map(attrgetter("context.decision.only_reads"), commands)):
        progress.effects = set()
    return commands


def _parse_call(progress: CallProgress) -> None:
    """Sets the actions of a call, with unchecked arguments; before an error, as far as they are
    known. Raises: ToolError."""
    call, tool = progress.call, progress.tool
    if tool is None:
        raise _missing_tool(progress.agent, call.name)
    action = Action(call_id=call.id, tool=tool, arguments={})
    progress.actions = (action,)
    arguments = translate(tool, parse_arguments(call, free_text=bool(tool.grammar)))
    progress.actions = (replace(action, arguments=arguments),)
    if tool.parts is not None:
        parts = tool.parts(tool.check(arguments))
        progress.actions = [replace(action, tool=part, arguments=values) for part, values in parts]


def _check_action(agent: Agent, action: Action) -> Action:
    tool, path = action.tool, ""
    is_about_files = tool.effect in ("read", "edit")
    arguments = action.arguments
    if is_about_files and PATH_LABEL.match(str(arguments.get("path"))):
        arguments = _strip_path_label(agent, arguments)
    arguments = tool.check(arguments)
    if is_about_files and "path" in arguments:
        with contextlib.suppress(OSError, ValueError):  # impossible: left for the tool to refuse
            path = real_path(agent.place, arguments["path"] or "")
    return replace(action, arguments=arguments, path=path)


def _strip_path_label(agent: Agent, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Drops the `path:` that small models write before a path, if only a file without it exists."""
    path, place = str(arguments["path"]), agent.place
    plain = PATH_LABEL.sub("", path, count=1)
    with contextlib.suppress(ValueError):  # a NUL, which the tool refuses
        full = [to_host(place, str(place.cwd / paths.expand_path(it))) for it in (path, plain)]
        if plain and [*map(os.path.lexists, full)] == [False, True]:
            return {**arguments, "path": plain}
    return arguments


def _effect_of(action: Action) -> Effect:
    """The effect of an action. Two are equal if they edit the same file, whatever the tool, run the
    same command or, with any other tool, have the same arguments."""
    if action.path:
        return "edit", action.path
    same = action.subject if action.tool.effect == "run" else ""
    return action.tool.name, same or json.dumps(action.arguments, sort_keys=True, default=str)


def _missing_tool(agent: Agent, name: str) -> ToolError:
    names = [tool.name for tool in agent.tools]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean `{near[0]}`?" if near else ""
    return ToolError(f"There is no tool `{name}`.{hint} The tools are: {', '.join(names)}.")


async def _judge_action(run: Run, action: Action, progress: CallProgress) -> AllowedCommand:
    """Returns the action, as interceptors rewrote it, with the context for its tool, if the gate
    allows it. Raises: ToolRefused; ToolError if it cannot succeed."""
    agent, original = run.agent, action
    for intercept in agent.interceptors:
        match await intercept(action):
            case Action() as answer:
                action = _rewrite(agent, answer, original, action.advice)
                if action.change:
                    run.emit(Notice(text=mask(action.change, agent.secrets)))
            case Decision(outcome="deny") as answer:
                raise _refusal_error(answer, action)
            case Decision() as answer:
                action = replace(action, advice=_choose_gravest(answer, action.advice))
    context = ToolContext(
        place=agent.place,
        call_id=action.call_id,
        session_id=run.context.session.id,
        emit=partial(_emit_masked, run),
        seen_files=agent.seen_files,
        path=action.path,
        earlier=partial(text_by_id, run.context.session.entries),
        background=agent.background,
        room=progress.share,
        keep_output=partial(setattr, progress, "output_so_far"),
    )
    decision = await agent.gate.judge(action, context)
    if not decision.is_allowed:
        raise _refusal_error(decision, action)
    return AllowedCommand(agent=agent, action=action, context=replace(context, decision=decision))


def _emit_masked(run: Run, event: Event) -> None:
    if isinstance(event, OutputEvent):
        hide = partial(mask, values=run.agent.secrets)
        event = replace(event, text=hide(event.text), partial=hide(event.partial))
    run.emit(event)


def _refusal_error(decision: Decision, action: Action) -> ToolRefused:
    refusal = decision.refusal
    instead = f"{decision.consent.instead} {action.change}".strip()
    return ToolRefused(refusal.for_model, refusal=refusal, instead=instead)


def _rank_advice(advice: Decision) -> int:
    return 2 if advice.run_in == "read_only" else 1 if advice.outcome == "ask" else 0


def _choose_gravest(now: Decision | None, before: Decision | None) -> Decision | None:
    return max(filter(None, (now, before)), key=_rank_advice, default=None)


def _rewrite(agent: Agent, answer: Action, original: Action, before: Decision | None) -> Action:
    """An interceptor's action, checked, with the advice that still counts."""
    try:
        arguments = translate(answer.tool, answer.arguments)
        action = _check_action(agent, replace(answer, arguments=arguments))
    except ToolError as error:
        by = f"{answer.changed_by} made a call of this one that cannot run"
        raise ToolError(f"{by}: {error}") from error
    # Earlier interceptors allowed another action: only stricter advice of theirs still counts.
    before = before if before is not None and _rank_advice(before) else None
    change = _describe_change(original, action)
    return replace(action, advice=_choose_gravest(action.advice, before), change=change)


def _describe_change(original: Action, action: Action) -> str:
    """What somebody changed in a call, in a sentence; "" for nothing."""
    short = partial(shorten, max_chars=MAX_CHANGE_CHARS)
    old, new = original.arguments, action.arguments
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    parts = [f"`{name}` is now {short(json.dumps(new.get(name), default=str))}" for name in names]
    if original.subject != action.subject:
        parts = [f"`{short(action.subject)}` instead of `{short(original.subject)}`"]
    return f"{action.changed_by} changed this call: {', '.join(parts)}." if parts else ""


async def _run_action(run: Run, progress: CallProgress, command: AllowedCommand) -> ToolOutput:
    agent, action, decision = run.agent, command.action, command.context.decision
    line, around = decision.line, agent.around
    progress.untrusted = decision.untrusted or progress.untrusted
    runs_programs = action.tool.effect in ("run", "mcp", "delegate") and not decision.only_reads
    if runs_programs:  # before the run, so that it counts even if the call is cut short
        run.evidence.record_step(WorkStep(ran_programs=True))
    output = await (around(action, partial(run_tool, command)) if around else run_tool(command))
    if action.change:
        output = replace(output, notes=(*output.notes, f"[{action.change}]"))
    # Of a line that changed files and ran programs, nothing tells which came last.
    is_edit = bool(output.files_changed)
    runs_programs = runs_programs and not (is_edit and line is not None and line.only_edits)
    is_watched = agent.background is not None and bool(agent.background.list_running())
    step = WorkStep(checks=output.checks, is_edit=is_edit, ran_programs=runs_programs or is_watched)
    run.note_work(output.files_changed, output.agent_steps or (step,))
    well = (None, 0, 1) if line is not None and line.exit_one_is_answer else (None, 0)
    progress.has_failed |= output.exit_status not in well or any(map(itemgetter(1), output.checks))
    source = progress.untrusted or output.untrusted
    progress.untrusted = source or agent.marks.find_source(output.files_read)
    return output


async def note_late_changes(run: Run) -> None:
    """Notes what background commands and subagents that have ended changed and checked."""
    agent, session_id = run.agent, run.context.session.id
    if agent.background is not None:
        for output in agent.background.take_work(session_id):
            run.note_work(output.files_changed, output.agent_steps)
    for command, output in await settle_ended(agent, session_id) if agent.late else ():
        run.note_work(output.files_changed, output.agent_steps)
        tool, subject = command.action.tool.name, command.action.subject
        refusals = [refusal for refusal in output.refusals if refusal.by != "mode"]
        if denials := [_make_denial(tool, subject, it, agent.secrets) for it in refusals]:
            run.denials += denials
            run.evidence.refuse(_effect_of(command.action), denials, output.lost)


def _make_denial(tool: str, subject: str, refusal: Refusal, values: tuple[str, ...]) -> Denial:
    # The person needs no advice that tells the model what to do after a refusal.
    reason = refusal.for_person if refusal.by == "person" else refusal.for_model
    return Denial(tool=tool, subject=mask(subject, values), reason=mask(reason, values))


async def _finish_call(
    run: Run, progress: CallProgress, output: ToolOutput
) -> tuple[ToolResult, ToolOutput]:
    agent, call, source = run.agent, progress.call, progress.untrusted
    output = _mask_all(output, agent.secrets) if agent.secrets else output
    _note_effects(run, progress, output)
    if source:
        run.untrusted.append(TaintEntry(source=source))
    if changed := (*output.files_changed, *agent.undo.changed_by_commands):
        agent.marks.record(changed, source)
        agent.undo.changed_by_commands.clear()
    text, *cut = _clip_to_share(agent, progress, output.text)
    output = replace(
        output,
        text=text,
        notes=(*output.notes, *cut),
        summary=output.summary or shorten(text.strip().partition("\n")[0], SUMMARY_CHARS),
        pictures=tuple(map(partial(replace, call_id=call.id), output.pictures)),
    )
    whole = output.for_model
    run.result_chars += max(0, progress.share - utf8_size(whole))
    for_model = fence_text(whole, mask(source, agent.secrets)) if source else whole
    if agent.background is not None and agent.background.commands:
        await note_late_changes(run)
    if reminder := run.repeats.count_call(call, whole):
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


def _note_effects(run: Run, progress: CallProgress, output: ToolOutput) -> None:
    """Notes which effects of a call were refused, and which took place."""
    effects, edits = progress.effects, {*zip(repeat("edit"), output.files_changed)}
    run.evidence.note_effects(edits if output.refusals or progress.error else edits | effects)
    if output.refusals:
        denials = [_make_denial(progress.name, progress.subject, it, ()) for it in output.refusals]
        run.denials += denials
        for effect in effects if output.refusals[0].by != "mode" else ():
            run.evidence.refuse(effect, denials, output.lost)


def _clip_to_share(agent: Agent, progress: CallProgress, text: str) -> tuple[str, ...]:
    """The text if it fits; else its two ends, and a note that names the file with all of it."""
    size, room = utf8_size(text), progress.share
    if size <= room + NOTE_CHARS:
        return (text,)
    name = re.sub(r"\W", "_", progress.call.name, flags=re.ASCII)[:60]
    path = agent.place.outputs / f"{name}-{secrets.token_hex(4)}.txt"
    try:
        durable.make_folder(path.parent)
        durable.replace_file(path, redact(text).encode("utf-8", "replace"))
        agent.marks.record((str(path),), progress.untrusted)  # sessions may share the folder
        where = f"[All of it is in {path}: read it with read_file, or search it.]"
    except (StorageError, OSError) as error:
        where = f"[It could not be kept whole: {error}]"
    return clip_middle(text, room * len(text) // size), where


def preview_call(agent: Agent, call: ToolCall) -> tuple[ToolStarted, Action | None]:
    """A call for display: the event that would announce its start, and its first action, as far as
    its arguments can be parsed, or None if no tool has its name. Credentials in use are masked.
    Never raises."""
    masked = replace(call, arguments=mask(call.arguments, agent.secrets))
    progress, subject = CallProgress(masked, agent), ""
    # A tool expects valid arguments, which these may not be.
    with contextlib.suppress(Exception):
        _parse_call(progress)
    with contextlib.suppress(Exception):
        subject = progress.subject
    started = ToolStarted(call_id=call.id, name=progress.name, subject=subject)
    return started, next(iter(progress.actions), None)
