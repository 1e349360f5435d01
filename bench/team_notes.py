"""Notes of a team, measured: `python -m bench.team_notes [--data N] [--url URL] [--json]`.

Puts N notes on a PostgreSQL server, has a second member copy them, and times a search there against
one of as many notes in SQLite that nobody shares: by words, and by vectors of 384 dimensions, for
which the server needs pgvector. Without `--url` it starts a server that is installed here, in a
folder of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.measure import report
from bench.memory_scale import make_texts
from kode.config import MemoryConfig
from kode.config.model import Notes as Settings
from kode.contracts import MemoryContext
from kode.events import silent
from kode.memory.change import Author
from kode.memory.notes.note import Note, stamp
from kode.memory.notes.search import NoteVectors, search
from kode.memory.notes.store import Wanted
from kode.memory.notes.system import Notes
from kode.plugins.team.address import Address
from kode.plugins.team.command import manage
from kode.plugins.team.server import open_server

Matrix = NDArray[np.float32]

NOTES = 100_000
A_CHANGE = 100
"""Notes of one change, as an import makes them."""
SEARCHES = 60
DIMS = 384
GROUPS = 500
"""The vectors lie around so many directions, as texts about so many things do."""
MADE_AT_ONCE = 5_000
NEAREST = 60
NOW = datetime(2026, 3, 1, tzinfo=UTC)
WAIT_S = 600.0


async def measure(notes: int, url: str) -> dict[str, Any]:
    """Milliseconds of a search in both, and seconds of sending and copying."""
    address = Address(url, "bench", "bench")
    await manage(address, "init", None, None, Path("/"))
    texts = make_texts(notes, seed=3)
    with tempfile.TemporaryDirectory(prefix="kode-bench-") as folder:
        root = Path(folder)
        alone = await _opened(root / "alone", None)
        await _fill(alone, texts)
        first = await _opened(root / "first", url)
        await _fill(first, texts)
        assert first.team is not None
        started = time.perf_counter()
        await first.team.finish(WAIT_S)
        sent = time.perf_counter()
        second = await _opened(root / "second", url)
        assert second.team is not None
        await second.team.update(WAIT_S)
        copied = time.perf_counter()
        queries = [" ".join(text.split()[:8]) for text in random.Random(5).sample(texts, SEARCHES)]
        found: dict[str, list[float]] = {"sqlite_ms": [], "team_ms": []}
        for query in queries:
            for name, system in (("sqlite_ms", alone), ("team_ms", second)):
                begun = time.perf_counter()
                hits = await search(system.store, system.vectors, query, Wanted(limit=10))
                found[name].append((time.perf_counter() - begun) * 1000)
                assert hits
        by_vectors = await _by_vectors(address, alone, first, second, queries, texts)
        counts = [one.store.count("n.kind = 'log'") for one in (alone, second)]
        for one in (alone, first, second):
            await one.close(5.0)
    figures = {name: statistics.median(times) for name, times in found.items()}
    return {
        "search_ratio": round(figures["team_ms"] / figures["sqlite_ms"], 3),
        "notes": counts[1],
        "lost": counts[0] - counts[1],
        **{name: round(value, 2) for name, value in figures.items()},
        "send_s": round(sent - started, 1),
        "copy_s": round(copied - sent, 1),
        **by_vectors,
    }


class Model:
    """A vector for each text, made of nothing but its digest."""

    name = "bench"
    dims = DIMS

    async def embed(self, texts: Sequence[str]) -> Matrix:
        return np.stack([self._vector(text) for text in texts])

    def _vector(self, text: str) -> Matrix:
        seed = zlib.crc32(text.encode())
        group = np.random.default_rng(seed % GROUPS).standard_normal(DIMS)
        vector = group + 0.8 * np.random.default_rng(seed).standard_normal(DIMS)
        return (vector / np.linalg.norm(vector)).astype(np.float32)


async def _by_vectors(
    address: Address,
    alone: Notes,
    first: Notes,
    second: Notes,
    queries: Sequence[str],
    texts: Sequence[str],
) -> dict[str, Any]:
    """The same by vectors: SQLite measures its newest 20,000, and for more a copy asks the server
    too, which has an index of all. Nothing where the server has no pgvector."""
    model = Model()
    alone.vectors = NoteVectors(alone.store, model)
    for one in (first, second):
        assert one.team is not None
        one.vectors = NoteVectors(one.store, model, one.team.vectors(Model.name))
    async with open_server(address) as server:
        if not (await server.membership()).has_vectors:
            return {}
    for one in (alone, first):
        while await one.vectors._make_missing(MADE_AT_ONCE):
            pass
    began = time.perf_counter()
    await first.vectors.make_missing()
    sent = time.perf_counter()
    await second.vectors.make_missing(1)
    taken = time.perf_counter()
    times: dict[str, list[float]] = {"vectors_sqlite_ms": [], "vectors_team_ms": []}
    recalled = []
    every = await model.embed(texts)
    for query in queries:
        for name, system in (("vectors_sqlite_ms", alone), ("vectors_team_ms", second)):
            begun = time.perf_counter()
            await search(system.store, system.vectors, query, Wanted(limit=10))
            times[name].append((time.perf_counter() - begun) * 1000)
        (vector,) = await model.embed([query])
        exact = {f"{n:016x}" for n in np.argsort(-(every @ vector))[:NEAREST]}
        async with open_server(address) as server:
            near = await server.nearest(model.name, str(vector.tolist()), None, NEAREST)
        recalled.append(len(exact & near.keys()) / NEAREST)
    figures = {name: round(statistics.median(some), 2) for name, some in times.items()}
    return {
        "vectors_ratio": round(figures["vectors_team_ms"] / figures["vectors_sqlite_ms"], 3),
        "vectors_recall": round(statistics.mean(recalled), 3),
        **figures,
        "vectors_send_s": round(sent - began, 1),
        "vectors_take_s": round(taken - sent, 1),
    }


async def _opened(root: Path, url: str | None) -> Notes:
    settings = Settings(url=url, team="bench", host=root.name)
    system = Notes(MemoryConfig(system="notes", notes=settings))
    context = MemoryContext(
        root=root,
        cwd=root,
        project_root=None,
        session_id=None,
        emit=silent,
        ask_reply=None,
        now=lambda: NOW,
    )
    await system.open(context, {})
    return system


async def _fill(system: Notes, texts: list[str]) -> None:
    for first in range(0, len(texts), A_CHANGE):
        some = enumerate(texts[first : first + A_CHANGE], first)
        made = [Note(id=f"{n:016x}", content=text, created_at=stamp(NOW)) for n, text in some]
        async with system.store.writing():
            system.store.commit("import", (), made, Author(who="import"), f"{len(made)} notes")


@contextmanager
def _server(url: str | None) -> Iterator[str | None]:
    if url:
        yield url
        return
    from tests.postgres import PACKAGE, SYSTEM, Postgres, programs

    binaries = programs(PACKAGE) or programs(SYSTEM)  # the package has pgvector
    if binaries is None:
        yield None
        return
    server = Postgres(binaries)
    server.begin()
    try:
        server.make_database("bench")
        yield server.url("owner", "bench")
    finally:
        server.end()


def main(argv: list[str] | None = None) -> int:
    """Prints a table, or one JSON object with `--json`; exits 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="bench.team_notes")
    parser.add_argument("--data", type=int, default=NOTES, metavar="N", help="notes to make")
    parser.add_argument("--url", help="an empty database of a server")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    with _server(options.url) as url:
        if url is None:
            print(
                "No PostgreSQL is installed here: install it, or give --url of an empty database."
            )
            return 0
        figures = asyncio.run(measure(max(options.data, SEARCHES), url))
    return report(figures, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
