"""The words by which search and the comparison of facts know a text, their other spellings, and
the period that a query asks about. A word counts by its stem, an identifier by its parts.
"""

import re
import unicodedata
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from functools import cache
from itertools import combinations, pairwise
from string import ascii_lowercase
from typing import TYPE_CHECKING

from kode.memory.statement import timestamp

if TYPE_CHECKING:
    import apsw

TOKENIZER = ("unicode61", "remove_diacritics", "2", "categories", "L* N* Mn Mc", "tokenchars", "·")
"""The arguments of FTS5's `porter`. Marks belong to words, as does the dot of a version number."""

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
"""Words that do not show what a text is about. A query uses them only if it has nothing else."""
COMMON_WORDS = frozenset(
    """
    fix fixes fixed bug error fail failed issue problem test tests run add added new make change
    changed update updated remove delete write read file files folder line code project function
    class method module check please look find show help need want use used work works time name
    start stop create set get call next first last done good thing try again now today session
    user agent asked yes ok thanks implement explain
    """.split()
)
"""Words of this trade, which alone are no reason to show a text that nobody asked for."""

MAX_PARTS = 4
"""So many adjacent words of a query may be one word of a text, or the other way round."""
MIN_BEGINNING_CHARS = 5  # less is a syllable
MIN_TYPO_CHARS = 6
"""In shorter words the first letter counts as correct: most are one edit from each other."""

_AGO = {"today": timedelta(), "yesterday": timedelta(days=1)}
_PERIOD = re.compile(r"\b(?:\d{4}-\d\d(?:-\d\d)?|today|yesterday)\b", re.IGNORECASE)
_NEWEST = re.compile(
    r"\b(?:(?:the )?(?:last|previous) (?:time|session|conversation)"
    r"|(?:(?:continue|carry on|go on|pick up) )?where (?:we|i|you) (?:stopped|left off|were))\b",
    re.IGNORECASE,
)
_VERSION_DOT = re.compile(r"(?<=\d)\.(?=\d)")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_POSSESSIVE = re.compile(r"['’](?:s|t|re|ve|ll|d|m)\b", re.IGNORECASE)
_INVISIBLE_JOINERS = re.compile("[\u200c\u200d]")
_MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0dff"
_PART = rf"[^\W_](?:[^\W_]|[·{_MARKS}])*"
_PARTS = re.compile(_PART)
_COMPOUND = re.compile(rf"{_PART}(?:[-_.]{{1,2}}{_PART})*")
_UNSPACED = re.compile(
    "[\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"  # kana and Han
)


def split_words(text: str, *, with_compounds: bool = False) -> list[str]:
    """The words of a text in order, in lower case: an identifier as its parts (`with_compounds`
    also whole, after them), scripts without spaces as characters and pairs."""
    if not text.isascii():
        text = _INVISIBLE_JOINERS.sub("", unicodedata.normalize("NFKC", text))
        text = _UNSPACED.sub(
            lambda run: f" {' '.join((*run[0], *map(''.join, pairwise(run[0]))))} ", text
        )
    text = _CAMEL.sub("_", _POSSESSIVE.sub("", _VERSION_DOT.sub("·", text))).casefold()
    words = list[str]()
    for compound in _COMPOUND.findall(text):
        parts = _PARTS.findall(compound)
        words += [*parts, "".join(parts)] if with_compounds and len(parts) > 1 else parts
    return words


def stem(words: Sequence[str]) -> list[str]:
    """The stem of each word, as in the index."""
    import apsw

    text = " ".join(words).encode(errors="replace")
    tokens = _stemmer()[1](text, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False)
    stems = [str(token[0]) for token in tokens]
    return stems if len(stems) == len(words) else list(words)


def telling_stems(text: str) -> frozenset[str]:
    """The stems of the words that show what a text is about."""
    return frozenset(stem([word for word in split_words(text) if word not in STOP_WORDS]))


def list_splits(word: str) -> list[str]:
    """The phrases of up to `MAX_PARTS` words that are written together in this one."""
    return [
        " ".join(word[start:end] for start, end in pairwise((0, *cuts, len(word))))
        for count in range(1, MAX_PARTS)
        for cuts in combinations(range(2, len(word) - 1), count)
    ]


def list_misspellings(word: str) -> list[str]:
    """What is an English word with a letter more, less, changed, or swapped with the next. Of a
    word in another script, whose endings no stemmer knows, its beginning, with a `*`."""
    if not word.isalpha():
        return []
    if not word.isascii():
        return [f"{word[: max(MIN_BEGINNING_CHARS, len(word) - 3)]}*"]
    first = int(len(word) < MIN_TYPO_CHARS)
    splits = [(word[:at], word[at:]) for at in range(first, len(word) + 1)]
    edits = {left + right[1] + right[0] + right[2:] for left, right in splits if right[1:]}
    rests = {(left, rest) for left, right in splits for rest in (right, right[1:])}
    edits |= {left + new + rest for left, rest in rests for new in ("", *ascii_lowercase)}
    return sorted(edits - {word} - STOP_WORDS)


def is_unspaced(text: str) -> bool:
    """Whether a text contains a script that is written without spaces."""
    return not text.isascii() and _UNSPACED.search(text) is not None


@cache
def _stemmer() -> "tuple[apsw.Connection, apsw.FTS5Tokenizer]":
    """The tokenizer, and the connection that it needs."""
    import apsw

    connection = apsw.Connection(":memory:")
    return connection, connection.fts5_tokenizer("porter", list(TOKENIZER))


def find_period(query: str, now: datetime) -> tuple[str, str, str, str]:
    """The expression of time in a query, the beginning and the excluded end of its period (both ""
    for the newest texts), and the rest of the query. Days begin in the time zone of `now`."""
    newest, match = _NEWEST.search(query), _PERIOD.search(query)
    rest = _PERIOD.sub(" ", _NEWEST.sub(" ", query))
    if match is None:
        return newest[0] if newest else "", "", "", rest
    try:
        ago = _AGO.get(match[0].lower())
        first = date.fromisoformat(f"{match[0]}-01"[:10]) if ago is None else now.date() - ago
        last = first + timedelta(days=1)
        if len(match[0]) == len("2026-03"):
            last = (first + timedelta(days=32)).replace(day=1)
        start, end = (timestamp(datetime.combine(day, time(), now.tzinfo)) for day in (first, last))
    except (ValueError, OverflowError):
        return "", "", "", query  # no day of the calendar
    return match[0], start, end, rest
