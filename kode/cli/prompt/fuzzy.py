"""Fuzzy finding in long lists of paths: letters in order are enough, the likeliest come first.

A pass of regular expressions finds the paths that fit at all; the best of those by a cheap rank get
an exact score. So 100,000 paths are searched in less time than two key presses are apart. Where the
paths come from is `files`.
"""

import heapq
import re
from collections.abc import Sequence
from dataclasses import dataclass

SCORED = 1_000
"""How many paths get an exact score; a query of one letter fits nearly all."""

BOUNDARIES = frozenset("/_-. ")

# What a letter that fits is worth, by where it stands; gaps cost. The proportions are those that
# fuzzy finders have settled on.
LETTER = 16
AT_NAME = 12
AT_BOUNDARY = 8
AT_CAPITAL = 7
TOGETHER = 10
GAP_BEGINS = 3
GAP_GOES_ON = 1
LONGEST_GAP = 12
IN_NAME = 1


@dataclass(frozen=True)
class Paths:
    """A list of paths, ready to be searched."""

    given: tuple[str, ...] = ()
    lowered: tuple[str, ...] = ()

    @classmethod
    def of(cls, paths: Sequence[str]) -> "Paths":
        """Prepares a list; costs about as much as one search."""
        return cls(tuple(paths), tuple(path.lower() for path in paths))

    def matching(self, query: str) -> "Paths":
        """The paths that hold the query's letters in order. A longer query's are among them."""
        wanted = _letters(query)
        if not wanted:
            return self
        fits = _in_order(wanted).match
        found = [number for number, path in enumerate(self.lowered) if fits(path)]
        return Paths(
            tuple(self.given[number] for number in found),
            tuple(self.lowered[number] for number in found),
        )

    def best(self, query: str, limit: int) -> list[str]:
        """At most `limit` of the paths that fit, the likeliest first."""
        wanted = _letters(query)
        fitting = self.matching(query)
        if not wanted:
            ranked = ((path.count("/", 0, -1), len(path), path) for path in fitting.given)
            return [path for *_, path in heapq.nsmallest(limit, ranked)]
        likely = fitting._likeliest(wanted)
        scored = ((-score(path, wanted), len(path), path) for path in likely)
        return [path for *_, path in heapq.nsmallest(limit, scored)]

    def _likeliest(self, wanted: str) -> Sequence[str]:
        if len(self.given) <= SCORED:
            return self.given
        starts = _at_starts(wanted)
        ranked = (
            (_rank(lowered, wanted, starts), len(path), path)
            for path, lowered in zip(self.given, self.lowered, strict=True)
        )
        return [path for *_, path in heapq.nsmallest(SCORED, ranked)]


def score(path: str, wanted: str) -> int:
    """How well `wanted`, in lower case, fits a path that holds its letters in order: the best of
    all the ways to lay it over the path. Letters count more at the start of the file's name, of a
    word or of a folder (the first letter twice as much), and beside each other."""
    lowered = path.lower()
    if len(lowered) != len(path):  # a few letters change their length; capitals do not matter then
        path = lowered
    name = _name_at(path)
    ways: dict[int, int] = {-1: 0}
    for letter in wanted:
        ways = _laid(ways, letter, path, lowered, name)
        if not ways:
            return -len(path)
    return max(ways.values())


def _laid(ways: dict[int, int], letter: str, path: str, lowered: str, name: int) -> dict[int, int]:
    """Where the next letter may lie, with the best score so far for each place."""
    following: dict[int, int] = {}
    first = min(ways)
    at = lowered.find(letter, first + 1)
    while at >= 0:
        best = max(
            (worth - _gap(at - before, before) for before, worth in ways.items() if before < at),
            default=None,
        )
        if best is not None:
            beside = TOGETHER if at - 1 in ways and at > 0 else 0
            joined = ways[at - 1] + beside if beside else best
            bonus = _bonus(path, at, name) * (2 if first < 0 else 1)
            following[at] = max(best, joined) + LETTER + bonus
        at = lowered.find(letter, at + 1)
    return following


def _gap(distance: int, before: int) -> int:
    if before < 0 or distance == 1:
        return 0
    return GAP_BEGINS + GAP_GOES_ON * min(distance - 2, LONGEST_GAP)


def _bonus(path: str, at: int, name: int) -> int:
    inside = IN_NAME if at >= name else 0
    if at == name:
        return AT_NAME + inside
    before = path[at - 1] if at else "/"
    if before in BOUNDARIES:
        return AT_BOUNDARY + inside
    if path[at].isupper() and before.islower():
        return AT_CAPITAL + inside
    return inside


def _name_at(path: str) -> int:
    """Where the last name of a path begins; a folder ends in `/`."""
    return path.rfind("/", 0, -1) + 1


def _letters(query: str) -> str:
    return query.lower().replace(" ", "")


def _in_order(wanted: str) -> re.Pattern[str]:
    """Fits what holds the letters in order. Possessive, so that no path is looked at twice."""
    return re.compile("".join(f"[^{re.escape(c)}]*+{re.escape(c)}" for c in wanted), re.DOTALL)


def _at_starts(wanted: str) -> re.Pattern[str]:
    """Fits where every letter begins a word: `tcr` in `tests/cli/render.py`."""
    first, *others = map(re.escape, wanted)
    return re.compile(rf"(?:^|[/_\-. ]){first}" + "".join(rf".*?[/_\-. ]{c}" for c in others))


def _rank(path: str, wanted: str, starts: re.Pattern[str]) -> int:
    at = path.rfind(wanted)
    if at >= 0:
        name = _name_at(path)
        return 0 if at == name else 1 if at > name else 3
    return 2 if starts.search(path) else 4
