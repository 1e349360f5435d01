"""The tables of `words`, stemmed and ready to look words up in.

Not here: the words themselves (`words`), reading a text with them (`claims`).
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from kode.memory.tiered.words import contrasts, foreign, grammar, rewrites
from kode.memory.tiered.words import synonyms as alike

TIMES = frozenset({"before", "after", "then"})
"""Words that put one thing before another in time."""


@cache
def opposites(name: str) -> frozenset[str]:
    """Concepts of which a fact means this one or the other, such as start and stop."""
    pairs = [[concept(word) for word in line.split()] for line in contrasts.OPPOSITES.splitlines()]
    return frozenset(other for pair in pairs if name in pair for other in pair if other != name)


@cache
def things() -> frozenset[str]:
    """The light concepts that name a thing."""
    return frozenset(concept(word) for word in grammar.THINGS.split())


@cache
def when() -> frozenset[str]:
    """Concepts of time, which may stand anywhere in a sentence."""
    return frozenset(concept(word) for word in grammar.WHEN.split())


@cache
def predicate_sorts() -> dict[str, frozenset[int]]:
    """Light verb → what sorts of doing it may be."""
    lines = [
        {concept(word) for word in line.split()} for line in grammar.PREDICATES.strip().splitlines()
    ]
    return {
        verb: frozenset(at for at, line in enumerate(lines) if verb in line)
        for verb in frozenset().union(*lines)
    }


@cache
def _stemmer() -> object:
    import snowballstemmer

    return snowballstemmer.stemmer("english")


@lru_cache(maxsize=16384)
def stem(word: str) -> str:
    """The English stem of a lower-case word; anything but ASCII letters as it is."""
    if not word.isascii() or not word.isalpha():
        return word
    return str(_stemmer().stemWord(word))  # type: ignore[attr-defined]


@lru_cache(maxsize=16384)
def concept(word: str) -> str:
    """The class a word belongs to: the first of its synonyms, or its stem."""
    table = synonyms()
    if word in table:
        return table[word]
    if word.endswith("ly"):
        # the stem of an adverb, or of a name: Plotly is no plot
        return stem(word) if stem(word) not in table else word
    return table.get(stem(word)) or stem(word)


@cache
def synonyms() -> dict[str, str]:
    """Word or stem → the first word of its class."""
    classes = [line.split() for line in alike.SYNONYMS.splitlines() if line.strip()]
    table = {word: words[0] for words in classes for word in words}
    for words in classes:
        for word in words:
            # a listed word keeps its own class, even where another's stem looks like it
            table.setdefault(stem(word), words[0])
    return table


@cache
def scales() -> dict[str, tuple[str, int]]:
    """Word or stem → its scale, and 1 or -1 for the end of it."""
    table: dict[str, tuple[str, int]] = {}
    for line in contrasts.SCALES.splitlines():
        if not line.strip():
            continue
        one, _, other = line.partition("|")
        name, *ends = one.split()
        for sign, words in ((1, [*ends, name]), (-1, other.split())):
            for word in words:
                table[word] = (name, sign)
                table.setdefault(stem(word), (name, sign))
    return table


@cache
def units() -> dict[str, tuple[str, float]]:
    """Unit, or the concept of one → measure and size, see `contrasts.UNITS`."""
    return {concept(word): unit for word, unit in contrasts.UNITS.items()} | contrasts.UNITS


@cache
def stop() -> frozenset[str]:
    """Words that carry nothing of a fact's content."""
    return frozenset(grammar.STOP.split())


@cache
def light() -> frozenset[str]:
    """Concepts that only say what sort of thing is meant."""
    return frozenset(concept(word) for word in grammar.LIGHT.split()) | {"bound", "allowed"}


@cache
def is_light(word: str) -> bool:
    """Whether this very word, and not only one of its class, says little."""
    return word in grammar.LIGHT.split() or stem(word) in map(stem, grammar.LIGHT.split())


@cache
def negator_words() -> frozenset[str]:
    """Words that deny."""
    return frozenset(grammar.NEGATORS.split())


@cache
def change_words() -> frozenset[str]:
    """Words that tell of a change."""
    return frozenset(grammar.CHANGES.split())


@cache
def restrictors() -> frozenset[str]:
    """Words that narrow a statement."""
    return frozenset(grammar.RESTRICTORS.split())


@cache
def foreign_negators() -> frozenset[str]:
    """Words that deny in other languages."""
    return frozenset(foreign.FOREIGN_NEGATORS.split())


@cache
def foreign_words() -> frozenset[str]:
    """Function words that English does not have."""
    return frozenset(foreign.FOREIGN.split()) - stop() - negator_words()


@cache
def phrases() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Patterns over lower-case text, and what stands for them."""
    return tuple(
        (re.compile(rf"(?<![\w-])(?:{pattern})(?:(?<=\s)|(?![\w-]))"), standing)
        for pattern, standing in rewrites.PHRASES
    )


@cache
def directed() -> frozenset[str]:
    """Concepts whose two sides are not the same thing the other way round."""
    return frozenset(concept(word) for word in grammar.DIRECTED.split()) | TIMES
