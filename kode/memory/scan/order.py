"""One pattern of an order, and what a text must hold to be worth trying it. The patterns are in
`phrases` and `company`."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_

from kode.memory.scan.sentences import KEY_CHARS, Index, Sentence


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


_IN_WORD = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


_SIGN_WORD = re.compile(rf"[a-z0-9]{{{KEY_CHARS}}}")
"""A sign that begins so is looked for only where a word does."""


class Orders:
    """Patterns, each tried only where its words and signs are."""

    def __init__(self, *orders: Order) -> None:
        self.all = orders
        self._signs: list[tuple[str, frozenset[str]]] = []
        """Each with its characters: most texts lack one, and need no look for the sign."""
        self._signs_by_key: dict[str, list[str]] = {}
        for sign in sorted({sign for one in orders for sign in one.signs}):
            word = _SIGN_WORD.match(sign)
            if word:
                self._signs_by_key.setdefault(word[0], []).append(sign)
            else:
                self._signs.append((sign, frozenset(sign)))
        self._index = Index([(one.heads, one.signs, *one.groups) for one in orders])

    def matches(
        self, text: str, parts: Sequence[Sentence]
    ) -> Iterator[tuple[Order, re.Match[str]]]:
        """What the patterns find in a text; `parts` are its sentences."""
        keys = set().union(*(part.keys for part in parts))
        likely_signs = [sign for key in keys & self._signs_by_key.keys()
                        for sign in self._signs_by_key[key]]  # fmt: skip
        chars = set(text)
        likely_signs += [sign for sign, needed in self._signs if needed <= chars]
        signs = [sign for sign in likely_signs if sign in text]
        whole = self._index.of([*keys, *signs])
        if not self._index.likely(whole, whole):
            return
        satisfied = [self._index.of(part.keys) for part in parts]
        for sign in signs:
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
    for one in orders:
        if one.at_start or one.heads:
            for start in (part.start,) if one.at_start else _heads(one, text, part):
                found = one.pattern.match(text, start, reach)
                if found:
                    yield one, found
            continue
        for match in one.pattern.finditer(text, part.start, reach):
            yield one, match


def _heads(one: Order, text: str, part: Sentence) -> list[int]:
    """Where the words stand that the pattern begins with."""
    places = []
    for head in one.heads.intersection(part.keys):
        at = text.find(head, part.start, part.end)
        while at >= 0:
            if at == 0 or text[at - 1] not in _IN_WORD:
                places.append(at)
            at = text.find(head, at + 1, part.end)
    return places


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
