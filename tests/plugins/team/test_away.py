"""Without the server kode works with what is here; what was written waits, and nothing of either
side is lost.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from kode.contracts import Turn
from kode.errors import MemoryRefused
from kode.memory.commands import memory_command
from kode.memory.notes.team import Incoming
from tests.plugins.team.life import Team, exchange

pytestmark = pytest.mark.slow


@pytest.fixture
def away(team: Team) -> Iterator[Callable[[], None]]:
    """Stops the server; called again, it starts it, which also happens at the end."""
    calls = list[None]()

    def switch() -> None:
        (team.server.start if len(calls) % 2 else team.server.stop)()
        calls.append(None)

    yield switch
    if len(calls) % 2:
        switch()


async def test_a_day_away_loses_nothing_on_either_side(team, away):
    ada, bob = await team.open("ada"), await team.open("bob")
    port, host = await ada.keep("the port is 5432"), await ada.keep("the host is alpha")
    await exchange(ada, bob)
    away()
    for member in (ada, bob):  # a day on which both work
        await member.exchange()
    recalled = await ada.memory.recall(Turn(number=1, text="which port?"))
    await ada.edit(port, "the port is 6000")
    await ada.forget(host)
    await bob.edit(port, "the port is 7000")
    await bob.edit(host, "the host is beta")
    for number in range(20):
        await ada.keep(f"ada learnt {number}")
        await bob.keep(f"bob learnt {number}")
    await ada.memory.close(1.0)
    away()

    again = await team.open("ada")
    await exchange(bob, again)

    learnt = {f"{who} learnt {number}" for who in ("ada", "bob") for number in range(20)}
    both = {"the port is 6000", "the port is 7000", "the host is beta"}
    assert "the port is 5432" in recalled
    assert again.texts() == bob.texts() == learnt | both
    assert len([text for text in ada.notices() if "cannot be reached" in text]) == 1
    for member in (again, bob):
        (pair,) = member.memory.store.view().conflicts()
        assert {one.text for one in pair} == {"the port is 6000", "the port is 7000"}


async def test_a_status_without_the_server_says_what_waits(team, away):
    ada = await team.open("ada")
    away()
    await ada.keep("a first note")
    await ada.keep("a second note")
    await ada.exchange()

    status = await memory_command(ada.memory, ["status"])

    assert "cannot be reached" in status
    assert "waiting to be sent: 2" in status


async def test_a_note_sent_by_a_killed_kode_counts_once(team, monkeypatch):
    ada, bob = await team.open("ada"), await team.open("bob")
    await ada.keep("once")

    async def end(*_: object) -> None:
        raise MemoryRefused("kode ended here")

    with monkeypatch.context() as patch, suppress(MemoryRefused):
        patch.setattr(Incoming, "take", end)
        await ada.exchange()
    (ada.sessions.root / "memory" / "teams").rename(ada.sessions.root / "lost")
    again = await team.open("ada")
    await exchange(again, bob)

    assert [note.text for note in again.notes()] == ["once"]
    assert [note.text for note in bob.notes()] == ["once"]
    assert len(team.rows()) == 1
