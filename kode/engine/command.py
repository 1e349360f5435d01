"""Runs a command: tried in the sandbox, or outside if somebody allows it.

    sandboxed   nobody approved this exact command. It runs in the sandbox, on a copy of the
                project. If the sandbox made it fail, the gate may let it run again outside; its
                changes are applied as far as the gate allows, with originals saved.
    outside     a person or a rule allowed it; what it may lose is saved first.

The gate decides whether and what to ask; `kode.sandbox` is the sandbox.
"""

import asyncio
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kode.engine.agent import Agent
from kode.errors import KodeError, StorageError, ToolError
from kode.events import Notice
from kode.messages import Refusal, cut_list, plural
from kode.paths import relative_path
from kode.plain_text import MAX_DIFF_CHARS, escape_path, unified_diff
from kode.sandbox.reach import Interest
from kode.tool import Action, Decision, FileChange, ToolContext, ToolOutput, WorkStep, group_changes
from kode.undo.undo import Undo
from kode.values import Value, replace
from kode.workplace import to_command

if TYPE_CHECKING:
    from kode.sandbox.sandbox import Attempt, WrapCommand

MAX_DIFF_FILE_BYTES = 1_000_000  # a diff of a larger file takes seconds
MAX_NAMED = 20  # changed files are named to the model; the rest are counted
UNCHANGED = ToolOutput(text="")  # the output about the changes of a command that made none


class AllowedCommand(Value):
    """An action that the gate has allowed, with the context for its tool."""

    agent: Agent
    action: Action
    context: ToolContext

    async def run(self, wrap: "WrapCommand | None" = None) -> ToolOutput:
        """Runs its tool, in the sandbox if `wrap` is given. Raises: what the tool raises."""
        started, context = time.monotonic(), self.context
        context = context if wrap is None else replace(context, wrap_command=wrap)
        output = await self.action.tool.run(context, self.action.arguments)
        output = ToolOutput(text=output) if isinstance(output, str) else output
        return replace(output, ran_s=time.monotonic() - started)


def run_tool(command: AllowedCommand) -> Awaitable[ToolOutput]:
    """Runs the tool of an action after saving for undo what it may change. Raises: what the tool
    raises; StorageError."""
    effect = command.action.tool.effect
    is_edit = effect == "edit" and command.action.path
    return run_command(command) if effect == "run" else _edit(command) if is_edit else command.run()


async def _edit(command: AllowedCommand) -> ToolOutput:
    agent, path = command.agent, command.action.path
    if to_command(agent.place, path) != path:
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
        return output


async def run_command(command: AllowedCommand) -> ToolOutput:
    """Runs a command as the gate decided. Raises: what the tool raises."""
    sandbox, decision = command.agent.sandbox, command.context.decision
    if decision.run_in == "host":
        return await _run_outside(command, decision)
    assert sandbox is not None, "a command for the sandbox never runs without one"
    try:
        interest = Interest(marked=command.agent.marks.find_marked())
        attempt = await asyncio.to_thread(sandbox.begin, interest)
    except OSError as error:
        raise ToolError(
            f"Not run: the sandbox could not be made ({error}). Tell the person; continue with the "
            "file tools meanwhile."
        ) from None
    output: ToolOutput | None = None
    try:
        output = await command.run(attempt.wrap)
        if attempt.ended.is_set():
            return await _settle(command, attempt, output)
        return _mark_outside_text(command, output)  # while it runs on, it may open more files
    finally:
        if output is None or attempt.ended.is_set():
            await asyncio.to_thread(attempt.close)
        else:
            task = asyncio.ensure_future(_settle_at_end(command, attempt))
            command.agent.late[task] = command, attempt


async def _run_outside(command: AllowedCommand, decision: Decision) -> ToolOutput:
    sandbox = command.agent.sandbox
    if sandbox is not None and sandbox.carried:
        await asyncio.to_thread(sandbox.forget)
    if decision.line is None or decision.only_reads:
        return _mark_outside_text(command, await command.run())
    async with command.agent.undo.step(writes=decision.line.writes):
        return _mark_outside_text(command, await command.run())


def _mark_outside_text(command: AllowedCommand, output: ToolOutput) -> ToolOutput:
    """Names the outside source of an output, as far as the words of the command line tell: which
    files the command opened is not known, or not completely."""
    line, source = command.context.decision.line, output.untrusted
    read = line.reads if line is not None else None
    return replace(output, untrusted=source or command.agent.marks.find_source(read))


async def _settle(command: AllowedCommand, attempt: "Attempt", output: ToolOutput) -> ToolOutput:
    blocked, decision = attempt.find_blocked(output.text), command.context.decision
    notes = [f"[In the sandbox it {item.words}, which is not possible there.]" for item in blocked]
    if blocked and output.exit_status != 0:
        outside = replace(decision, outcome="deny")
        if decision.run_in != "read_only":
            outside = await command.agent.gate.judge_outside(command.action, blocked)
        if outside.is_allowed:
            output = await _run_outside(command, outside)
            note = "[It was run again outside the sandbox: this is that run.]"
            source = outside.untrusted or output.untrusted
            return replace(output, untrusted=source, notes=(*output.notes, note))
        refusal = replace(outside.refusal, of="outside")
        notes.append(f"[{refusal.for_model} {outside.consent.instead}".strip() + "]")
        output = replace(output, refusals=(*output.refusals, refusal))
    output = replace(output, notes=(*output.notes, *notes))
    settled = await settle_changes(command, attempt, may_ask=True)
    opened = attempt.outside_text
    output = output if settled is UNCHANGED else join_outputs((output, settled))
    if opened is None:
        return _mark_outside_text(command, output)
    return replace(output, untrusted=output.untrusted or opened)


def join_outputs(outputs: Sequence[ToolOutput]) -> ToolOutput:
    """Joins the texts, lists and run times of several outputs; all other fields are the first's."""
    if len(outputs) == 1:
        return outputs[0]
    return replace(
        outputs[0],
        text="\n".join(output.text for output in outputs if output.text),
        summary=", ".join(output.summary for output in outputs if output.summary),
        diff="".join(output.diff for output in outputs),
        notes=tuple(note for output in outputs for note in output.notes),
        refusals=tuple(refusal for output in outputs for refusal in output.refusals),
        lost=tuple(path for output in outputs for path in output.lost),
        files_changed=tuple(path for output in outputs for path in output.files_changed),
        ran_s=sum(output.ran_s or 0.0 for output in outputs),
    )


async def settle_changes(
    command: AllowedCommand, attempt: "Attempt", *, may_ask: bool
) -> ToolOutput:
    """Applies the changes that the gate allows. Of the others, those that git ignores stay for the
    next command in the sandbox. The output says what became of all; a fault is a refusal in it."""
    try:
        changes = await asyncio.to_thread(attempt.changes)
        if not changes:
            return UNCHANGED
        return await _apply_changes(command, attempt, changes, may_ask=may_ask)
    except (KodeError, OSError) as error:
        return describe_changes(command.context.place.cwd, (), {_storage_refusal(str(error)): ()})


async def _apply_changes(
    command: AllowedCommand, attempt: "Attempt", changes: Sequence[FileChange], *, may_ask: bool
) -> ToolOutput:
    agent, decision, cwd = command.agent, command.context.decision, command.context.place.cwd
    diff = await asyncio.to_thread(diff_changes, cwd, attempt, [*filter(_is_shown, changes)])
    if decision.run_in == "read_only":
        decided = [(change, replace(decision, outcome="deny", by="mode")) for change in changes]
    else:
        decided = await agent.gate.judge_changes(command.action, changes, diff, may_ask=may_ask)
    wanted = [change for change, decided_as in decided if decided_as.is_allowed]
    left = await _apply_with_undo(agent.undo, attempt, wanted)
    applied = [change for change in wanted if change.path not in left]
    changed = [change.path for change in applied if change.kind != "git"]
    agent.marks.record(changed, decision.untrusted or attempt.outside_text or "")
    agent.undo.changed_by_commands.extend(changed)
    unwanted = [pair for pair in decided if not pair[1].is_allowed]
    unwanted.sort(key=lambda pair: pair[1].by in ("person", "nobody"))  # rules come first
    # The next command in the sandbox finds these although they were not kept.
    stays = [change for change, _ in unwanted if change.ignored or not change.files]
    await asyncio.to_thread(attempt.carry_layer, stays)
    lost: dict[Refusal, list[FileChange]] = {}
    for change, denied in unwanted:
        if change.is_reported:
            lost.setdefault(replace(denied.refusal, of="changes"), []).append(change)
    for change in wanted:
        if change.path in left:
            lost.setdefault(_storage_refusal(left[change.path]), []).append(change)
    output = describe_changes(cwd, applied, lost, stays)
    return output if lost else replace(output, diff=diff)


def _is_shown(change: FileChange) -> bool:
    """Whether a diff shows it: nothing in an ignored folder; of git's files only what git runs."""
    if not change.is_reported or change.ignored.endswith("/"):
        return False
    return change.kind != "git" or (change.runs_later and change.change != "deleted")


def _storage_refusal(reason: str) -> Refusal:
    message = f"{reason[:1].upper()}{reason[1:].rstrip('.')}."
    return Refusal(by="fault", message=message, of="changes")


async def _apply_with_undo(
    undo: Undo, attempt: "Attempt", changes: Sequence[FileChange]
) -> Mapping[str, str]:
    """Applies changes, with their undo data saved; returns path → reason of those not applied."""
    if not changes:
        return {}
    files = await asyncio.to_thread(lambda: [path for o in changes for path in attempt.files(o)])
    async with undo.step(files) as saved:
        lost = {change.path for change in changes if change.path in saved.not_saved}
        wanted = [change for change in changes if change.path not in lost]
        applying = asyncio.ensure_future(asyncio.to_thread(attempt.apply, wanted))
        try:
            left = await asyncio.shield(applying)
        finally:
            await applying  # half of it would be neither the old state nor the new
        why = saved.problem or "its old content is too large to save for /undo"
        return {**dict.fromkeys(lost, why), **left}


async def _settle_at_end(command: AllowedCommand, attempt: "Attempt") -> ToolOutput:
    """Once a background command ends, applies those of its changes that need no question."""
    context = command.context
    await attempt.ended.wait()
    try:
        output = await settle_changes(command, attempt, may_ask=False)
    finally:
        await asyncio.to_thread(attempt.close)
    for note in output.notes:
        level: Literal["info", "warning"] = "warning" if output.refusals else "info"
        context.emit(Notice(text=note.strip("[]"), level=level))
        if context.background is not None:
            context.background.tell(context.session_id, note)
    step = WorkStep(is_edit=bool(output.files_changed), ran_programs=True)
    return replace(output, agent_steps=(step,))


async def settle_ended(
    agent: Agent, session_id: str | None
) -> list[tuple[AllowedCommand, ToolOutput]]:
    """Waits until the changes of a session's background commands that have ended are settled, and
    returns each command, once, with the output about its changes."""
    ended = [
        task
        for task, (command, attempt) in agent.late.items()
        if attempt.ended.is_set() and command.context.session_id == session_id
    ]
    return [(agent.late.pop(task)[0], await task) for task in ended]


def diff_changes(cwd: Path, attempt: "Attempt", changes: Sequence[FileChange]) -> str:
    """The unified diff of a command's changes to its copy; binary files are only named."""
    parts: list[str] = []
    for change in changes:
        name = escape_path(relative_path(change.path, cwd))
        before = "" if change.change == "created" else _read_text(Path(change.path))
        after = "" if change.change == "deleted" else _read_text(attempt.version(change.path))
        if before is None or after is None:
            part = f"--- a/{name}\n+++ b/{name}\n@@ {change.change}; no text to show @@\n"
        else:
            part = unified_diff(name, before, after) or f"{name}: {change.change}\n"
        if sum(map(len, parts)) + len(part) > MAX_DIFF_CHARS:
            parts.append(f"[and {len(changes) - len(parts)} more files]\n")
            break
        parts.append(part)
    return "".join(parts)


def _read_text(path: Path | None) -> str | None:
    """The text of a file, or a link's target; "" if there is none; None for a binary file."""
    try:
        if path is None or not (path.is_symlink() or path.is_file()):
            return ""
        if path.is_symlink():
            return f"-> {path.readlink()}\n"
        is_large = path.stat().st_size > MAX_DIFF_FILE_BYTES
        return None if is_large else path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def describe_changes(
    cwd: Path,
    applied: Iterable[FileChange],
    lost: Mapping[Refusal, Sequence[FileChange]],
    stays: Iterable[FileChange] = (),
) -> ToolOutput:
    """The output that tells model and person about a command's changes: those that were applied,
    those that were lost, by reason, and those that stay for the next command. A reason without
    changes stands for the loss of all."""
    reported = [change for change in applied if change.is_reported]
    files = [change for change in reported if change.kind != "git"]  # not its records
    what = [", ".join(_shorten_names(cwd, files))] if files else []
    what += ["what git records (.git)"] if len(files) < len(reported) else []
    refusals = tuple(
        replace(refusal, not_kept=tuple(_shorten_names(cwd, group)) or ("everything",))
        for refusal, group in lost.items()
    )
    notes = [f"[It changed {' and '.join(what)}.]"] if what else []
    notes += [f"[{refusal.for_model}]" for refusal in refusals]
    if any(change.is_reported for change in stays):
        notes.append(
            "[What git ignores of it is there for this session's next commands in the sandbox, and "
            "nowhere else.]"
        )
    groups = group_changes([change for group in lost.values() for change in group])
    loss = f"{plural(len(groups), 'change')} not kept" if groups else "no change kept"
    return ToolOutput(
        text="",
        summary=loss if refusals else "",
        notes=tuple(notes),
        refusals=refusals,
        lost=tuple(group.path for group in groups),
        files_changed=tuple(group.path for group in group_changes(files)),
    )


def _shorten_names(cwd: Path, changes: Sequence[FileChange]) -> list[str]:
    names = []
    for group in group_changes(changes):
        words = (
            {"created": "new", "deleted": "deleted"}.get(group.change),
            plural(group.files, "file") if group.is_folder else "",
            "git ignores it" if group.ignored and group.kind == "work" else "",
        )
        remark = ", ".join(filter(None, words))
        name = escape_path(relative_path(group.path, cwd))
        names.append(f"{name} ({remark})" if remark else name)
    return cut_list(names, MAX_NAMED)
