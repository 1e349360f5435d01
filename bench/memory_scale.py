"""Memory at 100,000 session notes, measured: `python -m bench.memory_scale [--data N] [--json]`.

Fills the log with made-up notes and times a search against a bare numpy product of as many vectors
of 256 dimensions; then what adding a note and opening take, against a memory of 100. Not here: the
index (`kode.memory.search`).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.measure import by_size, report
from bench.retrieval import add, note_of, open_system
from kode.memory.statement import Author
from kode.memory.system import Memory

EPISODES = by_size(100_000, 200)
FEW = 100
LINES_AT_ONCE = 5_000
WORDS_AN_EPISODE = 60
DIMS = 256
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def make_texts(n: int, seed: int) -> list[str]:
    """Episodes of words as frequent as words are."""
    rng = random.Random(seed)
    words = [
        f"{start}{vowel}{end}"
        for start in ("b", "c", "d", "f", "g", "h", "j", "k", "l", "m", "n", "pr", "st", "tr")
        for vowel in ("ar", "en", "il", "o", "u", "ai")
        for end in ("tek", "ban", "sor", "lim", "dax", "", "qi", "fu", "mond", "rish", "vel", "gat")
    ]
    weights = [1 / (place + 1) for place in range(len(words))]
    return [" ".join(rng.choices(words, weights, k=WORDS_AN_EPISODE)) for _ in range(n)]


async def measure(episodes: int) -> dict[str, Any]:
    """The three ratios, and what they are made of in milliseconds."""
    import numpy as np

    with tempfile.TemporaryDirectory(prefix="kode-bench-") as folder:
        roots = {n: Path(folder) / str(n) for n in (FEW, episodes)}
        memories = {n: await fill_memory(root, n) for n, root in roots.items()}
        queries = iter([" ".join(text.split()[:8]) for text in make_texts(60, seed=7)] * 10)
        numbers = itertools.count()
        vectors = np.random.default_rng(1).standard_normal((episodes, DIMS), dtype=np.float32)

        async def search() -> None:
            await memories[episodes].search(next(queries), 10)

        async def add_to(n: int) -> None:
            number = next(numbers)
            at = NOW + timedelta(days=1, seconds=number)
            await add(memories[n], [note_of(memories[n], f"new{number}", "A new note", at)])

        async def open_again(n: int) -> None:
            memory = await open_system("tiered", roots[n])
            memory.store.view()

        async def multiply() -> None:
            vectors @ vectors[0]

        times = {
            "search_ms": await _median_ms(search, 40),
            "product_ms": await _median_ms(multiply, 40),
            "add_ms": await _median_ms(lambda: add_to(episodes), 10),
            "add_few_ms": await _median_ms(lambda: add_to(FEW), 10),
            "open_ms": await _median_ms(lambda: open_again(episodes), 5),
            "open_few_ms": await _median_ms(lambda: open_again(FEW), 5),
        }
    return {
        "search_ratio": round(times["search_ms"] / times["product_ms"], 3),
        "add_ratio": round(times["add_ms"] / times["add_few_ms"], 3),
        "open_ratio": round(times["open_ms"] / times["open_few_ms"], 3),
        "episodes": episodes,
        **{name: round(value, 3) for name, value in times.items()},
    }


async def fill_memory(root: Path, n: int) -> Memory:
    """A memory of `n` notes in its log, indexed. They are not written into files."""
    memory = await open_system("tiered", root)
    store = memory.store
    texts = make_texts(n, seed=n)
    for first in range(0, n, LINES_AT_ONCE):
        some = enumerate(texts[first : first + LINES_AT_ONCE], first)
        notes = [
            note_of(memory, f"s{number:07}", text, NOW + timedelta(seconds=number))
            for number, text in some
        ]
        drafts = [store.draft("note", Author("session", note.session)) for note in notes]
        pairs = zip(drafts, notes, strict=True)
        store.log.append([replace(draft, add=(note,)) for draft, note in pairs])
    await memory.search("anything", 1)
    return memory


async def _median_ms(run: Callable[[], Awaitable[None]], times: int) -> float:
    await run()
    times_ms = []
    for _ in range(times):
        started = time.perf_counter()
        await run()
        times_ms.append((time.perf_counter() - started) * 1000)
    return statistics.median(times_ms)


def main(argv: list[str] | None = None) -> int:
    """Prints a table, or one JSON object with `--json`; exits 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="bench.memory_scale")
    parser.add_argument("--data", type=int, default=EPISODES, metavar="N", help="episodes to make")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    figures = asyncio.run(measure(max(options.data, FEW + 1)))
    return report(figures, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
