"""What a conversation costs inside a program: `python -m bench.conversations [--json]`.

    time_ratio      20 conversations at once, each with a tool call and an answer, against 20 times
                    the time of one; opening and closing included
    memory_ratio    the process with 20 open conversations against the same with one
    conversation_kb what each of the 20 takes

One process, warmed up by a conversation; the server plays in a process of its own. The times are
the median of paired runs.
"""

import asyncio
import contextlib
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import kode
from bench.measure import Pair, by_size, median_baseline, median_ratio, report, workplace

AT_ONCE = by_size(20, 2)
RUNS = by_size(5, 1)
SCRIPT = [
    {"match": "Look", "calls": [{"name": "list_files", "arguments": {}}]},
    {"text": "There is one file."},
]


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    with workplace("http://127.0.0.1:9/v1") as (project, environ), _server(project) as url:
        os.environ.update({**environ, "OPENAI_BASE_URL": url, "KODE_MODEL": "gpt-4o"})
        figures = asyncio.run(_measure(project))
    return report(figures, as_json="--json" in argv)


async def _measure(project: Path) -> dict[str, float]:
    await _run_ms(project, 1)
    # Memory first: what earlier runs gave back would be used again.
    async with _open_many(project, 1):
        one_kb = _rss_kb()
    async with _open_many(project, AT_ONCE):
        all_kb = _rss_kb()
    pairs = [
        Pair(AT_ONCE * await _run_ms(project, 1), await _run_ms(project, AT_ONCE))
        for _ in range(RUNS)
    ]
    return {
        "time_ratio": median_ratio(pairs),
        "conversation_ms": round(median_baseline(pairs) / AT_ONCE, 1),
        "memory_ratio": round(all_kb / one_kb, 3),
        "conversation_kb": round((all_kb - one_kb) / (AT_ONCE - 1)),
        "one_mb": round(one_kb / 1024, 1),
    }


async def _run_ms(project: Path, number: int) -> float:
    started = time.perf_counter()
    async with _open_many(project, number):
        pass
    return (time.perf_counter() - started) * 1000


@contextlib.asynccontextmanager
async def _open_many(project: Path, number: int) -> AsyncIterator[None]:
    """So many conversations, open after a turn each."""
    async with contextlib.AsyncExitStack() as stack:

        async def open_one() -> None:
            conversation = await stack.enter_async_context(kode.open(project, memory=None))
            await conversation.ask("Look around.")

        await asyncio.gather(*(open_one() for _ in range(number)))
        yield


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[str]:
    """The URL of a scripted server in a process of its own, so that only kode is measured."""
    script = folder / "script.json"
    script.write_text(json.dumps(SCRIPT))
    command = [sys.executable, "-m", "tests.scripted_server", "--repeat-last"]
    with subprocess.Popen([*command, "--script", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        process.terminate()


def _rss_kb() -> float:
    """What the process holds now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
