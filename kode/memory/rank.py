"""From a query and texts to an order with scores: the one way memory searches, few texts or many.

`read` says what a query looks for: each word by its stem, in whatever spelling the texts have it.
`order` scores texts by BM25 over that, times how much of the query each says. Texts of one row
(turns of a conversation) lend their score to neighbours that match too: recall@10 of turns 0.63 to
0.73. A neural model's cosines are fused in; the local projection's only make the order worse.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from string import ascii_lowercase

from kode.memory import terms, when

K1 = 0.8
"""How soon a repeated word stops adding."""
B = 0.4
"""How much a long text is held against it."""
LENT = (0.45, 0.25)
"""What a text lends of its score to matching ones of its row, one and two places away."""
VECTOR_WEIGHT = 0.5
"""Share of a neural vector in a fused score."""
MIN_COSINE = 0.45
"""Below it, a neural vector alone is no match."""
TYPO_WEIGHT = 0.5
"""What a word counts that is found under another spelling."""
TYPO_CHARS = 4
"""A shorter word is one edit away from too many others."""
RECALL_TYPO_CHARS = 6
"""The same where nobody searches and what fits a request comes unasked. In a shorter word the first
letter is taken as meant: "cake" is not "make"."""
RARE_HELD, RARE_SHARE = 3, 0.05
"""A word is looked for under another spelling if so many texts hold that, or this share of them."""
RESPELLED_WORDS = 12
"""Of a longer query, which is no question but a text, no word is looked for in other spellings."""
MAX_QUERY_WORDS = 200
"""Of a longer query the first and the last count: what a turn costs has a limit."""
RUN_WORDS = 4
"""So many words of a query side by side may stand in a text as one."""
MAX_WORD_CHARS = 40
NEWEST = 3
"""So many texts are meant by "last time"."""

Known = Callable[[Iterable[str]], Mapping[str, int]]
"""Of some terms those that occur, each with how many texts hold it."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text that can be found."""

    where: str
    """The file or note it is from, for a person."""
    text: str
    at: str = ""
    """When it was written, as `when.stamp` gives it; "" for a text without a time."""
    row: str = ""
    """Texts that follow each other and have the same row are neighbours; "" is no row."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One thing that a query looks for."""

    words: tuple[str, ...]
    """The words of the query that it stands for."""
    terms: str
    """The terms that a text must hold side by side, with a space between."""
    weight: float
    held: int
    """How many texts hold the rarest of the terms."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A query as it is looked for among certain texts."""

    wanted: tuple[Wanted, ...]
    words: frozenset[str]
    """What a text must say to answer all of the query."""
    period: when.Period | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A text as it is scored."""

    terms: str
    """As `terms.terms_of` gives them, with a space between."""
    counts: Mapping[str, int]
    at: str = ""
    row: str = ""
    in_period: bool = False
    cosine: float = 0.0
    """With the query, by a neural model."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One text of a result."""

    index: int
    """Its place among the texts given, from 0."""
    score: float
    """More is better; comparable within one result only."""
    matched: tuple[str, ...]
    """The words of the query that it says, the most telling first."""
    is_whole: bool
    """Whether it says all that was asked for."""

    @property
    def why(self) -> str:
        return " ".join(self.matched[:6]) or "near in meaning"


# ── what a query asks for ────────────────────────────────────────────────────────────────────


def read(
    query: str, known: Known, texts: int, now: datetime, *, typo_chars: int = TYPO_CHARS
) -> Asked:
    """What a query looks for among `texts` texts that hold what `known` says. Words shorter than
    `typo_chars` are taken as they are spelled."""
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
                wanted += _respelled(word, known, texts)
    asked = [*(telling or words), *([period.said] if period else [])]
    return Asked(tuple(wanted), frozenset(asked), period)


def _wanted(
    words: tuple[str, ...], phrase: Sequence[str], held: Mapping[str, int], texts: int
) -> Wanted:
    rarest = min(held[term] for term in phrase)
    return Wanted(words, " ".join(phrase), idf(texts, rarest), rarest)


def idf(texts: int, holding: int) -> float:
    """How much a term says: 0 upwards, more the fewer texts hold it."""
    return math.log(1 + (texts - holding + 0.5) / (holding + 0.5))


def _runs(words: Sequence[str]) -> list[tuple[tuple[str, ...], str]]:
    """Words side by side, with the term that they are when written as one."""
    runs = []
    for length in range(2, RUN_WORDS + 1):
        for first in range(len(words) - length + 1):
            run = tuple(words[first : first + length])
            if sum(map(len, run)) <= MAX_WORD_CHARS:
                runs.append((run, terms.joined_term(run)))
    return runs


def _respelled(word: str, known: Known, texts: int) -> list[Wanted]:
    """A word that no text holds, as the texts may spell it: in several words, or with one letter
    another."""
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
    """The fewest known terms that the word is made of; none when it cannot be taken apart."""
    length = len(word)
    stems = {
        (start, end): terms.stem(word[start:end])
        for start in range(length - 1)
        for end in range(start + 2, length + 1)
    }
    held = known(set(stems.values()))
    best: dict[int, list[str]] = {0: []}
    for (start, end), term in stems.items():  # by start: what ends there is settled before
        if start in best and term in held:
            longer = [*best[start], term]
            if end not in best or len(longer) < len(best[end]):
                best[end] = longer
    return best.get(length, [])


def _one_edit_away(word: str) -> set[str]:
    """Every spelling with a letter less, more, replaced, or two letters exchanged."""
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
    """The documents that match, best first, of equal ones the newest; neighbours are side by side.

    `usual` is the length of a usual text in terms, `texts` how many there are altogether.
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
    best = max((_lent(place, documents, own) for place in range(len(own))), default=0.0) or 1.0
    fuse = any(document.cosine for document in documents)
    found: list[Ranked] = []
    for place, document in enumerate(documents):
        score = _lent(place, documents, own)
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

    `cosines` are those of the texts with the query under a neural embedder.
    """
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


@lru_cache(maxsize=8192)
def counted_terms(text: str) -> tuple[str, Mapping[str, int]]:
    """The terms of a text with a space between, and how often each occurs."""
    found = terms.terms_of(text)
    return " ".join(found), Counter(found)


def _in_period(period: when.Period | None, texts: Sequence[Text]) -> set[int]:
    """The places of the texts that a query means by their time."""
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


def _lent(place: int, documents: Sequence[Document], own: Sequence[float]) -> float:
    """The score of a text with what its neighbours lend."""
    row, score = documents[place].row, own[place]
    if not row or not score:
        return score
    for distance, share in enumerate(LENT, 1):
        for other in (place - distance, place + distance):
            if 0 <= other < len(documents) and documents[other].row == row:
                score += share * own[other]
    return score
