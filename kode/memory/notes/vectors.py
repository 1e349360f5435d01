"""The vectors of notes: made, kept beside them, and measured. By sqlite-vec inside SQL, or by numpy
over the same stored vectors where the extension is missing.

A vector belongs to a space (an embedder and its dimensions); those of another space are made anew
and meanwhile compared with nothing. Not here: what a distance means for an order (`search`).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kode.memory.embed import Embedder, LocalEmbedder
from kode.memory.notes.store import NoteStore, Wanted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

MADE_AT_ONCE = 64
MEASURED = 20_000
"""The newest so many vectors are measured, so that a search costs the same in any year."""


class NoteVectors:
    """The vectors of one store, under one embedder."""

    def __init__(self, store: NoteStore, embedder: Embedder) -> None:
        self._store = store
        self._database = store.database
        self._embedder = embedder
        self._wanted = embedder.name
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
        Raises: MemoryError_, StorageError, BusyError.
        """
        sql = (
            "SELECT n.place, n.content FROM memory_notes n LEFT JOIN note_vectors v "
            f"ON v.place = n.place AND v.space = ? WHERE {self._without} "
            "ORDER BY n.place DESC LIMIT ?"
        )
        missing = self._database.rows(sql, (self._wanted, most))
        if not missing:
            return 0
        matrix = await self._embedder.embed([content for _, content in missing])
        if self._embedder.name != self._wanted:
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
        return int(self._database.value(sql, (self._wanted,)) or 0)

    async def of_query(self, query: str) -> "Vector | None":
        """The query in this space; None while the server that makes it fails."""
        matrix = await self._embedder.embed([query])
        if self._embedder.name != self._wanted or not matrix.any():
            return None
        vector: Vector = matrix[0]
        return vector

    def nearest(self, vector: "Vector", limit: int, wanted: Wanted) -> list[tuple[str, float]]:
        """The ids of wanted notes with their distance (L2, of unit vectors), nearest first."""
        where, values = self._store.filter(wanted)
        # Joined from the vectors outwards (CROSS), since these are bounded and notes are not.
        newest = (
            "(SELECT place, vector FROM note_vectors WHERE space = :space AND "
            "length(vector) = :bytes ORDER BY place DESC LIMIT :measured) v"
        )
        data = vector.astype("<f4").tobytes()
        values |= {"space": self._wanted, "bytes": len(data), "measured": MEASURED}
        if self._database.has_vectors:
            sql = (
                f"SELECT n.id, vec_distance_l2(v.vector, :vector) AS distance FROM {newest} "
                f"CROSS JOIN memory_notes n ON n.place = v.place WHERE {where} "
                "ORDER BY distance, n.id LIMIT :limit"
            )
            rows = self._database.rows(sql, {**values, "vector": data, "limit": limit})
            return [(str(id), float(distance)) for id, distance in rows]
        sql = (
            f"SELECT n.id, v.vector FROM {newest} CROSS JOIN memory_notes n ON n.place = v.place "
            f"WHERE {where}"
        )
        return _measured(self._database.rows(sql, values), vector, limit)

    def _put(self, place: int, content: str, vector: "Vector") -> int:
        """One vector, unless the note was changed or forgotten while it was made."""
        sql = "SELECT content FROM memory_notes WHERE place = ?"
        if self._database.value(sql, (place,)) != content:
            return 0
        row = (place, self._wanted, vector.astype("<f4").tobytes())
        self._database.rows("INSERT OR REPLACE INTO note_vectors VALUES (?, ?, ?)", row)
        return 1


def _measured(
    rows: Sequence[tuple[Any, ...]], vector: "Vector", limit: int
) -> list[tuple[str, float]]:
    import numpy as np

    if not rows:
        return []
    matrix = np.stack([np.frombuffer(data, dtype="<f4") for _, data in rows])
    distances = np.linalg.norm(matrix - vector, axis=1)
    ids = [str(id) for id, _ in rows]
    found = sorted(zip(distances.tolist(), ids, strict=True))
    return [(id, distance) for distance, id in found[:limit]]
