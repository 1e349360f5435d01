"""Without the server: the copy is enough to work with, what was written waits, and later nothing of
either side is lost.
"""

import pytest

from kode.contracts import Turn
from kode.memory.commands import memory_command
from kode.plugins.team import exchange as team_exchange
from tests.memory.life import notices
from tests.memory.notes.life import active, keep, use
from tests.plugins.team.life import exchange, texts

pytestmark = pytest.mark.slow


@pytest.fixture
def away(team):
    """The server, stopped; it is started again for the tests that follow."""
    stopped = []

    def stop():
        team.server.stop()
        stopped.append(True)

    def back():
        if stopped:
            stopped.clear()
            team.server.start()

    stop.back = back
    yield stop
    back()


async def test_a_day_away_loses_nothing_on_either_side(team, away):
    events = []
    ada, bob = await team.opened("ada", emit=events.append), await team.opened("bob")
    (port, host) = await keep(ada, "the port is 5432", "the host is alpha")
    await exchange(ada, bob)
    away()
    # a day on which both work
    team.clock.pass_(days=1)
    recalled = await ada.recall(Turn(number=1, text="which port?"))
    await use(ada, "update_memory", id=port.id, content="the port is 6000")
    await keep(ada, *(f"ada learnt {n}" for n in range(20)))
    await ada.writer.forget(host.id)
    await bob.writer.update(port.id, "the port is 7000")
    await bob.writer.update(host.id, "the host is beta")
    await keep(bob, *(f"bob learnt {n}" for n in range(20)))
    await ada.close(1)
    away.back()

    ada = await team.opened("ada", emit=events.append)
    await exchange(bob, ada)

    learnt = {f"{who} learnt {n}" for who in ("ada", "bob") for n in range(20)}
    both = {"the port is 6000", "the port is 7000", "the host is beta"}
    assert "the port is 5432" in recalled
    assert texts(ada) == texts(bob) == learnt | both
    assert len([text for text in notices(events) if "cannot be reached" in text]) == 1
    assert len(ada.team.replica.waiting()) == 0


async def test_a_lost_copy_is_rebuilt_and_sends_nothing_twice(team, away):
    ada, bob = await team.opened("ada"), await team.opened("bob")
    await keep(ada, "the port is 5432")
    await exchange(ada, bob)
    away()
    await keep(bob, "the host is beta")
    await bob.close(1)
    bob.database.path.unlink()
    bob = await team.opened("bob")
    await memory_command(bob, ["rebuild"])
    rebuilt = texts(bob)
    away.back()
    await exchange(bob, ada)

    assert rebuilt == {"the port is 5432", "the host is beta"}
    assert texts(ada) == texts(bob) == rebuilt
    assert len(active(ada)) == len(active(bob)) == len(rebuilt)


async def test_a_status_without_the_server_says_what_waits(team, away):
    ada = await team.opened("ada")
    away()
    await keep(ada, "one", "two")

    status = await memory_command(ada, ["status"])

    assert "cannot be reached" in status
    assert "waiting to be sent: 2" in status


async def test_a_copy_cut_off_before_recording_sends_nothing_twice(team):
    ada, bob = await team.opened("ada"), await team.opened("bob")
    await keep(ada, "once")
    ended = RuntimeError("kode ended here")

    def end(*_, **__):
        raise ended

    replica = ada.team.replica
    take, replica.take = replica.take, end
    with pytest.raises(RuntimeError):
        await team_exchange.exchange(replica, ada.team.address)
    replica.take = take
    assert len(ada.team.replica.waiting()) == 1

    await exchange(ada, bob)

    assert texts(ada) == texts(bob) == {"once"}
    assert [change.kind for change in bob.history.changes("notes")] == ["remember"]
    assert len(ada.team.replica.waiting()) == 0
