"""A family of stand-in children: small Python programs that speak, or fail to speak, as a child."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kode.config.model import Subagent
from kode.engine.agent import Spend
from kode.events import Event
from kode.memory.contract import NullMemory
from kode.messages import Usage
from kode.subagents import parent
from kode.subagents.parent import ChildProcess, Delegation, prepare_children, run_children
from kode.subagents.task import Result, Start, TaskArgument
from tests.tools.conftest import until as until
from tests.workplaces import workplace

PRELUDE = """
import json, os, signal, sys, time
QUESTION = dict(tool="shell", subject="make", title="Run", preview="make", reason="r")
def say(**fields): print(json.dumps(fields), flush=True)
def result(summary="done", status="success", error=None, **more):
    say(type="result", status=status, summary=summary, error=error, **more)
def hang():
    while True: signal.pause()
def wait_for(is_so):
    while not is_so(): time.sleep(0.01)
def argument(name): return sys.argv[sys.argv.index(name) + 1]
def task(): return json.load(open(argument("--task")))
"""


class Family:
    """A delegation whose children run `code`, and what was seen of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[Event] = []
        self.used: list[Usage] = []
        self.delegation: Delegation | None = None

    def make_delegation(self, code: str = "result()", **fields: Any) -> Delegation:
        """One whose children run this code."""
        program = self.folder / "child.py"
        program.write_text(PRELUDE + code)
        place = workplace(self.folder, outputs=self.folder / "outputs")
        memory, spend = fields.pop("memory", NullMemory()), fields.pop("spend", Spend())
        agent: Any = SimpleNamespace(place=place, memory=memory, spend=spend)
        session: Any = SimpleNamespace(id="20260101-000000-abcdef")
        delegation = Delegation(
            folder=self.folder / "agents",
            session=session,
            agent=lambda: agent,
            limits=Subagent(timeout_s=20, max_steps=15),
            environment={"PATH": "/usr/bin:/bin"},
            start=lambda: Start(config={"api_key": "k"}, undo="/nowhere"),
            ask=None,
            record=lambda usage, cost_usd: self.used.append(usage),
            free=asyncio.Semaphore(3),
            command=(sys.executable, str(program)),
        )
        self.delegation = replace(delegation, **fields)
        return self.delegation

    async def run(
        self, code: str, goals: Sequence[str] = ("a task",), **fields: Any
    ) -> list[ChildProcess]:
        self.make_delegation(code, **fields)
        return await self.go_on([TaskArgument(goal=goal) for goal in goals])

    async def go_on(
        self, tasks: Sequence[TaskArgument], call_id: str = "call_1"
    ) -> list[ChildProcess]:
        children = await prepare_children(self.delegation, tasks, call_id, self.events.append)
        await run_children(children)
        return children

    def asks_the_model(self) -> bool:
        """Whether its parent knows of a child that waits for a reply."""
        alive = self.delegation.running.values() if self.delegation is not None else ()
        return any(child.clock.asked_at is not None for child in alive)

    async def result(self, code: str, goal: str = "a task", **fields: Any) -> Result:
        """How the only child ended; nothing that it started is left."""
        (child,) = await self.run(code, [goal], **fields)
        assert not child.tree.find()
        return child.result


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Family:
    monkeypatch.setattr(parent, "PATIENCE_S", 0.2)
    return Family(tmp_path)
