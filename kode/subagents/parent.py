"""The parent's side of a child's life: starts it, watches it, answers it, collects its result, and
ends it with all it started.

Every child ends in exactly one of success, error, timeout and interrupted. What is on disk of it is
`records.py`; what the model sees of it is `delegate.py`.
"""

import asyncio
import contextlib
import json
import os
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from kode.contracts import SnapshotSection
from kode.engine.agent import Spend
from kode.errors import KodeError, StorageError, ToolError
from kode.events import AgentFinished, AgentProgress, Emit, Status
from kode.messages import Usage
from kode.subagents import records
from kode.subagents.protocol import (
    EXIT_CODES,
    MAX_LINE_BYTES,
    MAX_LINES,
    Answer,
    Elsewhere,
    Question,
    Result,
    Snapshot,
    Start,
    Task,
    Used,
    line_of,
    sections_of,
)
from kode.tools import processes

COMMAND = (sys.executable, "-P", "-m", "kode", "subagent")
"""`-P`: a project with a folder `kode` or a file `json.py` must not become part of the child."""

PATIENCE_S = 10.0
"""The child's own deadline is this much shorter than the parent's, so that it ends by itself with a
summary of how far it came."""
TERM_GRACE_S = 3.0
EXIT_GRACE_S = 5.0
"""A child that has said its result and stays is ended after this."""
DRAIN_S = 1.0
"""For what is still in the pipes of a child that has ended."""
KEPT_SHARE, KEPT_S = 0.2, 2.0
"""Of what is left of the parent's turn: time to end the child and to use the results. At least
`KEPT_S`, at most `PATIENCE_S`."""
STDERR_KEPT_BYTES = 4_000
PROGRESS_EVERY_S = 1.0
READ_BYTES = 65_536
POLL_S = 0.1

AskPerson = Callable[[Question, str], Awaitable[Answer]]
"""`await ask(question, asker)` puts a child's question to the person."""


@dataclass(frozen=True, kw_only=True)
class Delegation:
    """What a parent's children have in common."""

    folder: Path
    """`sessions/<id>/agents`; created with the first child."""
    session_id: str | None
    cwd: Path
    environment: Mapping[str, str]
    """Of the children themselves; without keys."""
    start: Callable[[], Start]
    """The first line for a child that is started now."""
    snapshot: Callable[[], Awaitable[tuple[SnapshotSection, ...]]]
    memory_system: str
    ask: AskPerson | None
    """None where no person can be asked."""
    spend: Spend
    """This process's; what its children use is added to it."""
    record: Callable[[Used], None]
    """Keeps what a child has used. Must not raise."""
    max_concurrency: int
    timeout_s: float
    max_steps: int
    command: Sequence[str] = COMMAND
    patience_s: float = PATIENCE_S
    alive: "dict[str, Child]" = field(default_factory=dict)
    """By id; the children that are told what the others use."""


@dataclass
class Child:
    """One child as its parent sees it."""

    index: int
    task: Task
    folder: Path
    mark: str
    started: float = 0.0
    timeout_s: float = 0.0
    process: asyncio.subprocess.Process | None = None
    result: Result | None = None
    activity: str = "starting"
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    steps: int = 0
    untrusted: bool = False
    questions: "set[asyncio.Task[None]]" = field(default_factory=set)
    """Those of it that wait for the person."""
    lines: int = 0
    not_understood: int = 0
    flooded: bool = False
    stderr: bytes = b""

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def tokens(self) -> int:
        return self.usage.input_tokens + self.usage.output_tokens


async def run_tasks(
    delegation: Delegation, tasks: Sequence[Task], call_id: str, emit: Emit
) -> list[Child]:
    """Runs the tasks, at most `max_concurrency` at once. Each child has a result then; the order is
    that of the tasks. Cancelled, it ends every child and what each started before it lets go.

    Raises: ToolError when the files of the tasks cannot be written.
    """
    children = await _prepare(delegation, tasks, call_id)
    free = asyncio.Semaphore(delegation.max_concurrency)

    async def one(child: Child) -> None:
        async with free:
            await _run_child(delegation, child, emit)

    ticker = asyncio.create_task(_tick(delegation, emit))
    try:
        async with asyncio.TaskGroup() as group:
            for child in children:
                group.create_task(one(child))
    finally:
        ticker.cancel()
        for child in children:
            if child.result is None:
                child.result = _failed(delegation, child, "Interrupted.", "interrupted")
                records.keep_result(child.folder, child.result)
    return children


def tell_elsewhere(delegation: Delegation) -> None:
    """Tells every living child what the rest of the tree has used."""
    spend = delegation.spend
    for child in delegation.alive.values():
        _send(
            child,
            Elsewhere(
                cost_usd=spend.cost_usd + spend.elsewhere_usd - child.cost_usd,
                steps=spend.steps + spend.elsewhere_steps - child.steps,
            ),
        )


def child_environment(
    environ: Mapping[str, str], secret_values: Sequence[str], kept: Sequence[str] = ()
) -> dict[str, str]:
    """The environment of a child itself: ours without what looks like a secret by its name, and
    without what holds one of `secret_values`. `kept` are names the person passes on."""
    words = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
    return {
        name: value
        for name, value in environ.items()
        if (name in kept or not any(word in name.upper() for word in words))
        and not any(secret in value for secret in secret_values)
    }


async def _prepare(delegation: Delegation, tasks: Sequence[Task], call_id: str) -> list[Child]:
    """Writes task and snapshot files: the same snapshot for all children of one call."""
    now = datetime.now(UTC)
    snapshot = Snapshot(
        system=delegation.memory_system,
        created_at=now.isoformat(timespec="milliseconds"),
        sections=sections_of(await delegation.snapshot()),
    )
    children = []
    try:
        for index, task in enumerate(tasks):
            name = f"{now:%Y%m%d-%H%M%S}-{index + 1}-{secrets.token_hex(3)}"
            child = Child(index, task, delegation.folder / name, secrets.token_hex(12))
            records.create(
                child.folder,
                task,
                snapshot,
                mark=child.mark,
                call_id=call_id,
                at=snapshot.created_at,
            )
            children.append(child)
    except StorageError as error:
        raise ToolError(f"No subagent was started: {error}") from error
    return children


async def _run_child(delegation: Delegation, child: Child, emit: Emit) -> None:
    """From start to result. Cancelled, it ends the child first and keeps what it said."""
    child.started = time.monotonic()
    child.timeout_s = _limit_s(delegation)
    status: Status | None = "interrupted"
    error = ""
    reading: list[asyncio.Task[None]] = []
    try:
        child.process = await _spawn(delegation, child)
        delegation.alive[child.id] = child
        reading = [
            asyncio.create_task(_read_stdout(delegation, child, emit)),
            asyncio.create_task(_read_stderr(child)),
        ]
        _send(child, delegation.start().model_copy(update={"spawned_at": child.started}))
        emit(_progress(child))
        status = await _wait(delegation, child, reading[0])
    except (OSError, ValueError) as fault:
        status, error = "error", f"It could not be started: {fault}."
    finally:
        said = child.result
        try:
            await _see_through(_end(child, reading))
        finally:
            delegation.alive.pop(child.id, None)
            child.result = said or _outcome(delegation, child, status, error)
            records.keep_result(child.folder, child.result)
            emit(_finished(child, child.result))


async def _spawn(delegation: Delegation, child: Child) -> asyncio.subprocess.Process:
    command = [*delegation.command, "--from-parent", "--quiet"]
    command += ["--task", str(child.folder / "task.json")]
    command += ["--memory-snapshot", str(child.folder / "snapshot.json")]
    command += ["--timeout", f"{child.timeout_s:.3f}", "--max-steps", str(delegation.max_steps)]
    if delegation.session_id is not None:
        command += ["--parent-session", delegation.session_id]
    # An outer kode that ends us must find the child too.
    outer = os.environ.get(processes.MARK, "")
    mark = f"{outer}:{child.mark}" if outer else child.mark
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=delegation.cwd,
        env={**delegation.environment, processes.MARK: mark},
        start_new_session=True,
    )


async def _wait(
    delegation: Delegation, child: Child, reading: "asyncio.Task[None]"
) -> Status | None:
    """Until the child has ended; "timeout" when it does not, None when its result counts."""
    assert child.process is not None
    left_s = child.timeout_s + delegation.patience_s
    while child.result is None and not reading.done() and child.process.returncode is None:
        if left_s <= 0:
            return "timeout"
        began = time.monotonic()
        # `wait`, not a timeout around an await: that would cancel the reading, and with it the
        # result that the child says when it is asked to end.
        await asyncio.wait([reading], timeout=min(POLL_S, left_s))
        if not child.questions:
            left_s -= time.monotonic() - began
    # Its result is all that counts; it gets a moment to close what it has open.
    deadline = time.monotonic() + (0 if child.flooded else EXIT_GRACE_S)
    while child.process.returncode is None and time.monotonic() < deadline:
        await asyncio.sleep(POLL_S / 10)
    await asyncio.wait([reading], timeout=DRAIN_S)
    return None


def _limit_s(delegation: Delegation) -> float:
    """A child's time: never more than what is left of the parent's turn."""
    ends_at = delegation.spend.turn_ends_at
    if ends_at is None:
        return delegation.timeout_s
    left_s = max(0.0, ends_at - time.monotonic())
    kept_s = min(PATIENCE_S, max(KEPT_S, left_s * KEPT_SHARE))
    return max(0.5, min(delegation.timeout_s, left_s - kept_s))


async def _read_stdout(delegation: Delegation, child: Child, emit: Emit) -> None:
    """Takes lines until the pipe ends. A line that is too long is skipped whole, not kept; too
    many lines end the child."""
    assert child.process is not None
    assert child.process.stdout is not None
    held = bytearray()
    skipping = False
    while data := await child.process.stdout.read(READ_BYTES):
        *lines, rest = data.split(b"\n")
        for line in lines:
            child.lines += 1
            if not skipping:
                _take(delegation, child, bytes(held) + line, emit)
            held.clear()
            skipping = False
        if child.lines > MAX_LINES:
            child.flooded = True
            return
        if skipping or len(held) + len(rest) > MAX_LINE_BYTES:
            child.not_understood += not skipping
            skipping = True
            held.clear()
        else:
            held += rest
    if held and not skipping:
        _take(delegation, child, bytes(held), emit)


def _take(delegation: Delegation, child: Child, line: bytes, emit: Emit) -> None:
    """One line of a child. What is not understood is counted and otherwise nothing. Halves of
    characters, which neither a request nor a terminal can carry, are not."""
    try:
        value = json.loads(line)
        kind = value["type"]
        if kind == "result":
            child.result = Result.model_validate_json(line)
        elif kind == "event":
            _note_event(child, value["event"])
            child.activity = child.activity.encode("utf-8", "replace").decode()
            emit(_progress(child))
        elif kind == "used":
            _note_used(delegation, child, Used.model_validate(value))
        elif kind == "question":
            question = Question.model_validate_json(line)
            task = asyncio.create_task(_answer(delegation, child, question))
            child.questions.add(task)
            task.add_done_callback(child.questions.discard)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError):
        child.not_understood += 1


def _note_event(child: Child, event: Any) -> None:
    match event["type"]:
        case "step_started":
            child.activity = "thinking"
        case "tool_started":
            child.activity = f"{event['name']} {event['subject']}"[:120]
        case "retry_scheduled":
            child.activity = f"waiting: {event['reason']}"[:120]
        case "agent_progress":
            child.activity = f"subagent {event['index'] + 1}: {event['activity']}"[:120]
        case _:
            pass


def _note_used(delegation: Delegation, child: Child, used: Used) -> None:
    usage = Usage(
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cached_tokens=used.cached_tokens,
        cache_write_tokens=used.cache_write_tokens,
    )
    child.usage += usage
    child.cost_usd += used.cost_usd or 0.0
    child.steps += used.steps
    child.untrusted |= used.untrusted
    delegation.spend.usage += usage
    delegation.spend.cost_usd += used.cost_usd or 0.0
    delegation.spend.steps += used.steps
    if usage != Usage():
        delegation.record(used)
    tell_elsewhere(delegation)


async def _answer(delegation: Delegation, child: Child, question: Question) -> None:
    answer = Answer(id=question.id, choice="no", message="Nobody is there to be asked.")
    asker = f"subagent {child.index + 1}: {child.task.goal[:60]}"
    if question.asker:
        asker += f" › {question.asker}"
    if delegation.ask is not None:
        child.activity = "waiting for your answer"
        with contextlib.suppress(KodeError):
            answer = await delegation.ask(question, asker)
    _send(child, answer.model_copy(update={"id": question.id}))


def _send(child: Child, message: BaseModel) -> None:
    """Writes one line to a child that still listens."""
    process = child.process
    if process is None or process.stdin is None or process.stdin.is_closing():
        return
    with contextlib.suppress(OSError, RuntimeError):
        process.stdin.write(line_of(message))


async def _read_stderr(child: Child) -> None:
    """Keeps the end of what a child said on stderr, for the case that it ends without a result."""
    assert child.process is not None
    assert child.process.stderr is not None
    while data := await child.process.stderr.read(READ_BYTES):
        child.stderr = (child.stderr + data)[-STDERR_KEPT_BYTES:]


async def _end(child: Child, reading: Sequence["asyncio.Task[None]"]) -> None:
    """Ends the child and everything it started: asks, waits, kills. The child is asked first and
    alone, so that it can end its own commands and say how far it came."""
    # Without a process a cancellation may have come while it was being started: the mark tells.
    group = child.process.pid if child.process is not None else processes.NO_GROUP
    for question in list(child.questions):
        question.cancel()
    try:
        if child.process is not None and child.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.process.terminate()
            deadline = time.monotonic() + TERM_GRACE_S
            while child.process.returncode is None and time.monotonic() < deadline:
                await asyncio.sleep(POLL_S / 5)
        if processes.found(group, child.mark):
            await processes.end(group, child.mark)
        if reading:
            await asyncio.wait(reading, timeout=DRAIN_S)
    finally:
        processes.kill(group, child.mark)
        for task in (*reading, *child.questions):
            task.cancel()
        if child.process is not None and child.process.stdin is not None:
            child.process.stdin.close()
    await asyncio.gather(*reading, return_exceptions=True)
    if child.process is not None:
        await child.process.wait()


async def _see_through(work: Coroutine[Any, Any, None]) -> None:
    """Awaits `work` to its end, whatever cancellations come meanwhile; then they count."""
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


async def _tick(delegation: Delegation, emit: Emit) -> None:
    while True:
        await asyncio.sleep(PROGRESS_EVERY_S)
        for child in list(delegation.alive.values()):
            emit(_progress(child))


def _outcome(
    delegation: Delegation, child: Child, status: Status | None, error: str = ""
) -> Result:
    """The result of a child that had said none before it was ended: what it said when it was asked
    to end, or what its silence means."""
    if child.result is not None:
        if status is None or child.result.status == "success":
            return child.result
        return child.result.model_copy(update={"status": status})
    if error:
        return _failed(delegation, child, error)
    if child.flooded:
        return _failed(delegation, child, f"It wrote more than {MAX_LINES} lines and was ended.")
    if status == "timeout":
        text = f"It did not end within {child.timeout_s:g} s and was ended."
        return _failed(delegation, child, text, status)
    if status == "interrupted":
        return _failed(delegation, child, "Interrupted.", status)
    code = child.process.returncode if child.process else None
    text = f"It ended with exit code {code} and without a result."
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
        summary=(result.error or result.summary).strip().partition("\n")[0][:200],
        elapsed_s=round(time.monotonic() - child.started, 1),
        tokens=result.tokens_used or child.tokens,
    )


def _progress(child: Child) -> AgentProgress:
    return AgentProgress(
        index=child.index,
        goal=child.task.goal,
        activity=child.activity,
        elapsed_s=round(time.monotonic() - child.started, 1),
        tokens=child.tokens,
    )
