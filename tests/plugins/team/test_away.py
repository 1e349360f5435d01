"""Without the server kode works with what is here; what was written waits, and nothing of either
side is lost.
"""

import pytest

from kode.errors import MemoryRefused
from kode.memory.commands import memory_command
from kode.memory.contract import Turn
from kode.memory.notes.team import Team
from tests.plugins.team.conftest import exchange

pytestmark = pytest.mark.slow


async def test_a_day_away_loses_nothing_on_either_side(team):
    ada, bob = await team.open("ada"), await team.open("bob")
    port, host = await ada.keep("the port is 5432"), await ada.keep("the host is alpha")
    await exchange(ada, bob)
    team.server.stop()
    try:
        await exchange(ada, bob)  # a day on which both work
        recalled = await ada.memory.recall(Turn(number=1, text="which port?"))
        await ada.edit(port, "the port is 6000")
        await ada.forget(host)
        await bob.edit(port, "the port is 7000")
        await bob.edit(host, "the host is beta")
        for number in range(20):
            await ada.keep(f"ada learnt {number}")
            await bob.keep(f"bob learnt {number}")
        status = await memory_command(ada.memory, ["status"])
        await ada.memory.close(1.0)
    finally:
        team.server.start()

    again = await team.open("ada")
    await exchange(bob, again)

    learnt = {f"{who} learnt {number}" for who in ("ada", "bob") for number in range(20)}
    both = {"the port is 6000", "the port is 7000", "the host is beta"}
    assert "the port is 5432" in recalled
    assert "cannot be reached" in status
    assert "sent: 22" in status
    assert again.texts() == bob.texts() == learnt | both
    assert len(ada.lines_with("cannot be reached")) == 1
    for member in (again, bob):
        (pair,) = member.memory.store.view().conflicts()
        assert {one.text for one in pair} == {"the port is 6000", "the port is 7000"}


async def test_a_note_sent_by_a_killed_kode_counts_once(team, monkeypatch):
    ada, bob = await team.open("ada"), await team.open("bob")
    await ada.keep("once")

    async def end(*_: object) -> None:
        raise MemoryRefused("kode ended here")

    with monkeypatch.context() as patch:
        patch.setattr(Team, "take", end)
        await exchange(ada)
    (ada.sessions.root / "memory" / "teams").rename(ada.sessions.root / "lost")
    again = await team.open("ada")
    await exchange(again, bob)

    assert [note.text for note in again.notes()] == ["once"]
    assert [note.text for note in bob.notes()] == ["once"]
    assert len(team.rows("SELECT line FROM kode.lines")) == 1
