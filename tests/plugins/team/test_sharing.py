"""What one writes the others have: notes, their history, their undo, as lines and for the model."""

import psycopg
import pytest

from kode.contracts import Turn
from kode.errors import MemoryRefused
from kode.events import MemoryChanged
from kode.memory.commands import memory_command
from tests.memory.life import notices
from tests.memory.notes.life import active, keep, use
from tests.plugins.team.life import exchange, texts

pytestmark = pytest.mark.slow

MONDAYS = "the staging database is rebuilt on Mondays"


async def test_a_colleague_finds_a_note_with_its_author_and_machine(team):
    ada, bob = await team.opened("ada"), await team.opened("bob")
    await keep(ada, MONDAYS)

    await exchange(ada, bob)

    (note,) = active(bob)
    assert (note.content, note.person, note.host) == (MONDAYS, "ada", "adas-laptop")
    (hit,) = await bob.search("when is staging rebuilt", 3)
    assert hit.where == f"notes/{note.id}"
    assert "of ada on adas-laptop" in await memory_command(bob, ["show"])


async def test_a_later_copy_has_every_note_with_its_history(team):
    ada = await team.opened("ada")
    (first,) = await keep(ada, MONDAYS)
    await use(ada, "update_memory", id=first.id, content="staging is rebuilt on Fridays")
    await exchange(ada)

    bob = await team.opened("bob")

    assert texts(bob) == {"staging is rebuilt on Fridays"}
    kinds = [change.kind for change in bob.history.changes("notes")]
    assert kinds == ["update", "remember"]
    why = await memory_command(bob, ["why", "Fridays"])
    assert MONDAYS in why
    assert "by the model of ada on adas-laptop" in why
    assert "open: kode session" not in why
    assert "model of ada on adas-laptop  update" in await memory_command(bob, ["log"])


async def test_one_persons_change_is_undone_by_another_for_all(team):
    ada, bob = await team.opened("ada"), await team.opened("bob")
    (note,) = await keep(ada, MONDAYS)
    await exchange(ada, bob)
    await bob.writer.forget(note.id)
    await exchange(bob, ada)
    assert texts(ada) == set()
    forgot = next(one for one in ada.history.changes("notes") if one.kind == "forget")

    done = await memory_command(ada, ["undo", forgot.id])
    await exchange(ada, bob)

    assert forgot.person == "bob"
    assert "undid forget" in done
    assert texts(ada) == texts(bob) == {MONDAYS}
    assert [note.person for note in active(bob)] == ["ada"]


async def test_undo_without_an_id_never_undoes_a_colleagues_change(team):
    ada, bob = await team.opened("ada"), await team.opened("bob")
    await keep(ada, "mine")
    await keep(bob, "theirs")
    await exchange(ada, bob)

    await memory_command(ada, ["undo"])
    await exchange(ada, bob)

    assert texts(ada) == texts(bob) == {"theirs"}
    with pytest.raises(MemoryRefused, match="nothing to undo"):
        await memory_command(ada, ["undo"])


async def test_a_colleagues_change_is_told_once_in_the_next_prompt(team):
    events = []
    ada = await team.opened("ada", emit=events.append)
    bob = await team.opened("bob")
    (old,) = await keep(ada, "the port is 5432")
    await exchange(ada, bob)
    before = await ada.inject("start")
    events.clear()
    await use(bob, "update_memory", id=old.id, content="the port is 6543")
    await exchange(bob)

    recalled = await ada.recall(Turn(number=1, text="rename the parser"))
    again = await ada.recall(Turn(number=2, text="rename the parser"))

    (line,) = [event for event in events if isinstance(event, MemoryChanged)]
    assert line.text.startswith("bob: ")
    assert ada.history.find(line.change_id)
    assert "- holds now, by bob (update): the port is 6543" in recalled
    assert "- holds no more, by bob (update): the port is 5432" in recalled
    assert "bob" not in again
    assert await ada.inject("start") == before


async def test_sensitive_notes_soul_and_job_summaries_stay_on_the_machine(team):
    ada, bob = await team.opened("ada"), await team.opened("bob")
    await keep(ada, "her salary", sensitivity="sensitive")
    await keep(ada, "Task: rename the parser", kind="summary", job_id="s#1")
    await ada.writer.update_soul("I am brief.")
    await keep(ada, MONDAYS)

    await exchange(ada, bob)

    assert texts(bob) == {MONDAYS}
    assert "brief" not in (await bob.inject("start")).system
    assert "her salary" in texts(ada)
    log = team_rows(team, "SELECT change::text || before::text || after::text FROM kode.changes")
    assert [word for word in ("salary", "brief", "parser") if word in log] == []


async def test_outside_content_is_approved_by_a_second_person(team):
    ada, bob = await team.opened("ada"), await team.opened("bob")
    (note,) = await keep(ada, "deploys need a token", untrusted="waits")
    with pytest.raises(MemoryRefused):
        await memory_command(ada, ["approve", note.id])
    await exchange(ada, bob)
    with pytest.raises(MemoryRefused):
        await memory_command(ada, ["approve", note.id])
    assert [one.id for one in await ada.waiting()] == [note.id]
    assert "deploys" not in await bob.recall(Turn(number=1, text="deploys need a token?"))

    await memory_command(bob, ["approve", note.id])
    await exchange(bob)
    recalled = await ada.recall(Turn(number=1, text="what is new?"))

    assert "- holds now, by bob (approve): deploys need a token" in recalled


async def test_the_server_also_refuses_approval_by_the_same_person(team):
    ada = await team.opened("ada")
    (note,) = await keep(ada, "deploys need a token", untrusted="waits")
    await exchange(ada)
    ada.writer._check_approval = lambda note: None  # a client that does not ask
    events = []
    ada.team._emit = events.append

    await memory_command(ada, ["approve", note.id])
    await exchange(ada)

    assert len(notices(events)) == 1
    assert "waits" in team_rows(team, "SELECT note::text FROM kode.notes")
    assert "refused:" in await memory_command(ada, ["status"])


def team_rows(team, sql):
    with psycopg.connect(team.url("owner")) as connection:
        return "\n".join(str(row[0]) for row in connection.execute(sql))
