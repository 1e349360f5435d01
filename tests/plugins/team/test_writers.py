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


def write(url, team, root, writer):
    asyncio.run(_write(url, team, root, writer))


async def until_free(do):
    """What it gives; on a busy machine another process may hold the copy for longer than kode
    waits, and whoever asked is refused."""
    while True:
        with contextlib.suppress(BusyError):
            return await do()
        await asyncio.sleep(0.05)


async def _write(url, team, root, writer):
    notes = Settings(url=url, team=team, host=root.name)
    config = MemoryConfig(system="notes", notes=notes)
    system = await until_free(lambda: opened(root, config=config))
    for number in range(FACTS):
        fact = f"fact {writer} {number}"
        await until_free(lambda fact=fact: system.writer.remember(fact))
        await system.team.update(20)
    await system.close(20)


@pytest.mark.timeout(300)
async def test_sixteen_writers_of_two_teams_leave_each_fact_once(team):
    await team.prepare("ada")
    async with open_server(Address(team.url("owner"), "rivals", "h")) as server:
        await server.admit("eve", "*")
    spawn = multiprocessing.get_context("spawn")
    processes = []
    for writer in range(WRITERS):
        person, name = (("ada", team.name), ("eve", "rivals"))[writer % 2]
        home = team.root / f"machine-{writer // 4}-{name}"
        home.mkdir(exist_ok=True)
        values = (team.url(person), name, home, writer)
        processes.append(spawn.Process(target=write, args=values))
    for process in processes:
        process.start()
    for process in processes:
        await asyncio.to_thread(process.join, 250)
    assert [process.exitcode for process in processes] == [0] * WRITERS

    # What a process left queued, because another one of its machine was sending, goes later.
    for writer in range(WRITERS):
        person, name = (("ada", team.name), ("eve", "rivals"))[writer % 2]
        home = team.root / f"machine-{writer // 4}-{name}"
        notes = Settings(url=team.url(person), team=name, host=home.name)
        left = await opened(home, config=MemoryConfig(system="notes", notes=notes))
        await exchange(left)
        await left.close(5)

    seen = {
        "even": await team.opened("ada"),
        "odd": await team.opened("eve", name="rivals"),
    }
    wanted = {
        parity: {f"fact {w} {n}" for w in range(first, WRITERS, 2) for n in range(FACTS)}
        for parity, first in (("even", 0), ("odd", 1))
    }
    assert {parity: texts(one) for parity, one in seen.items()} == wanted
    with psycopg.connect(team.url("owner")) as connection:
        (count,) = connection.execute("SELECT count(*) FROM kode.changes").fetchall()
    assert count == (WRITERS * FACTS,)
