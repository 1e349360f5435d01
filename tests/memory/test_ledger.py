"""The fold of the history into statements: what began them, what they became, what waits."""

import pytest

from kode.memory.change import Author, undo_of
from kode.memory.commands import memory_command
from kode.memory.history import History
from kode.memory.ledger import Ledger
from kode.memory.lineage import Entry
from tests.memory.journal import life as journal_life
from tests.memory.life import NOON
from tests.memory.life import opened as tiered
from tests.memory.life import use as use_memory
from tests.memory.notes import life as notes_life
from tests.memory.vault import life as vault_life

FILE = "facts/env.md"
LATER = "20260302-090000-bbbbbb"


def sides(change):
    return tuple(
        [Entry(target=change.target, key=text, text=text) for text in texts]
        for texts in (change.before, change.after)
    )


@pytest.fixture
def history(tmp_path):
    return History(tmp_path / "history.jsonl")


@pytest.fixture
def ledger(history):
    return Ledger(history, "tiered", sides)


def record(history, kind, before=(), after=(), **values):
    return history.record(
        Author(who="user"), "tiered", kind, FILE, before=before, after=after, **values
    )


def states(ledger):
    return {one.text: one.state for one in ledger.statements()}


def test_every_state_follows_from_the_lines_alone(history, ledger):
    record(history, "add", after=("one",))
    record(history, "add", after=("two",))
    record(history, "add", after=("three",))
    record(history, "replace", before=("one",), after=("uno",))
    record(history, "remove", before=("two",))
    record(history, "archive", before=("three",), after=("three",), archived=(0,))

    assert states(ledger) == {
        "one": "superseded",
        "two": "withdrawn",
        "three": "archived",
        "uno": "current",
    }
    assert [one.text for one in ledger.superseded()] == ["one"]
    assert ledger.standing()[FILE, "uno"].made_of[0].text == "one"


def test_undo_and_redo_leave_states_as_if_never_and_again(history, ledger):
    record(history, "add", after=("one",))
    replaced = record(history, "replace", before=("one",), after=("uno",))
    assert states(ledger)["one"] == "superseded"

    undone = history.append(undo_of(replaced, Author(who="undo")))
    assert states(ledger) == {"one": "current"}
    history.append(undo_of(undone, Author(who="undo")))

    assert states(ledger) == {"one": "superseded", "uno": "current"}


def test_new_lines_are_folded_onto_the_old(history, ledger):
    record(history, "add", after=("one",))
    first = ledger.standing()[FILE, "one"]

    record(history, "add", after=("two",))

    assert ledger.standing()[FILE, "one"] is first
    assert list(states(ledger)) == ["one", "two"]


def test_a_history_put_back_is_read_from_its_beginning(history, ledger):
    record(history, "add", after=("one",))
    copy = history.path.read_bytes()
    record(history, "add", after=("two",))
    assert len(ledger.statements()) == 2

    history.path.write_bytes(copy)

    assert list(states(ledger)) == ["one"]


def test_a_dispute_ends_with_a_withdrawn_side_or_word(history, ledger):
    pair = ((FILE, "one"), (FILE, "two"))
    record(history, "add", after=("one",))
    record(history, "add", after=("two",), against=(pair,))
    assert [one.contradict for one in ledger.disputes()] == [True]

    removed = record(history, "remove", before=("one",))
    assert ledger.disputes() == []
    history.append(undo_of(removed, Author(who="undo")))
    assert len(ledger.disputes()) == 1
    record(history, "settle", settled=(pair,))

    assert ledger.disputes() == []


OLD, NEW = "The staging gateway needs the VPN profile larch", "Staging is reached without a VPN"


async def test_an_episode_of_the_vault_says_what_was_withdrawn(tmp_path):
    vault_life.put(tmp_path, "facts/project.md", f"- {OLD}\n")
    vault_life.put(tmp_path, "episodes/2026-02.md", f"## 2026-02-15\n{OLD}, so it was set up.\n")
    system = await vault_life.opened(tmp_path, session_id=LATER)
    await vault_life.use(
        system, "memory_patch", path="facts/project.md", patches=[{"oldText": OLD, "newText": NEW}]
    )

    read = await vault_life.use(system, "memory_read", path="episodes/2026-02.md")
    (hit,) = [hit for hit in await system.search("VPN profile larch", 5) if "2026" in hit.where]

    assert f'superseded by "{NEW}"' in read
    assert f'superseded by "{NEW}"' in hit.text


async def test_the_journal_says_what_was_withdrawn(tmp_path):
    system = await journal_life.opened(tmp_path)
    await memory_command(system, ["add", "memory", OLD])
    journal_life.add_entry(system.files, f"Set up staging. {OLD}.", NOON)
    (entry,) = system.facts()
    await system.remove_entry(entry)

    (hit,) = await system.search("VPN profile larch", 1)

    assert f'"{OLD}" was withdrawn' in hit.text


async def test_a_summary_of_notes_says_what_was_withdrawn(tmp_path):
    system = await notes_life.opened(tmp_path)
    (note,) = await notes_life.keep(system, OLD)
    await notes_life.keep(system, f"Set up staging: {OLD}", kind="summary")
    await system.writer.forget(note.id, who="user")

    hits = await system.search("VPN profile larch", 5)

    assert any(f'"{OLD}" was withdrawn' in hit.text for hit in hits)


async def test_a_fact_that_holds_again_is_not_marked(tmp_path):
    system = await tiered(tmp_path)
    await use_memory(system, action="add", target="env", content=OLD)
    await use_memory(system, action="remove", target="env", old_text=OLD)
    assert "was withdrawn" in system.since_then(f"{OLD}.")

    await use_memory(system, action="add", target="env", content=OLD)

    assert system.since_then(f"{OLD}.") == ""
