"""What a person decides in the review: what changes, what is undone, what waits no more."""

from dataclasses import replace

import pytest

from kode.errors import MemoryRefused, ToolError
from kode.memory.change import Author
from kode.memory.commands import memory_command
from kode.memory.review import chain_of, decide, items_of
from kode.memory.tiered.episode_files import Episode
from kode.memory.tiered.facts import parse
from tests.memory.life import NOON, SESSION, Model, env_file, lived, opened, turn, use, user_file
from tests.memory.notes import life as notes_life
from tests.memory.vault import life as vault_life

OLD, NEW = "the port is 80", "the port is 81"


def facts(root):
    return parse(user_file(root).read_text())


async def waiting(system):
    return [(one.why, tuple(entry.text for entry in one.entries)) for one in await items_of(system)]


async def chosen(system, choice):
    """Decides about the first thing that waits."""
    return await decide(system, (await items_of(system))[0].id, choice)


async def a_contradiction(root):
    system = await opened(root, model=Model(["update"]))
    await memory_command(system, ["add", "user", OLD])
    await system.recall(turn(1, "look it up"))
    await use(system, action="add", target="user", content=NEW)
    return system


@pytest.mark.parametrize(
    ("choice", "kept"), [("first", (OLD,)), ("second", (NEW,)), ("both", (OLD, NEW))]
)
async def test_the_persons_choice_between_two_contradicting_facts_stays(tmp_path, choice, kept):
    system = await a_contradiction(tmp_path)
    assert await waiting(system) == [("conflict", (OLD, NEW))]

    done = await chosen(system, choice)

    assert facts(tmp_path) == kept
    assert await waiting(system) == []
    change = system.history.tail(1).changes[0]
    assert (change.id, change.who, change.before, change.after) == (
        done.change_id,
        "user",
        (OLD, NEW),
        kept,
    )
    await memory_command(system, ["undo", done.change_id])
    assert facts(tmp_path) == (OLD, NEW)
    assert await waiting(system) == [("conflict", (OLD, NEW))]


@pytest.mark.parametrize(
    ("choice", "kept"),
    [("first", ((OLD,), ())), ("second", ((), (NEW,))), ("both", ((OLD,), (NEW,)))],
)
async def test_the_persons_choice_between_two_files_stays(tmp_path, choice, kept):
    system = await opened(tmp_path)
    await memory_command(system, ["add", "user", OLD])
    await memory_command(system, ["add", "env", NEW])
    assert await waiting(system) == [("conflict", (OLD, NEW))]

    done = await chosen(system, choice)

    assert (facts(tmp_path), parse(env_file(tmp_path).read_text())) == kept
    assert await waiting(system) == []
    if choice != "both":
        stays = OLD if choice == "first" else NEW
        assert f'"{stays}" counts instead' in await memory_command(system, ["log"])
        await memory_command(system, ["undo", done.change_id])
    assert (facts(tmp_path), parse(env_file(tmp_path).read_text())) == ((OLD,), (NEW,))


async def test_why_names_the_fact_that_superseded_a_dropped_one(tmp_path):
    system = await a_contradiction(tmp_path)

    await chosen(system, "second")

    assert f'superseded by "{NEW}": settle ' in await memory_command(system, ["why", OLD])


async def test_two_that_were_both_kept_are_not_asked_about_again(tmp_path):
    system = await opened(tmp_path)
    for text in (OLD, NEW):
        await memory_command(system, ["add", "user", text])
    assert await waiting(system) == [("conflict", (OLD, NEW))]

    await chosen(system, "both")

    model = Model(["1: update"])
    await (await opened(tmp_path, model=model)).before_drop(lived("look around"), "exit")
    assert model.asked == []
    assert facts(tmp_path) == (OLD, NEW)


async def a_stale_fact(root, lines="port = 81"):
    (root / "app.py").write_text("port = 80")
    system = await opened(root)
    await use(system, action="add", target="user", content=OLD, source="app.py:1")
    if lines:
        (root / "app.py").write_text(lines)
    else:
        (root / "app.py").unlink()
    return system


@pytest.mark.parametrize("lines", ["port = 81", None])
async def test_a_confirmed_fact_rests_on_the_current_lines(tmp_path, lines):
    system = await a_stale_fact(tmp_path, lines)
    assert await waiting(system) == [("no longer true", (OLD,))]

    done = await chosen(system, "confirm")

    assert await waiting(system) == []
    assert "no longer true" not in (await system.inject("start")).system
    (tmp_path / "app.py").write_text("port = 82")
    assert await waiting(system) == ([("no longer true", (OLD,))] if lines else [])
    await memory_command(system, ["undo", done.change_id])
    assert await waiting(system) == [("no longer true", (OLD,))]


async def test_a_stale_fact_can_be_removed(tmp_path):
    system = await a_stale_fact(tmp_path)

    done = await chosen(system, "remove")

    assert facts(tmp_path) == ()
    await memory_command(system, ["undo", done.change_id])
    assert facts(tmp_path) == (OLD,)


async def test_an_expired_fact_confirmed_as_true_is_shown_again(tmp_path):
    system = await opened(tmp_path)
    await memory_command(system, ["add", "user", "away", "--until", "2020-03-06"])
    assert (await waiting(system))[0] == ("no longer true", ("away",))

    await chosen(system, "confirm")

    assert "away" in (await system.inject("start")).system


async def test_an_unknown_choice_or_a_decided_item_is_refused(tmp_path):
    system = await a_contradiction(tmp_path)
    (item,) = await items_of(system)
    with pytest.raises(MemoryRefused, match="no choice here: first, second, both"):
        await decide(system, item.id, "approve")
    await decide(system, item.id, "first")

    with pytest.raises(MemoryRefused, match="no longer pending"):
        await decide(system, item.id, "second")
    assert "the port is 80" in chain_of(system, item)


async def a_stale_note(root):
    system = await notes_life.opened(root)
    await notes_life.use(system, "remember", content=OLD, source="app.py:1")
    return system


async def a_stale_line(root):
    system = await vault_life.opened(root)
    await vault_life.use(
        system, "memory_append", path="facts/app.md", entry=f"- {OLD}", source="app.py:1"
    )
    return system


@pytest.mark.parametrize("life", [a_stale_note, a_stale_line])
async def test_a_stale_note_or_vault_line_is_confirmed_or_removed(tmp_path, life):
    (tmp_path / "app.py").write_text("port = 80")
    system = await life(tmp_path)
    (tmp_path / "app.py").write_text("port = 81")
    ((group, (text,)),) = await waiting(system)
    assert (group, OLD in text) == ("no longer true", True)

    for choice, standing in (("confirm", True), ("remove", False)):
        done = await chosen(system, choice)
        assert await waiting(system) == []
        assert any(OLD in entry.text for entry in system.entries()) is standing
        await memory_command(system, ["undo", done.change_id])
        assert await waiting(system) == [("no longer true", (text,))]


async def test_citing_a_note_again_clears_its_mark(tmp_path):
    (tmp_path / "app.py").write_text("port = 80")
    system = await a_stale_note(tmp_path)
    (tmp_path / "app.py").write_text("port = 81")

    await notes_life.use(system, "remember", content=OLD, source="app.py:1")

    assert await waiting(system) == []
    assert len(notes_life.active(system, "log")) == 1


@pytest.mark.parametrize("by", ["append", "patch"])
async def test_citing_a_vault_line_again_only_clears_its_mark(tmp_path, by):
    (tmp_path / "app.py").write_text("port = 80")
    system = await a_stale_line(tmp_path)
    (tmp_path / "app.py").write_text("port = 81")
    before = vault_life.file(tmp_path, "facts/app.md").read_text()

    line = f"- {OLD}"
    if by == "append":
        arguments = {"entry": line}
    else:
        arguments = {"patches": [{"oldText": line, "newText": line}]}
    await vault_life.use(
        system, f"memory_{by}", path="facts/app.md", source="app.py:1", **arguments
    )

    assert await waiting(system) == []
    assert vault_life.file(tmp_path, "facts/app.md").read_text() == before
    assert "May be stale" not in await vault_life.use(system, "memory_read", path="facts/app.md")


async def a_waiting_note(root):
    system = await notes_life.opened(root)
    await notes_life.keep(system, "from outside", untrusted="waits")
    return system


async def a_waiting_task(root):
    system = await vault_life.opened(root)
    await system.after_turn(turn(1, "read the page", tainted=True))
    return system


async def a_waiting_episode(root):
    system = await opened(root)
    episode = Episode(
        session_id=SESSION,
        turns=4,
        created_at=NOON.isoformat(),
        updated_at=NOON.isoformat(),
        narrative="read a page",
        tainted=True,
    )
    async with system._episodes.index.files.lock():
        system._episodes._write(episode, "episode", Author(who="extraction"), "")
    return system


async def test_an_item_changed_while_the_person_reads_is_not_decided(tmp_path):
    """The session continues, and its note is written anew: what was read is gone."""
    system = await a_waiting_episode(tmp_path)
    (read,) = await items_of(system)
    assert read.texts == ("read a page",)
    episode = replace(
        system._episodes.index.files.read(SESSION), narrative="read a page, and obeyed it"
    )
    async with system._episodes.index.files.lock():
        system._episodes._write(episode, "episode", Author(who="extraction"), "")

    with pytest.raises(MemoryRefused, match="changed meanwhile"):
        await decide(system, read.id, "approve")

    (now,) = await items_of(system)
    assert now.texts == ("read a page, and obeyed it",)
    await decide(system, now.id, "approve")


@pytest.mark.parametrize("life", [a_waiting_note, a_waiting_task, a_waiting_episode])
async def test_a_waiting_entry_is_dropped_and_restored_in_every_system(tmp_path, life):
    system = await life(tmp_path)
    before = await items_of(system)
    assert [one.why for one in before] == ["outside"]

    done = await chosen(system, "drop")
    assert await items_of(system) == []

    undone = await memory_command(system, ["undo", done.change_id])
    assert await items_of(system) == before
    await memory_command(system, ["undo", undone.split()[-1]])
    assert await items_of(system) == []


async def test_a_facts_since_is_shown_with_it_and_in_why(tmp_path):
    system = await opened(tmp_path)
    await use(system, action="add", target="user", content="tests run in parallel", since="3.2")
    await memory_command(system, ["add", "user", "lives in Lisbon", "--since", "2026-01-01"])

    shown = (await system.inject("start")).system
    assert "tests run in parallel (since 3.2)" in shown
    assert "lives in Lisbon (since 2026-01-01)" in shown
    assert "holds since 3.2" in await memory_command(system, ["why", "parallel"])
    assert "(since 3.2)" in await memory_command(system, ["show"])
    with pytest.raises(ToolError, match="at most 40"):
        await use(system, action="add", target="user", content="likes x", since="v" * 41)
