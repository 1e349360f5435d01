"""An agent with a scripted provider, a gate that allows everything, and tools made by the test."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kode.config.model import Config
from kode.engine.agent import Agent, Spend
from kode.engine.context import Context, open_context
from kode.engine.run import Run
from kode.engine.turn import run_turn
from kode.errors import ToolError
from kode.events import Emit, Event, TextDelta, TurnEnded, no_emit
from kode.memory.contract import NullMemory
from kode.messages import Message, Text, ToolCall, ToolResult, Usage, results_of
from kode.provider import ModelInfo, Request
from kode.session import log
from kode.session.entries import Header
from kode.session.log import Session
from kode.session.provenance import Provenance
from kode.tool import ALLOWED, Action, Decision, Tool, ToolContext, ToolOutput, tool
from tests.tools.conftest import until
from tests.undo.changes import undo_in
from tests.workplaces import workplace


class Replies:
    """A provider that gives these, in order: a message, an error, or a function of the request."""

    name = "fake"
    model = "fake-1"

    def __init__(self, replies: Sequence[Any], window: int = 100_000) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []
        prices = {"input_price": 0.0, "output_price": 1_000.0}
        self.info = ModelInfo(context_window=window, max_output_tokens=1_000, **prices)

    async def reply(self, request: Request, emit: Emit) -> Message:
        self.requests.append(replace(request, messages=tuple(request.messages)))
        step = self.replies.pop(0)
        if callable(step):
            step = step(request, emit)
            if asyncio.iscoroutine(step):
                step = await step
        if isinstance(step, BaseException):
            raise step
        for part in step.parts:
            if isinstance(part, Text):
                emit(TextDelta(text=part.text))
        return step

    async def aclose(self) -> None:
        return None


class OpenGate:
    mode = "full"

    async def judge(self, action: Action, context: ToolContext) -> Decision:
        return ALLOWED


def says(text: str, stop: str = "end", usage: Usage | None = None) -> Message:
    return Message(role="assistant", parts=(Text(text=text),), stop=stop, usage=usage)


def calls(*pairs: tuple[str, str], stop: str = "tool_calls") -> Message:
    parts = tuple(
        ToolCall(id=f"c{number}-{name}", name=name, arguments=arguments)
        for number, (name, arguments) in enumerate(pairs)
    )
    return Message(role="assistant", parts=parts, stop=stop)


ECHO = calls(("echo", '{"text": "a"}'))


@tool(effect="read", subject="text", parallel=True)
async def echo(context: ToolContext, text: str) -> str:
    """Say it back."""
    await asyncio.sleep(0)
    return f"echo {text}"


@tool(effect="run", subject="text")
async def fail(context: ToolContext, text: str = "") -> str:
    """Fail as told."""
    raise ToolError(f"no luck with {text}")


@tool(effect="run")
async def crash(context: ToolContext) -> str:
    """A fault of ours."""
    raise ZeroDivisionError("oops")


@tool(effect="run")
async def wait(context: ToolContext) -> str:
    """Never ends by itself."""
    await asyncio.sleep(60)
    return "done"


@tool(effect="edit", subject="path")
async def touch(context: ToolContext, path: str) -> ToolOutput:
    """Change a file."""
    target = context.place.cwd / path
    target.write_text("touched")
    return ToolOutput(text="touched", files_changed=(str(target),))


class Bench:
    """A session with an agent, and what happened."""

    def __init__(self, agent: Agent, session: Session, provider: Replies) -> None:
        self.agent = agent
        self.session = session
        self.provider = provider
        self.context = Context(session)
        self.events: list[Event] = []

    async def turn(self, text: str = "do it", emit: Emit | None = None) -> TurnEnded:
        if not self.context.sections:
            await open_context(self.agent, self.context, "start")
        return await run_turn(self.new_run(emit), text)

    def new_run(self, emit: Emit | None = None) -> Run:
        return Run(agent=self.agent, context=self.context, emit=emit or self.events.append)

    async def interrupted_turn(self, is_time: Callable[[], object]) -> TurnEnded:
        """A turn that is cancelled once it is time."""
        task = asyncio.ensure_future(self.turn())
        await until(is_time)
        task.cancel()
        return await task

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def results(self) -> list[ToolResult]:
        return [result for m in self.session.messages for result in results_of(m)]


MakeBench = Callable[..., Bench]

LIMITS = ("max_steps", "max_budget_usd", "timeout_s")


@pytest.fixture
def bench(tmp_path: Path) -> MakeBench:
    made: list[Session] = []

    def make(
        *replies: Any, window: int = 100_000, tools: tuple[Tool, ...] = (), **given: Any
    ) -> Bench:
        """`given` are limits, and fields of the agent."""
        provider = Replies(replies, window)
        session = log.create(
            tmp_path / "home", Header(cwd=str(tmp_path), model="fake-1", provider="fake")
        )
        made.append(session)
        limits = {name: given.pop(name) for name in LIMITS if name in given}
        fields = {
            "provider": provider,
            "tools": (echo, fail, crash, wait, touch, *tools),
            "gate": OpenGate(),
            "memory": NullMemory(),
            "config": Config(**limits),
            "place": workplace(tmp_path, home=tmp_path / "home"),
            "render_system": lambda late: {"kode": "You are a test.", **late},
            "spend": Spend(),
            "seen_files": {},
            "undo": undo_in(tmp_path / "undo"),
            "marks": Provenance(
                home=tmp_path / "home", folders=(), source=lambda: "", emit=no_emit
            ),
        }
        return Bench(Agent(**fields | given), session, provider)

    yield make
    for session in made:
        session.close()
