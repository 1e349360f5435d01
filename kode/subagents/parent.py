"""The parent's side of a child: starts and watches it, answers its questions, runs shared tools on
its behalf, collects its result, and kills it with everything it started.

Every child ends in exactly one status. `records.py` keeps its files; `tool.py` presents it to the
model; `task.py` defines the lines.
"""

import asyncio
import contextlib
import math
import os
import re
import secrets
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from pydantic import BaseModel
from pydantic_core import from_json

from kode.config.model import Subagent
from kode.engine.agent import Agent, Spend
from kode.errors import KodeError, StorageError, ToolError
from kode.events import FINISHED, AgentFinished, AgentProgress, Emit, Status, no_emit
from kode.messages import Usage, plural, shorten
from kode.permissions import question as permission
from kode.process import nested_environment
from kode.session.log import Session
from kode.subagents import records
from kode.subagents.task import (
    MAX_LINE_BYTES,
    Clock,
    ParentCall,
    ParentReply,
    ParentTool,
    Result,
    Start,
    Task,
    TaskArgument,
    Used,
    encode_line,
    memory_text,
)
from kode.tool import CALLS_ANY, Tool, ToolContext, ToolOutput
from kode.tools.processes import ProcessTree, open_program
from kode.values import Value, asdict, dataclass, field, replace

COMMAND = (sys.executable, "-P", "-m", "kode", "subagent")
"""`-P`: a project with a folder `kode` or a file `json.py` must not become part of the child."""

PATIENCE_S = 10.0
"""How much later the parent's deadline is than the child's own, which lets the child end itself."""
EXIT_GRACE_S = 3.0
"""How long a child may take to save its session and to end, after its result or when asked to."""
DRAIN_S = 1.0  # to read the rest from the pipes of an ended child
RESERVED_SHARE, MAX_RESERVED_S = 0.2, 10.0
"""Share of the parent's remaining turn, kept for ending the child and using the results."""
PROGRESS_EVERY_S = 1.0  # a person reads no faster
POLL_S = 0.1  # below what a person notices
SUMMARY_CHARS = 400  # on the screen: the end of an error says what to do
INTERRUPTED = "Interrupted."
STDERR_BYTES = 500  # the last lines before it died

End = tuple[Status | None, str]
"""Why the parent ended a child (None: it ended by itself), and the error if it left no result."""


class Delegation(Value):
    """What a parent's children share."""

    folder: Path
    """`sessions/<id>/agents`; created with the first child."""
    session: Session
    agent: Callable[[], Agent]
    """The parent as it is now: its model may have changed."""
    limits: Subagent
    environment: Mapping[str, str]
    """The environment of the child processes; without keys."""
    start: Callable[[], Start]
    """The first line for a child that starts now. Raises: ConfigError."""
    ask: permission.Ask | None
    """None if no person can be asked."""
    record: Callable[[Usage, float | None], None]
    """Records a child's usage and its cost in dollars (None: unknown). Must not raise."""
    free: asyncio.Semaphore
    """Limits how many children run at once."""
    share_tools: Callable[[Task], Sequence[Tool]] = lambda task: ()
    """The tools of the parent's MCP servers that a child with this task may use. The parent makes
    the calls, so that each server runs once, and only if it is approved there; the child decides
    whether a call is allowed, like any other call of its own."""
    command: Sequence[str] = COMMAND
    running: "dict[str, ChildProcess]" = field(default_factory=dict)
    """The running children by id."""

    def report_rest_of_tree(self) -> None:
        """Tells every running child what the rest of the tree has used."""
        spend = self.agent().spend  # with that of the children
        usd = spend.cost_usd + spend.rest_of_tree_usd
        steps = spend.steps + spend.rest_of_tree_steps
        for child in self.running.values():
            rest = {"cost_usd": usd - child.spend.cost_usd, "steps": steps - child.spend.steps}
            child.send({"type": "rest_of_tree", **rest})


@dataclass(eq=False)
class ChildProcess:
    """One child, as its parent sees it; in the background it is a `RunningCommand`."""

    delegation: Delegation
    index: int
    task: Task
    folder: Path
    memory: str = ""
    """The memory section of its system prompt."""
    emit: Emit = no_emit
    tree: ProcessTree = field(default_factory=ProcessTree)
    """Its processes, which also end if this process is killed."""
    since: float = field(default_factory=time.monotonic)
    """When it was created, then when it was started."""
    clock: Clock = field(default_factory=lambda: Clock(math.inf))
    work: "asyncio.Task[None] | None" = None
    """The asyncio task that runs it to its result."""
    is_stopped: bool = False
    """Whether it is to end now, with what it has."""
    stdin: asyncio.StreamWriter | None = None
    """Its stdin; None until its process runs."""
    result: Result | None = None
    activity: str = "starting"
    spend: Spend = field(default_factory=Spend)
    untrusted: str = ""
    open_questions: int = 0
    """How many of its questions wait for the person."""
    tools: Sequence[Tool] = ()
    """The tools that its parent runs for it."""
    replies: "set[asyncio.Task[None]]" = field(default_factory=set)
    """The asyncio tasks that answer its questions and calls of shared tools."""
    last_text: str = ""
    has_edited: bool = False
    capture: None = None  # what it prints goes to no file

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def command(self) -> str:
        return self.task.goal

    @property
    def tokens(self) -> int:
        return self.spend.usage.input_tokens + self.spend.usage.output_tokens

    async def run(self) -> None:
        """Waits until another child may run, then runs this one to its result."""
        status: Status | None = "interrupted"
        error = INTERRUPTED
        try:
            async with self.delegation.free:
                if not self.is_stopped:
                    with tempfile.TemporaryFile() as stderr:
                        status, error = await self._run_process(stderr)
        except (OSError, ValueError, KodeError) as fault:
            status, error = "error", f"It could not be started: {fault}."
        finally:
            self.write_result(status, error)

    async def _run_process(self, stderr: IO[bytes]) -> End:
        """Starts its process, and returns when nothing of it is left. Raises: OSError, ValueError,
        KodeError if it cannot be started."""
        delegation, session_id = self.delegation, self.delegation.session.id
        self.since, ends_at = time.monotonic(), math.inf
        turn_ends_at = delegation.agent().spend.turn_ends_at
        if turn_ends_at is not None:  # it ends before the turn does
            left_s = max(0.0, turn_ends_at - self.since)
            ends_at = turn_ends_at - min(MAX_RESERVED_S, left_s * RESERVED_SHARE)
        # The child's own clock stops first, so that it ends by itself.
        self.clock = Clock(delegation.limits.timeout_s + PATIENCE_S, ends_at + PATIENCE_S)
        argv = [*delegation.command, "--from-parent", "--quiet"]
        argv += ("--task", str(self.folder / "task.json"))
        argv += ("--parent-session", session_id) if session_id is not None else ()
        options: dict[str, Any] = {"tree": self.tree, "stderr": stderr, "limit": MAX_LINE_BYTES}
        cwd = delegation.agent().place.cwd
        try:
            async with open_program(argv, delegation.environment, cwd, **options) as process:
                self.stdin, delegation.running[self.id] = process.stdin, self
                reading = asyncio.create_task(self._read_lines(process))
                self.tools = delegation.share_tools(self.task)
                update = {
                    "memory": self.memory,
                    "ends_at": ends_at if math.isfinite(ends_at) else None,
                    "tools": tuple(map(_describe_tool, self.tools)),
                }
                self.send(delegation.start().model_copy(update=update))
                try:
                    status, error = await self._wait(process, reading)
                finally:
                    for task in self.replies:
                        task.cancel()
                # Only the child is asked first: it ends its commands and reports its progress.
                if status is not None and process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        process.terminate()
                await asyncio.wait([reading], timeout=EXIT_GRACE_S)
                await self.tree.end()
                await asyncio.wait([reading], timeout=DRAIN_S)
        finally:
            delegation.running.pop(self.id, None)
        stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - STDERR_BYTES))
        text = stderr.read().decode("utf-8", "replace")
        last = f" Its last words: {text}" if text else ""
        end = f"It ended with exit status {process.returncode} and without a result."
        return status, error or f"{end}{last}"

    async def _wait(self, process: Process, reading: "asyncio.Task[None]") -> End:
        """Waits until the child has a result, has ended, or must end; returns why it must."""
        reported_at = 0.0
        while self.result is None and not reading.done() and process.returncode is None:
            if self.clock.is_over(waits=self.open_questions > 0):
                limit_s = self.delegation.limits.timeout_s
                return "timeout", f"It did not end at its limit of {limit_s:g} s (timeout_s)."
            if self.is_stopped:
                return "interrupted", INTERRUPTED
            if time.monotonic() - reported_at >= PROGRESS_EVERY_S:
                reported_at = time.monotonic()
                self.report_progress()
            await asyncio.wait([reading], timeout=POLL_S)
        return None, ""

    def write_result(self, status: Status | None = "interrupted", error: str = INTERRUPTED) -> None:
        """Writes the child's result, or one for it if it has none, and announces its end. `status`
        is why the parent ended it; None if it ended by itself. Never raises."""
        # A long report is only in the file.
        result = records.ChildRecord(self.folder).result or self.result
        if result is None:
            last = f"No report. It was last seen at: {self.activity}." if self.spend.steps else ""
            result = Result(
                status=status or "error",
                summary=last,
                error=error,
                tokens_used=self.tokens,
                steps=self.spend.steps,
                parent_session=self.delegation.session.id,
                untrusted=bool(self.untrusted),
            )
        elif status is not None and result.status not in FINISHED:
            result = result.model_copy(update={"status": status})
        if result.untrusted:
            self.untrusted = "a subagent"
        self.has_edited |= bool(result.files_changed)
        self.result = result
        records.write_result(self.folder, result)
        if self.stdin is not None:
            line = (result.error or result.summary).strip().partition("\n")[0]
            about, tokens = self._describe(), result.tokens_used or self.tokens
            summary = shorten(line, SUMMARY_CHARS)
            self.emit(AgentFinished(**about, status=result.status, summary=summary, tokens=tokens))

    async def _read_lines(self, process: Process) -> None:
        """Handles the child's lines until the pipe ends."""
        line: bytes | None = None
        while line != b"" and process.stdout is not None:
            with contextlib.suppress(ValueError):  # too long: what is left of it is no JSON either
                self.handle_line(line := await process.stdout.readline())

    def handle_line(self, line: bytes) -> None:
        """Handles one line of the child. Ignores lines that it does not understand, or with lone
        surrogates, which neither a request nor a terminal can carry."""
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
            match value := from_json(line):
                case {"type": "result"}:
                    self.result = Result.model_validate_json(line)
                case {"type": "used"}:
                    self._note_used(Used.model_validate(value))
                case {"type": "call"}:
                    task = asyncio.create_task(self._answer(ParentCall.model_validate_json(line)))
                    self.replies.add(task)
                    task.add_done_callback(self.replies.discard)
                case {"type": str(kind)}:
                    self.clock.note_event(kind)
                    self._note_event(value)
                    self.report_progress()

    def _note_event(self, event: Any) -> None:
        match event:
            case {"type": "step_started"}:
                self.activity = "thinking"
            case {"type": "tool_started", "name": name, "subject": subject}:
                self.activity = f"{name} {subject}"[:120]
            case {"type": "retry_scheduled", "reason": reason}:
                self.activity = f"waiting: {reason}"[:120]
            case {"type": "replied", "message": {"parts": parts}}:
                texts = [part["text"] for part in parts if part["type"] == "text"]
                self.last_text = "\n".join(texts).strip() or self.last_text
            case {"type": "tool_finished", "diff": str(diff), "is_error": False} if diff:
                self.has_edited = True

    def _note_used(self, used: Used) -> None:
        if used.untrusted:
            self.untrusted = "a subagent"
        before, counts = self.spend, asdict(self.spend.usage)
        usage = Usage(**{name: max(0, count - counts[name]) for name, count in used.usage.items()})
        cost_usd = None if used.cost_usd is None else max(0.0, used.cost_usd - before.cost_usd)
        steps = max(0, used.steps - before.steps)
        for spend in (self.spend, self.delegation.agent().spend):
            spend.count_request(usage, cost_usd)
            spend.steps += steps
        if usage != Usage():
            self.delegation.record(usage, cost_usd)
        self.delegation.report_rest_of_tree()

    async def _answer(self, call: ParentCall) -> None:
        """Does what the child asks for, and sends a reply, which also reports a failure."""
        reply = ParentReply(id=call.id)
        self.open_questions += call.question is not None
        try:
            if call.question is None:
                output = await self._call_tool(call.tool, call.arguments)
                reply = ParentReply(id=call.id, output=output)
            elif self.delegation.ask is not None:
                asker = f"subagent {self.index + 1}: {self.task.goal[:60]}"
                asker = " › ".join(filter(None, (asker, call.question.asker)))
                self.activity = "waiting for your answer"
                # Only what an `Answer` can carry is offered.
                about = replace(call.question, asker=asker, narrow=(), passes_in=None)
                reply = ParentReply(id=call.id, answer=await self.delegation.ask(about))
        except ToolError as error:
            output = ToolOutput(text=str(error), untrusted=error.untrusted)
            reply = ParentReply(id=call.id, output=output, failed=True)
        except KodeError:
            pass  # nobody could be asked
        finally:
            self.open_questions -= call.question is not None
        self.send(reply)

    async def _call_tool(self, name: str, arguments: Mapping[str, Any]) -> ToolOutput:
        tool = next((tool for tool in self.tools if tool.name == name), None)
        if tool is None:
            raise ToolError(f"This subagent was not given the tool {name!r}.")
        place = replace(self.delegation.agent().place, outputs=self.folder / "outputs")
        context = ToolContext(place=place, call_id="", emit=no_emit)
        output = await tool.run(context, tool.check(arguments))
        return ToolOutput(text=output) if isinstance(output, str) else output

    def send(self, message: BaseModel | dict[str, Any]) -> None:
        """Sends the child one line, if it still listens."""
        if self.stdin is not None and not self.stdin.is_closing():
            with contextlib.suppress(OSError, RuntimeError):
                self.stdin.write(encode_line(message))

    def report_progress(self) -> None:
        """Emits what the child is doing now."""
        self.emit(AgentProgress(**self._describe(), activity=self.activity, tokens=self.tokens))

    def _describe(self) -> dict[str, Any]:
        elapsed_s = round(time.monotonic() - self.since, 1)
        return {"index": self.index, "goal": self.task.goal, "elapsed_s": elapsed_s}

    def report(self, limit: int = records.MAX_SHOWN_CHARS) -> str:
        """Its result for the model, in at most about `limit` characters, once it has ended."""
        assert self.result is not None
        outputs = self.delegation.agent().place.outputs
        return records.describe_result(self.id, self.task.goal, self.result, outputs, limit)

    def output(self) -> str:
        """Its report or, while it runs, its state and its last text."""
        if self.result is not None:
            return self.report()
        steps = plural(self.spend.steps, "step")
        state = f"[{self.id}: {steps}, {self.tokens} tokens, {self.activity}]"
        return f"{state}\n{self.last_text[: records.MAX_SHOWN_CHARS]}"

    async def wait_for_end(self) -> str:
        """Waits for its end; returns its status."""
        if self.work is not None:
            await asyncio.wait([self.work])
        if self.result is None:  # it was stopped before its work began
            self.write_result()
        assert self.result is not None
        return self.result.status

    async def end(self) -> None:
        """Stops the child, and waits until it has ended with what it has so far."""
        self.is_stopped = True
        if self.work is not None and self.stdin is None:
            self.work.cancel()
        await self.wait_for_end()


async def prepare_children(
    delegation: Delegation, arguments: Sequence[TaskArgument], call_id: str, emit: Emit = no_emit
) -> list[ChildProcess]:
    """Makes the children of one call, with one snapshot of memory, and writes their files. Raises:
    ToolError if that fails, or a task resumes a child that cannot continue."""
    memory = memory_text(await delegation.agent().memory.snapshot())
    first = max((child.index + 1 for child in delegation.running.values()), default=0)
    children = []
    for index, argument in enumerate(arguments, first):
        task = Task(**argument.model_dump(exclude={"resume"}, exclude_defaults=True))
        if argument.resume:
            task = records.continue_task(delegation.folder, argument.resume, task)
        name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{index + 1}-{secrets.token_hex(3)}"
        folder = delegation.folder / (argument.resume or name)
        children.append(ChildProcess(delegation, index, task, folder, memory, emit))
    try:
        for child in children:
            records.create_record(child.folder, child.task, mark=child.tree.mark, call_id=call_id)
    except StorageError as error:
        raise ToolError(f"No subagent was started: {error}") from error
    return children


async def run_children(
    children: Sequence[ChildProcess], moved: asyncio.Event | None = None
) -> bool:
    """Runs each child to a result; returns whether all have ended. If `moved` is set before that,
    they run on. If cancelled, it first ends every child and what the child started."""
    for child in children:
        child.work = asyncio.create_task(child.run())
    work = asyncio.gather(*(child.work for child in children if child.work is not None))
    moving = asyncio.create_task((moved or asyncio.Event()).wait())
    try:
        await asyncio.wait((work, moving), return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
        return work.done()
    except BaseException:
        ending = asyncio.gather(*(child.end() for child in children))
        while not ending.done():
            with contextlib.suppress(asyncio.CancelledError):  # a second Ctrl-C
                await asyncio.shield(ending)
        raise
    finally:
        moving.cancel()


def child_environment(
    environ: Mapping[str, str], secret_values: Sequence[str], passed_on: Sequence[str] = ()
) -> dict[str, str]:
    """The environment of a child process: ours without variables whose name looks secret (except
    those named in `passed_on`) or whose value contains one of `secret_values`."""
    secret = re.compile("KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
    passed = {
        name: value
        for name, value in environ.items()
        if (name in passed_on or not secret.search(name))
        and not any(text in value for text in secret_values)
    }
    return passed | nested_environment(environ)


def _describe_tool(tool: Tool) -> ParentTool:
    return ParentTool(
        name=tool.name,
        description=tool.description,
        effect="mcp" if tool.effect == "mcp" else "none",
        subject=tool.target({}) if tool.target and tool.name != CALLS_ANY else "",
        parameters=dict(tool.parameters()),
    )
