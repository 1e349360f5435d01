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
        matches = [number for number, path in enumerate(self.lowered) if fits(path)]
        return Paths(
            tuple(self.given[number] for number in matches),
            tuple(self.lowered[number] for number in matches),
        )

    def best(self, query: str, limit: int) -> list[str]:
        """At most `limit` matching paths, the likeliest first."""
        wanted = _letters(query)
        fitting = self.matching(query)
        if not wanted:
            ranked = ((path.count("/", 0, -1), len(path), path) for path in fitting.given)
            return [path for *_, path in heapq.nsmallest(limit, ranked)]
        pattern = re.compile(".*?".join(map(re.escape, wanted)), re.DOTALL)
        likely = (
            (*_rank(lowered, wanted, pattern), len(path), path)
            for path, lowered in zip(fitting.given, fitting.lowered, strict=True)
        )
        return [path for *_, path in heapq.nsmallest(limit, likely)]


def _rank(lowered: str, wanted: str, pattern: re.Pattern[str]) -> tuple[int, int]:
    """How likely a path is meant, 0 most: by where it has the letters, and how far apart."""
    name = lowered.rfind("/", 0, -1) + 1  # a folder ends in `/`
    position = lowered.rfind(wanted)
    if position >= 0:
        is_start = position == name or not lowered[position - 1 : position].isalnum()
        return (0 if position == name else 1 if is_start else 2 if position > name else 3), 0
    match = pattern.search(lowered, name) or pattern.search(lowered)
    return 4, len(match[0]) if match else len(lowered)


def _letters(query: str) -> str:
    return query.lower().replace(" ", "")


def _in_order(wanted: str) -> re.Pattern[str]:
    """Matches the letters in order. Possessive, so that no path is scanned twice."""
    return re.compile("".join(f"[^{re.escape(c)}]*+{re.escape(c)}" for c in wanted), re.DOTALL)
