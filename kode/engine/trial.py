"""Runs a command: tried in the sandbox, or outside if somebody allows it.

    sandboxed   nobody approved this exact command. It runs in the sandbox, on a copy of the
                project. If the sandbox made it fail, the gate may let it run again outside; its
                changes are applied as far as the gate allows, with originals saved.
    outside     a person or a rule allowed it; what it may lose is saved first.

The gate decides whether and what to ask; `kode.sandbox` is the sandbox.
"""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from kode.contracts import (
    AtStake,
    Attempt,
    ChangeKeeper,
    FileChange,
    Kept,
    Tool,
    ToolContext,
    ToolOutput,
    Verdict,
    WrapCommand,
    outermost,
)
from kode.diffs import unified_diff
from kode.engine.agent import Agent
from kode.errors import KodeError, SandboxError, ToolError
from kode.events import Notice
from kode.messages import Refusal, first_of, plural
from kode.plain_text import printable

MAX_DIFF_CHARS = 200_000  # as `diffs.MAX_DIFF_CHARS`
MAX_DIFF_FILE_BYTES = 1_000_000  # a diff of a larger file takes seconds
MAX_NAMED = 20
"""At most this many changed files are named to the model; the rest are counted."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A call of a tool that runs a command."""

    agent: Agent
    tool: Tool
    arguments: Mapping[str, Any]
    context: ToolContext

    @property
    def cwd(self) -> Path:
        return self.context.place.cwd

    async def run(self, wrap: WrapCommand | None = None) -> ToolOutput:
        """Runs the call, in the sandbox if `wrap` is given. Raises: what the tool raises."""
        started = time.monotonic()
        output = await self.tool.run(replace(self.context, wrap_command=wrap), self.arguments)
        output = ToolOutput(text=output) if isinstance(output, str) else output
        return replace(output, ran_s=time.monotonic() - started)


async def run_command(command: Command, verdict: Verdict) -> ToolOutput:
    """Runs a command as the gate decided. Raises: what the tool raises."""
    sandbox = command.agent.sandbox
    if not verdict.sandboxed or sandbox is None:
        return await _run_outside(command, verdict.at_stake)
    try:
        attempt = await asyncio.to_thread(sandbox.begin)
    except OSError as error:
        raise ToolError(
            f"Not run: the sandbox could not be made ({error}). Tell the person; continue with the "
            "file tools meanwhile."
        ) from None
    output: ToolOutput | None = None
    try:
        output = await command.run(attempt.wrap)
        if not attempt.ended.is_set():
            return output
        return await _look_at(command, attempt, output, verdict)
    finally:
        if output is None or attempt.ended.is_set():
            await asyncio.to_thread(attempt.close)
        else:
            _settle_later(command, attempt, verdict)


async def _run_outside(command: Command, at_stake: AtStake) -> ToolOutput:
    sandbox = command.agent.sandbox
    if sandbox is not None and sandbox.carries:
        await asyncio.to_thread(sandbox.forget)
    async with command.agent.keeper.keeping(at_stake):
        return await command.run()


async def _look_at(
    command: Command, attempt: Attempt, output: ToolOutput, verdict: Verdict
) -> ToolOutput:
    """Settles the changes of a finished attempt, and adds what became of them to its output."""
    hits = attempt.hits(output.text)
    notes = [f"[In the sandbox it {hit.words}, which is not possible there.]" for hit in hits]
    if hits and output.exit_status != 0:
        outside = replace(verdict, allowed=False)
        if verdict.keeps:
            gate = command.agent.gate
            outside = await gate.check_outside(command.tool, command.arguments, hits)
        if outside.allowed:
            output = await _run_outside(command, outside.at_stake)
            output = replace(output, untrusted=output.untrusted or outside.untrusted)
            return _with_notes(
                output, ["[It was run again outside the sandbox: this is that run.]"]
            )
        notes.append(f"[{outside.reason} {outside.instead}".strip() + "]")
        refused = replace(refusal_of(outside), of="outside")
        output = replace(output, refusals=(*output.refusals, refused))
    try:
        changes = await asyncio.to_thread(attempt.changes)
    except (SandboxError, OSError) as error:
        return _with_notes(output, [*notes, f"[Nothing of what it changed was kept: {error}]"])
    settled = await settle_changes(command, attempt, changes, may_ask=True, verdict=verdict)
    changed = tuple(
        change.path for change in settled.made if not (change.unlisted or change.in_git)
    )
    return replace(
        _with_notes(output, [*notes, *about(command.cwd, settled)]),
        files_changed=(*output.files_changed, *changed),
        diff=output.diff or settled.diff,
        refusals=(*output.refusals, *settled.refusals),
        not_kept=settled.not_kept,
        lost=tuple(change.path for change in settled.dropped),
        summary=", ".join(filter(None, (output.summary, settled.summary))),
    )


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What became of a command's changes."""

    changes: tuple[FileChange, ...] = ()
    made: tuple[FileChange, ...] = ()
    """Applied changes."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Path → why it could not be applied."""
    reason: str = ""
    """Why the gate dropped the others."""
    refusal: Refusal | None = None
    """The same, see `contracts.Kept`."""
    held: Mapping[str, str] = field(default_factory=dict)
    """See `contracts.Kept`."""
    diff: str = ""
    """Diff of the applied changes."""

    @property
    def dropped(self) -> tuple[FileChange, ...]:
        """Changes that the gate dropped, except unlisted ones."""
        settled = {change.path for change in self.made} | self.left.keys()
        return tuple(
            change for change in self.changes if not change.unlisted and change.path not in settled
        )

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        if not self.dropped or not self.reason:
            return ()
        return (self.refusal or Refusal(by="rule", message=self.reason, of="changes"),)

    @property
    def not_kept(self) -> int:
        """How many changes a person does not find in the project, a deleted folder counted once."""
        return len(outermost(self.dropped)) + len(self.held)

    @property
    def summary(self) -> str:
        """What a person must know of it, in few words; "" for nothing."""
        return f"{plural(self.not_kept, 'change')} not kept" if self.not_kept else ""


async def settle_changes(
    command: Command,
    attempt: Attempt,
    changes: tuple[FileChange, ...],
    *,
    may_ask: bool,
    verdict: Verdict | None = None,
) -> Settled:
    """Applies the changes that the gate allows; unlisted ones among the rest stay for the next
    command. `verdict` is the one that let the command run."""
    if not changes:
        return Settled()
    shown = [change for change in changes if not change.unlisted and not _is_record(change)]
    diff = await asyncio.to_thread(diff_of, command.cwd, attempt, shown)
    gate, call = command.agent.gate, (command.tool, command.arguments)
    if verdict is not None and not verdict.keeps:
        begun = Refusal(by="mode", message=verdict.reason, of="changes")
        allowed = Kept(changes=(), reason=verdict.reason, refusal=begun)
    else:
        allowed = await gate.check_changes(*call, changes, diff, may_ask=may_ask)
    wanted = [*allowed.changes]
    if ignored := {change.ignored for change in wanted if change.ignored}:
        # A build is of no use in halves: what earlier commands left there may be allowed now, too.
        earlier = await asyncio.to_thread(attempt.carried, ignored)
        more = await gate.check_changes(*call, earlier, "", may_ask=False)
        wanted += more.changes
    keeper = command.agent.keeper
    left = await _make_real(keeper, attempt, wanted)
    file_changes = tuple(change for change in wanted if change.path not in left)
    changed = [change.path for change in file_changes if not change.in_git]
    command.agent.marks.record(changed, command.context.untrusted)
    keeper.changed_by_commands.extend(changed)
    if command.agent.sandbox is not None:
        await asyncio.to_thread(
            command.agent.sandbox.show, [change.path for change in file_changes]
        )
    real = {change.path for change in wanted}
    dropped = [change for change in changes if change.unlisted and change.path not in real]
    await asyncio.to_thread(attempt.carry_over, dropped)
    whole = all(
        change.path in real and change.path not in left for change in changes if not change.unlisted
    )
    return Settled(
        changes=changes,
        made=file_changes,
        left=left,
        reason=allowed.reason,
        refusal=allowed.refusal,
        held=allowed.held,
        diff=diff if whole else "",
    )


async def _make_real(
    keeper: ChangeKeeper, attempt: Attempt, changes: Sequence[FileChange]
) -> Mapping[str, str]:
    if not changes:
        return {}
    files = await asyncio.to_thread(lambda: [path for o in changes for path in attempt.files(o)])
    async with keeper.keeping_files(files) as saved:
        lost = {change.path for change in changes if change.path in saved.not_kept}
        wanted = [change for change in changes if change.path not in lost]
        applying = asyncio.ensure_future(asyncio.to_thread(attempt.apply, wanted))
        try:
            left = await asyncio.shield(applying)
        except asyncio.CancelledError:
            await applying  # half of it would be neither the old state nor the new
            raise
        return {**dict.fromkeys(lost, "its old content is too large to save for /undo"), **left}


def _settle_later(command: Command, attempt: Attempt, verdict: Verdict) -> None:
    """Settles a command in the background when it ends: applies what needs no question, and tells
    person and model."""

    emit, background = command.context.emit, command.context.background

    def tell(note: str, level: Literal["info", "warning"]) -> None:
        emit(Notice(text=note.strip("[]"), level=level))
        if background is not None:
            background.tell(command.context.session_id, note)

    async def settle() -> None:
        await attempt.ended.wait()
        try:
            changes = await asyncio.to_thread(attempt.changes)
            settled = await settle_changes(
                command, attempt, changes, may_ask=False, verdict=verdict
            )
            for note in about(command.cwd, settled):
                tell(note, "info")
        except (KodeError, OSError) as error:
            tell(f"[The changes of a background command were dropped: {error}]", "warning")
        finally:
            await asyncio.to_thread(attempt.close)

    task = asyncio.ensure_future(settle())
    LATE[task] = attempt
    task.add_done_callback(LATE.pop)


LATE: dict["asyncio.Task[None]", Attempt] = {}
"""The attempts of commands in the background, each with what settles it."""


async def settle_ended() -> None:
    """Waits until what commands in the background changed is settled, for those that have ended."""
    await asyncio.gather(*(task for task, attempt in LATE.items() if attempt.ended.is_set()))


def _is_record(change: FileChange) -> bool:
    """Whether only git reads it, or will no more: nobody else wants to see it."""
    return change.in_git and (change.change == "deleted" or not change.runs_later)


def diff_of(cwd: Path, attempt: Attempt, changes: Sequence[FileChange]) -> str:
    """The unified diff of a command's changes to its copy; binary files are only named."""
    parts: list[str] = []
    size = 0
    for change in changes:
        name = _relative(cwd, change.path)
        new = attempt.version(change.path) if change.change != "deleted" else None
        before, after = _text(Path(change.path)), _text(new) if new is not None else ""
        if change.change == "created":
            before = ""
        if before is None or after is None:
            part = f"--- a/{name}\n+++ b/{name}\n@@ {change.change}; no text to show @@\n"
        else:
            part = unified_diff(name, before, after) or f"{name}: {change.change}\n"
        size += len(part)
        if size > MAX_DIFF_CHARS:
            parts.append(f"[and {len(changes) - len(parts)} more files]\n")
            break
        parts.append(part)
    return "".join(parts)


def _text(path: Path) -> str | None:
    """The text of a file, or where a link points; None for a binary file."""
    try:
        if path.is_symlink():
            return f"-> {path.readlink()}\n"
        if not path.is_file():
            return ""
        if path.stat().st_size > MAX_DIFF_FILE_BYTES:
            return None
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def about(cwd: Path, settled: Settled) -> list[str]:
    """What the model must know about a command's changes."""
    notes = []
    real = [change for change in settled.made if not change.unlisted]
    dropped = settled.dropped
    if real:
        files = [change for change in real if not change.in_git]
        what = [_names(cwd, files)] if files else []
        what += ["what git records (.git)"] if len(files) < len(real) else []
        notes.append(f"[It changed {' and '.join(what)}.]")
    if dropped:
        notes.append(f"[Not kept of what it changed: {_names(cwd, dropped)}. {settled.reason}]")
    if settled.held:
        names = ", ".join(first_of([_relative(cwd, one) for one in settled.held], MAX_NAMED))
        flags = " ".join(first_of([*filter(None, settled.held.values())], MAX_NAMED))
        notes.append(
            f"[Git ignores {names}: only this session's next commands in the sandbox see what it "
            "wrote there, not the file tools, and nobody once the session has ended."
            + (f" It would be kept with {flags}.]" if flags else "]")
        )
    for path, reason in settled.left.items():
        notes.append(f"[{_relative(cwd, path)} was left alone: {reason}.]")
    return notes


def _names(cwd: Path, changes: Sequence[FileChange]) -> str:
    words = {"created": " (new)", "deleted": " (deleted)"}
    named = [
        _relative(cwd, change.path) + words.get(change.change, "") for change in outermost(changes)
    ]
    return ", ".join(first_of(named, MAX_NAMED))


def _relative(cwd: Path, path: str) -> str:
    return printable(os.path.relpath(path, cwd) if Path(path).is_relative_to(cwd) else path)


def _with_notes(output: ToolOutput, notes: Sequence[str]) -> ToolOutput:
    return replace(output, notes=(*output.notes, *notes))


def refusal_of(verdict: Verdict) -> Refusal:
    """Why a call may not run."""
    return verdict.refusal or Refusal(by="rule", message=verdict.reason)
