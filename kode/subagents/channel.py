"""The parent's end of a child's pipes: takes the child's lines, and writes to it.

What the lines are is `protocol`; when a child is started and ended is `parent`.
"""

import asyncio
import contextlib
import json
import time
from typing import Any

from pydantic import BaseModel, ValidationError

from kode.errors import KodeError
from kode.events import AgentProgress, Emit
from kode.messages import Usage
from kode.subagents.delegation import Child, Delegation
from kode.subagents.protocol import (
    MAX_LINE_BYTES,
    MAX_LINES,
    Answer,
    Elsewhere,
    Question,
    Result,
    Used,
    line_of,
)

STDERR_KEPT_BYTES = 4_000
READ_BYTES = 65_536


async def read_stdout(delegation: Delegation, child: Child, emit: Emit) -> None:
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
    """One line of a child. What is not understood is nothing. Halves of characters, which neither
    a request nor a terminal can carry, are not understood."""
    try:
        value = json.loads(line)
        kind = value["type"]
        if kind == "result":
            child.result = Result.model_validate_json(line)
        elif kind == "event":
            _note_event(child, value["event"])
            child.activity = child.activity.encode("utf-8", "replace").decode()
            emit(progress(child))
        elif kind == "used":
            _note_used(delegation, child, Used.model_validate(value))
        elif kind == "question":
            question = Question.model_validate_json(line)
            task = asyncio.create_task(_answer(delegation, child, question))
            child.questions.add(task)
            task.add_done_callback(child.questions.discard)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError):
        return  # a newer kode's, or no line of kode's at all


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
    child.usage += used.usage
    child.cost_usd += used.cost_usd or 0.0
    child.steps += used.steps
    child.untrusted |= used.untrusted
    delegation.spend.add(used.usage, used.cost_usd)
    delegation.spend.steps += used.steps
    if used.usage != Usage():
        delegation.record(used.usage, used.cost_usd)
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
    send(child, answer.model_copy(update={"id": question.id}))


def send(child: Child, message: BaseModel) -> None:
    """Writes one line to a child that still listens."""
    process = child.process
    if process is None or process.stdin is None or process.stdin.is_closing():
        return
    with contextlib.suppress(OSError, RuntimeError):
        process.stdin.write(line_of(message))


async def read_stderr(child: Child) -> None:
    """Keeps the end of what a child said on stderr, for the case that it ends without a result."""
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
