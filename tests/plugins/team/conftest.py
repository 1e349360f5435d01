"""People of a team, each on a machine of their own, that share notes through a server. Each test
has a database of its own on it.
"""

import itertools
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kode.config.model import Notes
from kode.memory.notes.policy import NotesPolicy
from kode.memory.policy import Addition
from kode.memory.statement import Statement, Who
from kode.memory.system import Memory
from kode.plugins.team.server import TeamLog, manage_team
from tests.memory.sessions import START, Sessions
from tests.plugins.team.postgres import PACKAGE, SYSTEM, Postgres, programs, started

ALONE = "alone"
"""In place of the name of a team: notes are the person's own."""


@dataclass
class Team:
    server: Postgres
    database: str
    root: Path
    now: datetime = START
    """By the clocks of all machines."""

    def tick(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def url(self, person: str) -> str:
        return self.server.url(person, self.database)

    async def admit(self, *people: str, scope: str = "*", name: str = "platform") -> None:
        log = TeamLog(self.url("owner"), name, "server")
        await manage_team(log, "init", None)
        for person in people:
            await manage_team(log, "admit", person, scope)

    async def open(
        self, person: str, *, name: str = "platform", machine: str = "", project: Path | None = None
    ) -> "Member":
        """A session of a person on their machine."""
        home = self.root / (machine or f"{person}s-laptop")
        home.mkdir(exist_ok=True)
        notes = Notes(url=self.url(person), team=name, host=home.name)
        settings = {} if name == ALONE else {"notes": notes}
        sessions = Sessions(home, "notes", settings, project=project)
        return Member(sessions, await sessions.open(now=self.tick))

    def rows(self, sql: str) -> list[str]:
        """The first column of what the owner gets."""
        import psycopg

        with psycopg.connect(self.url("owner")) as connection:
            return [str(row[0]) for row in connection.execute(sql.encode())]


@dataclass
class Member:
    sessions: Sessions
    memory: Memory

    async def keep(self, text: str, *, who: Who = "model", target: str = "log", **more: Any) -> str:
        """Adds a note; its id."""
        details = {"evidence": ["seen"]} if target == "rule" else {}
        addition = Addition(target=target, text=text, details=details, **more)
        note = self.memory.policy.draft(self.memory, addition, self.memory.author(who))
        outcome = await self.memory.save(note)
        assert outcome.statement
        return outcome.statement.id

    async def edit(self, id: str, text: str) -> None:
        old = self.memory.store.find(id)
        new = self.memory.store.new_version(old, text, self.memory.author())
        await self.memory.save(new, old=old)

    async def forget(self, words: str) -> None:
        store = self.memory.store
        await store.forget(store.find(words).id, self.memory.author("user"))

    def notes(self) -> list[Statement]:
        return [note for note in self.memory.store.statements() if note.kind != "soul"]

    def texts(self) -> set[str]:
        return {note.text for note in self.notes()}

    def lines_with(self, words: str) -> list[str]:
        """The lines that the person was told with these words in them."""
        texts = (str(getattr(event, "text", "")) for event in self.sessions.events)
        return [text for text in texts if words in text]


async def exchange(*members: Member) -> None:
    """All send and receive; then each has what the others sent."""
    for member in (*members, *members):
        policy = member.memory.policy
        assert isinstance(policy, NotesPolicy)
        assert policy.team
        policy.team._not_before = 0.0
        await policy.follow(member.memory, 30.0)


_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server():
    """The system's own where there is one."""
    running = started(SYSTEM if programs(SYSTEM) else PACKAGE)
    yield running
    running.end()


@pytest.fixture
async def team(server, tmp_path):
    """Ada, Bob and Eve, of whom the first two are of the team."""
    name = f"kode{next(_numbers)}"
    server.make_database(name, "ada", "bob", "eve")
    team = Team(server, name, tmp_path)
    await team.admit("ada", "bob")
    yield team
    server.drop_database(name)
