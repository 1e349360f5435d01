"""Splits a text into the words by which search and the comparison of facts know it.

A word counts by its stem, an identifier by its parts: `maxRetries`, `max_retries` and `max-retries`
are `max` and `retries`. Scripts without spaces count by characters and pairs. SQLite's FTS5 stems.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from string import ascii_lowercase
from typing import TYPE_CHECKING

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


def split_compounds(text: str) -> list[list[str]]:
    """The words of a text in order, in lower case: an identifier as its parts, a version number as
    one word with other dots, scripts without spaces as characters and pairs."""
    if not text.isascii():
        text = _INVISIBLE_JOINERS.sub("", unicodedata.normalize("NFKC", text))
        text = _UNSPACED.sub(lambda run: f" {' '.join(_characters_and_pairs(run[0]))} ", text)
    text = _CAMEL.sub("_", _POSSESSIVE.sub("", _VERSION_DOT.sub("·", text))).casefold()
    return [_PARTS.findall(compound) for compound in _COMPOUND.findall(text)]


def split_words(text: str) -> list[str]:
    """The same words, in one list."""
    return [word for parts in split_compounds(text) for word in parts]


def index_form(text: str) -> list[str]:
    """The words to index for a text: each identifier also as one word, after its parts."""
    words: list[str] = []
    for parts in split_compounds(text):
        words += parts
        if len(parts) > 1:
            words.append("".join(parts))
    return words


def stem(words: Sequence[str]) -> list[str]:
    """The stem of each word, as in the index."""
    import apsw

    text = " ".join(words).encode(errors="replace")
    tokens = _stemmer()(text, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False)
    stems = [str(token[0]) for token in tokens]
    return stems if len(stems) == len(words) else list(words)


def telling_stems(text: str) -> frozenset[str]:
    """The stems of the words that show what a text is about."""
    words = dict.fromkeys(split_words(text))
    return frozenset(stem([word for word in words if word not in STOP_WORDS]))


def one_edit_away(word: str) -> list[str]:
    """What is the word with a letter more, less, changed, or swapped with the next."""
    letters = ascii_lowercase if word.isascii() else "".join({*word})
    splits = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    edits = {left + right[1:] for left, right in splits}
    edits |= {left + right[1] + right[0] + right[2:] for left, right in splits if right[1:]}
    edits |= {left + new + right[1:] for left, right in splits if right for new in letters}
    edits |= {left + new + right for left, right in splits for new in letters}
    return sorted(edits - {word} - STOP_WORDS)


def is_unspaced(text: str) -> bool:
    """Whether a text contains a script that is written without spaces."""
    return not text.isascii() and _UNSPACED.search(text) is not None


def _characters_and_pairs(run: str) -> list[str]:
    return [*run, *(run[at : at + 2] for at in range(len(run) - 1))]


@cache
def _stemmer() -> "apsw.FTS5Tokenizer":
    return _connection().fts5_tokenizer("porter", list(TOKENIZER))


@cache
def _connection() -> "apsw.Connection":
    """Keeps the tokenizer valid."""
    import apsw

    return apsw.Connection(":memory:")
