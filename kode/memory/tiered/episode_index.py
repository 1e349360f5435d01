"""Which episodes fit a query, and which are the newest: a cache of their texts beside the files.

`episodes/.search/` is made again from the files whenever it is missing, damaged or of another
tokenizer. Adding an episode costs the same however many there are. One stat of the folder tells
whether anything came or went; only then are the files' times looked through, and only files that
changed are read. Who only reads uses the cache while it is current, else the newest files as they
are.
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
from kode.memory.embed import Embedder, LocalEmbedder
from kode.memory.index import Able, Source, TextIndex
from kode.memory.rank import Ranked, Text
from kode.memory.tiered.episode_files import Episode, EpisodeFiles, valid_id

if TYPE_CHECKING:
    import apsw

    from kode.memory.index import Vector

T = TypeVar("T")

VERSION = 100 + terms.VERSION
"""Of the tables and of the terms in them."""
NAME = "text"
NEWEST_READ = 2_000
"""So many files are looked through where the cache cannot be used."""
BATCH = 64
"""Files taken in by one transaction; between two the terminal gets its turn."""
SEARCH_WAITS_S = 0.5
"""How long a search takes in changed files before it answers from what is there."""

_TABLES = """
CREATE TABLE IF NOT EXISTS episodes (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL,
    since TEXT NOT NULL, until TEXT NOT NULL, project TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS episodes_until ON episodes (until DESC, id DESC);
CREATE TABLE IF NOT EXISTS image_of (fingerprint TEXT NOT NULL);
"""
_ALL = Source("SELECT place, since, until, '' AS row FROM episodes")


class EpisodeIndex:
    """The search over the episodes of one memory."""

    def __init__(self, context: MemoryContext, embedder: Embedder) -> None:
        self.files = EpisodeFiles(context.root / "episodes")
        self.project = paths.path_hash(context.project_root or paths.project_root(context.cwd))
        self._embedder = embedder
        self._is_neural = not isinstance(embedder, LocalEmbedder)
        self._space = embedder.name
        """Of the configured embedder, also while another serves for it."""
        self._now = context.now
        self._read_only = context.read_only
        path = self.files.folder / ".search" / "episodes.sqlite"
        self._cache = CacheFile(path, self._prepare, version=VERSION, read_only=context.read_only)
        self._texts = TextIndex(self._cache.rows, NAME, Able())

    async def search(
        self, query: str, k: int, *, typo_chars: int = rank.TYPO_CHARS
    ) -> list[tuple[str, Ranked]]:
        """Session ids, best first; nothing for a query that matches nothing."""
        vector = None if self._read_only else await self.vector(query)
        found = await self._in_cache(lambda: self._search(query, k, vector, typo_chars))
        if found is not None:
            return found
        newest = self._read_newest()
        texts = [Text(e.session_id, e.text, when.stamp_of(e.updated_at)) for e in newest]
        ranked = rank.rank(query, texts, self._now(), k=k, typo_chars=typo_chars)
        return [(texts[one.index].where, one) for one in ranked]

    async def newest(self, many: int, *, of_project: bool = False) -> list[Episode]:
        """The newest episodes, the newest first; `of_project`: those of this project and those that
        name none."""
        where = "WHERE project IN (?, '')" if of_project else "WHERE ? <> ''"
        sql = f"SELECT id FROM episodes {where} ORDER BY until DESC, id DESC LIMIT ?"
        rows = await self._in_cache(lambda: self._cache.rows(sql, (self.project, many)))
        if rows is not None:
            return [episode for (id,) in rows if (episode := self.files.read(id))]
        newest = self._read_newest()
        return [e for e in newest if not of_project or e.project in (self.project, "")][:many]

    async def refresh(self) -> None:
        """Takes in what came, went or changed on disk, edits in place included."""
        if self.files.folder.is_dir() and not self._read_only:
            await self._refresh(None)

    async def vector(self, text: str) -> "Vector | None":
        """What `put` takes, made while no lock is held: an embedding may be a request."""
        return (await self._vectors([text]))[0]

    def is_current(self) -> bool:
        """Whether the cache is an image of the folder as it is now."""
        sql = "SELECT fingerprint FROM image_of"
        rows = self._cache.read(lambda: self._cache.rows(sql))
        self._cache.close()
        with suppress(OSError):
            return rows == [(self._fingerprint(),)]
        return False

    def put(self, episode: Episode, vector: "Vector | None", *, was_current: bool) -> None:
        """Takes in an episode just written, while the folder is locked. `was_current`: what
        `is_current` said before; only then may the cache be called current again."""
        with suppress(StorageError, OSError):
            stamp = self._stamp(self.files.path(episode.session_id).stat())
            image_of = self._fingerprint() if was_current else ""
            self.take_in([(episode, stamp, vector)], image_of=image_of)
        self._cache.close()

    # ── the cache ────────────────────────────────────────────────────────────────────────────

    async def _in_cache(self, work: Callable[[], T | None]) -> T | None:
        """What `work` finds in the cache once that is current; None where it cannot be used."""
        if not self.files.folder.is_dir() or (self._read_only and not self.is_current()):
            return None
        if not self._read_only and not self.is_current():
            await self._refresh(time.monotonic() + SEARCH_WAITS_S)
        try:
            return self._cache.read(work)
        finally:
            self._cache.close()

    def _search(
        self, query: str, k: int, vector: "Vector | None", typo_chars: int
    ) -> list[tuple[str, Ranked]] | None:
        self._cache.rows("SELECT 1")  # opened, it knows what it is able to do
        if not self._texts.able.words:
            return None
        found = self._texts.search(
            query, _ALL, self._now(), k, vector, self._space, typo_chars=typo_chars
        )
        sql = "SELECT id FROM episodes WHERE place = ?"
        return [(self._cache.rows(sql, (place,))[0][0], ranked) for place, ranked in found]

    def _prepare(self, connection: "apsw.Connection") -> None:
        connection.execute(_TABLES)
        writable = not self._read_only
        self._texts.able = index.prepare(connection, NAME, writable=writable)

    def take_in(
        self,
        taken: Iterable[tuple[Episode, str, "Vector | None"]],
        *,
        gone: Iterable[str] = (),
        image_of: str = "",
    ) -> None:
        """One transaction: episodes with their stamps and vectors in the place of what was there,
        ids that have gone, and the fingerprint of what the cache is then an image of.

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
                    "INSERT INTO episodes (id, stamp, since, until, project) "
                    "VALUES (?, ?, ?, ?, ?) RETURNING place"
                )
                if self._is_neural and vector is None:
                    stamp = ""  # the server failed: looked at again by `refresh`
                row = (episode.session_id, stamp, since, until, episode.project)
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
        """Changes whenever a file comes, goes or is replaced. Raises: OSError."""
        return f"{self.files.folder.stat().st_mtime_ns} {self._space}"

    async def _refresh(self, deadline: float | None) -> None:
        """Takes in what changed, the newest first, until `deadline`; the rest waits."""
        try:
            image_of = self._fingerprint()
            there = await self._stamps()
            stamps = self._cache.read(lambda: self._cache.rows("SELECT id, stamp FROM episodes"))
            known = dict(stamps or [])
            changed = sorted((id for id in there if known.get(id) != there[id]), reverse=True)
            gone = [id for id in known if id not in there]
            for first in range(0, len(changed), BATCH):
                if deadline is not None and time.monotonic() > deadline:
                    return
                read = map(self.files.read, changed[first : first + BATCH])
                episodes = [episode for episode in read if episode is not None]
                vectors = await self._vectors([episode.text for episode in episodes])
                stamped = [there[episode.session_id] for episode in episodes]
                self.take_in(zip(episodes, stamped, vectors, strict=True))
                await asyncio.sleep(0)
            self.take_in((), gone=gone, image_of=image_of)
        except (StorageError, OSError):
            pass  # a cache that cannot be written costs finding something, never a turn
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
        if not self._is_neural or not texts:
            return nothing
        matrix = await self._embedder.embed(texts)
        return list(matrix) if self._embedder.is_neural else nothing

    def _read_newest(self) -> list[Episode]:
        ids = self.files.session_ids()[-NEWEST_READ:]
        episodes = [episode for id in ids if (episode := self.files.read(id))]
        return sorted(episodes, key=lambda e: when.stamp_of(e.updated_at), reverse=True)

    def _stamp(self, stat: os.stat_result) -> str:
        return f"{stat.st_mtime_ns} {stat.st_size} {self._space}"
