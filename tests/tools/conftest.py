"""A context for tools in a scratch project, and a way to call them as the loop does."""

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kode.events import Event
from kode.tool import Tool, ToolContext, ToolOutput
from tests.workplaces import workplace

Call = Callable[..., Awaitable[ToolOutput]]


def lives(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return not Path("/proc/self").exists()


@pytest.fixture
def context(tmp_path: Path, project: Path, events: list[Event]) -> ToolContext:
    home = tmp_path / "home"
    home.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    return ToolContext(
        place=workplace(project, home=home, environment=environment),
        call_id="call-1",
        session_id="s",
        emit=events.append,
        seen_files={},
    )


async def run_tool(context: ToolContext, tool: Tool, /, **arguments: Any) -> ToolOutput:
    output = await tool.run(context, tool.check(arguments))
    return ToolOutput(text=output) if isinstance(output, str) else output


@pytest.fixture
def call(context: ToolContext) -> Call:
    return functools.partial(run_tool, context)


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0.01)
