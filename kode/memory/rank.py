"""Ranks texts by a query: the one way memory searches, few texts or many.

`read` analyses a query: each word by its stem, in the spelling of the texts. `order` scores texts
by BM25, times the share of the query each covers. Texts of one row (turns of a conversation) lend
score to neighbours that match too: recall@10 of turns rises from 0.63 to 0.73. A neural model's
cosines are fused in.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from string import ascii_lowercase

from kode.memory import terms, when

K1 = 0.8
"""How soon a repeated word stops adding."""
B = 0.4
"""Penalty for long texts."""
LENT = (0.45, 0.25)
"""Score that a text lends to matching ones of its row, one and two places away."""
VECTOR_WEIGHT = 0.5
"""Share of a neural vector in a fused score."""
MIN_COSINE = 0.45
"""Below it, a neural vector alone is not a match."""
TYPO_WEIGHT = 0.5
"""The weight of a word found under another spelling."""
TYPO_CHARS = 4
"""A shorter word is one edit away from too many others."""
RECALL_TYPO_CHARS = 6
"""The same limit for recall without a search. In shorter words the first letter counts as correct:
"cake" is not "make"."""
RARE_HELD, RARE_SHARE = 3, 0.05
"""Other spellings are tried if at least this many texts, or this share, contain them."""
RESPELLED_WORDS = 12
"""Limit of query words to try other spellings; a longer query is a text, not a question."""
MAX_QUERY_WORDS = 200
"""Of a longer query the first and the last words count, to limit the cost of a turn."""
RUN_WORDS = 4
"""This many adjacent query words may be one word in a text."""
MAX_WORD_CHARS = 40
NEWEST = 3
"""How many texts "last time" means."""
COMMONPLACES = (
    "fix fixes fixed bug error fail failed issue problem test tests run add added new make change "
    "changed update updated remove delete write read file files folder line code project function "
    "class method module check please look find show help need want use used work works time name "
    "start stop create set get call next first last done good thing try again now today session "
    "user agent asked yes ok thanks implement explain"
)
COMMONPLACE_WEIGHT = 0.3

Known = Callable[[Iterable[str]], Mapping[str, int]]
"""Terms → those that occur, with the number of texts that contain each."""


@dataclass(frozen=True, slots=True)
class Text:
    """A searchable text."""

    where: str
    """The file or note it is from, for a person."""
    text: str
    at: str = ""
    """When it was written, as from `when.stamp`; "" for a text without a time."""
    row: str = ""
    """Consecutive texts with the same row are neighbours; "" for none."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One thing that a query looks for."""

    words: tuple[str, ...]
    """The query words that it stands for."""
    terms: str
    """The terms that a text must contain side by side, separated by spaces."""
    weight: float
    held: int
    """How many texts contain the rarest of the terms."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A query as it is looked for among certain texts."""

    wanted: tuple[Wanted, ...]
    words: frozenset[str]
    """The words a text must contain to answer the entire query."""
    period: when.Period | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A text prepared for scoring."""

    terms: str
    """As from `terms.terms_of`, separated by spaces."""
    counts: Mapping[str, int]
    at: str = ""
    row: str = ""
    in_period: bool = False
    cosine: float = 0.0
    """Cosine with the query, by a neural model."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One text of a result."""

    index: int
    """Its index among the given texts."""
    score: float
    """Higher is better; comparable within one result only."""
    matched: tuple[str, ...]
    """The query words that it contains, the most specific first."""
    is_whole: bool
    """Whether it contains everything the query asks for."""

    @property
    def why(self) -> str:
        return " ".join(self.matched[:6]) or "near in meaning"


# ── what a query asks for ────────────────────────────────────────────────────────────────────


def read(
    query: str, known: Known, texts: int, now: datetime, *, typo_chars: int = TYPO_CHARS
) -> Asked:
    """Analyses a query for `texts` texts whose terms `known` counts. Words shorter than
    `typo_chars` are taken as spelled."""
    period, rest = when.read(query, now)
    words = terms.words(rest)
    if len(words) > MAX_QUERY_WORDS:
        words = words[: MAX_QUERY_WORDS // 2] + words[-MAX_QUERY_WORDS // 2 :]
    telling = [word for word in dict.fromkeys(words) if word not in terms.STOP_WORDS]
    phrases: list[tuple[tuple[str, ...], str]] = [
        ((word,), term) for word in telling for term in terms.word_terms(word)
    ]
    phrases += _runs(words)
    if period:
        phrases.append(((period.said,), " ".join(terms.terms_of(period.said))))
    elif not telling:
        phrases.append((tuple(words), " ".join(map(terms.stem, words))))
    held = known({term for _, phrase in phrases for term in phrase.split(" ")})
    wanted = [
        _wanted(said, phrase.split(" "), held, texts)
        for said, phrase in phrases
        if all(term in held for term in phrase.split(" "))
    ]
    if len(words) <= RESPELLED_WORDS:
        spelled_so = {word for one in wanted for word in one.words}
        for word in telling:
            if word not in spelled_so and typo_chars <= len(word) <= MAX_WORD_CHARS:
                wanted += _respell(word, known, texts)
    asked = [*(telling or words), *([period.said] if period else [])]
    return Asked(tuple(wanted), frozenset(asked), period)


def _wanted(
    words: tuple[str, ...], phrase: Sequence[str], held: Mapping[str, int], texts: int
) -> Wanted:
    rarest = min(held[term] for term in phrase)
    return Wanted(words, " ".join(phrase), idf(texts, rarest), rarest)


def idf(texts: int, holding: int) -> float:
    """How specific a term is: from 0, higher for rarer terms."""
    return math.log(1 + (texts - holding + 0.5) / (holding + 0.5))


def _runs(words: Sequence[str]) -> list[tuple[tuple[str, ...], str]]:
    """Adjacent words, with the term they form when written as one."""
    runs = []
    for length in range(2, RUN_WORDS + 1):
        for first in range(len(words) - length + 1):
            run = tuple(words[first : first + length])
            if sum(map(len, run)) <= MAX_WORD_CHARS:
                runs.append((run, terms.joined_term(run)))
    return runs


def _respell(word: str, known: Known, texts: int) -> list[Wanted]:
    """Other spellings of a word that no text contains: split into several words, or with one letter
    changed."""
    parts = _split(word, known)
    if parts:
        return [_wanted((word,), parts, known(parts), texts)]
    if not word.isalpha():
        return []
    spellings = _one_edit_away(word) - terms.STOP_WORDS
    if len(word) < RECALL_TYPO_CHARS:
        spellings = {spelling for spelling in spellings if spelling[0] == word[0]}
    near = known({terms.stem(spelling) for spelling in spellings} - terms.STOP_WORDS)
    return [
        Wanted((word,), term, TYPO_WEIGHT * idf(texts, held), held)
        for term, held in near.items()
        if held <= max(RARE_HELD, RARE_SHARE * texts)
    ]


def _split(word: str, known: Known) -> list[str]:
    """The fewest known terms that form the word; none if it cannot be split."""
    length = len(word)
    stems = {
        (start, end): terms.stem(word[start:end])
        for start in range(length - 1)
        for end in range(start + 2, length + 1)
    }
    held = known(set(stems.values()))
    best: dict[int, list[str]] = {0: []}
    for (start, end), term in stems.items():  # by start: shorter prefixes are settled before
        if start in best and term in held:
            longer = [*best[start], term]
            if end not in best or len(longer) < len(best[end]):
                best[end] = longer
    return best.get(length, [])


def _one_edit_away(word: str) -> set[str]:
    """Every spelling with one letter deleted, inserted, replaced, or two swapped."""
    letters = {*ascii_lowercase, *word}
    if not word.isascii():
        block = max(map(ord, word)) & ~0x7F
        letters |= {chr(code) for code in range(block, block + 0x80) if chr(code).isalpha()}
    splits = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    found = {left + right[1:] for left, right in splits if right}
    found |= {left + right[1] + right[0] + right[2:] for left, right in splits if len(right) > 1}
    found |= {left + letter + right[1:] for left, right in splits if right for letter in letters}
    found |= {left + letter + right for left, right in splits for letter in letters}
    return found - {word}


# ── texts in order ───────────────────────────────────────────────────────────────────────────


def order(asked: Asked, documents: Sequence[Document], usual: float, texts: int) -> list[Ranked]:
    """The matching documents, best first, newest first among equals; neighbours are side by side.

    `usual` is the average text length in terms, `texts` the total number.
    """
    in_period = sum(document.in_period for document in documents)
    said = (asked.period.said,) if asked.period else ()
    of_period = Wanted(said, "", idf(texts, in_period), in_period)
    own: list[float] = []
    says: list[list[Wanted]] = []
    for document in documents:
        counts = {one: n for one in asked.wanted if (n := _count(one.terms, document))}
        score = 0.0
        if counts:
            saturation = K1 * (1 - B + B * sum(document.counts.values()) / usual)
            score = sum(one.weight * n * (K1 + 1) / (n + saturation) for one, n in counts.items())
        if document.in_period:
            counts[of_period] = 1
            score += of_period.weight
        own.append(score * sum(one.weight for one in counts))
        says.append(sorted(counts, key=lambda one: -one.weight))
    best = max((_with_lent(place, documents, own) for place in range(len(own))), default=0.0) or 1.0
    fuse = any(document.cosine for document in documents)
    found: list[Ranked] = []
    for place, document in enumerate(documents):
        score = _with_lent(place, documents, own)
        if fuse and (score or document.cosine >= MIN_COSINE):
            cosine = min(1.0, max(0.0, document.cosine))
            score = (1 - VECTOR_WEIGHT) * score / best + VECTOR_WEIGHT * cosine
        if score:
            matched = tuple(dict.fromkeys(word for one in says[place] for word in one.words))
            is_whole = bool(asked.words) and asked.words <= set(matched)
            found.append(Ranked(place, score, matched, is_whole))
    found.sort(key=lambda one: documents[one.index].at, reverse=True)
    return sorted(found, key=lambda one: -one.score)


def rank(
    query: str,
    texts: Sequence[Text],
    now: datetime,
    *,
    k: int | None = None,
    cosines: Sequence[float] | None = None,
    typo_chars: int = TYPO_CHARS,
) -> list[Ranked]:
    """The texts that match a query, best first, at most `k`.

    `cosines` compare the texts with the query under a neural embedder.
    """
    if not texts:
        return []
    counted = [counted_terms(text.text) for text in texts]
    holding = Counter(term for _, counts in counted for term in counts)
    asked = read(
        query,
        lambda some: {term: holding[term] for term in some if term in holding},
        len(texts),
        now,
        typo_chars=typo_chars,
    )
    meant = _in_period(asked.period, texts)
    documents = [
        Document(
            joined, counts, text.at, text.row, place in meant, cosines[place] if cosines else 0
        )
        for place, (text, (joined, counts)) in enumerate(zip(texts, counted, strict=True))
    ]
    usual = sum(sum(counts.values()) for _, counts in counted) / max(1, len(texts))
    return order(asked, documents, usual, len(texts))[:k]


def fits(ranked: Ranked) -> bool:
    """Whether a text covers enough of a request to be shown unasked: one specific word, or several
    common ones of this trade."""
    weights = (
        COMMONPLACE_WEIGHT if terms.stem(w) in _commonplaces() else 1 for w in ranked.matched
    )
    return sum(weights) >= 1


@cache
def _commonplaces() -> frozenset[str]:
    return frozenset(terms.terms_of(COMMONPLACES)) | terms.STOP_WORDS


@lru_cache(maxsize=8192)
def counted_terms(text: str) -> tuple[str, Mapping[str, int]]:
    """The terms of a text, separated by spaces, and how often each occurs."""
    found = terms.terms_of(text)
    return " ".join(found), Counter(found)


def _in_period(period: when.Period | None, texts: Sequence[Text]) -> set[int]:
    """The indices of the texts from the period that a query asks about."""
    if period is None:
        return set()
    dated = [place for place, text in enumerate(texts) if text.at]
    if not period.end:
        return set(sorted(dated, key=lambda place: texts[place].at)[-NEWEST:])
    return {place for place in dated if period.start <= texts[place].at < period.end}


def _count(wanted: str, document: Document) -> int:
    if " " not in wanted:
        return document.counts.get(wanted, 0)
    if not all(term in document.counts for term in wanted.split(" ")):
        return 0
    return f" {document.terms} ".count(f" {wanted} ")


def _with_lent(place: int, documents: Sequence[Document], own: Sequence[float]) -> float:
    """The score of a text plus what its neighbours lend."""
    row, score = documents[place].row, own[place]
    if not row or not score:
        return score
    for distance, share in enumerate(LENT, 1):
        for other in (place - distance, place + distance):
            if 0 <= other < len(documents) and documents[other].row == row:
                score += share * own[other]
    return score
