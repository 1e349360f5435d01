"""Memory at 100,000 episodes, measured: `python -m bench.memory_scale [--data N] [--json]`.

Fills a collection with made-up episodes and times a search against a bare numpy product of as many
vectors of 256 dimensions, then adding one and opening against a collection of 100. Not here: the
collection (`kode.memory.collection`).
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

EPISODES = 100_000
FEW = 100
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

    from kode.memory.collection import Collection, Row

    with tempfile.TemporaryDirectory(prefix="kode-bench-") as folder:
        collections = {}
        for n in (FEW, episodes):
            collection = Collection(Path(folder) / f"{n}.sqlite")
            texts = make_texts(n, seed=n)
            for first in range(0, n, 10_000):
                some = texts[first : first + 10_000]
                collection.put(Row(f"s{first + i}", text) for i, text in enumerate(some))
            collection.set_fingerprint(str(n))
            collections[n] = collection
        queries = [" ".join(text.split()[:8]) for text in make_texts(40, seed=7)]
        more = iter(make_texts(400, seed=9))
        vectors = np.random.default_rng(1).standard_normal((episodes, DIMS), dtype=np.float32)
        asked = iter(queries * 10)

        def reopen(n: int) -> None:
            collections[n].close()
            assert collections[n].fingerprint() == str(n)

        def add(n: int) -> None:
            text = next(more)
            collections[n].put([Row(f"new {text[:30]}", text)])

        times = {
            "search_ms": _median_ms(lambda: collections[episodes].search(next(asked), 10, NOW), 40),
            "product_ms": _median_ms(lambda: vectors @ vectors[0], 40),
            "add_ms": _median_ms(lambda: add(episodes), 60),
            "add_few_ms": _median_ms(lambda: add(FEW), 60),
            "open_ms": _median_ms(lambda: reopen(episodes), 20),
            "open_few_ms": _median_ms(lambda: reopen(FEW), 20),
        }
        for collection in collections.values():
            collection.close()
    return {
        "search_ratio": round(times["search_ms"] / times["product_ms"], 3),
        "add_ratio": round(times["add_ms"] / times["add_few_ms"], 3),
        "open_ratio": round(times["open_ms"] / times["open_few_ms"], 3),
        "episodes": episodes,
        **{name: round(value, 3) for name, value in times.items()},
    }


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
    if options.json:
        print(json.dumps(figures))
        return 0
    for name, value in figures.items():
        print(f"{name:14} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
