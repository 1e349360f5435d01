"""One pattern of an order, and what a text must hold to be worth trying it. The patterns are in
`kode.memory.phrases` and `kode.memory.company`."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_

from kode.memory.sentences import Index, Sentence


@dataclass(frozen=True)
class Order:
    """One pattern, and what a text must hold to be worth trying it: a pattern over 2 KB costs
    fifty times what a look into a set does. Words are known by their first four letters."""

    category: str
    text: str
    """The pattern's source. It is compiled when it is first tried: most processes try few, and
    compiling all of them takes longer than everything else that start-up does with memory."""
    heads: frozenset[str]
    """Words that the pattern can begin with: it is tried in sentences that have one of these.
    Empty: in any."""
    groups: tuple[frozenset[str], ...]
    """Of each group the sentence, or what follows it at once, has a word."""
    signs: tuple[str, ...] = ()
    """One of these occurs in the sentence, or in what follows it at once."""
    at_start: bool = False
    """Tried where a sentence or a line begins, and nowhere else."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.text, re.MULTILINE)


_WORD_STARTS = re.compile(r"(?<![a-z0-9])[a-z0-9]{1,4}")


class Orders:
    """Patterns, each tried only where its words and signs are."""

    def __init__(self, *orders: Order) -> None:
        self.all = orders
        self._signs = tuple({sign for one in orders for sign in one.signs})
        self._index = Index([(one.heads, one.signs, *one.groups) for one in orders])

    def matches(
        self, text: str, parts: Sequence[Sentence]
    ) -> Iterator[tuple[Order, re.Match[str]]]:
        """What the patterns find in a text; `parts` are its sentences."""
        satisfied = [self._index.of(part.keys) for part in parts]
        for sign in [sign for sign in self._signs if sign in text]:
            at = text.find(sign)
            while at >= 0:
                place = bisect_right(parts, at, key=_start) - 1
                satisfied[place] |= self._index.bits[sign]
                at = text.find(sign, parts[place].end)
        for place, part in enumerate(parts):
            near = reduce(or_, satisfied[place : part.last + 1])
            likely = self._index.likely(satisfied[place], near)
            if likely:
                yield from _tried([self.all[one] for one in likely], text, part, parts)


def _start(part: Sentence) -> int:
    return part.start


def _tried(
    orders: list[Order], text: str, part: Sentence, parts: Sequence[Sentence]
) -> Iterator[tuple[Order, re.Match[str]]]:
    """What these patterns find in one sentence."""
    reach = parts[part.last].end
    words = [(word[0], word.start()) for word in _WORD_STARTS.finditer(text, part.start, part.end)]
    for one in orders:
        heads = one.heads
        if not heads and not one.at_start:
            for match in one.pattern.finditer(text, part.start, reach):
                yield one, match
            continue
        starts = [part.start] if one.at_start else [start for word, start in words if word in heads]
        for start in starts:
            found = one.pattern.match(text, start, reach)
            if found:
                yield one, found


_BLANK = re.compile(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\])| ")
"""A blank of a pattern; one in a set of characters stands for itself."""


def order(
    category: str,
    words: str,
    pattern: str,
    *,
    signs: tuple[str, ...] = (),
    at_start: bool = False,
) -> Order:
    """A blank in `pattern` stands for anything between two words; in `words` the heads stand
    before `>`, and `;` divides the groups."""
    flexible = _BLANK.sub(lambda found: found[1] or r"[\W_]+", pattern)
    heads, _, rest = words.rpartition(">")
    groups = tuple(frozenset(group.split()) for group in rest.split(";") if group.strip())
    return Order(category, flexible, frozenset(heads.split()), groups, signs, at_start)
