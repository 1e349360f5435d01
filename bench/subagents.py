"""What a subagent costs: `python -m bench.subagents [--json]`.

    spawn_ratio     from the start of a child to its first request at the server, against a bare
                    process that imports the same SDK and makes the same request
    schedule_ratio  8 tasks, 3 at a time, on a server that answers after 200 ms, against the ideal
                    schedule plus start-up: as many bare processes, 3 at a time

Each is the median of paired runs on this machine.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench.measure import Pair, by_size, median_baseline, median_ratio, report, workplace
from kode.config.model import Config
from kode.engine.agent import Spend
from kode.memory.system import SnapshotMemory
from kode.subagents.parent import Delegation, prepare_children, run_children
from kode.subagents.task import Start, TaskArgument
from kode.values import asdict
from tests.scripted_server import ScriptedServer

REQUEST = Path(__file__).with_name("baseline_request.py")
TASKS = by_size(8, 2)
AT_ONCE = 3
ANSWER_S = 0.2
SPAWNS = by_size(9, 1)
SCHEDULES = by_size(5, 1)


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    with ScriptedServer() as server, workplace(server.openai_url) as (project, environ):
        server.play([{"text": "Done."}])
        server.repeat_last = True
        asyncio.run(_delegate(server, project, environ, 1))
        body = project / "request.json"
        body.write_bytes(server.requests[-1].body)
        spawns = [
            Pair(_bare_spawn_ms(server, body, environ), _spawn_ms(server, project, environ))
            for _ in range(SPAWNS + 1)
        ][1:]
        server.play([{"text": "Done.", "delay_s": ANSWER_S}])
        schedules = [
            Pair(_bare_schedule_ms(body, environ), _schedule_ms(server, project, environ))
            for _ in range(SCHEDULES)
        ]
    figures = {
        "spawn_ratio": median_ratio(spawns),
        "schedule_ratio": median_ratio(schedules),
        "bare_spawn_ms": median_baseline(spawns),
        "bare_schedule_ms": median_baseline(schedules),
    }
    return report(figures, as_json="--json" in argv)


def _bare_spawn_ms(server: ScriptedServer, body: Path, environ: Mapping[str, str]) -> float:
    started = time.monotonic()
    asyncio.run(_bare(body, environ))
    return (server.requests[-1].at - started) * 1000


def _spawn_ms(server: ScriptedServer, project: Path, environ: Mapping[str, str]) -> float:
    started = asyncio.run(_delegate(server, project, environ, 1))
    return (server.requests[-1].at - started) * 1000


def _bare_schedule_ms(body: Path, environ: Mapping[str, str]) -> float:
    async def run() -> None:
        free = asyncio.Semaphore(AT_ONCE)

        async def run_one() -> None:
            async with free:
                await _bare(body, environ)

        await asyncio.gather(*(run_one() for _ in range(TASKS)))

    started = time.monotonic()
    asyncio.run(run())
    return (time.monotonic() - started) * 1000


def _schedule_ms(server: ScriptedServer, project: Path, environ: Mapping[str, str]) -> float:
    started = time.monotonic()
    asyncio.run(_delegate(server, project, environ, TASKS))
    return (time.monotonic() - started) * 1000


async def _bare(body: Path, environ: Mapping[str, str]) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(REQUEST), str(body), env=dict(environ)
    )
    if await process.wait():
        raise RuntimeError("the bare process failed")


async def _delegate(
    server: ScriptedServer, project: Path, environ: Mapping[str, str], tasks: int
) -> float:
    """Runs so many tasks and returns when the first child was started, by `time.monotonic`."""
    config = Config(
        provider="openai",
        model="gpt-4o",
        base_url=server.openai_url,
        api_key=environ["OPENAI_API_KEY"],
    )
    session: Any = SimpleNamespace(id=None)
    agent: Any = SimpleNamespace(
        place=SimpleNamespace(cwd=project, outputs=project),
        memory=SnapshotMemory(""),
        spend=Spend(),
    )

    with tempfile.TemporaryDirectory(dir=project) as folder:
        delegation = Delegation(
            folder=Path(folder) / "agents",
            session=session,
            agent=lambda: agent,
            limits=config.subagent,
            environment={k: v for k, v in environ.items() if k != "OPENAI_API_KEY"},
            start=lambda: Start(
                config=asdict(config),
                undo=str(Path(folder) / "undo"),
            ),
            ask=None,
            record=lambda usage, cost_usd: None,
            free=asyncio.Semaphore(AT_ONCE),
        )
        goals = [TaskArgument(goal=f"Say hello, number {number}.") for number in range(tasks)]
        children = await prepare_children(delegation, goals, "bench")
        await run_children(children)
    for child in children:
        if child.result is None or child.result.status != "success":
            raise RuntimeError(f"a child failed: {child.result}")
    return min(child.since for child in children)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
