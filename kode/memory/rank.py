"""From a query and texts to an order with scores: the one way memory searches a small set of texts.

Words decide, by BM25 over stems without stop words; unspaced scripts count as characters and pairs.
Texts that stand in a row (turns of a conversation) may lend their score to their neighbours, which
is worth more than any model; one near which more of the query is said comes before others (on the
data measured, recall@10 of turns 0.713 to 0.731, MRR 0.508 to 0.527). Vectors are fused in only
when they are a neural model's: the local projection holds the same words with noise added, and
makes the order worse (measured, recall@5 of turns 0.53 to 0.35). A query that matches nothing
returns nothing.

Postings are numpy arrays per term, made when the term is first asked for: adding a text touches its
own terms only. Collections too large to hold in memory are in `kode.memory.collection`.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kode import credentials
from kode.contracts import Hit
from kode.memory import terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K1 = 0.8
"""How soon a repeated word stops adding."""
B = 0.4
"""How much a long text is held against it."""
TURN_NEIGHBOURS = (0.45, 0.25)
"""What a turn lends to the turns one and two places away."""
SAID_NEARBY = (0.6, 0.35)
"""How far a word of the query counts as said by a turn when one at 1 or 2 places away says it."""
VECTOR_WEIGHT = 0.5
"""Share of a neural vector in a fused score."""
MIN_COSINE = 0.45
"""Below it, a neural vector alone is no match."""
HIT_CHARS = 1_000
"""Of a text, where it is listed for a person."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One text of a result."""

    index: int
    """Its place among the texts given, from 0."""
    score: float
    """More is better; comparable within one result only."""
    why: str
    """The words that matched, rarest first."""


def rank(
    query: str,
    texts: Sequence[str],
    *,
    k: int | None = None,
    neighbours: Sequence[float] = (),
    similarities: "NDArray[np.float32] | None" = None,
) -> list[Ranked]:
    """The texts that match a query, best first, at most `k`; equal scores keep their order.

    `neighbours` are the shares of its score that a text lends to those 1 and 2 places away; the
    scores are then weighed by how much of the query is said at or near each place.
    `similarities` are the cosines of the texts with the query under a neural embedder.
    """
    ranker = Ranker()
    for text in texts:
        ranker.add(text)
    return ranker.search(query, k=k, neighbours=neighbours, similarities=similarities)


def hits(query: str, found: Sequence[tuple[str, str]], k: int) -> list[Hit]:
    """The same for a person: each text masked and cut. `found` are pairs of where a text stands and
    the text."""
    return [
        Hit(
            score=one.score,
            text=credentials.redact(found[one.index][1])[:HIT_CHARS],
            where=found[one.index][0],
            why=one.why,
        )
        for one in rank(query, [text for _, text in found], k=k)
    ]


class Ranker:
    """Texts in a row that are searched more than once. Grows and changes one text at a time."""

    def __init__(self) -> None:
        self._counts: list[Counter[str]] = []
        self._lengths: list[int] = []
        self._postings: dict[str, dict[int, int]] = {}
        self._arrays: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
        self._living = 0

    def __len__(self) -> int:
        """How many texts there are, removed ones not counted."""
        return self._living

    def add(self, text: str) -> int:
        """Adds a text at the end of the row; returns its place."""
        place = len(self._counts)
        counts = Counter(terms.search_terms(text))
        self._counts.append(counts)
        self._lengths.append(sum(counts.values()))
        self._living += 1
        for term, count in counts.items():
            self._postings.setdefault(term, {})[place] = count
            self._arrays.pop(term, None)
        return place

    def remove(self, place: int) -> None:
        """Takes a text out; its place stays empty, so that the others keep theirs."""
        for term in self._counts[place]:
            del self._postings[term][place]
            self._arrays.pop(term, None)
            if not self._postings[term]:
                del self._postings[term]
        self._living -= self._counts[place].total() > 0 or self._lengths[place] == 0
        self._counts[place] = Counter()
        self._lengths[place] = 0

    def search(
        self,
        query: str,
        *,
        k: int | None = None,
        neighbours: Sequence[float] = (),
        similarities: "NDArray[np.float32] | None" = None,
    ) -> list[Ranked]:
        """As `rank`."""
        import numpy as np

        asked = Counter(terms.search_terms(query))
        known = [term for term in asked if term in self._postings]
        if not known and similarities is None:
            return []
        scores = np.zeros(len(self._counts))
        average = sum(self._lengths) / max(1, self._living) or 1.0
        lengths = np.asarray(self._lengths, dtype=np.float64)
        saturation = K1 * (1 - B + B * lengths / average)
        said = np.zeros(len(self._counts))
        for term in known:
            places, counts = self._array(term)
            weight = idf(self._living, len(places))
            scores[places] += weight * counts * (K1 + 1) / (counts + saturation[places])
            if neighbours:
                said += weight * _said(places, len(said))
        if neighbours:
            scores = _lent(scores, neighbours) * said
        if similarities is not None:
            scores = fused(scores, similarities)
        order = np.argsort(-scores, kind="stable")[: k if k is not None else len(scores)]
        return [
            Ranked(int(place), float(scores[place]), self._why(int(place), known))
            for place in order
            if scores[place] > 0
        ]

    def _array(self, term: str) -> "tuple[NDArray[np.int64], NDArray[np.float64]]":
        import numpy as np

        found = self._arrays.get(term)
        if found is None:
            postings = self._postings[term]
            found = (
                np.fromiter(postings.keys(), np.int64, len(postings)),
                np.fromiter(postings.values(), np.float64, len(postings)),
            )
            self._arrays[term] = found
        return found

    def _why(self, place: int, known: Sequence[str]) -> str:
        matched = [term for term in known if term in self._counts[place]]
        return why(matched, lambda term: len(self._postings[term]))


def idf(texts: int, holding: int) -> float:
    """How much a term says: 0 upwards, more the fewer texts hold it."""
    return math.log(1 + (texts - holding + 0.5) / (holding + 0.5))


def bm25(counts: Mapping[str, int], relative_length: float, weights: Mapping[str, float]) -> float:
    """The score of one text: its word counts, its length over the usual one, and what each word of
    the query says."""
    saturation = K1 * (1 - B + B * relative_length)
    return sum(
        weight * counts[term] * (K1 + 1) / (counts[term] + saturation)
        for term, weight in weights.items()
        if counts.get(term)
    )


def why(matched: Sequence[str], holding: Callable[[str], int]) -> str:
    """The words that matched, rarest first; "meaning" when none did."""
    return " ".join(sorted(matched, key=holding)[:6]) or "meaning"


def fused_score(words: float, cosine: float) -> float:
    """A share from 0 to 1 of the best score by words, and a neural model's cosine, as one score."""
    return (1 - VECTOR_WEIGHT) * words + VECTOR_WEIGHT * min(1.0, max(0.0, cosine))


def fused(
    scores: "NDArray[np.float64]", similarities: "NDArray[np.float32]"
) -> "NDArray[np.float64]":
    """`fused_score` of many texts, shape (n,); 0 for one that neither words nor meaning match."""
    import numpy as np

    best = float(scores.max(initial=0.0))
    words = scores / best if best else scores
    matches = (scores > 0) | (similarities >= MIN_COSINE)
    sums = (1 - VECTOR_WEIGHT) * words + VECTOR_WEIGHT * np.clip(similarities, 0, 1)
    result: NDArray[np.float64] = np.where(matches, sums, 0.0)
    return result


def _said(places: "NDArray[np.int64]", texts: int) -> "NDArray[np.float64]":
    """How far each text says a word that stands at `places`: 1 there, less beside it."""
    import numpy as np

    said = np.zeros(texts + 2 * len(SAID_NEARBY))
    centre = places + len(SAID_NEARBY)
    for distance, share in reversed(list(enumerate((1.0, *SAID_NEARBY)))):
        for place in (centre - distance, centre + distance):
            said[place] = np.maximum(said[place], share)
    return said[len(SAID_NEARBY) : len(said) - len(SAID_NEARBY)]


def _lent(scores: "NDArray[np.float64]", neighbours: Sequence[float]) -> "NDArray[np.float64]":
    lent = scores.copy()
    for distance, share in enumerate(neighbours, 1):
        if distance < len(scores):
            lent[distance:] += share * scores[:-distance]
            lent[:-distance] += share * scores[distance:]
    return lent
