"""The parent's end of a child's pipes: reads the child's lines, and writes to it. Also the state
that a parent has of its children. `protocol` defines the lines."""

import asyncio
import contextlib
import json
import math
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from kode.contracts import SnapshotSection
from kode.engine.agent import Spend
from kode.errors import KodeError
from kode.events import AgentProgress, Emit
from kode.messages import Usage
from kode.subagents.clock import Clock
from kode.subagents.lending import Loan, answered
from kode.subagents.protocol import (
    MAX_LINE_BYTES,
    MAX_LINES,
    Answer,
    Call,
    Elsewhere,
    Question,
    Result,
    Start,
    Task,
    Used,
    line_of,
)

COMMAND = (sys.executable, "-P", "-m", "kode", "subagent")
"""`-P`: a project with a folder `kode` or a file `json.py` must not become part of the child."""

PATIENCE_S = 10.0
"""How much earlier the child's own deadline is than the parent's, so that it ends by itself with a
summary of its progress."""

AskPerson = Callable[[Question, str], Awaitable[Answer]]
"""`await ask(question, asker)` puts a child's question to the person."""


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
    ask: AskPerson | None
    """None if no person can be asked."""
    spend: Spend
    """This process's spending; what its children use is added to it."""
    record: Callable[[Usage, float | None], None]
    """Records a child's usage and its cost in dollars (None: unknown). Must not raise."""
    free: asyncio.Semaphore
    """For as many children as may run at once."""
    timeout_s: float
    max_steps: int
    lend: Callable[[Task, Path], Loan] = lambda task, folder: Loan()
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
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    steps: int = 0
    untrusted: bool = False
    questions: "set[asyncio.Task[None]]" = field(default_factory=set)
    """Its questions that wait for the person."""
    loan: Loan = field(default_factory=Loan)
    calls: "set[asyncio.Task[None]]" = field(default_factory=set)
    """Its calls of what it was lent."""
    replied: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the first reply to it has begun, or it has ended."""
    stopped: bool = False
    """Whether it is to end now, with what it has."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it has its result."""
    said: str = ""
    """What it said last."""
    edited: dict[str, None] = field(default_factory=dict)
    unread: int = 0
    """How many messages it has not taken yet."""
    lines: int = 0
    flooded: bool = False
    stderr: bytes = b""

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def tokens(self) -> int:
        return self.usage.input_tokens + self.usage.output_tokens


STDERR_KEPT_BYTES = 4_000  # the last lines before it died
READ_BYTES = 65_536
"""The capacity of a pipe on Linux, see pipe(7)."""


async def read_stdout(delegation: Delegation, child: Child, emit: Emit) -> None:
    """Reads lines until the pipe ends. An oversized line is skipped in full; too many lines end the
    child."""
    assert child.process is not None
    assert child.process.stdout is not None
    held = bytearray()
    skipping = False
    while data := await child.process.stdout.read(READ_BYTES):
        *lines, rest = data.split(b"\n")
        for line in lines:
            child.lines += 1
            if not skipping:
                take(delegation, child, bytes(held) + line, emit)
            held.clear()
            skipping = False
        if child.lines > MAX_LINES:
            child.flooded = True
            return
        if skipping or len(held) + len(rest) > MAX_LINE_BYTES:
            skipping = True
            held.clear()
        else:
            held += rest
    if held and not skipping:
        take(delegation, child, bytes(held), emit)


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
            emit(progress(child))
        elif kind == "used":
            _note_used(delegation, child, Used.model_validate(value))
        elif kind == "question":
            question = Question.model_validate_json(line)
            _beside(child.questions, _answer(delegation, child, question))
        elif kind == "call":
            _beside(child.calls, _call(child, Call.model_validate_json(line)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError):
        return  # a newer kode's, or not a line of kode's at all


def _note_event(child: Child, event: Any) -> None:
    child.clock.hear(event["type"])
    match event["type"]:
        case "step_started":
            child.activity = "thinking"
        case "reply_begun":
            child.replied.set()
        case "replied":
            child.said = _sendable(event.get("said") or child.said)
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
        case _:
            pass


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _note_used(delegation: Delegation, child: Child, used: Used) -> None:
    child.usage += used.usage
    child.cost_usd += used.cost_usd or 0.0
    child.steps += used.steps
    child.untrusted |= used.untrusted
    delegation.spend.add(used.usage, used.cost_usd)
    delegation.spend.steps += used.steps
    if used.usage != Usage():
        delegation.record(used.usage, used.cost_usd)
    tell_elsewhere(delegation)


def _beside(tasks: "set[asyncio.Task[None]]", work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


async def _call(child: Child, call: Call) -> None:
    called = await answered(child.loan, call)
    child.untrusted |= bool(called.untrusted)
    send(child, called)


async def _answer(delegation: Delegation, child: Child, question: Question) -> None:
    answer = Answer(id=question.id, choice="no", message="Nobody is there to be asked.")
    asker = f"subagent {child.index + 1}: {child.task.goal[:60]}"
    if question.asker:
        asker += f" › {question.asker}"
    if delegation.ask is not None:
        child.activity = "waiting for your answer"
        with contextlib.suppress(KodeError):
            answer = await delegation.ask(question, asker)
    send(child, answer.model_copy(update={"id": question.id}))


def send(child: Child, message: BaseModel) -> None:
    """Writes one line to a child that still listens."""
    process = child.process
    if process is None or process.stdin is None or process.stdin.is_closing():
        return
    with contextlib.suppress(OSError, RuntimeError):
        process.stdin.write(line_of(message))


async def read_stderr(child: Child) -> None:
    """Keeps the end of a child's stderr, in case it ends without a result."""
    assert child.process is not None
    assert child.process.stderr is not None
    while data := await child.process.stderr.read(READ_BYTES):
        child.stderr = (child.stderr + data)[-STDERR_KEPT_BYTES:]


def tell_elsewhere(delegation: Delegation) -> None:
    """Tells every living child what the rest of the tree has used."""
    spend = delegation.spend
    for child in delegation.alive.values():
        send(
            child,
            Elsewhere(
                cost_usd=spend.cost_usd + spend.elsewhere_usd - child.cost_usd,
                steps=spend.steps + spend.elsewhere_steps - child.steps,
            ),
        )


def progress(child: Child) -> AgentProgress:
    return AgentProgress(
        index=child.index,
        goal=child.task.goal,
        activity=child.activity,
        elapsed_s=round(time.monotonic() - child.started, 1),
        tokens=child.tokens,
    )
