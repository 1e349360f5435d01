"""A server for the tests of this folder; each test has a database of its own on it."""

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kode.config.model import Notes as Settings
from kode.memory.notes import system as notes_system
from kode.plugins.team.address import Address, project_name
from kode.plugins.team.member import Member
from tests.plugins.team.life import Team
from tests.postgres import PACKAGE, SYSTEM, Postgres, programs, started

_numbers = itertools.count(1)
PEOPLE = ("ada", "bob", "eve")


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
    server.make_database(name, *PEOPLE)
    made = Team(server, name, tmp_path)
    await made.prepare("ada", "bob")
    yield made
    server.drop_database(name)


@pytest.fixture(scope="session")
def contract_database(server: Postgres) -> str:
    """One for the suites of the contract, in which each test is a team of its own."""
    server.make_database("contract", *PEOPLE)
    return "contract"


@pytest.fixture
async def on_a_server(
    server: Postgres, contract_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes are the team's, whoever opens them."""
    team = Team(server, contract_database, tmp_path, name=f"team{next(_numbers)}")
    await team.prepare("ada")
    address = Address(team.url("ada"), team.name, "laptop")

    def remote(settings: Settings, root: Path) -> Member:
        return Member(address, project_name(root))

    monkeypatch.setattr(notes_system, "remote_of", remote)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the contract's suites only what is of notes runs on a server."""
    others = {
        item
        for item in items
        if item.path.name.startswith("test_contract") and item.path.parent.name == "team"
        if not hasattr(item, "callspec") or "notes" not in item.callspec.params.values()
    }
    items[:] = [item for item in items if item not in others]
