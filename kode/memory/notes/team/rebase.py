"""A change that was made from notes as they no longer are: what of it still holds, so that neither
side is lost. Values only.

A new text always comes in. What a colleague has changed meanwhile stays as they left it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kode.memory.notes.note import Note

ADDS_NOTHING = ("merge", "prune")
"""Kinds of changes that kode makes by itself: where a colleague was first, theirs is enough."""


@dataclass(frozen=True)
class Sides:
    """The notes that a change finds, and those it leaves."""

    before: tuple[Note, ...]
    after: tuple[Note, ...]

    @property
    def ids(self) -> set[str]:
        return {note.id for note in (*self.before, *self.after)}

    @property
    def fresh(self) -> list[Note]:
        """Those that were not there before."""
        known = {note.id for note in self.before}
        return [note for note in self.after if note.id not in known]

    def holds(self, now: Mapping[str, Note]) -> bool:
        """Whether all is as the change found it."""
        return all(now.get(note.id) == note for note in self.before) and not any(
            note.id in now for note in self.fresh
        )


def is_shared(note: Note) -> bool:
    """Whether a note is the team's. What is sensitive, who kode is for one person, and what was
    done in one person's sessions stay on their machine."""
    return not note.sensitive and note.kind != "soul" and note.job_id is None


def shared(before: Sequence[Note], after: Sequence[Note]) -> Sides:
    """What of a change is the team's; a note that is as it was is no part of it."""
    one, other = ({note.id: note for note in side if is_shared(note)} for side in (before, after))
    same = {id for id, note in one.items() if other.get(id) == note}
    return Sides(
        tuple(note for id, note in one.items() if id not in same),
        tuple(note for id, note in other.items() if id not in same),
    )


def rebase(kind: str, made: Sides, now: Mapping[str, Note], new_id: Callable[[], str]) -> Sides:
    """The change as it is made of the notes that stand now, by id; empty when nothing is left of
    it. `new_id` gives an id that no note has."""
    if made.holds(now):
        return made
    if kind in ADDS_NOTHING:
        return Sides((), ())
    was = {note.id: note for note in made.before}
    left = {note.id for note in made.after}
    untouched = {id for id, note in was.items() if now.get(id) == note}
    # Part of what was to be forgotten would be left without what it belongs to.
    if any(id not in untouched for id in was if id not in left):
        untouched &= left
    after = [
        kept
        for note in made.after
        if (
            kept := _rebase_note(
                note, was.get(note.id), now, new_id, is_untouched=note.id in untouched
            )
        )
    ]
    return Sides(tuple(note for note in made.before if note.id in untouched), tuple(after))


def _rebase_note(
    note: Note,
    was: Note | None,
    now: Mapping[str, Note],
    new_id: Callable[[], str],
    *,
    is_untouched: bool,
) -> Note | None:
    """What becomes of one note that the change leaves."""
    stands = now.get(note.id)
    if is_untouched or (was is None and stands is None):
        return note
    known = {one.content for one in (was, stands) if one is not None}
    if note.content in known:
        return None  # only its marks had changed, and theirs count
    return note if stands is None else replace(note, id=new_id())
