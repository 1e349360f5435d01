"""From a query to notes in order: words by FTS5, vectors beside it, one formula for the score.

The rarest words of the query choose candidates, `kode.memory.rank` scores them. A neural model's
vectors are fused in. The local ones hold the same words with noise, so they speak only where no
word matched: a misspelling, a compound. Without FTS5 the newest notes are ranked one by one.
A query that matches nothing gives nothing.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kode.memory import rank, terms
from kode.memory.notes.note import Note
from kode.memory.notes.store import NoteStore, Wanted, searched
from kode.memory.notes.vectors import NoteVectors

CANDIDATES = 60
POSTINGS_A_QUERY = 20_000
"""How many postings choosing may read: words are taken from the rarest on until it is spent."""
NEWEST_WITHOUT_INDEX = 500
LOCAL_MIN_COSINE = 0.3
"""Unrelated texts come to 0.15 under the local vectors, a misspelled query to 0.3 and more."""


@dataclass(frozen=True, slots=True)
class Found:
    note: Note
    score: float
    """More is better; comparable within one result only."""
    why: str


async def search(store: NoteStore, vectors: NoteVectors, query: str, wanted: Wanted) -> list[Found]:
    """At most `wanted.limit` active notes, best first. Raises: MemoryError_, StorageError."""
    asked = terms.search_terms(query)
    if not asked:
        return []
    pool = replace(wanted, limit=max(CANDIDATES, wanted.limit))
    near = await _near(vectors, query, pool) if vectors.is_neural else {}
    if store.database.has_words:
        found = _by_index(store, asked, near, pool)
    else:
        found = _one_by_one(store, query, near, wanted)
    if not found and not vectors.is_neural:
        near = await _near(vectors, query, pool)
        notes = store.by_ids(id for id, cosine in near.items() if cosine >= LOCAL_MIN_COSINE)
        found = [Found(note, near[note.id], "near in spelling") for note in notes.values()]
    found.sort(key=lambda one: (-one.score, one.note.id))
    return found[: wanted.limit]


async def _near(vectors: NoteVectors, query: str, wanted: Wanted) -> dict[str, float]:
    """Ids with their cosine, of the nearest."""
    vector = await vectors.of_query(query)
    if vector is None:
        return {}
    nearest = vectors.nearest(vector, wanted.limit, wanted)
    return {id: 1 - distance * distance / 2 for id, distance in nearest}


def _by_index(
    store: NoteStore, asked: Sequence[str], near: Mapping[str, float], wanted: Wanted
) -> list[Found]:
    holding = _holding(store, asked)
    notes = {note.id: note for note in _candidates(store, holding, wanted)}
    missing = [id for id, cosine in near.items() if cosine >= rank.MIN_COSINE and id not in notes]
    notes |= store.by_ids(missing)
    texts = int(store.database.meta("texts") or 0)
    usual = int(store.database.meta("words") or 0) / max(1, texts) or 1.0
    weights = {term: rank.idf(texts, held) for term, held in holding.items()}
    counts = {id: Counter(words.split()) for id, words in store.terms_of(notes).items()}
    scores = {
        id: rank.bm25(counted, counted.total() / usual, weights) for id, counted in counts.items()
    }
    best = max(scores.values(), default=0.0) or 1.0
    if near:
        scores = {
            id: rank.fused_score(score / best, near.get(id, 0.0)) for id, score in scores.items()
        }
    return [
        Found(note, scores[id], _why(counts[id], holding))
        for id, note in notes.items()
        if scores.get(id, 0) > 0
    ]


def _why(counted: Counter[str], holding: Mapping[str, int]) -> str:
    return rank.why([term for term in holding if counted[term]], lambda term: holding[term])


def _holding(store: NoteStore, asked: Sequence[str]) -> dict[str, int]:
    """The words of the query that occur, with how many notes hold each, rarest first."""
    sql = "SELECT doc FROM note_holding WHERE term = ?"
    found = {term: store.database.value(sql, (term,)) for term in dict.fromkeys(asked)}
    known = {term: int(held) for term, held in found.items() if held}
    return dict(sorted(known.items(), key=lambda item: item[1]))


def _candidates(store: NoteStore, holding: Mapping[str, int], wanted: Wanted) -> list[Note]:
    """The wanted notes that hold the rarest words, best by FTS5's own score."""
    chosen: list[str] = []
    spent = 0
    for term, held in holding.items():
        if chosen and spent + held > POSTINGS_A_QUERY:
            break
        spent += held
        chosen.append('"' + term.replace('"', '""') + '"')
    if not chosen:
        return []
    where, values = store.filter(wanted)
    rest = (
        "JOIN note_words w ON w.rowid = n.place "
        f"WHERE w.note_words MATCH :words AND {where} ORDER BY w.rank, n.id LIMIT :limit"
    )
    return store.select(rest, {**values, "words": " OR ".join(chosen), "limit": wanted.limit})


def _one_by_one(
    store: NoteStore, query: str, near: Mapping[str, float], wanted: Wanted
) -> list[Found]:
    """Without an index: the newest notes, ranked in Python."""
    import numpy as np

    notes = store.get(replace(wanted, limit=NEWEST_WITHOUT_INDEX))
    cosines = np.array([near.get(note.id, 0.0) for note in notes], dtype=np.float32)
    ranked = rank.rank(
        query, [searched(note) for note in notes], similarities=cosines if near else None
    )
    return [Found(notes[one.index], one.score, one.why) for one in ranked]
