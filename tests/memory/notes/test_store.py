"""Which notes are wanted, and changing them."""

import pytest

from kode.config import MemoryConfig
from kode.errors import MemoryRefused
from kode.memory.notes.store import Wanted
from tests.memory.notes.life import Clock, active, contents, keep, opened


async def test_active_notes_come_newest_first_and_at_most_fifty(tmp_path):
    system = await opened(tmp_path)
    await keep(system, *(f"note {n}" for n in range(60)))

    found = system.store.get(Wanted(kinds=("log",)))

    assert contents(found) == [f"note {n}" for n in range(59, 9, -1)]


async def test_notes_of_one_moment_are_ordered_by_id(tmp_path):
    system = await opened(tmp_path)
    for n in range(5):
        await system.writer.remember(f"note {n}")

    found = active(system)

    assert len({note.created_at for note in found}) == 1
    assert [note.id for note in found] == sorted((note.id for note in found), reverse=True)


async def test_an_expired_note_is_gone_from_the_very_moment(tmp_path):
    clock = Clock()
    system = await opened(tmp_path, clock=clock)
    await keep(system, "staging is down", stability="volatile", ttl_days=1)

    clock.pass_(hours=23, minutes=59)
    before = active(system)
    clock.pass_(minutes=1)

    assert len(before) == 1
    assert active(system) == []


async def test_limits_count_after_filters(tmp_path):
    system = await opened(tmp_path)
    await keep(system, *(f"open {n}" for n in range(15)))
    await keep(system, *(f"secret {n}" for n in range(10)), sensitivity="sensitive")

    found = system.store.get(Wanted(kinds=("log",), limit=20))

    assert contents(found) == [f"open {n}" for n in range(14, -1, -1)]


async def test_any_wanted_tag_matches_and_a_spoiled_row_has_none(tmp_path):
    system = await opened(tmp_path)
    await keep(system, "a", tags=("style", "python"))
    await keep(system, "b", tags=("ops",))
    await keep(system, "c")
    spoiled = (await keep(system, "d", tags=("ops",)))[0]
    with system.database.transaction():
        system.database.rows("UPDATE memory_notes SET tags = '{oops' WHERE id = ?", (spoiled.id,))

    either = system.store.get(Wanted(tags=("ops", "python")))
    everything = {note.content: note.tags for note in active(system)}

    assert contents(either) == ["b", "a"]
    assert everything["d"] == ()


async def test_notes_of_a_project_are_seen_only_there(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    system = await opened(tmp_path, cwd=here)
    await keep(system, "uses tox", in_project=True)
    await keep(system, "likes tabs")
    await system.close(1)

    elsewhere = await opened(tmp_path, cwd=there)

    assert contents(active(elsewhere)) == ["likes tabs"]


async def test_a_note_of_another_user_is_not_there(tmp_path):
    ada = await opened(tmp_path, config=MemoryConfig.model_validate({"notes": {"user": "ada"}}))
    note = (await keep(ada, "likes tabs"))[0]
    bob = await opened(tmp_path, config=MemoryConfig.model_validate({"notes": {"user": "bob"}}))

    assert active(bob) == []
    with pytest.raises(MemoryRefused):
        await bob.writer.update(note.id, "likes spaces")
    with pytest.raises(MemoryRefused):
        await bob.writer.forget(note.id)
    assert contents(active(ada)) == ["likes tabs"]


async def test_the_unique_beginning_of_an_id_is_enough(tmp_path):
    clock = Clock()
    system = await opened(tmp_path, clock=clock)
    first = (await keep(system, "one"))[0]
    clock.pass_(days=300)
    await keep(system, "two")

    assert system.store.find(first.id[:-2]) == first
    with pytest.raises(MemoryRefused):
        system.store.find("19")
    with pytest.raises(MemoryRefused):
        system.store.find("ffffffff")


async def test_an_update_changes_only_text_and_links_the_old_note(tmp_path):
    clock = Clock()
    system = await opened(tmp_path, clock=clock)
    old = (
        await keep(
            system,
            "pin is in the safe",
            kind="rule",
            confidence=0.9,
            evidence=("said so",),
            sensitivity="sensitive",
            stability="volatile",
            ttl_days=10,
            tags=("home",),
        )
    )[0]
    clock.pass_(days=1)

    outcome = await system.writer.update(old.id, "pin is in the drawer")

    new = outcome.note
    assert new.sensitive
    assert (new.expires_at, new.evidence, new.tags) == (old.expires_at, old.evidence, old.tags)
    assert system.store.by_ids([old.id])[old.id].superseded_by == new.id
    assert contents(active(system)) == ["pin is in the drawer"]
    assert "drawer" not in outcome.line


async def test_an_update_of_a_replaced_note_names_the_current_one(tmp_path):
    system = await opened(tmp_path)
    old = (await keep(system, "one"))[0]
    new = (await system.writer.update(old.id, "two")).note

    with pytest.raises(MemoryRefused, match=new.id):
        await system.writer.update(old.id, "three")


async def test_one_soul_is_active_and_its_changes_can_be_undone(tmp_path):
    system = await opened(tmp_path)
    await system.writer.update_soul("I am terse.")
    await system.writer.update_soul("I am terse and kind.")

    (soul,) = active(system, "soul")
    assert soul.content == "I am terse and kind."
    assert system.store.count("n.kind = 'soul'") == 3

    await system.undo_change(next(system.history.standing("notes")))
    assert contents(active(system, "soul")) == ["I am terse."]
    await system.undo_change(next(system.history.standing("notes")))
    assert len(active(system, "soul")) == 1


async def test_a_second_start_makes_no_second_soul(tmp_path):
    first = await opened(tmp_path)
    await first.close(1)

    second = await opened(tmp_path)

    (soul,) = active(second, "soul")
    assert soul.stability == "permanent"
    assert second.store.count("n.kind = 'soul'") == 1


async def test_a_transaction_that_fails_changes_nothing(tmp_path, monkeypatch):
    system = await opened(tmp_path)
    await system.writer.update_soul("I am terse.")

    def full(change, marker):
        raise MemoryRefused("the disk is full")

    monkeypatch.setattr(system.history, "append", full)
    with pytest.raises(MemoryRefused, match="full"):
        await system.writer.update_soul("I am someone else.")

    assert contents(active(system, "soul")) == ["I am terse."]


@pytest.mark.parametrize("what", ["remember", "update", "forget", "soul"])
async def test_every_change_can_be_undone_and_the_undoing_too(tmp_path, what):
    system = await opened(tmp_path)
    note = (await keep(system, "likes tabs"))[0]
    before = system.store.everything()
    match what:
        case "remember":
            outcome = await system.writer.remember("lives in Lisbon", sensitivity="sensitive")
        case "update":
            outcome = await system.writer.update(note.id, "likes spaces")
        case "forget":
            outcome = await system.writer.forget(note.id)
        case _:
            outcome = await system.writer.update_soul("I am terse.")
    changed = system.store.everything()

    undo = await system.writer.undo(system.history.find(outcome.change_id)[0])
    undone = system.store.everything()
    await system.writer.undo(system.history.find(undo.change_id)[0])

    assert undone == before
    assert system.store.everything() == changed != before


async def test_undoing_what_was_changed_since_says_so_and_changes_nothing(tmp_path):
    system = await opened(tmp_path)
    first = await system.writer.remember("one")
    await system.writer.update(first.note.id, "two")
    before = system.store.everything()

    with pytest.raises(MemoryRefused):
        await system.writer.undo(system.history.find(first.change_id)[0])

    assert system.store.everything() == before


async def test_a_forgotten_note_is_nowhere_in_the_database(tmp_path):
    system = await opened(tmp_path)
    note = (await keep(system, "zanzibar is the codename"))[0]
    await system.vectors.make_missing()

    await system.writer.forget(note.id)

    counts = [
        system.database.value(f"SELECT count(*) FROM {table} WHERE place > 1")
        for table in ("note_terms", "note_vectors")
    ]
    assert counts == [0, 0]
    assert await system.search("zanzibar", 5) == []
    await system.close(1)
    assert b"zanzibar" not in system.database.path.read_bytes()


async def test_the_same_note_twice_is_known(tmp_path):
    system = await opened(tmp_path)
    await keep(system, "likes tabs")

    outcome = await system.writer.remember("  likes tabs ")

    assert outcome.change_id == ""
    assert len(active(system)) == 1


async def test_two_processes_that_draw_the_same_id_keep_both_notes(tmp_path, monkeypatch):
    system = await opened(tmp_path)
    monkeypatch.setattr("kode.memory.notes.note.secrets.randbits", lambda bits: 7)

    for text in ("of the first", "of the second"):
        monkeypatch.setattr("kode.memory.notes.note._last_ids", {})  # as a new process begins
        await system.writer.remember(text)

    assert sorted(contents(active(system))) == ["of the first", "of the second"]
