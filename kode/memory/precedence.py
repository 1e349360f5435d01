"""Decides which of two contradicting statements counts: by source, then by time.

A newer statement of the same or a higher rank replaces the older one, which the history keeps as
superseded. A newer one of a lower rank does not: both stay, and the pair waits for the person.
Whether two statements contradict each other is decided elsewhere: by a model, or by a tool that
replaced one with the other.
"""

from enum import IntEnum
from pathlib import Path

from kode.memory import source, terms
from kode.memory.change import Author, Change
from kode.memory.ledger import JUDGED, Statement, brings_newer


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


def outranks(newer: Statement, older: Statement, project: Path) -> bool:
    """The same for two statements that are there."""
    return supersedes(rank(newer, project, older.text), rank(older, project, newer.text))


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


def rank(statement: Statement, project: Path, other: str = "") -> Rank:
    """By the changes that began and confirmed a statement. One without a change was written by
    hand; one whose cited lines changed no longer rests on code. `project` is the base of relative
    paths; `other` is the statement it contradicts."""
    ranks, seen, left = list[Rank](), set[int](), [statement]
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        change = one.change
        if change is None:
            ranks.append(Rank.SAID)
            continue
        same = [part for part in one.made_of if part.place == one.place]
        is_new = not same or (brings_newer(change) and change.before[-1] == one.entry.key)
        if is_new or change.kind not in JUDGED:
            ranks.append(_rank_by(change, one.text, other, project))
        # What remains of a merged pair stands for both.
        left += one.made_of if change.kind == "merge" else [] if is_new else same
    return max(ranks)


def _rank_by(change: Change, text: str, other: str, project: Path) -> Rank:
    rank = source_rank(change, text, other)
    if rank is not Rank.READ:
        return rank
    now = source.state(project, change.source, change.source_hash)
    return Rank.FOUND if now in ("changed", "gone") else rank


def _is_said(words: str, text: str, other: str) -> bool:
    """Whether the person's prompt of that turn contains at least half of the words that distinguish
    a text from the other."""
    telling = (
        terms.telling(text) - terms.telling(other)
        or frozenset(terms.terms_of(text)) - frozenset(terms.terms_of(other))
        or terms.telling(text)
    )
    return bool(telling) and 2 * len(telling.intersection(terms.terms_of(words))) >= len(telling)
