"""What makes a process a child: its output, its link to the parent, and what it says at its end.

`cli/commands/subagent.py` reads its input and runs its turn. Whatever happens, the last line on
stdout is the result, and nothing the child started outlives it.
"""

import asyncio
import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pydantic import BaseModel

from kode.errors import ToolError
from kode.events import Status, TurnEnded
from kode.messages import Message, Text, ToolCall, plural
from kode.permissions import question as permission
from kode.subagents import records
from kode.subagents.task import (
    MAX_LINE_BYTES,
    ParentCall,
    ParentReply,
    ParentTool,
    Result,
    Task,
    Used,
    encode_line,
)
from kode.tool import Tool, ToolContext, ToolOutput
from kode.values import asdict, dataclass, field, replace

if TYPE_CHECKING:
    from kode.conversation import Conversation

LOCK_S = 2.0  # printing a line takes milliseconds
TOO_LARGE = "It is too large to be passed on (1 MB). Do it in parts."


def request_text(task: Task, max_steps: int, timeout_s: float) -> str:
    """The user message of a task. What siblings share comes first, so that a server can reuse for
    all what it has cached for one of them."""
    limits = f"{plural(max_steps, 'step')}; {timeout_s:g} s, the model's own time not counted."
    pieces = {
        "Limits": limits,
        "Goal": task.goal,
        "Guidance": task.guidance,
        "Context": task.context,
    }
    return "\n\n".join(f"# {title}\n{text}" for title, text in pieces.items() if text)


def partial_summary(ended: TurnEnded, messages: Sequence[Message]) -> str:
    """The progress of an unfinished task: the last text and calls."""
    parts = [part for each in messages if each.role == "assistant" for part in each.parts]
    texts = [part.text.strip() for part in parts if isinstance(part, Text) and part.text.strip()]
    calls = [
        f"- {part.name} {part.arguments[:120]}" for part in parts if isinstance(part, ToolCall)
    ]
    lines = [f"Not finished: {ended.error or ended.status}"]
    lines += [f"Last said: {texts[-1]}"] if texts else []
    lines += ["Last calls:", *calls[-5:]] if calls else []
    return "\n".join(lines)


@dataclass
class ChildPipes:
    """The child's stdin and stdout. JSON lines go out, the result last and once; the
    parent's replies and figures come in."""

    on_gone: Callable[[], None]
    """Called when nobody reads the output, or the parent has ended."""
    parent_session: str | None = None
    stdin: BinaryIO | None = None
    """Has the parent's lines; None without a parent."""
    folder: Path | None = None
    """Where the result is written before it is printed; None without a parent."""
    status: Status | None = None
    """The status of the result, once there is one: nothing is sent after it."""
    lock: "threading.RLock" = field(default_factory=threading.RLock)
    conversation: "Conversation | None" = None
    """None until it is open."""
    replies: "dict[int, asyncio.Future[ParentReply]]" = field(default_factory=dict)
    """Id of a call → the future of its reply."""
    open_questions: int = 0
    ids: Iterator[int] = field(default_factory=count)
    reported: Used | None = None

    def send(self, line: BaseModel | dict[str, Any]) -> None:
        """Writes one line, unless the result has been printed."""
        try:
            with self.lock:
                if self.status is None:
                    _write_stdout(encode_line(line))
        except OSError:
            self.on_gone()

    def write_result(self, result: Result) -> None:
        """Writes the result to disk, then prints it, unless another thread is stuck printing.
        Never raises; a second result is dropped."""
        is_free = self.lock.acquire(timeout=LOCK_S)
        try:
            if self.status is not None:
                return
            self.status = result.status
            if self.folder is not None:
                records.write_result(self.folder, result)
            if is_free:
                with contextlib.suppress(OSError, ValueError):
                    _write_stdout(encode_line(result))
        finally:
            if is_free:
                self.lock.release()

    def make_failure(self, error: str, status: Status = "error") -> Result:
        """The result of a child that has done nothing, or cannot say what it did."""
        return Result(status=status, error=error, parent_session=self.parent_session)

    def report(self) -> None:
        """Reports to the parent what has been used, if that has changed."""
        if self.conversation is None or self.stdin is None:
            return
        agent = self.conversation.agent
        used = Used(
            usage=asdict(agent.spend.usage),
            cost_usd=agent.spend.cost_usd if agent.provider.info.is_priced else None,
            steps=agent.spend.steps,
            untrusted=bool(self.conversation.session.tainted_by),
        )
        if used != self.reported:
            self.reported = used
            self.send(used)

    async def ask(self, question: permission.Question) -> permission.Answer:
        """Puts a permission question to the person at the parent's terminal."""
        self.open_questions += 1
        try:
            return (await self._call_parent(question=replace(question, arguments={}))).answer
        finally:
            self.open_questions -= 1

    async def _call_parent(self, **about: Any) -> ParentReply:
        call = ParentCall(id=next(self.ids), **about)
        if len(encode_line(call)) > MAX_LINE_BYTES:
            answer = permission.Answer(choice="no", message=TOO_LARGE)
            output = ToolOutput(text=TOO_LARGE)
            return ParentReply(id=call.id, answer=answer, output=output, failed=True)
        reply: asyncio.Future[ParentReply] = asyncio.get_running_loop().create_future()
        self.replies[call.id] = reply
        self.send(call)
        try:
            return await reply
        finally:
            self.replies.pop(call.id, None)

    def listen(self) -> None:
        """Reads the parent's lines in a thread until stdin ends, which means that the parent is
        gone. To be called in the event loop that handles the lines."""
        loop = asyncio.get_running_loop()

        def read() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                for line in self.stdin or ():
                    loop.call_soon_threadsafe(self.handle_line, line)
                loop.call_soon_threadsafe(self.on_gone)

        threading.Thread(target=read, name="parent", daemon=True).start()

    def handle_line(self, line: bytes) -> None:
        """Handles one line from the parent; ignores a line that it does not understand."""
        # A turn that has ended meanwhile no longer awaits the reply.
        with contextlib.suppress(ValueError, asyncio.InvalidStateError):
            match value := json.loads(line):
                case {"type": "reply", "id": id} if id in self.replies:
                    self.replies.pop(id).set_result(ParentReply.model_validate(value))
                case {"type": "rest_of_tree", "cost_usd": usd, "steps": steps} if self.conversation:
                    spend = self.conversation.agent.spend
                    spend.rest_of_tree_usd, spend.rest_of_tree_steps = usd, steps
                    if self.conversation.delegation is not None:
                        self.conversation.delegation.report_rest_of_tree()

    def make_parent_tool(self, shared: ParentTool) -> Tool:
        """Makes a tool that the child calls and the parent runs."""
        name_call = lambda call: shared.subject or f"{call.get('server')}:{call.get('tool')}"  # noqa: E731

        async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolOutput:
            reply = await self._call_parent(tool=shared.name, arguments=dict(arguments))
            if reply.failed:
                raise ToolError(reply.output.text, untrusted=reply.output.untrusted)
            return reply.output

        return Tool(
            name=shared.name,
            description=shared.description,
            effect=shared.effect,
            subject="query",  # of `mcp_search`: the others have a target
            target=name_call if shared.effect == "mcp" else None,
            parallel=False,
            parameters=lambda: shared.parameters,
            check=lambda arguments: arguments,  # the parent's tool checks them
            run=run,
        )


def _write_stdout(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sys.stdout.fileno(), view) :]
