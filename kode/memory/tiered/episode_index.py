"""Which episodes fit a query, and which are the newest: their texts in a `Collection`, kept in step
with the files.

A cache in `episodes/.search/`. One stat of the folder tells whether anything came or went; only
then are the files' times looked through, and only files that changed are read. Who only reads uses
the cache while it is current, and else the newest files as they are.
"""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from kode.errors import StorageError
from kode.memory import rank, when
from kode.memory.collection import Collection, Row
from kode.memory.embed import Embedder, LocalEmbedder
from kode.memory.rank import Text
from kode.memory.tiered.episode_files import Episode, EpisodeFiles, valid_id

if TYPE_CHECKING:
    from kode.memory.index import Vector

T = TypeVar("T")

NEWEST_READ = 200
"""So many files are looked through where the cache cannot be used."""
BATCH = 64
"""Files taken in by one transaction; between two the terminal gets its turn."""
SEARCH_WAITS_S = 0.5
"""How long a search takes in changed files before it answers from what is there."""


class EpisodeIndex:
    """The search over one folder of episodes. `now` is the clock, in local time."""

    def __init__(
        self,
        files: EpisodeFiles,
        embedder: Embedder,
        now: Callable[[], datetime],
        *,
        read_only: bool,
    ) -> None:
        self._files = files
        self._embedder = embedder
        self._now = now
        self._read_only = read_only
        space = "" if isinstance(embedder, LocalEmbedder) else embedder.name
        path = files.folder / ".search" / "episodes.sqlite"
        self._texts = Collection(path, space=space, read_only=read_only)

    async def search(
        self, query: str, k: int, *, typo_chars: int = rank.TYPO_CHARS
    ) -> list[tuple[str, rank.Ranked]]:
        """Session ids, best first; nothing for a query that matches nothing."""
        vector = None if self._read_only else await self.vector(query)
        found = await self._in_cache(
            lambda: self._texts.search(query, k, self._now(), vector, typo_chars=typo_chars)
        )
        if found is not None:
            return found
        texts = [
            Text(e.session_id, e.text, when.stamp_of(e.updated_at)) for e in self._read_newest()
        ]
        ranked = rank.rank(query, texts, self._now(), k=k, typo_chars=typo_chars)
        return [(texts[one.index].where, one) for one in ranked]

    async def newest(self, many: int, project: str | None = None) -> list[Episode]:
        """The newest episodes, the newest first; with `project`, those of this one and those that
        name none."""
        ids = await self._in_cache(lambda: self._texts.newest(many, project))
        if ids is not None:
            return [episode for id in ids if (episode := self._files.read(id))]
        wanted = [e for e in self._read_newest() if project is None or e.project in (project, "")]
        return wanted[:many]

    async def refresh(self) -> None:
        """Takes in what came, went or changed on disk, edits in place included."""
        if self._files.folder.is_dir() and not self._read_only:
            await self._refresh(None, thorough=True)

    async def vector(self, text: str) -> "Vector | None":
        """What `put` takes, made while no lock is held: an embedding may be a request."""
        return (await self._vectors([text]))[0]

    def is_current(self) -> bool:
        """Whether the cache is an image of the folder as it is now."""
        try:
            return self._texts.fingerprint() == self._fingerprint()
        except OSError:
            return False
        finally:
            self._texts.close()

    def put(self, episode: Episode, vector: "Vector | None", *, was_current: bool) -> None:
        """Takes in an episode just written, while the folder is locked. `was_current`: what
        `is_current` said before; only then may the cache be called current again."""
        path = self._files.path(episode.session_id)
        with suppress(StorageError, OSError):
            stamp = _stamp(path.stat())
            self._texts.put([_row(episode, stamp, vector)])
            if was_current:
                self._texts.set_fingerprint(self._fingerprint())
        self._texts.close()

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    async def _in_cache(self, work: Callable[[], T | None]) -> T | None:
        """What `work` finds in the cache once that is current; None where it cannot be used."""
        if not self._files.folder.is_dir() or (self._read_only and not self.is_current()):
            return None
        if not self._read_only:
            await self._refresh(SEARCH_WAITS_S)
        try:
            return work()
        finally:
            self._texts.close()

    def _fingerprint(self) -> str:
        """Changes whenever a file comes, goes or is replaced."""
        return f"{self._files.folder.stat().st_mtime_ns} {self._embedder.name}"

    async def _refresh(self, budget_s: float | None, *, thorough: bool = False) -> None:
        try:
            now = self._fingerprint()
            if not thorough and self._texts.fingerprint() == now:
                return
            if await self._take_in(budget_s):
                self._texts.set_fingerprint(now)
        except (StorageError, OSError):
            # A cache that cannot be written costs finding something, never a turn.
            return
        finally:
            self._texts.close()

    async def _take_in(self, budget_s: float | None) -> bool:
        """False when the time was up before everything was in."""
        deadline = None if budget_s is None else time.monotonic() + budget_s
        known = self._texts.stamps()
        there: dict[str, str] = {}
        with os.scandir(self._files.folder) as entries:
            for number, entry in enumerate(entries):
                id = entry.name.removesuffix(".md")
                if id != entry.name and valid_id(id):
                    there[id] = _stamp(entry.stat())
                if number % 512 == 511:
                    await asyncio.sleep(0)
        self._texts.remove(id for id in known if id not in there)
        changed = sorted((id for id in there if known.get(id) != there[id]), reverse=True)
        for first in range(0, len(changed), BATCH):
            if deadline is not None and time.monotonic() > deadline:
                return False
            episodes = [self._files.read(id) for id in changed[first : first + BATCH]]
            readable = [episode for episode in episodes if episode is not None]
            vectors = await self._vectors([episode.text for episode in readable])
            self._texts.put(
                _row(episode, there[episode.session_id], vector)
                for episode, vector in zip(readable, vectors, strict=True)
            )
            await asyncio.sleep(0)
        return True

    async def _vectors(self, texts: list[str]) -> "list[Vector | None]":
        nothing: list[Vector | None] = [None] * len(texts)
        if isinstance(self._embedder, LocalEmbedder) or not texts:
            return nothing
        matrix = await self._embedder.embed(texts)
        return list(matrix) if self._embedder.is_neural else nothing

    def _read_newest(self) -> list[Episode]:
        ids = [id for id in self._files.session_ids() if valid_id(id)][-NEWEST_READ:]
        episodes = [episode for id in ids if (episode := self._files.read(id))]
        return sorted(episodes, key=lambda e: when.stamp_of(e.updated_at), reverse=True)


def _row(episode: Episode, stamp: str, vector: "Vector | None") -> Row:
    return Row(
        id=episode.session_id,
        text=episode.text,
        stamp=stamp,
        vector=vector,
        since=when.stamp_of(episode.created_at),
        until=when.stamp_of(episode.updated_at),
        project=episode.project,
    )


def _stamp(stat: os.stat_result) -> str:
    return f"{stat.st_mtime_ns} {stat.st_size}"
