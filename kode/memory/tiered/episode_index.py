"""Finds episodes by a query, and the newest ones: a cache of their texts beside the files.

`episodes/.search/` is rebuilt from the files if missing, damaged or of another tokenizer. Adding an
episode takes constant time. One stat of the folder shows whether files were added or removed; only
then are file times checked, and only changed files read, the newest first. A person's command may
write the cache even where it may not change memory; a read-only session, and one whose disk fails,
brings a copy of it up to date that lies in its own memory.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from kode import paths
from kode.contracts import MemoryContext
from kode.errors import StorageError
from kode.memory import index, rank, terms, when
from kode.memory.cache import CacheFile
from kode.memory.embed import Embedder
from kode.memory.index import Source, TextIndex
from kode.memory.rank import Ranked
from kode.memory.tiered.episode_files import Episode, EpisodeFiles, valid_id

if TYPE_CHECKING:
    import apsw

    from kode.memory.index import Values, Vector

T = TypeVar("T")

VERSION = 200 + terms.VERSION
"""Of the schema and of the terms in it."""
NAME = "text"
BATCH = 64
"""Files per transaction; the terminal gets control in between."""
SEARCH_WAITS_S = 0.5
"""How long a search indexes changed files before it answers with what it has."""

_TABLES = """
CREATE TABLE IF NOT EXISTS episodes (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL,
    since TEXT NOT NULL, until TEXT NOT NULL, project TEXT NOT NULL, waits INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS episodes_until ON episodes (until DESC, id DESC);
CREATE INDEX IF NOT EXISTS episodes_waiting ON episodes (id) WHERE waits;
CREATE TABLE IF NOT EXISTS image_of (fingerprint TEXT NOT NULL);
"""
_ALL = Source("SELECT place, since, until, '' AS row FROM episodes")


class EpisodeIndex:
    """Search over the episodes of one memory."""

    def __init__(self, context: MemoryContext, embedder: Embedder | None) -> None:
        self.files = EpisodeFiles(context.root / "episodes")
        self.project = paths.path_hash(context.project_root or paths.project_root(context.cwd))
        self._read_only = context.read_only and context.session_id is not None
        self._embedder = None if self._read_only else embedder  # which keeps what it was asked
        self._space = embedder.name if embedder else ""
        self._now = context.now
        self.unread = 0
        """How many files the last search did not look at."""
        path = self.files.folder / ".search" / "episodes.sqlite"
        self._cache = CacheFile(path, self._prepare, version=VERSION, read_only=self._read_only)
        self._texts = TextIndex(self._cache.rows, NAME)

    async def search(
        self, query: str, k: int, *, typo_chars: int = rank.TYPO_CHARS
    ) -> list[tuple[str, Ranked]]:
        """Session ids, best first; empty if nothing matches."""
        self.unread = 0
        if not self.files.folder.is_dir():
            return []
        vector = await self.vector(query)
        return await self._in_cache(lambda: self._search(query, k, vector, typo_chars))

    async def newest(self, many: int, *, of_project: bool = False) -> list[Episode]:
        """The newest episodes, newest first; `of_project`: only this project's, and those without
        one."""
        where = "WHERE project IN (?, '')" if of_project else "WHERE ? <> ''"
        sql = f"SELECT id FROM episodes {where} ORDER BY until DESC, id DESC LIMIT ?"
        return await self._read(sql, (self.project, many))

    async def waiting(self) -> list[Episode]:
        """The episodes that wait for approval, newest first."""
        found = await self._read("SELECT id FROM episodes WHERE waits ORDER BY id DESC")
        return [episode for episode in found if not episode.recallable]

    async def refresh(self) -> None:
        """Indexes files that were added, removed or changed, including edits in place."""
        if self.files.folder.is_dir():
            await self._refresh(None)

    async def vector(self, text: str) -> "Vector | None":
        """The vector for `put`; call without a lock, because an embedding may be a request."""
        return (await self._vectors([text]))[0]

    def is_current(self) -> bool:
        """Whether the cache matches the current folder."""
        sql = "SELECT fingerprint FROM image_of"
        rows = self._cache.read(lambda: self._cache.rows(sql))
        self._cache.close()
        with suppress(OSError):
            return rows == [(self._fingerprint(),)]
        return False

    def write(self, episode: Episode, vector: "Vector | None") -> None:
        """Writes an episode and indexes it, in constant time; the caller holds the lock. A cache
        that lags behind the files still does. Raises: StorageError."""
        was_current = self.is_current()
        self.files.write(episode)
        self.put(episode, vector, was_current=was_current)

    def put(self, episode: Episode, vector: "Vector | None", *, was_current: bool) -> None:
        """Indexes an episode just written. `was_current`: what `is_current` returned before; only
        then does the cache stay current."""
        with suppress(StorageError, OSError):
            stamp = self._stamp(self.files.path(episode.session_id).stat())
            image_of = self._fingerprint() if was_current else ""
            self.take_in([(episode, stamp, vector)], image_of=image_of)
        self._cache.close()

    # ── the cache ────────────────────────────────────────────────────────────────────────────

    async def _in_cache(self, work: Callable[[], list[T]]) -> list[T]:
        """The result of `work` on the current cache."""
        if not self.files.folder.is_dir():
            return []
        if not self.is_current():
            await self._refresh(time.monotonic() + SEARCH_WAITS_S)
        try:
            return self._cache.read(work) or []
        finally:
            self._cache.close()

    async def _read(self, sql: str, values: "Values" = ()) -> list[Episode]:
        rows = await self._in_cache(lambda: self._cache.rows(sql, values))
        return [episode for (id,) in rows if (episode := self.files.read(id))]

    def _search(
        self, query: str, k: int, vector: "Vector | None", typo_chars: int
    ) -> list[tuple[str, Ranked]]:
        found = self._texts.search(
            query, _ALL, self._now(), k, vector, self._space, typo_chars=typo_chars
        )
        sql = "SELECT id FROM episodes WHERE place = ?"
        return [(self._cache.rows(sql, (place,))[0][0], ranked) for place, ranked in found]

    def _prepare(self, connection: "apsw.Connection") -> None:
        connection.execute(_TABLES)
        self._texts.measures = index.prepare(connection, NAME, has_vectors=bool(self._space))

    def take_in(
        self,
        taken: Iterable[tuple[Episode, str, "Vector | None"]],
        *,
        gone: Iterable[str] = (),
        image_of: str = "",
    ) -> None:
        """One transaction: replaces episodes with their stamps and vectors, removes ids, and stores
        the fingerprint of the folder that the cache then matches.

        Raises: StorageError.
        """
        given = list(taken)

        def change() -> None:
            for id in (*gone, *(episode.session_id for episode, _, _ in given)):
                sql = "DELETE FROM episodes WHERE id = ? RETURNING place"
                for (place,) in self._cache.rows(sql, (id,)):
                    self._texts.remove(place)
            for episode, stamp, vector in given:
                since, until = map(when.stamp_of, (episode.created_at, episode.updated_at))
                sql = (
                    "INSERT INTO episodes (id, stamp, since, until, project, waits) "
                    "VALUES (?, ?, ?, ?, ?, ?) RETURNING place"
                )
                if self._embedder and vector is None:
                    stamp = ""  # the server failed: `refresh` tries again
                waits = not episode.recallable
                row = (episode.session_id, stamp, since, until, episode.project, waits)
                ((place,),) = self._cache.rows(sql, row)
                self._texts.add(place, episode.text)
                if vector is not None:
                    self._texts.add_vector(place, self._space, vector)
            if image_of:
                self._cache.rows("DELETE FROM image_of")
                self._cache.rows("INSERT INTO image_of VALUES (?)", (image_of,))

        self._cache.change(change)

    # ── in step with the files ───────────────────────────────────────────────────────────────

    def _fingerprint(self) -> str:
        """Changes whenever a file is added, removed or replaced. Raises: OSError."""
        return f"{self.files.folder.stat().st_mtime_ns} {self._space}"

    async def _refresh(self, deadline: float | None) -> None:
        """Indexes changes, newest first, until `deadline`; the rest waits."""
        self.unread = 0
        try:
            image_of = self._fingerprint()
            there = await self._stamps()
            self.unread = len(there)
            stamps = self._cache.read(lambda: self._cache.rows("SELECT id, stamp FROM episodes"))
            known = dict(stamps or [])
            changed = sorted((id for id in there if known.get(id) != there[id]), reverse=True)
            gone = [id for id in known if id not in there]
            self.unread = len(changed)
            for first in range(0, len(changed), BATCH):
                if deadline is not None and time.monotonic() > deadline:
                    return
                read = map(self.files.read, changed[first : first + BATCH])
                episodes = [episode for episode in read if episode is not None]
                vectors = await self._vectors([episode.text for episode in episodes])
                stamped = [there[episode.session_id] for episode in episodes]
                self.take_in(zip(episodes, stamped, vectors, strict=True))
                self.unread = len(changed[first + BATCH :])
                await asyncio.sleep(0)
            self.take_in((), gone=gone, image_of=image_of)
        except StorageError:
            if not self._cache.read_only:
                self._cache.read_only = True  # from here on this session has its own
                await self._refresh(deadline)
        except OSError:
            pass  # an unreadable folder costs a search result, never a turn
        finally:
            self._cache.close()

    async def _stamps(self) -> dict[str, str]:
        """The stamp of every file. Raises: OSError."""
        there: dict[str, str] = {}
        with os.scandir(self.files.folder) as entries:
            for number, entry in enumerate(entries):
                id = entry.name.removesuffix(".md")
                if id != entry.name and valid_id(id):
                    there[id] = self._stamp(entry.stat())
                if number % 512 == 511:
                    await asyncio.sleep(0)
        return there

    async def _vectors(self, texts: list[str]) -> "list[Vector | None]":
        nothing: list[Vector | None] = [None] * len(texts)
        matrix = await self._embedder.embed(texts) if self._embedder and texts else None
        return nothing if matrix is None else list(matrix)

    def _stamp(self, stat: os.stat_result) -> str:
        return f"{stat.st_mtime_ns} {stat.st_size} {self._space}"
