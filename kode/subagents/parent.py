"""The parent's side of a child's life: starts, watches and answers it, calls for it the tools that
they share, collects its result, and kills it with everything it started.

Every child ends in exactly one of success, error, timeout and interrupted. `records.py` keeps its
files; `tool.py` presents it to the model; `task.py` defines the lines.
"""

import asyncio
import contextlib
import math
import os
import secrets
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from pydantic import BaseModel
from pydantic_core import from_json

from kode.config.model import Subagent
from kode.engine.agent import Agent, Spend
from kode.errors import KodeError, StorageError, ToolError
from kode.events import FINISHED, AgentFinished, AgentProgress, Emit, Status, silent
from kode.messages import Usage, first_of, plural, shorten
from kode.permissions import question as permission
from kode.programs import one_deeper
from kode.session.log import Session
from kode.subagents import records
from kode.subagents.records import Record
from kode.subagents.task import (
    MAX_LINE_BYTES,
    Call,
    Clock,
    ParentMessage,
    ParentTool,
    Question,
    Reply,
    RestOfTree,
    Result,
    Snapshot,
    Start,
    Task,
    TaskArgument,
    Used,
    line_of,
)
from kode.tool import CALLS_ANY, Tool, ToolContext, ToolOutput
from kode.tools.processes import ProcessTree

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
RESERVED_SHARE, MAX_RESERVED_S = 0.2, 10.0
"""Share of the parent's remaining turn, to end the child and use the results."""
PROGRESS_EVERY_S = 1.0  # a person reads no faster
POLL_S = 0.1  # below what a person notices
SUMMARY_CHARS = 400
"""Of a child's error, whose end says what to do, or of its summary, on the screen."""
STDERR_BYTES = 500  # the last lines before it died


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
    session: Session
    agent: Callable[[], Agent]
    """The parent as it is now: its model may have changed."""
    limits: Subagent
    environment: Mapping[str, str]
    """For the children themselves; without keys."""
    start: Callable[[], Start]
    """The first line for a child that starts now."""
    ask: permission.Ask | None
    """None if no person can be asked."""
    record: Callable[[Usage, float | None], None]
    """Records a child's usage and its cost in dollars (None: unknown). Must not raise."""
    free: asyncio.Semaphore
    """For as many children as may run at once."""
    share_tools: Callable[[Task, Path], SharedTools] = lambda task, folder: SharedTools()
    """What a child with this task and folder may use of its parent's servers."""
    fork: Callable[[str], Callable[[], bytes]] = lambda call_id: bytes
    """(the call that starts children) → what makes the transcript of each that is a fork."""
    command: Sequence[str] = COMMAND
    running: "dict[str, Child]" = field(default_factory=dict)
    """By id."""

    @property
    def spend(self) -> Spend:
        """What this process has spent, its children included."""
        return self.agent().spend

    def report_rest_of_tree(self) -> None:
        """Tells every running child what the rest of the tree has used."""
        usd = self.spend.cost_usd + self.spend.rest_of_tree_usd
        steps = self.spend.steps + self.spend.rest_of_tree_steps
        for child in self.running.values():
            used = child.spend
            child.send(RestOfTree(cost_usd=usd - used.cost_usd, steps=steps - used.steps))

    def find_end(self) -> float:
        """When a child that starts now must have ended: before the parent's turn does."""
        if (ends_at := self.spend.turn_ends_at) is None:
            return math.inf
        left_s = max(0.0, ends_at - time.monotonic())
        return ends_at - min(MAX_RESERVED_S, left_s * RESERVED_SHARE)


@dataclass(eq=False)
class Child:
    """One child, as its parent sees it; in the background it is a `RunningCommand`."""

    delegation: Delegation
    index: int
    task: Task
    folder: Path
    emit: Emit = silent
    is_fork: bool = False
    tree: ProcessTree = field(default_factory=ProcessTree)
    """Its processes, which end where this process is killed."""
    since: float = field(default_factory=time.monotonic)
    """When it was created."""
    started: float = 0.0
    clock: Clock = field(default_factory=lambda: Clock(math.inf))
    process: Process | None = None
    result: Result | None = None
    activity: str = "starting"
    spend: Spend = field(default_factory=Spend)
    untrusted: str = ""
    open_questions: int = 0
    """How many of its questions wait for the person."""
    shared: SharedTools = field(default_factory=SharedTools)
    replies: "set[asyncio.Task[None]]" = field(default_factory=set)
    """To its questions and calls of shared tools."""
    has_reply: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the first reply of the model to it has begun, or it has ended."""
    is_stopped: bool = False
    """Whether it is to end now, with what it has."""
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when its result is on disk."""
    last_text: str = ""
    edited: dict[str, None] = field(default_factory=dict)
    unread: int = 0
    """How many messages it has not taken yet."""
    stderr: "IO[bytes] | None" = None
    output_path: None = None
    partial: str = ""

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def command(self) -> str:
        return self.task.goal

    @property
    def tokens(self) -> int:
        return self.spend.usage.input_tokens + self.spend.usage.output_tokens

    @property
    def has_edited(self) -> bool:
        return bool(self.edited or (self.result is not None and self.result.files_changed))

    async def run(self) -> None:
        """Runs it to its result. If cancelled, ends it first and keeps what it reports."""
        delegation = self.delegation
        self.started = time.monotonic()
        self.clock = Clock(delegation.limits.timeout_s, delegation.find_end())
        status: Status | None = "interrupted"
        error = ""
        reading: asyncio.Task[None] | None = None
        try:
            self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed below)
            self.process = process = await self._spawn(self.stderr)
            delegation.running[self.id] = self
            reading = asyncio.create_task(self._read_lines(process))
            self.shared = delegation.share_tools(self.task, self.folder)
            update = {
                "spawned_at": self.started,
                "ends_at": self.clock.ends_at if math.isfinite(self.clock.ends_at) else None,
                "tools": tuple(map(_describe_tool, self.shared.tools)),
            }
            self.send(delegation.start().model_copy(update=update))
            status = await self._wait(process, reading)
        except (OSError, ValueError) as fault:
            status, error = "error", f"It could not be started: {fault}."
        finally:
            if self.result is not None:
                status = None
            try:
                await finish(asyncio.ensure_future(self._end(reading)))
            finally:
                delegation.running.pop(self.id, None)
                self._report_end(self.conclude(status, error))
                if self.stderr is not None:
                    self.stderr.close()

    async def _spawn(self, stderr: IO[bytes]) -> Process:
        session_id = self.delegation.session.id
        return await self.tree.start(
            *self.delegation.command,
            *("--from-parent", "--quiet", "--task", str(self.folder / "task.json")),
            *("--memory-snapshot", str(self.folder / "snapshot.json")),
            *(("--parent-session", session_id) if session_id is not None else ()),
            environment=self.delegation.environment,
            **{"stdin": PIPE, "stdout": PIPE, "stderr": stderr},
            cwd=self.delegation.agent().place.cwd,
            limit=MAX_LINE_BYTES,
        )

    async def _wait(self, process: Process, reading: "asyncio.Task[None]") -> Status | None:
        """Waits until it has ended; "timeout" if it does not, None if its result counts."""
        # Its own clock stops first, so that it ends by itself.
        self.clock.left_s += PATIENCE_S
        self.clock.ends_at += PATIENCE_S
        reported_at = 0.0
        while self.result is None and not reading.done() and process.returncode is None:
            if self.clock.is_over(waits=self.open_questions > 0):
                return "timeout"
            if self.is_stopped:
                return "interrupted"
            if time.monotonic() - reported_at >= PROGRESS_EVERY_S:
                reported_at = time.monotonic()
                self.report_progress()
            # `wait`, not a timeout around an await: that would cancel the reading, and lose the
            # result that the child sends when asked to end.
            await asyncio.wait([reading], timeout=POLL_S)
        # Only its result counts; it gets a moment to close what it has open.
        await _wait_for_exit(process, EXIT_GRACE_S)
        return None

    async def _end(self, reading: "asyncio.Task[None] | None") -> None:
        """Ends it and everything it started: asks, waits, kills. It alone is asked first, so that
        it can end its own commands and report its progress."""
        process = self.process
        for task in self.replies:
            task.cancel()
        try:
            if process is not None and process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                await _wait_for_exit(process, TERM_GRACE_S)
            # Without a process, a cancellation may have come during its start.
            await self.tree.end()
            if reading is not None:
                await asyncio.wait([reading], timeout=DRAIN_S)
        finally:
            self.tree.kill()
            self.tree.forget()
            for task in (*filter(None, [reading]), *self.replies):
                task.cancel()
            if process is not None:
                # What a grandchild holds open would stay open here until it is gone, and asyncio
                # has no public way to release it.
                process._transport.close()  # type: ignore[attr-defined]
                await process.wait()

    def conclude(self, status: Status | None = "interrupted", error: str = "") -> Result:
        """Gives it a result, on disk too, if it has none. `status` is why the parent ended it; None
        if it ended by itself. Never raises."""
        if self.finished.is_set() and self.result is not None:
            return self.result
        # A long report is only in the file.
        result = records.read_result(self.folder) or self.result
        if result is None:
            result = self._make_result(status, error)
        elif status is not None and result.status not in FINISHED:
            result = result.model_copy(update={"status": status})
        if result.untrusted:
            self.untrusted = "a subagent"
        self.result = result
        records.write_result(self.folder, result)
        self.has_reply.set()
        self.finished.set()
        return result

    def _make_result(self, status: Status | None, error: str) -> Result:
        """What its silence means."""
        if status == "timeout":
            limit = f"{self.delegation.limits.timeout_s:g} s (timeout_s)"
            error = f"It did not end by itself at its limit of {limit}."
        elif status == "interrupted":
            error = "Interrupted."
        elif not error:
            code = self.process.returncode if self.process else None
            error = f"It ended with exit status {code} and without a result."
            if self.stderr is not None and (end := self.stderr.seek(0, os.SEEK_END)):
                self.stderr.seek(max(0, end - STDERR_BYTES))
                error += f" Its last words: {self.stderr.read().decode('utf-8', 'replace')}"
        return Result(
            status=status or "error",
            summary=f"No report. It was last seen at: {self.activity}." if self.spend.steps else "",
            error=error,
            tokens_used=self.tokens,
            steps=self.spend.steps,
            parent_session=self.delegation.session.id,
            untrusted=bool(self.untrusted),
        )

    async def _read_lines(self, process: Process) -> None:
        """Takes its lines until the pipe ends."""
        line: bytes | None = None
        while line != b"" and process.stdout is not None:
            with contextlib.suppress(ValueError):  # too long: what is left of it is no JSON either
                self.take(line := await process.stdout.readline())

    def take(self, line: bytes) -> None:
        """Handles one line of it. Ignores what it does not understand, and lines with lone
        surrogates, which neither a request nor a terminal can carry."""
        try:
            value = from_json(line)
            match value["type"]:
                case "result":
                    self.result = Result.model_validate_json(line)
                case "event":
                    self._note_event(value["event"])
                    self.report_progress()
                case "used":
                    self._note_used(Used.model_validate(value))
                case "question":
                    self._begin_reply(self._answer(Question.model_validate_json(line)))
                case "call":
                    self._begin_reply(self._call_tool(Call.model_validate_json(line)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return  # a newer kode's, or not a line of kode's at all

    def _note_event(self, event: Any) -> None:
        self.clock.note_event(event["type"])
        activity = ""
        match event["type"]:
            case "step_started":
                activity = "thinking"
            case "reply_begun":
                self.has_reply.set()
            case "replied":
                self.last_text = str(event.get("said") or self.last_text)
                self.has_reply.set()
            case "tool_finished" if event.get("edited"):
                self.edited[str(event["subject"])] = None
            case "steered":
                self.unread -= 1
            case "tool_started":
                activity = f"{event['name']} {event['subject']}"
            case "retry_scheduled":
                activity = f"waiting: {event['reason']}"
            case "agent_progress":
                activity = f"subagent {event['index'] + 1}: {event['activity']}"
        self.activity = activity[:120] or self.activity

    def _note_used(self, used: Used) -> None:
        usage = Usage(**used.usage)
        if used.untrusted:
            self.untrusted = "a subagent"
        for spend in (self.spend, self.delegation.spend):
            spend.add(usage, used.cost_usd)
            spend.steps += used.steps
        if usage != Usage():
            self.delegation.record(usage, used.cost_usd)
        self.delegation.report_rest_of_tree()

    def _begin_reply(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.replies.add(task)
        task.add_done_callback(self.replies.discard)

    async def _answer(self, line: Question) -> None:
        answer = permission.Answer(choice="no", message="Nobody is there to be asked.")
        asker = f"subagent {self.index + 1}: {self.task.goal[:60]}"
        if line.question.asker:
            asker += f" › {line.question.asker}"
        if self.delegation.ask is not None:
            self.activity = "waiting for your answer"
            # Only what an `Answer` can carry is offered.
            about = replace(line.question, asker=asker, narrow=(), passes_in=None, items=())
            self.open_questions += 1
            try:
                with contextlib.suppress(KodeError):
                    answer = await self.delegation.ask(about)
            finally:
                self.open_questions -= 1
        self.send(Reply(id=line.id, answer=answer))

    async def _call_tool(self, call: Call) -> None:
        """Calls a shared tool. A failure is in the line that the child gets."""
        tool = next((tool for tool in self.shared.tools if tool.name == call.tool), None)
        try:
            if tool is None or self.shared.context is None:
                raise ToolError(f"This subagent was not given the tool {call.tool!r}.")
            output = await tool.run(self.shared.context, tool.check(call.arguments))
            output = ToolOutput(text=output) if isinstance(output, str) else output
            self.send(Reply(id=call.id, output=output))
        except ToolError as error:
            output = ToolOutput(text=str(error), untrusted=error.untrusted)
            self.send(Reply(id=call.id, output=output, failed=True))

    def send(self, message: BaseModel) -> None:
        """Writes it one line, if it still listens."""
        stdin = self.process.stdin if self.process is not None else None
        if stdin is not None and not stdin.is_closing():
            with contextlib.suppress(OSError, RuntimeError):
                stdin.write(line_of(message))

    def report_progress(self) -> None:
        """Says what it does now."""
        self.emit(AgentProgress(**self._describe(), activity=self.activity, tokens=self.tokens))

    def _report_end(self, result: Result) -> None:
        line = (result.error or result.summary).strip().partition("\n")[0]
        about, tokens = self._describe(), result.tokens_used or self.tokens
        summary = shorten(line, SUMMARY_CHARS)
        self.emit(AgentFinished(**about, status=result.status, summary=summary, tokens=tokens))

    def _describe(self) -> dict[str, Any]:
        elapsed_s = round(time.monotonic() - self.started, 1)
        return {"index": self.index, "goal": self.task.goal, "elapsed_s": elapsed_s}

    def report(self, limit: int = records.MAX_SHOWN_CHARS) -> str:
        """Its result for the model, in at most about `limit` characters, once it has ended."""
        record = Record(
            folder=self.folder, goal=self.task.goal, mark=self.tree.mark, result=self.result
        )
        text = record.report(self.delegation.agent().place.outputs, limit)
        lacks = self.shared.lacks
        return f"{text}\n[It had no {', no '.join(lacks)}.]" if lacks else text

    def output(self) -> str:
        """Its report, or what there is of it so far."""
        unread = f"[Messages that it has not read: {self.unread}]" if self.unread else ""
        if self.result is not None:
            return "\n".join(filter(None, (self.report(), unread)))
        steps, files = plural(self.spend.steps, "step"), ", ".join(first_of([*self.edited], 40))
        state = f"[{self.id}: {steps}, {self.tokens} tokens, {self.activity}]"
        text = self.last_text[: records.MAX_SHOWN_CHARS]
        return "\n".join(filter(None, (state, unread, text, files and f"Files changed: {files}")))

    async def ended(self) -> str:
        """Waits for its end; returns its status."""
        await self.finished.wait()
        assert self.result is not None
        return self.result.status

    async def end(self) -> None:
        """Has it end with what it has."""
        self.is_stopped = True
        if self.started:
            await self.finished.wait()

    def tell(self, text: str) -> None:
        """Gives it a message. Raises: ToolError if it does not run."""
        if self.result is not None or self.is_stopped:
            raise ToolError(f"It has ended. Give it another task with `resume`: {self.id}.")
        if self.process is None:
            raise ToolError("It has not begun: others run first.")
        self.unread += 1
        self.send(ParentMessage(text=text, tainted=self.delegation.session.tainted))


async def prepare(
    delegation: Delegation, arguments: Sequence[TaskArgument], call_id: str, emit: Emit = silent
) -> list[Child]:
    """Makes the children of one call: the same snapshot of memory for all, which a fork has in its
    conversation. Raises: ToolError if their files cannot be written, or a task resumes what cannot
    go on."""
    tasks = []
    for argument in arguments:
        task = Task(**argument.model_dump(exclude={"resume", "fork"}, exclude_defaults=True))
        if argument.resume:
            task = records.continue_task(delegation.folder, argument.resume, task)
        tasks.append(task)
    now, memory = datetime.now(UTC), delegation.agent().memory
    created_at, sections = now.isoformat(timespec="milliseconds"), await memory.snapshot()
    snapshot = Snapshot(system=memory.name, created_at=created_at, sections=sections)
    children = []
    transcript = delegation.fork(call_id) if any(each.fork for each in arguments) else bytes
    first = max((child.index + 1 for child in delegation.running.values()), default=0)
    try:
        for index, (argument, task) in enumerate(zip(arguments, tasks, strict=True), first):
            name = argument.resume or f"{now:%Y%m%d-%H%M%S}-{index + 1}-{secrets.token_hex(3)}"
            folder = delegation.folder / name
            child = Child(delegation, index, task, folder, emit, argument.fork)
            about = {"mark": child.tree.mark, "call_id": call_id}
            beginning = transcript() if argument.fork else b""
            records.create(folder, task, snapshot, **about, transcript=beginning)
            children.append(child)
    except StorageError as error:
        raise ToolError(f"No subagent was started: {error}") from error
    return children


async def run_children(children: Sequence[Child]) -> None:
    """Runs the tasks, each with a result at the end. If cancelled, kills every child and what each
    started first. Forks wait for the reply to the first of them: from then on a server has what
    they share in its cache."""
    forks = [child for child in children if child.is_fork]

    async def run(child: Child) -> None:
        if child in forks[1:]:
            await forks[0].has_reply.wait()
        async with child.delegation.free:
            if not child.is_stopped:
                await child.run()
        child.conclude()

    try:
        async with asyncio.TaskGroup() as group:
            for child in children:
                group.create_task(run(child))
    finally:
        for child in children:
            child.conclude()


def child_environment(
    environ: Mapping[str, str], secret_values: Sequence[str], passed_on: Sequence[str] = ()
) -> dict[str, str]:
    """The environment of a child itself: ours without variables that look secret by name, or
    contain one of `secret_values`. `passed_on` are names the person passes on."""
    words = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
    passed = {
        name: value
        for name, value in environ.items()
        if (name in passed_on or not any(word in name.upper() for word in words))
        and not any(secret in value for secret in secret_values)
    }
    return passed | one_deeper(environ)


async def finish(task: "asyncio.Future[None]") -> None:
    """Awaits a task to its end despite cancellations, then raises them."""
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        raise asyncio.CancelledError
    task.result()


async def _wait_for_exit(process: Process, limit_s: float) -> None:
    """At most so long; `Process.wait` would wait for its pipes too."""
    deadline = time.monotonic() + limit_s
    while process.returncode is None and time.monotonic() < deadline:
        await asyncio.sleep(POLL_S / 5)


def _describe_tool(tool: Tool) -> ParentTool:
    return ParentTool(
        name=tool.name,
        description=tool.description,
        effect="mcp" if tool.effect == "mcp" else "none",
        subject=tool.target({}) if tool.target and tool.name != CALLS_ANY else "",
        parameters=dict(tool.parameters()),
    )
