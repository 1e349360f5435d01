"""Merges old notes and removes expired ones, at most once a day, the oldest first.

Only volatile notes without a lifetime are merged, a week after they were written: a note with one
is kept for as long. They are joined in batches of five of one place and one sensitivity. What a
team shares is not merged: each member would do it.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from kode.memory.fold import View
from kode.memory.notes.layout import (
    MAX_EVIDENCE,
    MAX_TAGS,
    confidence,
    expires_at,
    is_active,
    make_details,
    stability,
    texts,
)
from kode.memory.policy import OpenMemory
from kode.memory.statement import Author, Change, Statement, statement_by, timestamp

MERGE_AFTER, EVERY = timedelta(days=7), timedelta(days=1)
BATCH = 5  # as document 004 has it
MERGE, PRUNE = "merge", "prune"
"""The kinds of the changes."""


async def tidy_up(memory: OpenMemory) -> list[Change]:
    """Merges, and then removes what has expired, if it is due; returns the changes, which are made
    together. Raises: MemoryRefused, StorageError, BusyError."""
    store, now, author = memory.store, memory.context.now(), Author("session")

    def make(view: View) -> list[Change]:
        since = timestamp(now - EVERY)
        if any(c.at > since and c.kind in (MERGE, PRUNE) for c in reversed(view.changes)):
            return []
        places = (*store.fact_places(), *store.record_places())
        notes = [note for place in places for note in view.current(place)]
        due = [
            note
            for note in notes
            if note.claimed_at <= timestamp(now - MERGE_AFTER)
            and note.kind in ("log", "summary")
            and stability(note) == "volatile"
            and not expires_at(note)
            and not memory.layout.is_shared(note.place)
        ]
        merged = map(_merge, _batches(due))
        changes = [
            replace(store.draft(MERGE, author), add=(new,), end=new.replaces) for new in merged
        ]
        expired = tuple(note.id for note in notes if not is_active(note, now))
        return changes + ([replace(store.draft(PRUNE, author), end=expired)] if expired else [])

    return await store.commit(make)


def _batches(notes: Sequence[Statement]) -> list[list[Statement]]:
    """The notes that may become one each, two to five, the oldest first."""
    groups = defaultdict[tuple[str, bool], list[Statement]](list)
    for note in sorted(notes, key=lambda note: (note.claimed_at, note.id)):
        groups[_place_of_merged(note), note.private].append(note)
    batches = [
        group[at : at + BATCH] for group in groups.values() for at in range(0, len(group), BATCH)
    ]
    return [batch for batch in batches if len(batch) > 1]


def _place_of_merged(note: Statement) -> str:
    """The place of summaries beside that of a note."""
    base, _, *project = note.place.split("/")
    return "/".join((base, "summary", *project))


def _merge(notes: Sequence[Statement]) -> Statement:
    """One summary of a batch: what its parts said, one below the other. It is as new as the newest
    of them, and lasts."""
    return statement_by(
        Author("session"),
        _place_of_merged(notes[0]),
        "\n\n".join(dict.fromkeys(note.text for note in notes)),
        max(note.claimed_at for note in notes),
        kind="summary",
        project=notes[0].project,
        private=notes[0].private,
        replaces=tuple(note.id for note in notes),
        details=make_details(
            tags=sorted({tag for note in notes for tag in texts(note, "tags")})[:MAX_TAGS],
            evidence=[line for note in notes for line in texts(note, "evidence")][:MAX_EVIDENCE],
            confidence=min(map(confidence, notes)),
            degraded=True,
        ),
    )
