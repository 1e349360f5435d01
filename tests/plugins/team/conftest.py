"""A server for the tests of this folder; each test has a database of its own on it."""

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.plugins.team.life import Team
from tests.postgres import PACKAGE, SYSTEM, Postgres, programs, started

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    """The system's own where there is one."""
    running = started(SYSTEM if programs(SYSTEM) else PACKAGE)
    yield running
    running.end()


@pytest.fixture
async def team(server: Postgres, tmp_path: Path) -> AsyncIterator[Team]:
    """Ada, Bob and Eve, of whom the first two are of the team."""
    name = f"kode{next(_numbers)}"
    server.make_database(name, "ada", "bob", "eve")
    team = Team(server, name, tmp_path)
    await team.admit("ada", "bob")
    yield team
    server.drop_database(name)
