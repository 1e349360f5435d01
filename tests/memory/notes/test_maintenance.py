"""Merging, then pruning, once a day."""

from dataclasses import replace

import pytest

from kode.memory.change import Author
from kode.memory.notes.maintenance import due_batches, merge, prune_expired
from tests.memory.notes.life import Clock, active, contents, keep, opened
from tests.memory.notes.test_system import NeuralEmbedder, with_embedder

AUTHOR = Author(who="merge")


async def old_notes(tmp_path, count, *, days=8, **fields):
    clock = Clock()
    system = await opened(tmp_path, clock=clock)
    fields = {"stability": "volatile", **fields}
    notes = await keep(system, *(f"event {n}" for n in range(count)), **fields)
    clock.pass_(days=days)
    return system, clock, notes


@pytest.mark.parametrize(
    ("count", "sizes"), [(12, [5, 5, 2]), (11, [5, 5]), (2, [2]), (1, []), (0, [])]
)
async def test_old_volatile_notes_merge_in_fives_oldest_first(tmp_path, count, sizes):
    system, _, notes = await old_notes(tmp_path, count)

    batches = due_batches(system.store)
    await system.maintain()

    assert [len(batch) for batch in batches] == sizes
    assert [note.id for batch in batches for note in batch] == [
        note.id for note in notes[: sum(sizes)]
    ]
    merged = active(system, "summary")
    assert len(merged) == len(sizes)
    assert len(active(system, "log")) == count - sum(sizes)
    assert {note.stability for note in merged} <= {"stable"}


async def test_a_merge_joins_its_originals_which_point_to_it(tmp_path):
    system = await opened(tmp_path)
    notes = [
        *await keep(system, "one", tags=("b",), confidence=0.9),
        *await keep(system, "two", tags=("a",), evidence=("seen",)),
        *await keep(system, "three", tags=("b", "c")),
    ]
    async with system.store.writing():
        merged = merge(system.store, notes, AUTHOR)

    assert merged.content == "one\n\ntwo\n\nthree"
    assert (merged.kind, merged.tags) == ("summary", ("a", "b", "c"))
    assert (merged.confidence, merged.evidence) == (0.9, ("seen",))
    found = system.store.by_ids(note.id for note in notes)
    assert {note.superseded_by for note in found.values()} == {merged.id}
    assert contents(active(system)) == [merged.content]


async def test_maintenance_never_mixes_sensitive_with_normal(tmp_path):
    system, _, _ = await old_notes(tmp_path, 0, days=0)
    clock = system._context.now
    for sensitivity in ("normal", "sensitive"):
        await keep(
            system,
            *(f"{sensitivity} {n}" for n in range(4)),
            stability="volatile",
            sensitivity=sensitivity,
        )
    clock.pass_(days=7)

    await system.maintain()

    merged = {note.sensitivity: note.content for note in active(system, "summary")}
    assert set(merged) == {"normal", "sensitive"}
    assert "sensitive" not in merged["normal"]


@pytest.mark.parametrize(("ttl_days", "days", "left"), [(30, 8, 5), (30, 30, 0), (7, 7, 0)])
async def test_a_lifetime_is_kept_to_its_end_and_then_ended(tmp_path, ttl_days, days, left):
    system, _, notes = await old_notes(tmp_path, 5, days=days, ttl_days=ttl_days)

    await system.maintain()

    assert contents(active(system))[::-1] == [note.content for note in notes][:left]
    assert system.store.count("n.kind <> 'soul'") == left


async def test_an_expired_note_takes_along_those_it_replaced(tmp_path):
    system, clock, (old,) = await old_notes(tmp_path, 1, days=0)
    (new,) = await keep(system, "instead", stability="volatile", ttl_days=1)
    async with system.store.writing():
        system.store.apply([old], [replace(old, superseded_by=new.id)])
    clock.pass_(days=2)

    await system.maintain()

    assert system.store.count("n.kind <> 'soul'") == 0


async def test_a_note_that_points_to_nothing_is_pruned(tmp_path):
    system, _, (old,) = await old_notes(tmp_path, 1, days=0)
    async with system.store.writing():
        system.store.apply([old], [replace(old, superseded_by="gone")])

    await system.maintain()

    assert system.store.by_ids([old.id]) == {}


async def test_an_expired_note_is_not_revived_by_a_merge(tmp_path):
    system, _, _ = await old_notes(tmp_path, 5, days=8, ttl_days=1)

    await system.maintain()

    assert active(system) == []
    assert system.store.count("n.kind <> 'soul'") == 0


async def test_pruning_tells_how_many_and_takes_vectors_and_words_along(tmp_path):
    system, clock, _ = await old_notes(tmp_path, 3, days=0, ttl_days=2)
    await keep(system, "stays")
    await with_embedder(system, NeuralEmbedder()).vectors.make_missing()
    clock.pass_(days=2)

    async with system.store.writing():
        pruned = prune_expired(system.store, AUTHOR)

    rows = [
        system.database.value(f"SELECT count(*) FROM {table}")
        for table in ("memory_notes", "note_vectors", "note_terms")
    ]
    assert pruned == 3
    assert rows == [2, 2, 2]


async def test_it_runs_at_most_once_a_day_in_whichever_process(tmp_path):
    system, clock, _ = await old_notes(tmp_path, 3)
    await system.maintain()
    other = await opened(tmp_path, clock=clock)
    await keep(other, *(f"more {n}" for n in range(3)), stability="volatile", ttl_days=1)
    clock.pass_(hours=23)
    await other.maintain()
    assert other.store.count("n.content LIKE 'more%'") == 3

    clock.pass_(hours=2)
    await other.maintain()

    assert other.store.count("n.content LIKE 'more%'") == 0


async def test_a_merge_and_a_prune_can_be_undone(tmp_path):
    system, clock, _ = await old_notes(tmp_path, 5, days=7)
    await keep(system, "for a day", stability="volatile", ttl_days=1)
    before = system.store.everything()
    await system.maintain()
    clock.pass_(days=2)
    await system.maintain()

    for change in system.history.tail(2).changes:
        await system.undo_change(change)

    assert system.store.everything() == before


async def test_a_merged_note_keeps_the_time_of_its_newest_part(tmp_path):
    system, _, notes = await old_notes(tmp_path, 3)

    await system.maintain()

    (merged,) = active(system, "summary")
    assert merged.created_at == notes[-1].created_at
    assert replace(merged, expires_at=None) == merged
