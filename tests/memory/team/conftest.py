"""A server for the tests of this folder; each test has a database of its own on it."""

import itertools
from collections.abc import Iterator

import pytest

from kode.memory.notes import system as notes_system
from kode.memory.notes.team.address import Address
from tests.memory.team.life import Team
from tests.postgres import PACKAGE, SYSTEM, Postgres, started

_numbers = itertools.count(1)
PEOPLE = ("ada", "bob", "eve")


@pytest.fixture(scope="session", params=[SYSTEM, PACKAGE])
def server(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    running = started(request.param)
    yield running
    running.end()


@pytest.fixture
async def team(server: Postgres, tmp_path) -> Team:
    """Ada, Bob and Eve, of whom the first two are of the team."""
    name = f"kode{next(_numbers)}"
    server.make_database(name, *PEOPLE)
    made = Team(server, name, tmp_path)
    await made.prepare("ada", "bob")
    return made


@pytest.fixture
def on_a_server(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes are the team's, whoever opens them."""
    address = Address(team.url("ada"), team.name, "laptop")
    monkeypatch.setattr(notes_system, "address_of", lambda settings: address)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the contract's suites only what is of notes runs on a server."""
    others = {
        item
        for item in items
        if item.path.name.startswith("test_contract") and item.path.parent.name == "team"
        if "notes" not in item.callspec.params.values()  # type: ignore[attr-defined]
    }
    items[:] = [item for item in items if item not in others]
