"""The parent's side of a child's life: starts, watches and answers it, collects its result, and
kills it with everything it started.

Every child ends in exactly one of success, error, timeout and interrupted. `records.py` keeps its
files; `delegate.py` presents it to the model; `channel.py` exchanges messages.
"""

import asyncio
import contextlib
import math
import secrets
import time
from collections.abc import Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kode.errors import StorageError, ToolError
from kode.events import EXIT_CODES, FINISHED, AgentFinished, Emit, Status
from kode.messages import shorten
from kode.programs import one_deeper, start_program
from kode.subagents import records
from kode.subagents.channel import (
    PATIENCE_S,
    Child,
    Delegation,
    progress,
    read_stderr,
    read_stdout,
    send,
)
from kode.subagents.clock import Clock
from kode.subagents.lending import handed
from kode.subagents.protocol import (
    MAX_LINES,
    Result,
    Snapshot,
    Task,
    sections_of,
)
from kode.tools import processes

TERM_GRACE_S = 3.0  # a child saves its session in that time
EXIT_GRACE_S = 5.0
"""A child that stays this long after its result is killed."""
DRAIN_S = 1.0
"""Time to read the rest from the pipes of an ended child."""
KEPT_SHARE, KEPT_S = 0.2, 2.0
"""Share of the parent's remaining turn, to end the child and use the results. At least `KEPT_S`, at
most `PATIENCE_S`."""
PROGRESS_EVERY_S = 1.0  # a person reads no faster
POLL_S = 0.1  # below what a person notices
SUMMARY_CHARS = 400
"""Of a child's error, whose end says what to do, or of its summary, on the screen."""


async def run_children(delegation: Delegation, children: Sequence[Child], emit: Emit) -> None:
    """Runs the tasks, each with a result at the end. If cancelled, kills every child and what each
    started first. Forks wait for the reply to the first of them: from then on a server has what
    they share in its cache."""
    forks = [child for child in children if child.task.fork]

    async def one(child: Child) -> None:
        if child in forks[1:]:
            await forks[0].replied.wait()
        async with delegation.free:
            if not child.stopped:
                await _run_child(delegation, child, emit)
        _settle(delegation, child)

    ticker = asyncio.create_task(_tick(children, emit))
    try:
        async with asyncio.TaskGroup() as group:
            for child in children:
                group.create_task(one(child))
    finally:
        ticker.cancel()
        for child in children:
            _settle(delegation, child)


def _settle(delegation: Delegation, child: Child) -> None:
    if child.result is None:
        child.result = _failed(delegation, child, "Interrupted.", "interrupted")
        records.keep_result(child.folder, child.result)
    child.replied.set()
    child.ended.set()


def child_environment(
    environ: Mapping[str, str], secret_values: Sequence[str], kept: Sequence[str] = ()
) -> dict[str, str]:
    """The environment of a child itself: ours without variables that look secret by name, or
    contain one of `secret_values`. `kept` are names the person passes on."""
    words = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
    passed = {
        name: value
        for name, value in environ.items()
        if (name in kept or not any(word in name.upper() for word in words))
        and not any(secret in value for secret in secret_values)
    }
    return passed | one_deeper(environ)


async def prepare(delegation: Delegation, tasks: Sequence[Task], call_id: str) -> list[Child]:
    """Writes what the children of one call start from: the same snapshot of memory for all, which a
    fork has in its conversation. Raises: ToolError if it cannot be written."""
    now = datetime.now(UTC)
    snapshot = Snapshot(
        system=delegation.memory_system,
        created_at=now.isoformat(timespec="milliseconds"),
        sections=sections_of(await delegation.snapshot()),
    )
    children = []
    transcript = delegation.fork(call_id) if any(task.fork for task in tasks) else bytes
    first = max((child.index + 1 for child in delegation.alive.values()), default=0)
    try:
        for index, task in enumerate(tasks, first):
            name = task.resume or f"{now:%Y%m%d-%H%M%S}-{index + 1}-{secrets.token_hex(3)}"
            child = Child(index, task, delegation.folder / name, processes.new_mark())
            records.create(
                child.folder,
                task,
                snapshot,
                mark=child.mark,
                call_id=call_id,
                at=snapshot.created_at,
                transcript=transcript() if task.fork else b"",
            )
            children.append(child)
    except StorageError as error:
        raise ToolError(f"No subagent was started: {error}") from error
    return children


async def _run_child(delegation: Delegation, child: Child, emit: Emit) -> None:
    """Runs one child to its result. If cancelled, ends the child first and keeps its output."""
    child.started = time.monotonic()
    child.clock = Clock(delegation.timeout_s, _ends_at(delegation))
    status: Status | None = "interrupted"
    error = ""
    reading: list[asyncio.Task[None]] = []
    try:
        child.process = await _spawn(delegation, child)
        delegation.alive[child.id] = child
        reading = [
            asyncio.create_task(read_stdout(delegation, child, emit)),
            asyncio.create_task(read_stderr(child)),
        ]
        ends_at = child.clock.ends_at if math.isfinite(child.clock.ends_at) else None
        child.loan = delegation.lend(child.task, child.folder)
        about = {"spawned_at": child.started, "ends_at": ends_at, "tools": handed(child.loan.tools)}
        send(child, delegation.start().model_copy(update=about))
        emit(progress(child))
        status = await _wait(delegation, child, reading[0])
    except (OSError, ValueError) as fault:
        status, error = "error", f"It could not be started: {fault}."
    finally:
        result = child.result
        try:
            await _see_through(_end(child, reading))
        finally:
            delegation.alive.pop(child.id, None)
            child.result = result or _outcome(delegation, child, status, error)
            child.result = records.whole_result(child.folder, child.result)
            records.keep_result(child.folder, child.result)
            emit(_finished(child, child.result))


async def _spawn(delegation: Delegation, child: Child) -> asyncio.subprocess.Process:
    command = [*delegation.command, "--from-parent", "--quiet"]
    command += ["--task", str(child.folder / "task.json")]
    command += ["--memory-snapshot", str(child.folder / "snapshot.json")]
    command += ["--timeout", f"{delegation.timeout_s:g}"]
    command += ["--max-steps", str(delegation.max_steps)]
    if delegation.session_id is not None:
        command += ["--parent-session", delegation.session_id]
    return await start_program(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=delegation.cwd,
        env={**delegation.environment, **processes.marked(child.mark)},
        start_new_session=True,
    )


async def _wait(
    delegation: Delegation, child: Child, reading: "asyncio.Task[None]"
) -> Status | None:
    """Waits until the child has ended; "timeout" if it does not, None if its result counts."""
    assert child.process is not None
    # Its own clock stops first, so that it ends by itself.
    child.clock.left_s += delegation.patience_s
    child.clock.ends_at += delegation.patience_s
    while child.result is None and not reading.done() and child.process.returncode is None:
        if child.clock.is_over(waits=bool(child.questions)):
            return "timeout"
        if child.stopped:
            return "interrupted"
        # `wait`, not a timeout around an await: that would cancel the reading, and lose the result
        # that the child sends when asked to end.
        await asyncio.wait([reading], timeout=POLL_S)
    # Only its result counts; it gets a moment to close what it has open.
    deadline = time.monotonic() + (0 if child.flooded else EXIT_GRACE_S)
    while child.process.returncode is None and time.monotonic() < deadline:
        await asyncio.sleep(POLL_S / 10)
    await asyncio.wait([reading], timeout=DRAIN_S)
    return None


def _ends_at(delegation: Delegation) -> float:
    """When a child must have ended: before the parent's turn does."""
    ends_at = delegation.spend.turn_ends_at
    if ends_at is None:
        return math.inf
    now = time.monotonic()
    left_s = max(0.0, ends_at - now)
    kept_s = min(PATIENCE_S, max(KEPT_S, left_s * KEPT_SHARE))
    return now + max(0.5, left_s - kept_s)


async def _end(child: Child, reading: Sequence["asyncio.Task[None]"]) -> None:
    """Ends the child and everything it started: asks, waits, kills. The child alone is asked first,
    so that it can end its own commands and report its progress."""
    # Without a process, a cancellation may have come during its start: search by the mark.
    group = child.process.pid if child.process is not None else processes.NO_GROUP
    for task in (*child.questions, *child.calls):
        task.cancel()
    try:
        if child.process is not None and child.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.process.terminate()
            deadline = time.monotonic() + TERM_GRACE_S
            while child.process.returncode is None and time.monotonic() < deadline:
                await asyncio.sleep(POLL_S / 5)
        if processes.find(group, child.mark):
            await processes.end(group, child.mark)
        if reading:
            await asyncio.wait(reading, timeout=DRAIN_S)
    finally:
        processes.kill(group, child.mark)
        for task in (*reading, *child.questions, *child.calls):
            task.cancel()
        if child.process is not None and child.process.stdin is not None:
            child.process.stdin.close()
    await asyncio.gather(*reading, return_exceptions=True)
    if child.process is not None:
        await child.process.wait()
        # What a grandchild holds open would stay open here until it is gone, and asyncio has no
        # public way to release it.
        child.process._transport.close()  # type: ignore[attr-defined]


async def _see_through(work: Coroutine[Any, Any, None]) -> None:
    """Awaits `work` to its end despite cancellations, then raises them."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    task.result()


async def _tick(children: Sequence[Child], emit: Emit) -> None:
    while True:
        await asyncio.sleep(PROGRESS_EVERY_S)
        for child in children:
            if child.started and child.result is None:
                emit(progress(child))


def _outcome(
    delegation: Delegation, child: Child, status: Status | None, error: str = ""
) -> Result:
    """The result of a child that was ended before reporting one: what it said when asked to end, or
    what its silence means."""
    if child.result is not None:
        if status is None or child.result.status in FINISHED:
            return child.result
        return child.result.model_copy(update={"status": status})
    if error:
        return _failed(delegation, child, error)
    if child.flooded:
        return _failed(delegation, child, f"It wrote more than {MAX_LINES} lines and was ended.")
    if status == "timeout":
        text = f"It did not end by itself at its limit of {delegation.timeout_s:g} s (timeout_s)."
        return _failed(delegation, child, text, status)
    if status == "interrupted":
        return _failed(delegation, child, "Interrupted.", status)
    code = child.process.returncode if child.process else None
    text = f"It ended with exit status {code} and without a result."
    said = child.stderr.decode("utf-8", "replace").strip()[-500:]
    if said:
        text = f"{text} Its last words: {said}"
    named = {number: name for name, number in EXIT_CODES.items() if name != "success"}
    return _failed(delegation, child, text, named.get(code if code is not None else -1, "error"))


def _failed(delegation: Delegation, child: Child, error: str, status: Status = "error") -> Result:
    return Result(
        status=status,
        summary=f"No report. It was last seen at: {child.activity}." if child.steps else "",
        error=error,
        tokens_used=child.tokens,
        steps=child.steps,
        parent_session=delegation.session_id,
    )


def _finished(child: Child, result: Result) -> AgentFinished:
    return AgentFinished(
        index=child.index,
        goal=child.task.goal,
        status=result.status,
        summary=shorten((result.error or result.summary).strip().partition("\n")[0], SUMMARY_CHARS),
        elapsed_s=round(time.monotonic() - child.started, 1),
        tokens=result.tokens_used or child.tokens,
    )
