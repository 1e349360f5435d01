"""Memory at 100,000 episodes, measured: `python -m bench.memory_scale [--data N] [--json]`.

Fills the index with made-up episodes and times a search against a bare numpy product of as many
vectors of 256 dimensions, then adding one and opening against an index of 100. Not here: the index
(`kode.memory.tiered.episode_index`).
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.measure import report, sized
from kode.contracts import MemoryContext
from kode.events import silent
from kode.memory.tiered.episode_files import Episode
from kode.memory.tiered.episode_index import EpisodeIndex

EPISODES = sized(100_000, 200)
FEW = 100
ADDED = 200
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


def measure(episodes: int) -> dict[str, Any]:
    """The three ratios, and what they are made of in milliseconds."""
    import numpy as np

    with tempfile.TemporaryDirectory(prefix="kode-bench-") as folder:
        indices = {n: filled(Path(folder) / str(n), n) for n in (FEW, episodes)}
        queries = [" ".join(text.split()[:8]) for text in make_texts(40, seed=7)]
        more = iter([episode(f"new{n}", text) for n, text in enumerate(make_texts(ADDED, seed=9))])
        vectors = np.random.default_rng(1).standard_normal((episodes, DIMS), dtype=np.float32)
        asked = iter(queries * 10)

        def open_(n: int) -> None:
            assert indices[n].is_current()

        def add(n: int) -> None:
            indices[n].put(next(more), None, was_current=True)

        times = {
            "search_ms": _median_ms(
                lambda: asyncio.run(indices[episodes].search(next(asked), 10)), 40
            ),
            "product_ms": _median_ms(lambda: vectors @ vectors[0], 40),
            "add_ms": _median_ms(lambda: add(episodes), 60),
            "add_few_ms": _median_ms(lambda: add(FEW), 60),
            "open_ms": _median_ms(lambda: open_(episodes), 20),
            "open_few_ms": _median_ms(lambda: open_(FEW), 20),
        }
    return {
        "search_ratio": round(times["search_ms"] / times["product_ms"], 3),
        "add_ratio": round(times["add_ms"] / times["add_few_ms"], 3),
        "open_ratio": round(times["open_ms"] / times["open_few_ms"], 3),
        "episodes": episodes,
        **{name: round(value, 3) for name, value in times.items()},
    }


def filled(folder: Path, n: int) -> EpisodeIndex:
    """The search over `n` episodes, current. Files there are only of those to be added."""
    context = MemoryContext(
        root=folder,
        cwd=folder,
        project_root=None,
        session_id=None,
        emit=silent,
        ask_reply=None,
        now=lambda: NOW,
    )
    index = EpisodeIndex(context, None)
    index.files.folder.mkdir(parents=True)
    for number in range(ADDED):
        index.files.path(f"new{number}").touch()
    texts = make_texts(n, seed=n)
    for first in range(0, n, 10_000):
        some = enumerate(texts[first : first + 10_000], first)
        index.take_in((episode(f"s{number}", text), "", None) for number, text in some)
    index.put(episode("new0", "the first"), None, was_current=True)
    return index


def episode(id: str, text: str) -> Episode:
    at = NOW.isoformat()
    return Episode(session_id=id, turns=3, created_at=at, updated_at=at, narrative=text)


def _median_ms(run: Callable[[], object], times: int) -> float:
    run()
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken)


def main(argv: list[str] | None = None) -> int:
    """Prints a table, or one JSON object with `--json`; exits 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="bench.memory_scale")
    parser.add_argument("--data", type=int, default=EPISODES, metavar="N", help="episodes to make")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    figures = measure(max(options.data, FEW + 1))
    return report(figures, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
