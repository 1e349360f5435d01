"""From a query to notes in order: by the index of words and vectors, and by time.

The vectors of a configured embedder are fused in. A query that matches nothing gives nothing.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kode.contracts import SharedVectors
from kode.memory import rank, when
from kode.memory.embed import Embedder
from kode.memory.index import CANDIDATES, MEASURED
from kode.memory.notes.note import Note, is_shared
from kode.memory.notes.store import NoteStore, Wanted
from kode.memory.rank import Ranked, Text

if TYPE_CHECKING:
    from kode.memory.index import Vector

MADE_AT_ONCE = 64
LAST_PLACE = 2**63 - 1


class NoteVectors:
    """The vectors of one store, under one embedder. `shared` are those of a team: what one member
    has made nobody else makes, and their server measures those that are not measured here."""

    def __init__(
        self, store: NoteStore, embedder: Embedder | None, shared: SharedVectors | None = None
    ) -> None:
        self._store = store
        self._database = store.database
        self._embedder = embedder
        self._shared = shared
        self.space = embedder.name if embedder else ""

    @property
    def _without(self) -> str:
        """Which notes want a vector: what is sensitive goes to no server."""
        return "v.place IS NULL AND n.superseded_by IS NULL AND n.sensitivity = 'normal'"

    async def make_missing(self, most: int = MADE_AT_ONCE) -> int:
        """Makes vectors for the newest notes that have none in this space; returns how many.

        A server that fails costs nothing: those notes are found missing the next time.
        Raises: MemoryRefused, StorageError, BusyError.
        """
        if self._shared is None:
            return len(await self._make_missing(most))
        if self.missing(1):
            await self._shared.take(self)
        made = await self._make_missing(most)
        await self._shared.offer(self, made)
        return len(made)

    async def _make_missing(self, most: int) -> list[str]:
        """The ids of the notes."""
        missing = self.missing(most)
        if not missing or self._embedder is None:
            return []
        matrix = await self._embedder.embed([content for _, _, content in missing])
        if matrix is None:
            return []
        async with self._store.writing():
            return [
                id
                for (place, id, content), vector in zip(missing, matrix, strict=True)
                if self._put(place, content, vector)
            ]

    def count_missing(self) -> int:
        """How many active notes have no vector in this space yet; 0 without an embedder."""
        if self._embedder is None:
            return 0
        sql = (
            "SELECT count(*) FROM memory_notes n LEFT JOIN note_vectors v ON v.place = n.place "
            f"AND v.space = ? WHERE {self._without}"
        )
        return int(self._database.value(sql, (self.space,)) or 0)

    async def of_query(self, query: str) -> "Vector | None":
        """The query in this space; None without an embedder, or while its server fails."""
        matrix = await self._embedder.embed([query]) if self._embedder else None
        return matrix[0] if matrix is not None and matrix.any() else None

    async def elsewhere(self, vector: "Vector", wanted: Wanted) -> Mapping[int, float]:
        """Cosines with a neural query of notes, by place, that are not measured in this database:
        none while it measures all by itself."""
        if self._shared is None or self.is_complete:
            return {}
        project = None if wanted.anywhere else self._store.project_scope
        found = await self._shared.nearest(vector, project, max(CANDIDATES, 3 * wanted.limit))
        near = {id: cosine for id, cosine in found.items() if cosine >= rank.MIN_COSINE}
        sql = "SELECT n.place, n.id FROM memory_notes n JOIN json_each(?) j ON n.id = j.value"
        return {place: near[id] for place, id in self._database.rows(sql, (json.dumps([*near]),))}

    # ── for those who share them ─────────────────────────────────────────────────────────────

    @property
    def is_complete(self) -> bool:
        return len(self._database.index) <= MEASURED and not self.missing(1)

    def missing(self, most: int, before: int | None = None) -> list[tuple[int, str, str]]:
        sql = (
            "SELECT n.place, n.id, n.content FROM memory_notes n LEFT JOIN note_vectors v "
            f"ON v.place = n.place AND v.space = ? WHERE n.place < ? AND {self._without} "
            "ORDER BY n.place DESC LIMIT ?"
        )
        end = LAST_PLACE if before is None else before
        return self._database.rows(sql, (self.space, end, most))

    def held(self, ids: Collection[str]) -> dict[str, tuple[str, "Vector"]]:
        import numpy as np

        notes = {id: one for id, one in self._store.by_ids(ids).items() if is_shared(one)}
        sql = (
            "SELECT n.id, v.vector FROM json_each(?) j JOIN memory_notes n ON n.id = j.value "
            "JOIN note_vectors v ON v.place = n.place WHERE v.space = ?"
        )
        rows = self._database.rows(sql, (json.dumps([*notes]), self.space))
        return {
            id: (notes[id].content, np.frombuffer(data, dtype="<f4"))
            for id, data in rows
            if any(data)
        }

    async def put(self, vectors: Sequence[tuple[int, str, "Vector"]]) -> None:
        async with self._store.writing():
            for place, content, vector in vectors:
                self._put(place, content, vector)

    async def make(self, texts: Sequence[str]) -> Any:
        return await self._embedder.embed(texts) if self._embedder else None

    async def dims(self) -> int:
        sql = "SELECT length(vector) / 4 FROM note_vectors WHERE space = ? LIMIT 1"
        if held := self._database.value(sql, (self.space,)):
            return int(held)
        if self._embedder is None:
            return 0
        if not self._embedder.dims and (missing := self.missing(1)):
            await self._embedder.embed([missing[0][2]])
        return self._embedder.dims

    def _put(self, place: int, content: str, vector: "Vector") -> bool:
        """One vector, unless the note was changed or forgotten while it was made."""
        sql = "SELECT content FROM memory_notes WHERE place = ?"
        if self._database.value(sql, (place,)) != content:
            return False
        self._database.index.add_vector(place, self.space, vector)
        return True


@dataclass(frozen=True, slots=True)
class Found:
    note: Note
    ranked: Ranked


def text_of(note: Note) -> Text:
    """A note as a text that was found."""
    return Text(f"notes/{note.id}", note.content, when.stamp_of(note.created_at))


async def search(
    store: NoteStore,
    vectors: NoteVectors,
    query: str,
    wanted: Wanted,
    *,
    typo_chars: int = rank.TYPO_CHARS,
) -> list[Found]:
    """At most `wanted.limit` active notes, best first. Raises: MemoryRefused, StorageError."""
    index, source, k = store.database.index, store.source(wanted), wanted.limit
    vector = await vectors.of_query(query)
    found = index.search(
        query,
        source,
        store.now(),
        k,
        vector,
        vectors.space,
        typo_chars=typo_chars,
        elsewhere=None if vector is None else await vectors.elsewhere(vector, wanted),
    )
    sql = "SELECT n.place, n.id FROM memory_notes n JOIN json_each(?) j ON n.place = j.value"
    ids = dict(store.database.rows(sql, (json.dumps([place for place, _ in found]),)))
    by_id = store.by_ids(ids.values())
    return [Found(by_id[ids[place]], ranked) for place, ranked in found]
