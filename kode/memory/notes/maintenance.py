"""Merges old notes and removes expired ones, at most once a day, the oldest first.

Only volatile notes without a lifetime are merged, a week after they were written: a note with one
is kept for as long. They are joined in batches of five of one place and one sensitivity. What a
team shares is not merged: each member would do it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from kode.memory.fold import View
from kode.memory.notes.layout import (
    MAX_EVIDENCE,
    MAX_TAGS,
    confidence,
    evidence,
    expires_at,
    is_active,
    make_details,
    stability,
    tags,
)
from kode.memory.policy import OpenMemory
from kode.memory.statement import Author, Change, Statement, statement_by, timestamp

MERGE_AFTER = timedelta(days=7)
EVERY = timedelta(days=1)
BATCH = 5  # as document 004 has it
MERGE, PRUNE = "merge", "prune"
"""The kinds of the changes."""


async def tidy_up(memory: OpenMemory) -> list[Change]:
    """Merges, and then removes what has expired, if it is due; returns the changes, which are made
    together. Raises: MemoryRefused, StorageError, BusyError."""

    def make(view: View) -> list[Change]:
        since = timestamp(memory.context.now() - EVERY)
        recent = (change for change in reversed(view.changes) if change.at > since)
        if any(change.kind in (MERGE, PRUNE) for change in recent):
            return []
        notes = [note for place in _places(memory) for note in view.current(place)]
        return [*_merges(memory, notes), *_prunes(memory, notes)]

    return await memory.store.commit(make)


def _places(memory: OpenMemory) -> list[str]:
    return [*memory.store.fact_places(), *memory.store.record_places()]


def due_batches(notes: Iterable[Statement], before: str) -> list[list[Statement]]:
    """The notes claimed `before` a time that may become one, in batches of two to five."""
    groups = defaultdict[tuple[str, bool], list[Statement]](list)
    for note in sorted(notes, key=lambda note: (note.claimed_at, note.id)):
        is_due = note.claimed_at <= before and note.kind in ("log", "summary")
        if is_due and stability(note) == "volatile" and not expires_at(note):
            groups[place_of_merged(note), note.private].append(note)
    batches = [
        group[at : at + BATCH] for group in groups.values() for at in range(0, len(group), BATCH)
    ]
    return [batch for batch in batches if len(batch) > 1]


def place_of_merged(note: Statement) -> str:
    """The place of summaries beside that of a note."""
    base, _, *project = note.place.split("/")
    return "/".join((base, "summary", *project))


def merge(notes: Sequence[Statement], at: str) -> Statement:
    """One summary of a batch: what its parts said, one below the other. It is as new as the newest
    of them, and lasts."""
    details = make_details(
        tags=sorted({tag for note in notes for tag in tags(note)})[:MAX_TAGS],
        evidence=[line for note in notes for line in evidence(note)][:MAX_EVIDENCE],
        confidence=min(map(confidence, notes)),
        degraded=True,
    )
    return statement_by(
        Author("session"),
        place_of_merged(notes[0]),
        "\n\n".join(dict.fromkeys(note.text for note in notes)),
        at,
        kind="summary",
        project=notes[0].project,
        private=notes[0].private,
        replaces=tuple(note.id for note in notes),
        details=details,
    )


def _merges(memory: OpenMemory, notes: Sequence[Statement]) -> list[Change]:
    before = timestamp(memory.context.now() - MERGE_AFTER)
    changes = []
    own = [note for note in notes if not memory.layout.is_shared(note.place)]
    for batch in due_batches(own, before):
        merged = merge(batch, max(note.claimed_at for note in batch))
        draft = memory.store.draft(MERGE, Author("session"))
        changes.append(replace(draft, add=(merged,), end=merged.replaces))
    return changes


def _prunes(memory: OpenMemory, notes: Sequence[Statement]) -> list[Change]:
    now = memory.context.now()
    expired = tuple(note.id for note in notes if not is_active(note, now))
    draft = memory.store.draft(PRUNE, Author("session"))
    return [replace(draft, end=expired)] if expired else []
