"""Sixteen processes of two teams write at once, two of each to a machine: nothing is lost, doubled
or mixed up.
"""

import asyncio
import contextlib
import multiprocessing

import psycopg
import pytest

from kode.config import MemoryConfig
from kode.config.model import Notes as Settings
from kode.errors import BusyError
from kode.plugins.team.address import Address
from kode.plugins.team.server import open_server
from tests.memory.notes.life import opened
from tests.plugins.team.life import exchange, texts

pytestmark = pytest.mark.slow

WRITERS = 16
FACTS = 6


def person_and_team(team, writer):
    return (("ada", team.name), ("eve", "rivals"))[writer % 2]


def machine(team, writer):
    _, name = person_and_team(team, writer)
    home = team.root / f"machine-{writer // 4}-{name}"
    home.mkdir(exist_ok=True)
    return home


def write(url, team, root, writer):
    asyncio.run(_write(url, team, root, writer))


async def until_free(do):
    """What it gives; on a busy machine another process may hold the copy for longer than kode
    waits, and whoever asked is refused."""
    while True:
        with contextlib.suppress(BusyError):
            return await do()
        await asyncio.sleep(0.05)


async def open_machine(url, team, root):
    notes = Settings(url=url, team=team, host=root.name)
    return await opened(root, config=MemoryConfig(system="notes", notes=notes))


async def _write(url, team, root, writer):
    system = await until_free(lambda: open_machine(url, team, root))
    for number in range(FACTS):
        fact = f"fact {writer} {number}"
        await until_free(lambda fact=fact: system.writer.remember(fact))
        await system.team.update(20)
    await system.close(20)


@pytest.mark.timeout(300)
async def test_sixteen_writers_of_two_teams_leave_each_fact_once(team):
    async with open_server(Address(team.url("owner"), "rivals", "h")) as server:
        await server.admit("eve", "*")
    spawn = multiprocessing.get_context("spawn")
    processes = []
    for writer in range(WRITERS):
        person, name = person_and_team(team, writer)
        values = (team.url(person), name, machine(team, writer), writer)
        processes.append(spawn.Process(target=write, args=values))
        processes[-1].start()
    for process in processes:
        await asyncio.to_thread(process.join, 250)
    assert [process.exitcode for process in processes] == [0] * WRITERS

    # What a process left queued, because another one of its machine was sending, goes later.
    for writer in range(WRITERS):
        person, name = person_and_team(team, writer)
        left = await open_machine(team.url(person), name, machine(team, writer))
        await exchange(left)
        await left.close(5)

    for first, (person, name) in enumerate((("ada", None), ("eve", "rivals"))):
        facts = {f"fact {w} {n}" for w in range(first, WRITERS, 2) for n in range(FACTS)}
        assert texts(await team.opened(person, name=name)) == facts
    with psycopg.connect(team.url("owner")) as connection:
        (count,) = connection.execute("SELECT count(*) FROM kode.changes").fetchall()
    assert count == (WRITERS * FACTS,)
