"""Fuzzy search in long lists of paths: letters in order suffice, the likeliest come first.

A regular expression finds the paths that match at all, then those are ranked. So 100,000 paths are
searched in less time than two key presses are apart. `files` supplies the paths.
"""

import heapq
import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Paths:
    """A list of paths, prepared for search."""

    given: tuple[str, ...] = ()
    lowered: tuple[str, ...] = ()

    @classmethod
    def of(cls, paths: Sequence[str]) -> "Paths":
        """Prepares a list; costs about as much as one search."""
        return cls(tuple(paths), tuple(path.lower() for path in paths))

    def matching(self, query: str) -> "Paths":
        """The paths that contain the query's letters in order; a superset of any longer query's."""
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
        """At most `limit` matching paths, the likeliest first."""
        wanted = _letters(query)
        fitting = self.matching(query)
        if not wanted:
            ranked = ((path.count("/", 0, -1), len(path), path) for path in fitting.given)
            return [path for *_, path in heapq.nsmallest(limit, ranked)]
        starts, near = _at_starts(wanted), _near(wanted)
        likely = (
            (*_rank(path, lowered, wanted, starts, near), len(path), path)
            for path, lowered in zip(fitting.given, fitting.lowered, strict=True)
        )
        return [path for *_, path in heapq.nsmallest(limit, likely)]


def _rank(
    path: str, lowered: str, wanted: str, starts: re.Pattern[str], near: re.Pattern[str]
) -> tuple[int, int]:
    """How likely a path is meant, 0 most: by where it has the letters, and how far apart."""
    name = path.rfind("/", 0, -1) + 1  # a folder ends in `/`
    position = lowered.rfind(wanted)
    if position == name:
        return 0, 0
    if position >= 0 and not lowered[position - 1 : position].isalnum():
        return 1, 0
    if starts.search(path):
        return 2, 0
    if position >= 0:
        return (3 if position > name else 4), 0
    match = near.search(lowered, name) or near.search(lowered)
    return 5, len(match[0]) if match else len(path)


def _letters(query: str) -> str:
    return query.lower().replace(" ", "")


def _in_order(wanted: str) -> re.Pattern[str]:
    """Matches the letters in order. Possessive, so that no path is scanned twice."""
    return re.compile("".join(f"[^{re.escape(c)}]*+{re.escape(c)}" for c in wanted), re.DOTALL)


def _near(wanted: str) -> re.Pattern[str]:
    """Matches the letters in order, starting at the first of them."""
    return re.compile(".*?".join(map(re.escape, wanted)), re.DOTALL)


def _at_starts(wanted: str) -> re.Pattern[str]:
    """Matches if every letter begins a word or a camel-case hump: `tcr` in `tests/cli/render.py`,
    `fc` in `FileChooser.java`."""
    begins = "(?<![^/_. -])"
    letters = (
        f"(?:{begins}[{c}{c.upper()}]|(?<=[a-z]){c.upper()})"
        if c.upper() != c
        else f"{begins}{re.escape(c)}"
        for c in wanted
    )
    return re.compile(".*?".join(letters), re.DOTALL)
