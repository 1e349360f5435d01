"""People of a team, each on a machine of their own, that share notes through a server."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from kode.memory.notes.system import Notes

from kode.config import MemoryConfig
from kode.config.model import Notes as Settings
from kode.plugins.team.address import Address
from kode.plugins.team.server import open_server
from tests.memory.notes.life import Clock, active, contents, opened
from tests.postgres import Postgres


@dataclass
class Team:
    server: Postgres
    database: str
    root: Path
    name: str = "platform"
    clock: Clock = field(default_factory=Clock)

    def url(self, person: str) -> str:
        return self.server.url(person, self.database)

    async def prepare(self, *people: str, scope: str = "*") -> None:
        async with open_server(Address(self.url("owner"), self.name, "server")) as server:
            await server.prepare()
            for person in people:
                await server.admit(person, scope)

    def config(self, person: str, name: str | None = None) -> MemoryConfig:
        notes = Settings(url=self.url(person), team=name or self.name, host=f"{person}s-laptop")
        return MemoryConfig(system="notes", notes=notes)

    async def opened(self, person: str, *, name: str | None = None, **changes: Any) -> Notes:
        """The memory of a person on their machine."""
        config = self.config(person, name)
        home = self.root / person
        home.mkdir(exist_ok=True)
        return await opened(home, clock=self.clock, config=config, **changes)


async def exchange(*people: Notes) -> None:
    """Everybody sends and receives; then everybody has what the others sent."""
    for _ in range(2):
        for one in people:
            assert one.team is not None
            one.team._not_before = 0.0
            await one.team.update(30.0)


def texts(system: Notes) -> set[str]:
    """What a person's copy holds."""
    return set(contents(active(system)))


def everything_of(connection: "psycopg.Connection[Any]", statement: str) -> list[str]:
    """All that a statement answers, notices and faults too."""
    said: list[str] = []
    connection.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
    try:
        if statement.startswith("COPY"):
            with connection.cursor().copy(statement) as rows:
                return [*said, *(bytes(row).decode() for row in rows)]
        cursor = connection.execute(statement)
        while True:
            if cursor.description:
                said += map(str, cursor.fetchall())
            if not cursor.nextset():
                return said
    except psycopg.Error as error:
        return [*said, str(error)]
