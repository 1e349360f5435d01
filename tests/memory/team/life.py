"""People of a team, each on a machine of their own, that share notes through a server."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from kode.config import Embedding, MemoryConfig
from kode.config.model import Notes as Settings
from kode.memory.notes.system import Notes
from kode.memory.notes.team.address import Address
from kode.memory.notes.team.server import open_server
from kode.memory.notes.team.sessions import team_sessions, update
from kode.memory.notes.team.vectors import TeamVectors
from kode.session import log, upkeep
from tests.memory.notes.life import Clock, active, contents, opened
from tests.postgres import Postgres
from tests.session.stories import plain_turn

MEANINGS = ("car automobile drive", "cheese food eat", "rain weather snow", "code bug parser")
DIMS = 64


class Model:
    """A direction for each meaning, and a little of the text itself."""

    def __init__(self, name: str = "small", dims: int = DIMS) -> None:
        self.name, self.dims = name, dims
        self.texts: list[str] = []
        self.fails = False

    async def embed(self, texts: Sequence[str]) -> Any:
        if self.fails:
            return None
        self.texts += texts
        return np.stack([self._vector(text) for text in texts])

    def _vector(self, text: str) -> Any:
        vector = np.zeros(self.dims, dtype=np.float32)
        for place, words in enumerate(MEANINGS):
            vector[place] = sum(word in text for word in words.split())
        own = np.random.default_rng(sum(text.encode())).standard_normal(self.dims)
        vector += own.astype(np.float32) / 50
        return vector / np.linalg.norm(vector)


def using(system: Notes, model: Model) -> Notes:
    """The same memory with a neural model."""
    assert system.team is not None
    system.vectors = TeamVectors(
        system.store,
        model,
        system.team.address,
        Embedding(provider="openai", model=model.name.partition("/")[0]),
        system._work.start,
        system._notice,
    )
    return system


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
            await server.prepare_vectors()
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


@dataclass
class Machine:
    """A person's machine: sessions of theirs, and what it sends."""

    team: Team
    person: str
    host: str
    name: str

    @property
    def home(self) -> Path:
        return self.team.root / f"home-{self.host}"

    @property
    def address(self) -> Address:
        return Address(self.team.url(self.person), self.name, self.host)

    def project(self, name: str) -> Path:
        """A clone of a repository on this machine."""
        root = self.team.root / self.host / name
        (root / ".git").mkdir(parents=True, exist_ok=True)
        url = f"git@example.org:{name}.git"
        (root / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {url}\n')
        return root

    def work(self, task: str, *, project: str = "api", session_id: str | None = None) -> str:
        """A turn in a new session, or one more in an old one."""
        self._wait_for_a_later_time()
        if session_id is None:
            cwd = self.project(project)
            session = log.create(self.home, cwd=cwd, model="small", provider="scripted")
        else:
            session, _ = log.load(self.home, session_id)
        plain_turn(session, task)
        session.close()
        return str(session.id)

    def _wait_for_a_later_time(self) -> None:
        """Until the clock of the file system, which moves in steps, has left its millisecond: the
        order of sessions is that of their times."""
        probe = self.team.root / "probe"
        probe.touch()
        begun = probe.stat().st_mtime_ns // 1_000_000
        while probe.stat().st_mtime_ns // 1_000_000 == begun:
            probe.touch()

    def send(self) -> None:
        update(self.home, self.address)

    def delete(self, session_id: str) -> None:
        upkeep.delete(self.home, session_id)

    def sees(self, **wanted) -> list[str]:
        return [one.task for one in team_sessions(self.address, **wanted)]


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
