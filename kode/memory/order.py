"""One pattern of an order, and what a text must hold to be worth trying it. The patterns are in
`kode.memory.phrases` and `kode.memory.company`."""

import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Order:
    """One pattern, and what a text must hold to be worth trying it: a pattern over 2 KB costs
    fifty times what a look into a set does. Words are known by their first four letters."""

    category: str
    text: str
    """The pattern's source. It is compiled when it is first tried: most processes try few, and
    compiling all of them takes longer than everything else that start-up does with memory."""
    heads: frozenset[str]
    """Words that the pattern can begin with; it is tried at these only. Empty: anywhere."""
    groups: tuple[frozenset[str], ...]
    """Of each group the text has a word."""
    signs: tuple[str, ...] = ()
    """One of these occurs, wherever."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.text, re.MULTILINE)


_FIRST_WORD = re.compile(r"[a-z0-9]+")


class Orders:
    """Patterns, found by the words and signs of a text. Which of them are worth trying costs one
    look for each different word, however many patterns there are."""

    def __init__(self, *orders: Order) -> None:
        self.all = orders
        self._by_word: dict[str, list[int]] = {}
        self._by_sign: list[tuple[str, int]] = []
        for place, one in enumerate(orders):
            words = one.heads or (one.groups[0] if one.groups else frozenset())
            for word in words:
                self._by_word.setdefault(word, []).append(place)
            for sign in () if words else one.signs:
                first = _FIRST_WORD.match(sign)
                if first and (len(first[0]) >= 4 or len(first[0]) < len(sign)):
                    self._by_word.setdefault(first[0][:4], []).append(place)
                else:
                    self._by_sign.append((sign, place))

    def likely(self, text: str, words: set[str]) -> list[Order]:
        """The patterns that may match, in order. `words` are the first four letters of each."""
        places = {place for word in words & self._by_word.keys() for place in self._by_word[word]}
        places.update(place for sign, place in self._by_sign if sign in text)
        found = []
        for place in sorted(places):
            one = self.all[place]
            if any(group.isdisjoint(words) for group in one.groups):
                continue
            if one.signs and not any(sign in text for sign in one.signs):
                continue
            found.append(one)
        return found


def order(category: str, words: str, pattern: str, *, signs: tuple[str, ...] = ()) -> Order:
    """A blank in `pattern` stands for anything between two words; in `words` the heads stand
    before `>`, and `;` divides the groups."""
    flexible = pattern.replace(" ", r"[\W_]+")
    heads, _, rest = words.rpartition(">")
    groups = tuple(frozenset(group.split()) for group in rest.split(";") if group.strip())
    return Order(category, flexible, frozenset(heads.split()), groups, signs)
