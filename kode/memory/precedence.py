"""Decides which of two contradicting statements counts: by source, then by time.

A newer statement of the same or a higher rank replaces the older one, which the history keeps as
superseded. A newer one of a lower rank does not: both stay, and the pair waits for the person.
Whether two statements contradict each other is decided elsewhere: by a model, or by a tool that
replaced one with the other.
"""

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from kode.memory import source, terms
from kode.memory.history import Author, Change, History


class Rank(IntEnum):
    """The weight of a statement, by its source."""

    OUTSIDE = 0
    """Said by another agent."""
    FOUND = 1
    """By the model, without recorded grounds; by an import, a tool, a consolidation."""
    READ = 2
    """By the model, citing lines of code."""
    SAID = 3
    """By the person: typed, edited in the file, or stored by the model, in the session or at its
    end, from their own words."""

    @property
    def label(self) -> str:
        """The source in a few words, for a person."""
        return _LABELS[self]


_LABELS = {
    Rank.OUTSIDE: "another agent said so",
    Rank.FOUND: "found by the model, imported or summarized",
    Rank.READ: "read in code",
    Rank.SAID: "you said so",
}


def supersedes(newer: Rank, older: Rank) -> bool:
    """Whether a newer statement replaces an older one that it contradicts."""
    return newer >= older


def source_rank(change: Author | Change, text: str, other: str = "") -> Rank:
    """The rank of a text by its author. `other` is the statement it contradicts: then the words
    that differ decide whether the person said it."""
    if change.who == "client":
        return Rank.OUTSIDE
    if change.who == "user":
        return Rank.SAID if change.source_hash or not change.source else Rank.FOUND
    if change.who in ("model", "extraction") and _is_said(change.words, text, other):
        return Rank.SAID
    return Rank.READ if change.source_hash else Rank.FOUND


@dataclass(frozen=True)
class Standing:
    """The ranks of the current entries in one file of a system."""

    history: History
    system: str
    target: str
    project: Path
    """Base of relative paths of cited code."""

    def rank(self, text: str, other: str = "") -> Rank:
        """By the changes that created and confirmed an entry. One without a change was written by
        hand; one whose cited lines changed no longer rests on code."""
        return self._rank(text, other, {text})

    def _rank(self, text: str, other: str, seen: set[str]) -> Rank:
        """`seen` are the texts already visited."""
        ranks: list[Rank] = []
        for change in self.history.naming(self.system, text):
            if change.target != self.target or text not in change.after:
                continue
            is_new = text not in change.before or (
                brings_newer(change) and change.before[-1] == text
            )
            if is_new or change.kind not in (*JUDGED, "archive"):
                ranks.append(self._rank_by(change, text, other))
            if change.kind == "merge":
                # The remainder of a merged pair represents both.
                for part in set(change.before) - seen:
                    seen.add(part)
                    ranks.append(self._rank(part, other, seen))
            if is_new:
                return max(ranks)
        return Rank.SAID

    def _rank_by(self, change: Change, text: str, other: str) -> Rank:
        rank = source_rank(change, text, other)
        if rank is not Rank.READ:
            return rank
        now = source.state(self.project, change.source, change.source_hash)
        return Rank.FOUND if now in ("changed", "gone") else rank


JUDGED = frozenset({"merge", "supersede"})
"""Kinds of changes in which a model chose between two texts; `before` ends with the newer."""


def brings_newer(change: Change) -> bool:
    """Whether this change itself wrote the newer of the two texts."""
    return change.kind in JUDGED and change.who in ("user", "model", "extraction")


def _is_said(words: str, text: str, other: str) -> bool:
    """Whether the person's prompt of that turn contains at least half of the words that distinguish
    a text from the other."""
    telling = (
        terms.telling(text) - terms.telling(other)
        or frozenset(terms.terms_of(text)) - frozenset(terms.terms_of(other))
        or terms.telling(text)
    )
    return bool(telling) and 2 * len(telling.intersection(terms.terms_of(words))) >= len(telling)
