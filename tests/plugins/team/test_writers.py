"""Twelve processes of two teams write at once, several of each to a machine: nothing is lost,
doubled or mixed up.
"""

import asyncio
import contextlib
import multiprocessing
from pathlib import Path

import pytest

from kode.errors import BusyError
from tests.plugins.team.life import Team, exchange
from tests.postgres import Postgres

pytestmark = pytest.mark.slow

WRITERS, FACTS = 12, 6


def names(writer: int) -> tuple[str, str, str]:
    """Person, team and machine."""
    person, name = (("ada", "platform"), ("eve", "rivals"))[writer % 2]
    return person, name, f"machine-{writer // 4}-{name}"


def write(folder: Path, database: str, root: Path, writer: int) -> None:
    asyncio.run(_write(Team(Postgres(Path(), folder), database, root), writer))


async def _write(team: Team, writer: int) -> None:
    person, name, machine = names(writer)
    member = await team.open(person, name=name, machine=machine)
    for number in range(FACTS):
        while True:  # another process may hold the folder for longer than kode waits
            with contextlib.suppress(BusyError):
                await member.keep(f"fact {writer} {number}")
                break
        await member.exchange()
    await member.memory.close(20)


@pytest.mark.timeout(300)
async def test_many_writers_of_two_teams_leave_each_fact_once(team):
    await team.admit("eve", name="rivals")
    spawn = multiprocessing.get_context("spawn")
    values = (team.server.folder, team.database, team.root)
    processes = [spawn.Process(target=write, args=(*values, writer)) for writer in range(WRITERS)]
    for process in processes:
        process.start()
    for process in processes:
        await asyncio.to_thread(process.join, 250)
    assert [process.exitcode for process in processes] == [0] * WRITERS

    # What a process left, because another one of its machine was sending, goes later.
    for person, name, machine in map(names, range(WRITERS)):
        await exchange(await team.open(person, name=name, machine=machine))

    for first in range(2):
        person, name, _ = names(first)
        reader = await team.open(person, name=name, machine="new")
        facts = sorted(f"fact {w} {n}" for w in range(first, WRITERS, 2) for n in range(FACTS))
        assert sorted(note.text for note in reader.notes()) == facts
    assert len(team.rows()) == WRITERS * FACTS
