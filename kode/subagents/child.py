"""Makes a process a child: its input, its output, its link to the parent, its end.

`cli/commands/subagent_conversation.py` provides settings, session and agent. Whatever happens, the
last line on stdout is the result, and nothing the child started outlives it.
"""

import asyncio
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from kode import durable
from kode.credentials import redact
from kode.engine.agent import Spend
from kode.errors import KodeError
from kode.events import (
    FINISHED,
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
from kode.permissions import gate
from kode.subagents.clock import Clock
from kode.subagents.protocol import (
    MAX_FROM_PARENT_BYTES,
    MAX_LINE_BYTES,
    Answer,
    Call,
    Called,
    Elsewhere,
    Question,
    Result,
    Start,
    Task,
    Told,
    Used,
    line_of,
)

POLL_S = 0.25  # a parent that died is noticed soon enough
STOP_GRACE_S = 6.0
"""A child that has not ended this long after being asked to is stuck: it kills itself."""
LOCK_S = 2.0  # its parent writes for milliseconds
SAID_CHARS = 50_000
"""Limit of a report in the line to the parent; its file has all of it."""

Heard = TypeVar("Heard", Answer, Called)


def request_text(task: Task, max_steps: int, timeout_s: float) -> str:
    """The user message of a task. What siblings have in common comes first: a server that has read
    it for one of them need not read it again."""
    limits = f"{plural(max_steps, 'step')}; {timeout_s:g} s, the model's own time not counted."
    pieces = [f"# Limits\n{limits}", f"# Goal\n{task.goal}"]
    if task.guidance:
        pieces.append(f"# Guidance\n{task.guidance}")
    if task.context:
        pieces.append(f"# Context\n{task.context}")
    return "\n\n".join(pieces)


def result_of(
    ended: TurnEnded,
    messages: list[Message],
    files: tuple[str, ...],
    usage: Usage,
    parent: str | None,
    last_words: str = "",
) -> Result:
    """The result of a child's turn. An unfinished one has its last words, or else describes its
    progress."""
    summary = ended.result.strip()
    if ended.status not in FINISHED:
        summary = last_words or partial_summary(ended, messages, files)
    return Result(
        status=ended.status,
        summary=summary,
        error=ended.error,
        files_changed=files,
        refused=ended.refused,
        checks=ended.checks,
        checked=ended.checked,
        tokens_used=usage.input_tokens + usage.output_tokens,
        steps=ended.steps,
        parent_session=parent,
    )


def partial_summary(ended: TurnEnded, messages: list[Message], files: tuple[str, ...]) -> str:
    """The progress of an unfinished task: the last text, what was done and changed."""
    said = [
        part.text.strip()
        for message in messages
        if message.role == "assistant"
        for part in message.parts
        if isinstance(part, Text) and part.text.strip()
    ]
    calls = [
        f"{part.name} {part.arguments[:120]}"
        for message in messages
        for part in message.parts
        if isinstance(part, ToolCall)
    ]
    lines = [f"Not finished: {ended.error or ended.status}"]
    if said:
        lines.append(f"Last said: {said[-1]}")
    if calls:
        lines.append("Last calls:\n" + "\n".join(f"- {call}" for call in calls[-5:]))
    if files:
        lines.append(f"Files changed: {', '.join(files)}")
    return "\n".join(lines)


@dataclass
class Voice:
    """The child's stdout: JSON lines, the result last and once."""

    result_file: Path | None = None
    """Where the result is written before it is printed; None for a child without a parent."""
    over: bool = False
    status: Status = "interrupted"
    """The status of the result, once printed."""
    lock: "threading.RLock" = field(default_factory=threading.RLock)

    def say(self, message: BaseModel | dict[str, Any]) -> None:
        """Writes one line, unless the result has been printed. Raises: OSError."""
        with self.lock:
            if not self.over:
                _write_stdout(line_of(message))

    def conclude(self, result: Result) -> None:
        """Writes the result to disk, then prints it. Never raises; a second result is dropped.

        If another thread is stuck in the middle of a line, only the file has it.
        """
        free = self.lock.acquire(timeout=LOCK_S)
        try:
            if self.over:
                return
            self.over, self.status = True, result.status
            if self.result_file is not None:
                with contextlib.suppress(KodeError, OSError):
                    durable.replace(self.result_file, line_of(result))
                result = result.model_copy(update={"summary": _said(result.summary)})
            if free:
                with contextlib.suppress(OSError, ValueError):
                    _write_stdout(line_of(result))
        finally:
            if free:
                self.lock.release()


def _said(summary: str) -> str:
    if len(summary) <= SAID_CHARS:
        return summary
    return f"{summary[:SAID_CHARS]}\n[cut: the report has {len(summary):,} characters]"


@dataclass
class Stop:
    """Ends the turn once, and remembers why."""

    task: "asyncio.Future[Any] | None" = None
    status: Status | None = None
    error: str = ""
    is_urgent: bool = False
    """Whether somebody waits for the end: then no last request is made."""

    def __call__(self, status: Status, error: str) -> None:
        self.is_urgent |= status == "interrupted"
        if self.status is None:
            self.status, self.error = status, error
        if self.task is not None:
            self.task.cancel()


@dataclass
class Watchdog:
    """A thread that notices what a stuck loop cannot: that the parent is gone (a sibling may hold
    our stdin open), and that a requested end does not happen."""

    on_stuck: Callable[[], None]
    parent_pid: int | None = None
    on_gone: Callable[[], None] = lambda: None
    ends_at: float | None = None
    """When the process is stuck, by `time.monotonic`; None: no end was asked for."""

    def start(self) -> None:
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def end_within(self, seconds: float) -> None:
        """Sets how long the process now has to end by itself."""
        if self.ends_at is None:
            self.ends_at = time.monotonic() + seconds

    def _run(self) -> None:
        gone = False
        while True:
            time.sleep(POLL_S)
            if not gone and self.parent_pid is not None and os.getppid() != self.parent_pid:
                gone = True
                self.end_within(STOP_GRACE_S)
                self.on_gone()
            if self.ends_at is not None and time.monotonic() > self.ends_at:
                self.on_stuck()
                return


@dataclass
class ParentLink:
    """The child's end of the pipes. Questions and figures go out, answers and figures come in."""

    voice: Voice
    on_gone: Callable[[], None]
    spend: Spend = field(default_factory=Spend)
    """This process's spending, including what the parent reports about the rest of the tree."""
    price_known: bool = True
    tainted: Callable[[], bool] = lambda: False
    on_elsewhere: Callable[[], None] = lambda: None
    """Called when the parent has reported the rest of the tree's usage."""
    waiting: dict[int, "asyncio.Future[Answer]"] = field(default_factory=dict)
    calling: dict[int, "asyncio.Future[Called]"] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    on_told: Callable[[Told], None] = lambda told: None
    asked: int = 0
    reported: Used = field(default_factory=Used)
    """The total reported to the parent so far."""

    def report(self) -> None:
        """Reports usage since the last report to the parent."""
        usage, reported, tainted = self.spend.usage, self.reported, self.tainted()
        total = Used(
            **asdict(usage),
            cost_usd=self.spend.cost_usd,
            steps=self.spend.steps,
            untrusted=tainted,
        )
        if total == reported:
            return
        self.reported = total
        known = reported.cost_usd or 0.0
        self._send(
            Used(
                input_tokens=total.input_tokens - reported.input_tokens,
                output_tokens=total.output_tokens - reported.output_tokens,
                cached_tokens=total.cached_tokens - reported.cached_tokens,
                cache_write_tokens=total.cache_write_tokens - reported.cache_write_tokens,
                thinking_tokens=total.thinking_tokens - reported.thinking_tokens,
                cost_usd=self.spend.cost_usd - known if self.price_known else None,
                steps=total.steps - reported.steps,
                untrusted=tainted,
            )
        )

    async def ask(self, question: gate.Question) -> gate.Answer:
        """Puts a permission question to the person at the parent's terminal."""
        self.asked += 1
        line = Question(id=self.asked, **asdict(question))
        if len(line_of(line)) > MAX_LINE_BYTES:
            return gate.Answer(choice="no", message="It is too large to be shown. Do it in parts.")
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.waiting[line.id] = answered
        self._send(line)
        try:
            answer = await answered
        finally:
            del self.waiting[line.id]
        return gate.Answer(choice=answer.choice, message=answer.message)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Called:
        """Has the parent call a tool that it lent."""
        self.asked += 1
        line = Call(id=self.asked, tool=tool, arguments=dict(arguments))
        if len(line_of(line)) > MAX_LINE_BYTES:
            return Called(id=line.id, text="Its arguments are over 1 MB: pass less.", failed=True)
        called: asyncio.Future[Called] = asyncio.get_running_loop().create_future()
        self.calling[line.id] = called
        self._send(line)
        try:
            return await called
        finally:
            del self.calling[line.id]

    async def listen(self, reader: asyncio.StreamReader) -> None:
        """Reads answers and figures until stdin ends, which means that the parent is gone."""
        while line := await read_line(reader):
            self._take(line)
        self.on_gone()

    def take_told(self) -> list[Text]:
        """What it was told since the last call: steers its turn."""
        told, self.told = self.told, []
        return [Text(text=text) for text in told]

    def _send(self, message: BaseModel) -> None:
        try:
            self.voice.say(message)
        except OSError:
            self.on_gone()

    def _take(self, line: bytes) -> None:
        with contextlib.suppress(ValueError, ValidationError, AttributeError, KodeError):
            value = json.loads(line)
            if value.get("type") == "answer":
                _settle(self.waiting, Answer.model_validate(value))
            elif value.get("type") == "called":
                _settle(self.calling, Called.model_validate(value))
            elif value.get("type") == "message":
                message = Told.model_validate(value)
                self.on_told(message)
                self.told.append(message.text)
            elif value.get("type") == "elsewhere":
                elsewhere = Elsewhere.model_validate(value)
                self.spend.elsewhere_usd = elsewhere.cost_usd
                self.spend.elsewhere_steps = elsewhere.steps
                self.on_elsewhere()


def _settle(waiting: Mapping[int, "asyncio.Future[Heard]"], heard: Heard) -> None:
    future = waiting.get(heard.id)
    if future is not None and not future.done():
        future.set_result(heard)


async def expire(clock: Clock, is_asking: Callable[[], bool]) -> None:
    """Returns when the time is over; what a person takes to answer does not count."""
    while not clock.is_over(waits=is_asking()):
        await asyncio.sleep(min(max(clock.left_s, 0.01), POLL_S))


async def open_stdin() -> asyncio.StreamReader:
    """Stdin as a stream of lines."""
    reader = asyncio.StreamReader(limit=MAX_FROM_PARENT_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def read_line(reader: asyncio.StreamReader) -> bytes:
    """The next line; b"" at the end, or for invalid input."""
    try:
        return await reader.readline()
    except (ValueError, OSError):
        return b""


async def read_start(reader: asyncio.StreamReader) -> Start | None:
    """The parent's first line; None if it died before sending one."""
    line = await read_line(reader)
    try:
        return Start.model_validate_json(line) if line else None
    except ValidationError:
        return None


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
