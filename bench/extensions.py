"""What configured MCP servers cost: `python -m bench.extensions [--json]`.

The REPL with three servers beside the REPL without, each the median of paired runs: the time to the
prompt, and the time from Enter to the answer of the first turn, once the servers have had the time
in which a person types. `prefix_identical` is the share of the requests of a session with servers
whose system prompt and tools are byte for byte those of its first. `start_ratio` compares the start
of one server in its sandbox, with its cache, to one outside; `npx_start_ratio` does so for
`npx -y`, where it reaches a registry, else it is null.
"""

import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measure import (
    KODE,
    Pair,
    by_size,
    compare,
    configure,
    median_baseline,
    median_ratio,
    report,
    workplace,
)
from bench.time_to_prompt import seconds_to_key
from tests.e2e.terminal import Terminal
from tests.scripted_server import ScriptedServer
from tests.workplaces import workplace as make_workplace

SERVERS = 3
TYPING_S = by_size(4, 0)
"""A person takes so long for a first message; servers start meanwhile."""
RUNS = by_size(7, 1)
TURNS = 5
ANSWER = "Answered."
BY_NPX = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]}


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    with ScriptedServer([{"text": ANSWER}], repeat_last=True) as server:
        with workplace(server.openai_url) as (project, bare), _set_up(bare, project) as served:
            prompt = f"{KODE} --provider openai"
            prompts = compare(
                lambda: seconds_to_key(prompt, bare, project) * 1000,
                lambda: seconds_to_key(prompt, served, project) * 1000,
                RUNS,
            )
            turns = compare(
                lambda: _turns_ms(bare, project)[0], lambda: _turns_ms(served, project)[0], RUNS
            )
            server.requests.clear()
            _turns_ms(served, project, TURNS)
            sent = [request.json for request in server.requests]
    beginnings = [json.dumps([body["messages"][0], body["tools"]]) for body in sent]
    tools = [tool["function"]["name"] for tool in sent[0]["tools"]]
    # The sandbox hides homes, in which this Python may be.
    entry = {"command": sys.executable, "args": ["mcp_tools.py"], "read": [sys.prefix]}
    starts = asyncio.run(_starts(entry))
    by_npx = asyncio.run(_starts(BY_NPX)) if by_size(shutil.which("npx"), None) else []
    figures = {
        "start_ratio": median_ratio(starts),
        "npx_start_ratio": median_ratio(by_npx) if by_npx else None,
        "first_turn_ratio": median_ratio(turns),
        "prompt_ratio": median_ratio(prompts),
        "prefix_identical": sum(one == beginnings[0] for one in beginnings) / len(beginnings),
        "tools_of_servers": sum(name.startswith("mcp__") for name in tools),
        "first_turn_ms": median_baseline(turns),
        "prompt_ms": median_baseline(prompts),
        "start_ms": median_baseline(starts),
        "npx_start_ms": median_baseline(by_npx) if by_npx else None,
    }
    return report(figures, as_json="--json" in argv)


async def _starts(values: Mapping[str, Any]) -> list[Pair]:
    """From the start of a server to its list of tools: outside, and in the sandbox with its own
    cache, where it has started before. None where it cannot be downloaded."""
    from kode.errors import ServerError
    from kode.extensions.mcp_config import ServerEntry
    from kode.extensions.mcp_server import DownloadNeededError, Opener

    with tempfile.TemporaryDirectory() as folder:
        home, project = Path(folder, "home"), Path(folder, "project")
        home.mkdir()
        project.mkdir()
        shutil.copy(Path(__file__).with_name("mcp_tools.py"), project)
        entry = ServerEntry(
            name="tracker", origin=home / "c", scope="home", project=project, values=values
        )
        place = make_workplace(project, home=home)

        async def start_ms(servers: Opener) -> float:
            started = time.perf_counter()
            async with servers(entry) as connection:
                await connection.tools()
                return (time.perf_counter() - started) * 1000

        outside, inside = Opener(place=place, sandboxed=False), Opener(place=place, sandboxed=True)
        try:
            await start_ms(outside)
            await start_ms(inside)
        except DownloadNeededError as needed:
            try:
                await inside.download(entry, needed.item)
            except ServerError:
                return []
        except ServerError:
            return []
        return [Pair(await start_ms(outside), await start_ms(inside)) for _ in range(RUNS)]


@contextmanager
def _set_up(environ: Mapping[str, str], project: Path) -> Iterator[dict[str, str]]:
    """The environment of a home in which three servers are configured."""
    shutil.copy(Path(__file__).with_name("mcp_tools.py"), project)
    served = {**environ, "KODE_HOME": str(Path(environ["HOME"]) / "kode-served")}
    entry = {"command": sys.executable, "args": ["mcp_tools.py"]}
    configure(served, mcpServers={f"tracker{number}": entry for number in range(SERVERS)})
    yield served


def _turns_ms(environ: Mapping[str, str], project: Path, turns: int = 1) -> list[float]:
    """From Enter to the answer, for each turn of a session of its own."""
    flags = ["--provider", "openai", "--model", "gpt-4o", "--no-memory"]
    times_ms = []
    with Terminal(KODE, flags, cwd=project, env=environ) as terminal:
        terminal.process.delaybeforesend = None
        terminal.until("gpt-4o")
        time.sleep(TYPING_S)
        for turn in range(1, turns + 1):
            started = time.perf_counter()
            terminal.type("hello\r")
            terminal.until_count(ANSWER, turn)
            times_ms.append((time.perf_counter() - started) * 1000)
            terminal.until_gone("Ctrl-C stops")  # type: ignore[no-untyped-call]
    return times_ms


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
