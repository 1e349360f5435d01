"""A family of stand-in children: small Python programs that speak, or fail to speak, as a child."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kode.engine.agent import Spend
from kode.events import Event
from kode.memory.contract import SnapshotSection
from kode.messages import Usage
from kode.subagents.parent import Child, Delegation, prepare, run_children
from kode.subagents.task import Start, Task

PRELUDE = """
import json, os, sys, time
QUESTION = dict(tool="shell", subject="make", title="Run", preview="make", reason="r")
def say(**fields): print(json.dumps(fields), flush=True)
def result(summary="done", status="success", error=None, **more):
    say(type="result", status=status, summary=summary, error=error, **more)
def argument(name): return sys.argv[sys.argv.index(name) + 1]
def task(): return json.load(open(argument("--task")))
"""


class Family:
    """A delegation whose children run `code`, and what was seen of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[Event] = []
        self.used: list[Usage] = []
        self.fields: dict[str, Any] = {}
        self.delegation: Delegation | None = None

    async def run(
        self, code: str, goals: Sequence[str] = ("a task",), **fields: Any
    ) -> list[Child]:
        program = self.folder / "child.py"
        program.write_text(PRELUDE + code)
        made = Delegation(
            folder=self.folder / "agents",
            session_id="20260101-000000-abcdef",
            cwd=self.folder,
            environment={"PATH": "/usr/bin:/bin"},
            start=lambda: Start(parent_pid=1, config={"api_key": "k"}, undo="/nowhere"),
            snapshot=no_memory,
            memory_system="none",
            ask=None,
            spend=Spend(),
            record=lambda usage, cost_usd: self.used.append(usage),
            free=asyncio.Semaphore(3),
            timeout_s=20,
            max_steps=15,
            command=(sys.executable, str(program)),
            patience_s=0.2,
        )
        self.delegation = replace(made, **fields)
        return await self.go_on([Task(goal=goal) for goal in goals])

    async def go_on(self, tasks: Sequence[Task], call_id: str = "call_1") -> list[Child]:
        assert self.delegation is not None
        children = await prepare(self.delegation, tasks, call_id)
        await run_children(self.delegation, children, self.events.append)
        return children

    def asks_the_model(self) -> bool:
        """Whether its parent knows of a child that waits for a reply."""
        alive = self.delegation.alive.values() if self.delegation is not None else ()
        return any(child.clock.asked_at is not None for child in alive)


async def no_memory() -> tuple[SnapshotSection, ...]:
    return ()


@pytest.fixture
def family(tmp_path: Path) -> Family:
    return Family(tmp_path)
