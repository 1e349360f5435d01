"""From a query to notes in order: by the index of words and vectors, and by time.

The vectors of a neural model are fused in. The local ones hold the same words with noise, so they
speak only where no word matched: a misspelling, a compound. Without FTS5 the newest notes are
ranked one by one. A query that matches nothing gives nothing.

Not here: scores (`kode.memory.rank`), what a model makes of the result (`kode.memory.search`).
"""

import json
from dataclasses import dataclass, replace

from kode.memory import rank, when
from kode.memory.notes.note import Note
from kode.memory.notes.store import NoteStore, Wanted
from kode.memory.notes.vectors import NoteVectors
from kode.memory.rank import Ranked, Text

NEWEST_WITHOUT_INDEX = 500
LOCAL_MIN_COSINE = 0.3
"""Unrelated texts come to 0.15 under the local vectors, a misspelled query to 0.3 and more."""


@dataclass(frozen=True, slots=True)
class Found:
    note: Note
    ranked: Ranked


def text_of(note: Note) -> Text:
    """A note as a text that can be found."""
    text = " ".join((note.content, *note.tags))
    return Text(f"notes/{note.id}", text, when.stamp_of(note.created_at))


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
        texts = [text_of(note) for note in notes]
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
