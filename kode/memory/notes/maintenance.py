"""Merging what is a week old, then pruning what has expired: at most once a day, oldest first.

Only volatile notes without a lifetime are merged: one that was given a lifetime is kept for as
long, and then pruned. They are joined in batches of five, within one user, scope, sensitivity and
trust. Each merge is written as soon as it is made, so that a short run keeps what it has done.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from kode.memory.change import Author
from kode.memory.notes.database import LAST_MAINTENANCE
from kode.memory.notes.note import MAX_EVIDENCE, MAX_TAGS, Note, stamp, union
from kode.memory.notes.store import NoteStore

MERGE_AFTER = timedelta(days=7)
EVERY = timedelta(days=1)
BATCH = 5
MOST_NOTES = 500
"""A run looks at so many; the rest waits for the next."""


async def run(store: NoteStore, author: Author) -> list[Note]:
    """Merges, then prunes, if it is due; returns what it merged notes into. Raises: MemoryRefused,
    StorageError, BusyError."""
    made: list[Note] = []
    last = store.database.meta(LAST_MAINTENANCE)
    if last > stamp(store.now() - EVERY):
        return made
    is_done = False
    while not is_done:
        async with store.writing():
            batches = due_batches(store)[:1]
            made += [merge(store, batch, author) for batch in batches]
        is_done = not batches
    async with store.writing():
        prune_expired(store, author)
        store.database.set_meta(LAST_MAINTENANCE, stamp(store.now()))
    return made


def due_batches(store: NoteStore) -> list[list[Note]]:
    """The notes that are due for merging, in batches that may become one each."""
    old = store.select(
        "WHERE n.user = :user AND n.superseded_by IS NULL AND n.stability = 'volatile' "
        "AND n.expires_at IS NULL AND n.kind IN ('log', 'summary') AND n.created_at <= :old "
        "ORDER BY n.created_at, n.id LIMIT :most",
        {"user": store.user, "old": stamp(store.now() - MERGE_AFTER), "most": MOST_NOTES},
    )
    groups: dict[tuple[str, str, str], list[Note]] = {}
    for note in old:
        groups.setdefault((note.scope, note.sensitivity, note.untrusted), []).append(note)
    return [
        batch
        for group in groups.values()
        for at in range(0, len(group), BATCH)
        if len(batch := group[at : at + BATCH]) > 1
    ]


def merge(store: NoteStore, notes: Sequence[Note], author: Author) -> Note:
    """Inside `writing`: the notes of a batch become one summary that supersedes them. Raises:
    MemoryRefused, StorageError."""
    # Not scanned again: each part was, and side by side two harmless ones are still harmless.
    merged = Note(
        id=store.free_id(store.now()),
        content="\n\n".join(dict.fromkeys(note.content for note in notes)),
        kind="summary",
        user=notes[0].user,
        scope=notes[0].scope,
        tags=tuple(sorted(union(note.tags for note in notes)))[:MAX_TAGS],
        confidence=min(note.confidence for note in notes),
        sensitivity=notes[0].sensitivity,
        evidence=union(note.evidence for note in notes)[:MAX_EVIDENCE],
        created_at=max(note.created_at for note in notes),
        untrusted=notes[0].untrusted,
        degraded=True,
        who=author.who,
    )
    after = [replace(note, superseded_by=merged.id) for note in notes]
    reason = f"merged {len(notes)} notes of {notes[0].created_at[:10]} and later into one"
    store.commit("merge", notes, [*after, merged], author, reason)
    return merged


def prune_expired(store: NoteStore, author: Author) -> int:
    """Inside `writing`: deletes what has expired with all that it had replaced, and what replaced
    notes point to nothing; returns how many. Raises: MemoryRefused, StorageError."""
    values = {"user": store.user, "now": stamp(store.now()), "most": MOST_NOTES}
    expired = store.select(
        "WHERE n.user = :user AND n.stability <> 'permanent' AND n.expires_at <= :now "
        "ORDER BY n.expires_at, n.id LIMIT :most",
        values,
    )
    orphans = store.select(
        "WHERE n.user = :user AND n.superseded_by IS NOT NULL AND NOT EXISTS "
        "(SELECT 1 FROM memory_notes m WHERE m.id = n.superseded_by) ORDER BY n.id LIMIT :most",
        values,
    )
    found = {note.id: note for note in (*expired, *orphans)}
    gone = {**found, **{note.id: note for note in store.earlier(found)}}
    if gone:
        store.commit("prune", list(gone.values()), (), author, f"{len(gone)} notes had expired")
    return len(gone)
