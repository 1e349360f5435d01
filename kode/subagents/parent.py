"""The parent's side of a child's life: starts, watches and answers it, calls for it the tools that
they share, collects its result, and kills it with everything it started.

Every child ends in exactly one of success, error, timeout and interrupted. `records.py` keeps its
files; `tool.py` presents it to the model; `task.py` defines the lines.
"""

import asyncio
import contextlib
import json
import math
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from kode.engine.agent import Spend
from kode.errors import KodeError, StorageError, ToolError
from kode.events import EXIT_CODES, FINISHED, AgentFinished, AgentProgress, Emit, Status
from kode.memory.contract import SnapshotSection
from kode.messages import Usage, shorten
from kode.permissions import gate
from kode.programs import one_deeper, start_program
from kode.subagents import records
from kode.subagents.task import (
    MAX_FROM_PARENT_BYTES,
    MAX_LINE_BYTES,
    MAX_LINES,
    Answer,
    Call,
    CallResult,
    Clock,
    ParentTool,
    Question,
    RestOfTree,
    Result,
    Snapshot,
    Start,
    Task,
    Used,
    line_of,
)
from kode.tool import CALLS_ANY, Tool, ToolContext, ToolOutput
from kode.tools import processes

COMMAND = (sys.executable, "-P", "-m", "kode", "subagent")
"""`-P`: a project with a folder `kode` or a file `json.py` must not become part of the child."""

PATIENCE_S = 10.0
"""How much earlier the child's own deadline is than the parent's, so that it ends by itself with a
summary of its progress."""
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
STDERR_KEPT_BYTES = 4_000  # the last lines before it died


@dataclass(frozen=True, kw_only=True)
class SharedTools:
    """What a child has of its parent's MCP servers: their tools, as its definition allows. The
    parent makes the calls, so that each server runs once, and only if it was approved there;
    whether one is allowed is decided in the child, like any call of its own."""

    tools: Sequence[Tool] = ()
    context: ToolContext | None = None
    """Of its calls, as their tools see it; None if there are no tools."""
    lacks: tuple[str, ...] = ()
    """What its definition names, and its parent has not."""


@dataclass(frozen=True, kw_only=True)
class Delegation:
    """What a parent's children share."""

    folder: Path
    """`sessions/<id>/agents`; created with the first child."""
    session_id: str | None
    cwd: Path
    environment: Mapping[str, str]
    """For the children themselves; without keys."""
    start: Callable[[], Start]
    """The first line for a child that starts now."""
    snapshot: Callable[[], Awaitable[tuple[SnapshotSection, ...]]]
    memory_system: str
    ask: gate.Ask | None
    """None if no person can be asked."""
    spend: Spend
    """This process's spending; what its children use is added to it."""
    record: Callable[[Usage, float | None], None]
    """Records a child's usage and its cost in dollars (None: unknown). Must not raise."""
    free: asyncio.Semaphore
    """For as many children as may run at once."""
    timeout_s: float
    max_steps: int
    share_tools: Callable[[Task, Path], SharedTools] = lambda task, folder: SharedTools()
    """What a child with this task and folder may use of its parent's servers."""
    fork: Callable[[str], Callable[[], bytes]] = lambda call_id: bytes
    """(the call that starts children) → what makes the transcript of each that is a fork."""
    command: Sequence[str] = COMMAND
    patience_s: float = PATIENCE_S
    alive: "dict[str, Child]" = field(default_factory=dict)
    """By id; the children to notify about the others' usage."""


@dataclass
class Child:
    """One child, as its parent sees it."""

    index: int
    task: Task
    folder: Path
    mark: str
    created: float = field(default_factory=time.monotonic)
    started: float = 0.0
    clock: Clock = field(default_factory=lambda: Clock(math.inf))
    process: asyncio.subprocess.Process | None = None
    result: Result | None = None
    activity: str = "starting"
    spend: Spend = field(default_factory=Spend)
    untrusted: bool = False
    questions: "set[asyncio.Task[None]]" = field(default_factory=set)
    """Its questions that wait for the person."""
    shared: SharedTools = field(default_factory=SharedTools)
    calls: "set[asyncio.Task[None]]" = field(default_factory=set)
    """Its calls of shared tools."""
    replied: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the first reply to it has begun, or it has ended."""
    stopped: bool = False
    """Whether it is to end now, with what it has."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it has its result."""
    last_text: str = ""
    edited: dict[str, None] = field(default_factory=dict)
    unread: int = 0
    """How many messages it has not taken yet."""
    lines: int = 0
    stderr: bytes = b""

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def has_flooded(self) -> bool:
        return self.lines > MAX_LINES

    @property
    def tokens(self) -> int:
        return self.spend.usage.input_tokens + self.spend.usage.output_tokens


async def run_children(delegation: Delegation, children: Sequence[Child], emit: Emit) -> None:
    """Runs the tasks, each with a result at the end. If cancelled, kills every child and what each
    started first. Forks wait for the reply to the first of them: from then on a server has what
    they share in its cache."""
    forks = [child for child in children if child.task.fork]

    async def run(child: Child) -> None:
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
                group.create_task(run(child))
    finally:
        ticker.cancel()
        for child in children:
            _settle(delegation, child)


def _settle(delegation: Delegation, child: Child) -> None:
    if child.result is None:
        child.result = _find_result(delegation, child, "interrupted")
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
        sections=await delegation.snapshot(),
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
                transcript=transcript() if task.fork else b"",
            )
            children.append(child)
    except StorageError as error:
        raise ToolError(f"No subagent was started: {error}") from error
    return children


async def _run_child(delegation: Delegation, child: Child, emit: Emit) -> None:
    """Runs one child to its result. If cancelled, ends the child first and keeps its output."""
    child.started = time.monotonic()
    child.clock = Clock(delegation.timeout_s, _find_end(delegation))
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
        child.shared = delegation.share_tools(child.task, child.folder)
        tools = tuple(map(_describe_tool, child.shared.tools))
        ends_at = child.clock.ends_at if math.isfinite(child.clock.ends_at) else None
        update = {"spawned_at": child.started, "ends_at": ends_at, "tools": tools}
        send(child, delegation.start().model_copy(update=update))
        emit(_describe_progress(child))
        status = await _wait(delegation, child, reading[0])
    except (OSError, ValueError) as fault:
        status, error = "error", f"It could not be started: {fault}."
    finally:
        result = child.result
        try:
            await _see_through(_end(child, reading))
        finally:
            delegation.alive.pop(child.id, None)
            child.result = result or _find_result(delegation, child, status, error)
            child.result = records.read_whole_result(child.folder, child.result)
            records.keep_result(child.folder, child.result)
            emit(_describe_end(child, child.result))


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
        limit=MAX_LINE_BYTES,
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
    deadline = time.monotonic() + (0 if child.has_flooded else EXIT_GRACE_S)
    while child.process.returncode is None and time.monotonic() < deadline:
        await asyncio.sleep(POLL_S / 10)
    await asyncio.wait([reading], timeout=DRAIN_S)
    return None


def _find_end(delegation: Delegation) -> float:
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
                emit(_describe_progress(child))


def _find_result(
    delegation: Delegation, child: Child, status: Status | None, error: str = ""
) -> Result:
    """The result of a child that was ended before reporting one: what it said when asked to end, or
    what its silence means."""
    result = child.result
    if result is not None:
        counts = status is None or result.status in FINISHED
        return result if counts else result.model_copy(update={"status": status})
    if child.has_flooded:
        error = f"It wrote more than {MAX_LINES} lines and was ended."
    elif status == "timeout":
        error = f"It did not end by itself at its limit of {delegation.timeout_s:g} s (timeout_s)."
    elif status == "interrupted":
        error = "Interrupted."
    elif not error:
        code = child.process.returncode if child.process else None
        error = f"It ended with exit status {code} and without a result."
        if stderr := child.stderr.decode("utf-8", "replace").strip()[-500:]:
            error += f" Its last words: {stderr}"
        statuses = {number: name for name, number in EXIT_CODES.items() if name != "success"}
        status = statuses.get(-1 if code is None else code)
    return Result(
        status=status or "error",
        summary=f"No report. It was last seen at: {child.activity}." if child.spend.steps else "",
        error=error,
        tokens_used=child.tokens,
        steps=child.spend.steps,
        parent_session=delegation.session_id,
    )


def _describe_end(child: Child, result: Result) -> AgentFinished:
    return AgentFinished(
        index=child.index,
        goal=child.task.goal,
        status=result.status,
        summary=shorten((result.error or result.summary).strip().partition("\n")[0], SUMMARY_CHARS),
        elapsed_s=round(time.monotonic() - child.started, 1),
        tokens=result.tokens_used or child.tokens,
    )


async def _read_stdout(delegation: Delegation, child: Child, emit: Emit) -> None:
    """Reads lines until the pipe ends. Too many of them end the child."""
    assert child.process is not None
    assert child.process.stdout is not None
    line: bytes | None = None
    while line != b"":
        try:
            line = await child.process.stdout.readline()
        except ValueError:  # too long: what is left of it is no JSON either
            continue
        take(delegation, child, line, emit)
        child.lines += 1
        if child.has_flooded:
            return


def take(delegation: Delegation, child: Child, line: bytes, emit: Emit) -> None:
    """Handles one line of a child. Ignores what it does not understand, including lone surrogates,
    which neither a request nor a terminal can carry."""
    try:
        value = json.loads(line)
        kind = value["type"]
        if kind == "result":
            child.result = Result.model_validate_json(line)
        elif kind == "event":
            _note_event(child, value["event"])
            child.activity = _sendable(child.activity)
            emit(_describe_progress(child))
        elif kind == "used":
            _note_used(delegation, child, Used.model_validate(value))
        elif kind == "question":
            question = Question.model_validate_json(line)
            _beside(child.questions, _answer(delegation, child, question))
        elif kind == "call":
            _beside(child.calls, _call_tool(child, Call.model_validate_json(line)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError):
        return  # a newer kode's, or not a line of kode's at all


def _note_event(child: Child, event: Any) -> None:
    child.clock.note_event(event["type"])
    match event["type"]:
        case "step_started":
            child.activity = "thinking"
        case "reply_begun":
            child.replied.set()
        case "replied":
            child.last_text = _sendable(event.get("said") or child.last_text)
            child.replied.set()
        case "tool_finished" if event.get("edited"):
            child.edited[_sendable(event["subject"])] = None
        case "steered":
            child.unread -= 1
        case "tool_started":
            child.activity = f"{event['name']} {event['subject']}"[:120]
        case "retry_scheduled":
            child.activity = f"waiting: {event['reason']}"[:120]
        case "agent_progress":
            child.activity = f"subagent {event['index'] + 1}: {event['activity']}"[:120]


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _note_used(delegation: Delegation, child: Child, used: Used) -> None:
    child.untrusted |= used.untrusted
    for spend in (child.spend, delegation.spend):
        spend.add(used.usage, used.cost_usd)
        spend.steps += used.steps
    if used.usage != Usage():
        delegation.record(used.usage, used.cost_usd)
    report_rest_of_tree(delegation)


def _beside(tasks: "set[asyncio.Task[None]]", work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


async def _answer(delegation: Delegation, child: Child, line: Question) -> None:
    answer = gate.Answer(choice="no", message="Nobody is there to be asked.")
    asker = f"subagent {child.index + 1}: {child.task.goal[:60]}"
    if line.question.asker:
        asker += f" › {line.question.asker}"
    if delegation.ask is not None:
        child.activity = "waiting for your answer"
        with contextlib.suppress(KodeError):
            # Only what an `Answer` can carry is offered.
            answer = await delegation.ask(
                replace(line.question, asker=asker, narrow=(), passes_in=None, items=())
            )
    send(child, Answer(id=line.id, answer=answer))


def _describe_tool(tool: Tool) -> ParentTool:
    return ParentTool(
        name=tool.name,
        description=tool.description,
        effect="mcp" if tool.effect == "mcp" else "none",
        subject=tool.target({}) if tool.target and tool.name != CALLS_ANY else "",
        parameters=dict(tool.parameters()),
    )


async def _call_tool(child: Child, call: Call) -> None:
    """Calls a shared tool for a child. A failure is in the line that it gets."""
    shared = child.shared
    tool = next((tool for tool in shared.tools if tool.name == call.tool), None)
    try:
        if tool is None or shared.context is None:
            raise ToolError(f"This subagent was not given the tool {call.tool!r}.")
        output = await tool.run(shared.context, tool.check(call.arguments))
    except ToolError as error:
        line = CallResult(id=call.id, text=str(error), untrusted=error.untrusted, failed=True)
    else:
        output = ToolOutput(text=output) if isinstance(output, str) else output
        line = CallResult(
            id=call.id,
            text=output.text,
            summary=output.summary,
            pictures=output.pictures,
            untrusted=output.untrusted,
        )
    if len(line_of(line)) > MAX_FROM_PARENT_BYTES:
        text = "Too long an answer for a subagent: ask less."
        line = CallResult(id=call.id, text=text, failed=True)
    child.untrusted |= bool(line.untrusted)
    send(child, line)


def send(child: Child, message: BaseModel) -> None:
    """Writes one line to a child that still listens."""
    process = child.process
    if process is None or process.stdin is None or process.stdin.is_closing():
        return
    with contextlib.suppress(OSError, RuntimeError):
        process.stdin.write(line_of(message))


async def _read_stderr(child: Child) -> None:
    """Keeps the end of a child's stderr, in case it ends without a result."""
    assert child.process is not None
    assert child.process.stderr is not None
    while data := await child.process.stderr.read(STDERR_KEPT_BYTES):
        child.stderr = (child.stderr + data)[-STDERR_KEPT_BYTES:]


def report_rest_of_tree(delegation: Delegation) -> None:
    """Tells every living child what the rest of the tree has used."""
    spend = delegation.spend
    for child in delegation.alive.values():
        send(
            child,
            RestOfTree(
                cost_usd=spend.cost_usd + spend.rest_of_tree_usd - child.spend.cost_usd,
                steps=spend.steps + spend.rest_of_tree_steps - child.spend.steps,
            ),
        )


def _describe_progress(child: Child) -> AgentProgress:
    return AgentProgress(
        index=child.index,
        goal=child.task.goal,
        activity=child.activity,
        elapsed_s=round(time.monotonic() - child.started, 1),
        tokens=child.tokens,
    )
