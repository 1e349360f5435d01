"""The copy of notes that several people write: what leaves it, and what becomes of what arrives."""

from dataclasses import replace
from pathlib import Path

import pytest

from kode.config.model import Notes as Settings
from kode.contracts import LedgerLine
from kode.errors import ConfigError, MemoryRefused
from kode.memory.history import History
from kode.memory.notes.replica import POSITION, NotesReplica, remote_of
from kode.memory.notes.system import Notes
from tests.memory.notes.life import active, contents, keep, opened


@pytest.fixture
async def system(tmp_path: Path) -> Notes:
    return await opened(tmp_path)


@pytest.fixture
def replica(system: Notes) -> NotesReplica:
    return NotesReplica(system.store, system.history)


def reasons(replica: NotesReplica) -> list[str]:
    return [line.after[0]["content"] for line, _ in replica.waiting()]


def of_bob(id: str, content: str) -> LedgerLine:
    row = {
        "id": id,
        "content": content,
        "kind": "log",
        "stability": "stable",
        "sensitivity": "normal",
        "tags": [],
        "created_at": "2026-03-01T12:00:00.000Z",
    }
    change = {
        "id": f"c{id}",
        "at": "2026-03-01T12:00:00+00:00",
        "kind": "remember",
        "target": f"notes/{id}",
        "who": "model",
        "reason": content,
    }
    return LedgerLine(change=change, before=(), after=(row,), person="bob", host="laptop")


async def sent(replica: NotesReplica) -> None:
    lines = [line for line, _ in replica.waiting()]
    await replica.take((), {}, sent={line.id: line.id for line in lines})


async def test_private_notes_do_not_leave(system: Notes, replica: NotesReplica) -> None:
    await keep(system, "a secret of mine", sensitivity="sensitive")
    await keep(system, "of my job", job_id="s#1", kind="summary")
    await keep(system, "we deploy with make ship")

    assert reasons(replica) == ["we deploy with make ship"]


async def test_each_line_waits_until_it_was_sent(system: Notes, replica: NotesReplica) -> None:
    await keep(system, "one", "two")
    await sent(replica)
    await keep(system, "three")

    assert reasons(replica) == ["three"]
    assert reasons(NotesReplica(system.store, History(system.history.path))) == ["three"]


async def test_a_refused_line_waits_behind_those_that_follow(
    system: Notes, replica: NotesReplica
) -> None:
    await keep(system, "one", "two")
    (one, _), (two, _) = replica.waiting()
    await replica.refuse(one.id, "no member")
    await replica.take((), {}, sent={two.id: two.id})
    await keep(system, "three")

    assert [(line.after[0]["content"], why) for line, why in replica.waiting()] == [
        ("one", "no member"),
        ("three", ""),
    ]
    await sent(replica)
    assert replica.waiting() == []


async def test_a_change_that_fails_is_not_sent(system: Notes, replica: NotesReplica) -> None:
    (note,) = await keep(system, "one")
    await sent(replica)

    async def fail() -> None:
        async with system.store.writing():
            new = replace(note, content="two")
            author = system._author("user")
            system.store.commit("update", [note], [new], author, "two")
            raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError):
        await fail()

    assert replica.waiting() == []
    assert contents(active(system)) == ["one"]


async def test_lines_that_arrive_are_recorded_once_and_stand(
    system: Notes, replica: NotesReplica
) -> None:
    line = of_bob("a" * 16, "the host is alpha")
    standing = {"a" * 16: {**line.after[0], "person": "bob", "host": "laptop"}}

    first = await replica.take([line, line], standing)
    again = await replica.take([line], standing)

    assert (first.arrived, again.arrived) == ((line,), ())
    assert contents(active(system)) == ["the host is alpha"]
    assert [change.person for change in system.history.changes("notes")] == ["bob"]
    assert replica.waiting() == []
    assert replica.kept(POSITION) == line.id
    assert len(replica.news(line)) == 1


async def test_a_note_that_waits_stays_as_it_is_here(system: Notes, replica: NotesReplica) -> None:
    (note,) = await keep(system, "the host is alpha")
    line = of_bob(note.id, "the host is beta")

    await replica.take([line], {note.id: line.after[0]})
    assert contents(active(system)) == ["the host is alpha"]
    ((mine, _),) = replica.waiting()
    await replica.take((), {note.id: line.after[0]}, sent={mine.id: ""})

    assert contents(active(system)) == ["the host is beta"]
    assert replica.waiting() == []
    assert not system.history.lines().counts(system.history.find(mine.id)[0])


async def test_scopes_one_sees_no_more_are_emptied(system: Notes, replica: NotesReplica) -> None:
    await keep(system, "of the team")
    await sent(replica)
    await keep(system, "not sent yet")

    await replica.belong("ada", lambda scope: False)

    assert contents(active(system)) == ["not sent yet"]


async def test_another_person_approves_what_came_from_outside(
    system: Notes, replica: NotesReplica
) -> None:
    (note,) = await keep(system, "from a page", untrusted="waits")
    await replica.belong("ada", lambda scope: True)

    for person in ("", "ada"):
        with pytest.raises(MemoryRefused):
            replica.check_approval(replace(note, person=person))
    replica.check_approval(replace(note, person="bob"))


def test_a_server_no_plugin_reaches_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kode.installed.plugins", lambda: ())

    assert remote_of(Settings(), Path("/")) is None
    with pytest.raises(ConfigError, match="kode plugin list"):
        remote_of(Settings(url="postgresql://ada@db/kode"), Path("/"))
