"""From a query to notes in order: by the index of words and vectors, and by time.

The vectors of a configured embedder are fused in. A query that matches nothing gives nothing.
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kode.memory import rank, when
from kode.memory.embed import Embedder
from kode.memory.notes.note import Note
from kode.memory.notes.store import NoteStore, Wanted
from kode.memory.rank import Ranked, Text

if TYPE_CHECKING:
    from kode.memory.index import Vector

MADE_AT_ONCE = 64


class NoteVectors:
    """The vectors of one store, under one embedder."""

    def __init__(self, store: NoteStore, embedder: Embedder | None) -> None:
        self._store = store
        self._database = store.database
        self._embedder = embedder
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
        sql = (
            "SELECT n.place, n.content FROM memory_notes n LEFT JOIN note_vectors v "
            f"ON v.place = n.place AND v.space = ? WHERE {self._without} "
            "ORDER BY n.place DESC LIMIT ?"
        )
        missing = self._database.rows(sql, (self.space, most)) if self._embedder else []
        if not missing or self._embedder is None:
            return 0
        matrix = await self._embedder.embed([content for _, content in missing])
        if matrix is None:
            return 0
        async with self._store.writing():
            put = [
                self._put(place, content, vector)
                for (place, content), vector in zip(missing, matrix, strict=True)
            ]
        return sum(put)

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
    )
    sql = "SELECT n.place, n.id FROM memory_notes n JOIN json_each(?) j ON n.place = j.value"
    ids = dict(store.database.rows(sql, (json.dumps([place for place, _ in found]),)))
    by_id = store.by_ids(ids.values())
    return [Found(by_id[ids[place]], ranked) for place, ranked in found]
