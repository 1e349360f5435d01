"""A text in sentences, and which of many patterns a sentence is worth trying on.

A pattern costs microseconds a sentence and there are hundreds; that a sentence has the words which
a pattern needs is seen for all of them at once, from the bits of its words. What the patterns are
is `phrases`, `company`, `frames` and `languages`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

_ENDS = re.compile(r"[.!?;](?=\s)|\n|[。！？]")
KEY_CHARS = 4
_MANY_KEYS = 50_000
_SCRAP_CHARS = 24
_LINE_CHARS = 60


class Sentence(NamedTuple):
    """A place in a text, and its words as an index knows them."""

    start: int
    end: int
    last: int
    """The place of the last sentence that an order beginning here may go on in."""
    keys: list[str]
    """The first four letters of each word, in order."""


class _Bits(dict[str, int]):
    """Words' keys to what they satisfy, worked out once a key."""

    def __init__(self, own: dict[str, int]) -> None:
        super().__init__()
        self._own = own

    def __missing__(self, key: str) -> int:
        found = self._own.get(key, 0)
        for length in range(2, len(key) + 1):
            found |= self._own.get(f"{key[:length]}*", 0)
        if len(self) < _MANY_KEYS:
            self[key] = found
        return found


class Index:
    """The patterns by the words they need. Of each group of a pattern's keys a sentence has one.

    A key is the first four letters of a word, or fewer with `*` for the words that begin so.
    """

    def __init__(self, needs: Sequence[Sequence[Iterable[str]]]) -> None:
        width = len(needs)
        planes = max(map(len, needs), default=1)
        self._first_plane = (1 << width) - 1
        self._shifts = [plane * width for plane in range(1, planes)]
        self._always = 0
        own: dict[str, int] = {}
        for place, groups in enumerate(needs):
            for plane in range(planes):
                bit = 1 << (plane * width + place)
                if plane >= len(groups) or not groups[plane]:
                    self._always |= bit
                    continue
                for key in groups[plane]:
                    own[key] = own.get(key, 0) | bit
        self.bits = _Bits(own)

    def of(self, keys: Iterable[str]) -> int:
        """What the words of a sentence satisfy, to be joined (`|`) with that of others."""
        bits = self.bits
        found = 0
        for key in keys:
            found |= bits[key]
        return found

    def likely(self, first: int, near: int) -> list[int]:
        """The places of the patterns whose first group is in `first` and the others in `near`."""
        hits = (first | self._always) & self._first_plane
        near |= self._always
        for shift in self._shifts:
            hits &= near >> shift
            if not hits:
                return []
        found = []
        while hits:
            lowest = hits & -hits
            found.append(lowest.bit_length() - 1)
            hits ^= lowest
        return found

    def worth_trying(self, parts: Sequence[Sentence]) -> Iterator[tuple[Sentence, list[int]]]:
        """The sentences that have all that some pattern needs, each with the patterns' places."""
        whole = self.of(set().union(*(part.keys for part in parts)))
        if not self.likely(whole, whole):
            return
        for part in parts:
            satisfied = self.of(part.keys)
            places = self.likely(satisfied, satisfied)
            if places:
                yield part, places


_BLANKS = str.maketrans({code: " " for code in range(128) if not chr(code).isalnum()})
_NO_WORD = re.compile(r"[\W_]")


def sentences(text: str) -> list[Sentence]:
    """The sentences of a folded text, in order."""
    ends = [match.end() for match in _ENDS.finditer(text)]
    if not ends or ends[-1] < len(text):
        ends.append(len(text))
    words = text.translate(_BLANKS) if text.isascii() else _NO_WORD.sub(" ", text)
    found = []
    start = 0
    for place, end in enumerate(ends):
        last = place
        while last + 1 < len(ends) and _goes_on(text, start, ends[last]):
            last += 1
        keys = [word[:KEY_CHARS] for word in words[start:end].split()]
        found.append(Sentence(start, end, last, keys))
        start = end
    return found


def _goes_on(text: str, start: int, end: int) -> bool:
    """Whether what begins at `start` may go on behind `end`: a few words, each on a line of its
    own, or a line that is as long as a wrapped one and ends without a full stop."""
    if end - start < _SCRAP_CHARS:
        return True
    wrapped = end - start >= _LINE_CHARS and text[end - 1] == "\n" and text[end - 2].isalnum()
    return wrapped and text.rfind("\n", start, end - 1) < 0
