"""From a query to notes in order: by the index of words and vectors, and by time.

The vectors of a neural model are fused in. The local ones hold the same words with noise, so they
speak only where no word matched: a misspelling, a compound. Without FTS5 the newest notes are
ranked one by one. A query that matches nothing gives nothing.

Not here: scores (`kode.memory.rank`), what a model makes of the result (`kode.memory.search`).
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from kode.memory import rank, when
from kode.memory.index import CANDIDATES, Place
from kode.memory.notes.note import Note
from kode.memory.notes.store import NoteStore, Wanted
from kode.memory.notes.vectors import NoteVectors
from kode.memory.rank import Ranked, Text

NEWEST_WITHOUT_INDEX = 500
LOCAL_MIN_COSINE = 0.3
"""Unrelated texts come to 0.15 under the local vectors, a misspelled query to 0.3 and more."""

_OF_A_TURN = "n.session IS NOT NULL AND ifnull(instr(n.job_id, '#'), 0)"
"""Notes on single turns: those of one session are neighbours, as the turns were."""


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
    """At most `wanted.limit` active notes, best first. Raises: MemoryError_, StorageError."""
    if not store.database.has_words():
        notes = store.get(replace(wanted, limit=NEWEST_WITHOUT_INDEX))
        texts = [text_of(note) for note in notes]
        ranked = rank.rank(query, texts, store.now(), k=wanted.limit, typo_chars=typo_chars)
        return [Found(notes[one.index], one) for one in ranked]
    index, many = store.database.index, max(CANDIDATES, wanted.limit)
    asked = index.read(query, store.now(), typo_chars=typo_chars)
    if not asked.words:
        return []
    near = await _near(vectors, query, many, wanted, rank.MIN_COSINE) if vectors.is_neural else {}
    meant = _in_period(store, asked.period, many, wanted)
    chosen = {*index.candidates(asked, many, store.among(wanted)), *near, *meant}
    found = index.order(asked, _places(store, chosen, meant, wanted), near)[: wanted.limit]
    if not found and not vectors.is_neural:
        near = await _near(vectors, query, wanted.limit, wanted, LOCAL_MIN_COSINE)
        spelled = ("near in spelling",)
        found = [(place, Ranked(0, cos, spelled, is_whole=False)) for place, cos in near.items()]
    by_place = _by_places(store, [place for place, _ in found])
    return [Found(by_place[place], ranked) for place, ranked in found]


async def _near(
    vectors: NoteVectors, query: str, many: int, wanted: Wanted, least: float
) -> dict[int, float]:
    vector = await vectors.of_query(query)
    if vector is None:
        return {}
    nearest = vectors.nearest(vector, many, wanted)
    return {place: cosine for place, cosine in nearest.items() if cosine >= least}


def _in_period(store: NoteStore, period: when.Period | None, many: int, wanted: Wanted) -> set[int]:
    if period is None:
        return set()
    where, values = store.filter(wanted)
    if not period.is_newest:
        where += " AND n.created_at >= :start AND n.created_at < :end"
        values |= {"start": period.start, "end": period.end}
    sql = f"SELECT n.place FROM memory_notes n WHERE {where} ORDER BY n.created_at DESC LIMIT :many"
    values |= {"many": rank.NEWEST if period.is_newest else many}
    return {place for (place,) in store.database.rows(sql, values)}


def _places(store: NoteStore, chosen: set[int], meant: set[int], wanted: Wanted) -> list[Place]:
    """The chosen notes; beside those on a turn, the turns next to it."""
    where, values = store.filter(wanted)
    values |= {"places": json.dumps(list(chosen))}
    among = "n.place IN (SELECT value FROM json_each(:places))"
    alone = f"SELECT n.place, n.created_at FROM memory_notes n WHERE {among} AND NOT ({_OF_A_TURN})"
    places = [Place(p, at, in_period=p in meant) for p, at in store.database.rows(alone, values)]
    sessions = f"SELECT n.session FROM memory_notes n WHERE {among} AND {_OF_A_TURN}"
    turns = (
        f"SELECT n.place, n.created_at, n.session FROM memory_notes n WHERE n.session IN "
        f"({sessions}) AND {_OF_A_TURN} AND {where} ORDER BY n.session, n.created_at, n.id"
    )
    reach = range(-len(rank.LENT), len(rank.LENT) + 1)
    for session, group in groupby(store.database.rows(turns, values), key=lambda row: row[2]):
        rows = list(group)
        near = {n + step for n, row in enumerate(rows) if row[0] in chosen for step in reach}
        kept = [(n, place, at) for n, (place, at, _) in enumerate(rows) if n in near]
        # A row ends where a note between two kept ones is left out.
        places += [
            Place(place, at, row=f"{session} {n - count}", in_period=place in meant)
            for count, (n, place, at) in enumerate(kept)
        ]
    return places


def _by_places(store: NoteStore, places: Iterable[int]) -> dict[int, Note]:
    sql = "SELECT n.id, n.place FROM memory_notes n JOIN json_each(?) j ON n.place = j.value"
    ids = dict(store.database.rows(sql, (json.dumps(list(places)),)))
    return {ids[id]: note for id, note in store.by_ids(ids).items()}
