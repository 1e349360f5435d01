"""Makes a process a child: its input, its output, its link to the parent, its end.

`cli/commands/subagent.py` provides settings, session and agent. Whatever happens, the
last line on stdout is the result, and nothing the child started outlives it.
"""

import asyncio
import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from kode import durable
from kode.credentials import redact
from kode.engine.agent import Agent
from kode.errors import KodeError, ToolError
from kode.events import (
    Event,
    Replied,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutput,
    TurnEnded,
)
from kode.messages import Message, Text, ToolCall, Usage, plural, text_of
from kode.permissions import question as permission
from kode.session.entries import TaintEntry
from kode.session.log import Session
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
    Task,
    Used,
    line_of,
)
from kode.tool import Tool, ToolContext
from kode.tool import ToolOutput as Output

POLL_S = 0.25
STOP_GRACE_S = 6.0
"""A child that has not ended this long after being asked to is stuck: it kills itself."""
LOCK_S = 2.0  # its parent writes for milliseconds
SAID_CHARS = 50_000
"""Limit of a reply in the line of its event."""
TOO_LARGE = "It is too large to be passed on (1 MB). Do it in parts."


def request_text(task: Task, max_steps: int, timeout_s: float) -> str:
    """The user message of a task. What siblings have in common comes first: a server that has read
    it for one of them need not read it again."""
    limits = f"{plural(max_steps, 'step')}; {timeout_s:g} s, the model's own time not counted."
    pieces = {
        "Limits": limits,
        "Goal": task.goal,
        "Guidance": task.guidance,
        "Context": task.context,
    }
    return "\n\n".join(f"# {title}\n{text}" for title, text in pieces.items() if text)


def partial_summary(ended: TurnEnded, messages: list[Message], files: tuple[str, ...]) -> str:
    """The progress of an unfinished task: the last text and calls, and what was changed."""
    parts = [part for each in messages if each.role == "assistant" for part in each.parts]
    texts = [part.text.strip() for part in parts if isinstance(part, Text) and part.text.strip()]
    calls = [
        f"- {part.name} {part.arguments[:120]}" for part in parts if isinstance(part, ToolCall)
    ]
    lines = [f"Not finished: {ended.error or ended.status}"]
    lines += [f"Last said: {texts[-1]}"] if texts else []
    lines += ["Last calls:", *calls[-5:]] if calls else []
    lines += [f"Files changed: {', '.join(files)}"] if files else []
    return "\n".join(lines)


@dataclass
class ChildOutput:
    """The child's stdout: JSON lines, the result last and once."""

    result_file: Path | None = None
    """Where the result is written before it is printed; None for a child without a parent."""
    over: bool = False
    status: Status = "interrupted"
    """The status of the result, once printed."""
    lock: "threading.RLock" = field(default_factory=threading.RLock)

    def write(self, line: bytes) -> None:
        """Writes one line, unless the result has been printed. Raises: OSError."""
        with self.lock:
            if not self.over:
                _write_stdout(line)

    def conclude(self, result: Result) -> None:
        """Writes the result to disk, then prints it. Never raises; a second result is dropped.

        If another thread is stuck in the middle of a line, only the file has it.
        """
        is_free = self.lock.acquire(timeout=LOCK_S)
        try:
            if self.over:
                return
            self.over, self.status = True, result.status
            if self.result_file is not None:
                with contextlib.suppress(KodeError, OSError):
                    durable.replace(self.result_file, line_of(result))
            if is_free:
                with contextlib.suppress(OSError, ValueError):
                    _write_stdout(line_of(result))
        finally:
            if is_free:
                self.lock.release()


@dataclass
class Stop:
    """Ends the turn once, and remembers why. A timer notices what a stuck loop cannot: that the
    requested end does not happen."""

    on_stuck: Callable[[], None] = lambda: None
    task: "asyncio.Future[Any] | None" = None
    status: Status | None = None
    error: str = ""
    is_urgent: bool = False
    """Whether somebody waits for the end: then no last request is made."""
    timer: threading.Timer | None = None

    def __call__(self, status: Status, error: str, within_s: float = STOP_GRACE_S) -> None:
        self.end_within(within_s)
        self.is_urgent |= status == "interrupted"
        if self.status is None:
            self.status, self.error = status, error
        if self.task is not None:
            self.task.cancel()

    def end_within(self, seconds: float) -> None:
        """Sets how long the process now has to end by itself, unless that is set."""
        if self.timer is None:
            self.timer = threading.Timer(seconds, self.on_stuck)
            self.timer.daemon = True
            self.timer.start()

    def allow_more(self) -> None:
        """Takes back how long the process has to end."""
        if self.timer is not None:
            self.timer.cancel()
        self.timer = None


@dataclass
class ParentLink:
    """The child's end of the pipes. Questions, calls and figures go out, replies, messages and
    figures come in."""

    output: ChildOutput
    on_gone: Callable[[], None]
    """Called when the parent has ended."""
    agent: Agent | None = None
    session: Session | None = None
    """Both None until they are open."""
    on_rest_of_tree: Callable[[], None] = lambda: None
    """Called when the parent has reported the rest of the tree's usage."""
    messages: list[ParentMessage] = field(default_factory=list)
    """What its next step is to get."""
    replies: "dict[int, asyncio.Future[Reply]]" = field(default_factory=dict)
    """Id of a question or call → where its reply is awaited."""
    open_questions: int = 0
    ids: Iterator[int] = field(default_factory=count)
    reported: tuple[Usage, float, int, bool] = (Usage(), 0.0, 0, False)
    """Usage, cost in dollars, steps and whether it is tainted, as reported last."""

    def report(self) -> None:
        """Reports usage since the last report to the parent."""
        if self.agent is None or self.session is None:
            return
        spend, (usage, cost_usd, steps, _) = self.agent.spend, self.reported
        total = (spend.usage, spend.cost_usd, spend.steps, self.session.tainted)
        if total == self.reported:
            return
        self.reported = total
        has_price = self.agent.cost_usd(Usage()) is not None
        used = Used(
            usage={name: n - getattr(usage, name) for name, n in asdict(spend.usage).items()},
            cost_usd=spend.cost_usd - cost_usd if has_price else None,
            steps=spend.steps - steps,
            untrusted=self.session.tainted,
        )
        self._send(line_of(used))

    async def ask(self, question: permission.Question) -> permission.Answer:
        """Puts a permission question to the person at the parent's terminal."""
        self.open_questions += 1
        try:
            line = Question(id=next(self.ids), question=replace(question, arguments={}))
            return (await self._await_reply(line)).answer
        finally:
            self.open_questions -= 1

    async def _await_reply(self, message: Question | Call) -> Reply:
        if len(line := line_of(message)) > MAX_LINE_BYTES:
            answer = permission.Answer(choice="no", message=TOO_LARGE)
            return Reply(id=message.id, answer=answer, output=Output(text=TOO_LARGE), failed=True)
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.replies[message.id] = reply
        self._send(line)
        try:
            return await reply
        finally:
            del self.replies[message.id]

    def listen(self, stdin: BinaryIO) -> None:
        """Reads what the parent says in a thread of its own until stdin ends, which means that it
        is gone. Called in the loop in which it is handled."""
        loop = asyncio.get_running_loop()

        def read() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                for line in stdin:
                    loop.call_soon_threadsafe(self.take, line)
                loop.call_soon_threadsafe(self.on_gone)

        threading.Thread(target=read, name="parent", daemon=True).start()

    def take_messages(self) -> list[Text]:
        """The parent's messages since the last call: they steer its turn. Raises: StorageError."""
        messages, self.messages = self.messages, []
        tainted = any(message.tainted for message in messages)
        if tainted and self.session is not None and not self.session.tainted:
            self.session.append(TaintEntry(source="the session that delegated this"))
        return [Text(text=message.text) for message in messages]

    def _send(self, line: bytes) -> None:
        try:
            self.output.write(line)
        except OSError:
            self.on_gone()

    def take(self, line: bytes) -> None:
        """Handles one line of the parent. Ignores what it does not understand."""
        with contextlib.suppress(ValueError, AttributeError):
            value = json.loads(line)
            match value.get("type"):
                case "reply":
                    reply = Reply.model_validate(value)
                    future = self.replies.get(reply.id)
                    if future is not None and not future.done():
                        future.set_result(reply)
                case "message":
                    self.messages.append(ParentMessage.model_validate(value))
                case "rest_of_tree" if self.agent is not None:
                    rest = RestOfTree.model_validate(value)
                    self.agent.spend.rest_of_tree_usd = rest.cost_usd
                    self.agent.spend.rest_of_tree_steps = rest.steps
                    self.on_rest_of_tree()

    def use_tool(self, shared: ParentTool) -> Tool:
        """A tool of the parent, which runs it, as one of the child."""

        def find_target(arguments: Mapping[str, Any]) -> str:
            return shared.subject or f"{arguments.get('server', '')}:{arguments.get('tool', '')}"

        async def run(context: ToolContext, arguments: Mapping[str, Any]) -> Output:
            call = Call(id=next(self.ids), tool=shared.name, arguments=dict(arguments))
            reply = await self._await_reply(call)
            if reply.failed:
                raise ToolError(reply.output.text, untrusted=reply.output.untrusted)
            return reply.output

        return Tool(
            name=shared.name,
            description=shared.description,
            effect=shared.effect,
            subject="query",  # of `mcp_search`: the others have a target
            target=find_target if shared.effect == "mcp" else None,
            parallel=False,
            parameters=lambda: shared.parameters,
            check=lambda arguments: arguments,  # the parent's tool says what is wrong
            run=run,
        )


async def expire(clock: Clock, is_asking: Callable[[], bool]) -> None:
    """Returns when the time is over; what a person takes to answer does not count."""
    while not clock.is_over(waits=is_asking()):
        await asyncio.sleep(min(max(clock.left_s, 0.01), POLL_S))


def event_line(event: Event) -> dict[str, Any] | None:
    """An event as a line, without what only a transcript needs. Deltas and tool output are left
    out: stdout reports what a child does, and what it said last."""
    if isinstance(event, (TextDelta, ThinkingDelta, ToolOutput, TurnEnded)):
        return None
    fields = asdict(event)
    if isinstance(event, Replied):
        fields["said"] = redact(text_of(event.message).strip()[:SAID_CHARS])
    elif isinstance(event, ToolFinished):
        fields["edited"] = bool(event.diff) and not event.is_error
    for heavy in ("message", "text", "diff"):
        fields.pop(heavy, None)
    return {"type": "event", "event": fields}


def _write_stdout(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sys.stdout.fileno(), view) :]
