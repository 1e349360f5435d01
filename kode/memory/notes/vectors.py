"""The vectors of notes: made when a note has none, and compared with a query.

A vector belongs to a space (an embedder and its dimensions); those of another space are made again
and meanwhile compared with nothing. Not here: how they are kept and measured (`kode.memory.index`),
what a cosine means for an order (`search`).
"""

from typing import TYPE_CHECKING

from kode.memory.embed import Embedder, LocalEmbedder
from kode.memory.notes.store import NoteStore

if TYPE_CHECKING:
    from kode.memory.index import Vector

MADE_AT_ONCE = 64


class NoteVectors:
    """The vectors of one store, under one embedder."""

    def __init__(self, store: NoteStore, embedder: Embedder) -> None:
        self._store = store
        self._database = store.database
        self._embedder = embedder
        self.space = embedder.name
        """The space of the configured embedder, also while another serves for it."""

    @property
    def is_local(self) -> bool:
        """Whether making a vector costs no request."""
        return isinstance(self._embedder, LocalEmbedder)

    @property
    def _without(self) -> str:
        """Which notes want a vector: what is sensitive goes to no server."""
        wanted = "v.place IS NULL AND n.superseded_by IS NULL"
        return wanted if self.is_local else f"{wanted} AND n.sensitivity = 'normal'"

    @property
    def is_neural(self) -> bool:
        return self._embedder.is_neural

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
        missing = self._database.rows(sql, (self.space, most))
        if not missing:
            return 0
        matrix = await self._embedder.embed([content for _, content in missing])
        if self._embedder.name != self.space:
            return 0
        async with self._store.writing():
            made = 0
            for (place, content), vector in zip(missing, matrix, strict=True):
                made += self._put(place, content, vector)
        return made

    def count_missing(self) -> int:
        """How many active notes have no vector in this space yet."""
        sql = (
            "SELECT count(*) FROM memory_notes n LEFT JOIN note_vectors v ON v.place = n.place "
            f"AND v.space = ? WHERE {self._without}"
        )
        return int(self._database.value(sql, (self.space,)) or 0)

    async def of_query(self, query: str) -> "Vector | None":
        """The query in this space; None while the server that makes it fails."""
        matrix = await self._embedder.embed([query])
        if self._embedder.name != self.space or not matrix.any():
            return None
        vector: Vector = matrix[0]
        return vector

    def _put(self, place: int, content: str, vector: "Vector") -> int:
        """One vector, unless the note was changed or forgotten while it was made."""
        sql = "SELECT content FROM memory_notes WHERE place = ?"
        if self._database.value(sql, (place,)) != content:
            return 0
        self._database.index.add_vector(place, self.space, vector)
        return 1
