"""People of a team, each on a machine of their own, that share notes through a server."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from kode.config.model import Notes
from kode.events import Event, MemoryChanged, Notice
from kode.memory.notes.policy import NotesPolicy
from kode.memory.opened import Addition
from kode.memory.statement import Statement, Who
from kode.memory.system import Memory
from kode.plugins.team.address import Address
from kode.plugins.team.server import open_server
from tests.memory.sessions import Sessions
from tests.postgres import Postgres

ALONE = "alone"
"""In place of the name of a team: notes are the person's own."""
ALL_LINES = "SELECT line FROM kode.lines ORDER BY seq"


@dataclass
class Team:
    server: Postgres
    database: str
    root: Path
    name: str = "platform"

    def url(self, person: str) -> str:
        return self.server.url(person, self.database)

    def address(self, person: str = "owner", name: str = "") -> Address:
        return Address(self.url(person), name or self.name, f"{person}s-laptop")

    async def admit(self, *people: str, scope: str = "*", name: str = "") -> None:
        async with open_server(self.address(name=name)) as server:
            await server.prepare()
            for person in people:
                await server.admit(person, scope)

    def settings(self, person: str, name: str = "") -> dict[str, Any]:
        if name == ALONE:
            return {}
        host = f"{person}s-laptop"
        return {"notes": Notes(url=self.url(person), team=name or self.name, host=host)}

    async def open(
        self, person: str, *, name: str = "", machine: str = "", project: Path | None = None
    ) -> "Member":
        """A session of a person on their machine."""
        home = self.root / (machine or f"{person}s-laptop")
        home.mkdir(exist_ok=True)
        sessions = Sessions(home, "notes", self.settings(person, name), project=project)
        return Member(sessions, await sessions.open())

    def rows(self, sql: str = ALL_LINES, person: str = "owner") -> list[str]:
        with psycopg.connect(self.url(person)) as connection:
            return [str(row[0]) for row in connection.execute(sql.encode())]


@dataclass
class Member:
    sessions: Sessions
    memory: Memory

    @property
    def events(self) -> list[Event]:
        return self.sessions.events

    async def keep(self, text: str, *, who: Who = "model", target: str = "log", **more: Any) -> str:
        """Adds a note; its id."""
        opened = self.memory
        if target == "rule":
            more["details"] = {"evidence": ["seen"]}
        addition = Addition(target=target, text=text, **more)
        note = self.memory.policy.draft(opened, addition, opened.author(who))
        outcome = await opened.save(note, is_judged=False)
        assert outcome.statement
        return outcome.statement.id

    async def edit(self, id: str, text: str, who: Who = "model") -> None:
        opened = self.memory
        await opened.replace(opened.store.find(id), text, opened.author(who))

    async def forget(self, id: str) -> None:
        opened = self.memory
        await opened.store.forget(opened.store.find(id).id, opened.author("user"))

    def notes(self) -> list[Statement]:
        facts = self.memory.store.statements()
        return [note for note in facts if note.kind != "soul"]

    def texts(self) -> set[str]:
        return {note.text for note in self.notes()}

    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]

    def changes(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, MemoryChanged)]

    async def exchange(self) -> None:
        policy = self.memory.policy
        assert isinstance(policy, NotesPolicy)
        assert policy.team
        policy.team._not_before = 0.0
        await policy.follow(self.memory, 30.0)


async def exchange(*members: Member) -> None:
    """All send and receive; then each has what the others sent."""
    for _ in range(2):
        for member in members:
            await member.exchange()
