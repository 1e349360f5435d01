"""From a query to notes in order: by the index of words and vectors, and by time.

The vectors of a neural model are fused in. The local ones hold the same words with noise, so they
speak only where no word matched: a misspelling, a compound. Without FTS5 the newest notes are
ranked one by one. A query that matches nothing gives nothing.
"""

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kode.memory import rank, when
from kode.memory.embed import Embedder, LocalEmbedder
from kode.memory.notes.note import Note
from kode.memory.notes.store import NoteStore, Wanted
from kode.memory.rank import Ranked, Text

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

    async def make_missing(self) -> int:
        """Makes vectors for the newest notes that have none in this space; returns how many.

        A server that fails costs nothing: those notes are found missing the next time.
        Raises: MemoryRefused, StorageError, BusyError.
        """
        sql = (
            "SELECT n.place, n.content FROM memory_notes n LEFT JOIN note_vectors v "
            f"ON v.place = n.place AND v.space = ? WHERE {self._without} "
            "ORDER BY n.place DESC LIMIT ?"
        )
        missing = self._database.rows(sql, (self.space, MADE_AT_ONCE))
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


NEWEST_WITHOUT_INDEX = 500
LOCAL_MIN_COSINE = 0.3
"""Unrelated texts come to 0.15 under the local vectors, a misspelled query to 0.3 and more."""


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
    if not store.database.has_words():
        notes = store.get(replace(wanted, limit=NEWEST_WITHOUT_INDEX))
        tagged = (replace(note, content=" ".join((note.content, *note.tags))) for note in notes)
        texts = [text_of(note) for note in tagged]
        ranked = rank.rank(query, texts, store.now(), k=wanted.limit, typo_chars=typo_chars)
        return [Found(notes[one.index], one) for one in ranked]
    index, source, k = store.database.index, store.source(wanted), wanted.limit
    vector, space = await vectors.of_query(query), vectors.space
    neural = vector if vectors.is_neural else None
    found = index.search(query, source, store.now(), k, neural, space, typo_chars=typo_chars)
    if not found and vector is not None and neural is None:
        near = index.nearest(vector, space, k, source, LOCAL_MIN_COSINE)
        spelled = ("near in spelling",)
        found = [(place, Ranked(0, cos, spelled, is_whole=False)) for place, cos in near.items()]
    sql = "SELECT n.place, n.id FROM memory_notes n JOIN json_each(?) j ON n.place = j.value"
    ids = dict(store.database.rows(sql, (json.dumps([place for place, _ in found]),)))
    by_id = store.by_ids(ids.values())
    return [Found(by_id[ids[place]], ranked) for place, ranked in found]
