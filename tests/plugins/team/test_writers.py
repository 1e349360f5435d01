"""Twelve processes of two teams write at once, several of each to a machine."""

import asyncio
import contextlib
import multiprocessing
from pathlib import Path

import pytest

from kode.errors import BusyError
from tests.plugins.team.conftest import Team, exchange
from tests.plugins.team.postgres import Postgres

pytestmark = pytest.mark.slow

FACTS = 6
WRITERS = [
    ({"person": person, "name": name, "machine": f"machine-{number % 3}-{name}"}, number)
    for person, name in (("ada", "platform"), ("eve", "rivals"))
    for number in range(6)
]


def write(folder: Path, database: str, root: Path, place: dict[str, str], writer: int) -> None:
    async def run() -> None:
        member = await Team(Postgres(Path(), folder), database, root).open(**place)
        for number in range(FACTS):
            while True:  # another process may hold the folder for longer than kode waits
                with contextlib.suppress(BusyError):
                    await member.keep(f"fact {writer} {number}")
                    break
            await exchange(member)
        await member.memory.close(20)

    asyncio.run(run())


@pytest.mark.timeout(300)
async def test_many_writers_of_two_teams_leave_each_fact_once(team):
    await team.admit("eve", name="rivals")
    spawn = multiprocessing.get_context("spawn")
    where = (team.server.folder, team.database, team.root)
    processes = [spawn.Process(target=write, args=(*where, *writer)) for writer in WRITERS]
    for process in processes:
        process.start()
    for process in processes:
        await asyncio.to_thread(process.join, 250)
    assert [process.exitcode for process in processes] == [0] * len(WRITERS)

    # What a process left, because another one of its machine was sending, goes later.
    for place, _ in WRITERS:
        await exchange(await team.open(**place))

    facts = sorted(f"fact {writer} {number}" for writer in range(6) for number in range(FACTS))
    for person, name in (("ada", "platform"), ("eve", "rivals")):
        reader = await team.open(person, name=name, machine="new")
        assert sorted(note.text for note in reader.notes()) == facts
    assert team.rows("SELECT count(*) FROM kode.lines") == [str(2 * len(facts))]
