"""An entry: one remembered thing in its place, by which people and the history name it."""

from collections.abc import Sequence
from dataclasses import dataclass

Place = tuple[str, str]

MIN_ID_CHARS = 4


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One remembered thing in its place."""

    target: str
    """A file or a table, as named in the history."""
    key: str
    """Its key within the target: its text, a note's id, or "" for an entire file."""
    text: str
    """Its text for display."""
    is_fact: bool = True
    """Whether it says what holds, and may be told; else it is a record, a heading, or waits."""
    id: str = ""
    """What a person may call it, besides its text."""
    subject: str = ""
    """What it says something of, where its format names that: the key of a `- Key: value` line."""

    @property
    def place(self) -> Place:
        return self.target, self.key


def find(entries: Sequence[Entry], wanted: str) -> list[Entry]:
    """Finds the entries that a person means: by id, by full text, else by a part of it."""
    wanted = wanted.strip()
    if len(wanted) >= MIN_ID_CHARS:
        named = [entry for entry in entries if entry.id and entry.id.startswith(wanted)]
        if named:
            return [entry for entry in named if entry.id == wanted] or named
    whole = [entry for entry in entries if entry.text == wanted]
    piece = wanted.casefold()
    return whole or [entry for entry in entries if piece and piece in entry.text.casefold()]
