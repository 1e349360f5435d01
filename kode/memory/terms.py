"""Splits a text into terms for search and vectors: the one tokenizer of memory.

A word counts by its stem, an identifier by the stems of its parts and also as one word:
`maxRetries`, `max_retries` and `max-retries` all contain `max`, `retries` and `maxretries`, and
`PostgreSQL` contains `postgresql`. Scripts without spaces count by characters and pairs. The
stemmer is chosen by script, the only thing that one line of text shows reliably.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Protocol

VERSION = 2
"""Increase whenever a text gets different terms, so that everything is indexed again."""

STOP_WORDS = frozenset(
    """
    a about above after again all also am an and any are aren as at be because been before being
    both but by can cannot could couldn did didn do does doesn doing don down during each else ever
    few for from further get gets getting got had hadn has hasn have haven having he her here hers
    herself him himself his how i if in into is isn it its itself just kind kinds ll let like many
    may me mention mentioned might mine more most much mustn my myself no nor not now of off on once
    only or other our ours out over own re said same say says shall she should shouldn so some still
    such tell than that the their theirs them themselves then there these they this those through to
    too type types under until up us ve very was wasn we were weren what when where which while who
    whom whose why will with won would wouldn yes yet you your yours yourself
    """.split()
)
"""Words that do not show what a text is about, including question words. They are indexed like
others, but a query uses them only if it has nothing else."""

_MARKS = (  # vowel signs and the like: parts of a word, though not letters
    r"\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    r"\u0900-\u0963\u0966-\u0dff\u0e31-\u0e4e\u0eb1-\u0ecd\u0f71-\u0f84\u102b-\u103e\u17b4-\u17d3"
)
_WORD = rf"(?:\d+(?:\.\d+)+|[^\W_](?:[^\W_]|[{_MARKS}])*)"
_PARTS = re.compile(_WORD)
_JOINED = re.compile(rf"{_WORD}(?:[-_.]{{1,2}}{_WORD})*")
_INVISIBLE_JOINERS = re.compile("[\u200c\u200d]")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_POSSESSIVE = re.compile(r"['’](?:s|t|re|ve|ll|d|m)\b", re.IGNORECASE)
_UNSPACED = re.compile(
    r"[\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"  # kana and Han
)


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...


def compounds(text: str) -> list[list[str]]:
    """The words and numbers of a text in order, in lower case; an identifier as its parts.

    A version is one part (`3.12`); so is a run of an unspaced script (see `ngrams`).
    """
    if not text.isascii():
        text = _INVISIBLE_JOINERS.sub("", unicodedata.normalize("NFKC", text))
    text = _CAMEL.sub("_", _POSSESSIVE.sub("", text)).casefold()
    found = _JOINED.findall(text)
    return [[word] if word.isalnum() else _PARTS.findall(word) for word in found]


def words(text: str) -> list[str]:
    """The same, flattened."""
    return [part for parts in compounds(text) for part in parts]


def telling(text: str) -> frozenset[str]:
    """The stems of the words that show what a text is about. An identifier counts only by its
    parts, or it would count twice."""
    return frozenset(
        term for word in words(text) if word not in STOP_WORDS for term in word_terms(word)
    )


def terms_of(text: str) -> list[str]:
    """The terms to index for a text, in order: the terms of each word, and each identifier as one
    word after its parts."""
    found: list[str] = []
    for parts in compounds(text):
        for part in parts:
            found += word_terms(part)
        if len(parts) > 1:
            found.append(joined_term(parts))
    return found


def word_terms(word: str) -> list[str]:
    """The stem of a lower-case word; of an unspaced script, its n-grams."""
    return ngrams(word) if is_unspaced(word) else [stem(word)]


def joined_term(parts: Iterable[str]) -> str:
    """The term of words written as one."""
    return stem("".join(parts).replace(".", ""))


def ngrams(word: str) -> list[str]:
    """Characters and pairs of a word's unspaced runs, and the stems of what is in between."""
    found: list[str] = []
    at = 0
    for run in _UNSPACED.finditer(word):
        if run.start() > at:
            found.append(stem(word[at : run.start()]))
        characters = run[0]
        found.extend(characters)
        found.extend(characters[i : i + 2] for i in range(len(characters) - 1))
        at = run.end()
    if at < len(word):
        found.append(stem(word[at:]))
    return found


def is_unspaced(word: str) -> bool:
    """Whether a word contains a script that is written without spaces."""
    return not word.isascii() and _UNSPACED.search(word) is not None


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """The stem of a lower-case word; numbers and words of other scripts are unchanged."""
    if len(word) < 3 or word[0].isdigit():
        return word
    language = _language(word[0])
    return _stemmer(language).stemWord(word) if language else word


def _language(letter: str) -> str:
    code = ord(letter)
    if code < 0x250:
        return "english"
    if 0x400 <= code < 0x530:
        return "russian"
    if 0x370 <= code < 0x400:
        return "greek"
    return "arabic" if 0x600 <= code < 0x700 else ""


@cache
def _stemmer(language: str) -> _Stemmer:
    import snowballstemmer

    stemmer: _Stemmer = snowballstemmer.stemmer(language)
    return stemmer
