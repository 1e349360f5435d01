"""The one door to psycopg: a team's lines on PostgreSQL, and its members. Who may see which lines
the server decides (`schema.sql`).
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib import resources
from typing import TYPE_CHECKING, Any

from kode.plugin import (
    KodeError,
    MemoryRefused,
    RemoteAnswer,
    RemoteLine,
    redact_secrets,
    require_extra,
)
from kode.plugins.team.address import Address, team_of

if TYPE_CHECKING:
    import psycopg

CONNECT_S = 5
REACH_S = 4.0
"""How long `kode doctor` waits for the server."""
LOCK_MS = 20_000
"""How long a line waits for those of colleagues."""
MAX_LINES = 1_000
"""Of one answer."""
SCHEMA = resources.files("kode.plugins.team").joinpath("schema.sql")


class Unreachable(MemoryRefused):
    """The server does not answer."""


def open_log(settings: Any) -> "TeamLog":
    """The server that a config's `memory.notes` names. Raises: ConfigError."""
    return TeamLog(team_of(settings))


class TeamLog:
    """A team's log, as memory uses it: a connection for each exchange."""

    def __init__(self, address: Address) -> None:
        self._address = address

    @property
    def key(self) -> str:
        return self._address.key

    @property
    def label(self) -> str:
        return self._address.label

    async def exchange(self, after: int, lines: Sequence[RemoteLine]) -> RemoteAnswer:
        """See `kode.contracts.RemoteLog`."""
        refused = dict[str, str]()
        try:
            async with open_server(self._address) as server:
                for line in lines:
                    try:
                        await server.add(line)
                    except Unreachable:
                        raise
                    except MemoryRefused as error:
                        refused[line.id] = str(error)
                person, scopes = await server.membership()
                return RemoteAnswer(
                    person=person,
                    scopes=scopes,
                    lines=await server.lines_after(after),
                    refused=refused,
                )
        except Unreachable as error:
            raise Unreachable(
                f"{self.label} cannot be reached ({error}). kode works with what is here; what is "
                "remembered is sent when the server is back."
            ) from error


class Server:
    """An open connection, for one team. Methods raise MemoryRefused, Unreachable."""

    def __init__(self, connection: "psycopg.AsyncConnection[Any]", address: Address) -> None:
        self._connection = connection
        self._team, self._host = address.team, address.host

    async def membership(self) -> tuple[str, tuple[str, ...]]:
        """The role that logged in, and the scopes that it sees: `*`, or projects."""
        sql = (
            "SELECT session_user, array(SELECT scope FROM kode.members WHERE team = %s "
            "AND person = session_user ORDER BY scope)"
        )
        ((person, scopes),) = await self._rows(sql, (self._team,))
        return str(person), tuple(scopes)

    async def add(self, line: RemoteLine) -> None:
        sql = "SELECT kode.add_line(%s, %s, %s, %s, %s)"
        await self._rows(sql, (self._team, line.id, line.scope, self._host, line.text))

    async def lines_after(self, number: int) -> list[RemoteLine]:
        """The next lines, oldest first."""
        sql = (
            "SELECT id, scope, line, seq, person, host, "
            "to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') FROM kode.lines "
            "WHERE team = %s AND seq > %s ORDER BY seq LIMIT %s"
        )
        names = ("id", "scope", "text", "number", "person", "host", "at")
        rows = await self._rows(sql, (self._team, number, MAX_LINES))
        return [RemoteLine(**dict(zip(names, row, strict=True))) for row in rows]

    async def prepare(self) -> str:
        """Makes the tables, or brings them up to date, and admits whoever asks; their name."""
        with _faults():
            async with self._connection.transaction():
                await self._connection.execute(SCHEMA.read_bytes())
        person, _ = await self.membership()
        await self.admit(person, "*")
        return person

    # ── who is of the team ───────────────────────────────────────────────────────────────────

    async def admit(self, person: str, scope: str) -> None:
        """Lets a role see and write a scope."""
        sql = "INSERT INTO kode.members VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
        await self._run(sql, (self._team, person, scope))

    async def dismiss(self, person: str, scope: str) -> int:
        """Takes that back; how many memberships that were."""
        sql = "DELETE FROM kode.members WHERE team = %s AND person = %s AND %s IN ('*', scope)"
        return await self._run(sql, (self._team, person, scope))

    async def members(self) -> list[tuple[str, str]]:
        """Person and scope of all; who does not own the tables sees their own."""
        sql = "SELECT person, scope FROM kode.members WHERE team = %s ORDER BY 1, 2"
        return [(person, scope) for person, scope in await self._rows(sql, (self._team,))]

    async def _rows(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with _faults():
            cursor = await self._connection.execute(sql.encode(), values)
            return await cursor.fetchall()

    async def _run(self, sql: str, values: Sequence[Any]) -> int:
        with _faults():
            return (await self._connection.execute(sql.encode(), values)).rowcount


async def describe_reach(address: Address) -> tuple[bool, str]:
    """Whether the server answers in time, and a sentence about that."""
    try:
        async with asyncio.timeout(REACH_S), open_server(address) as server:
            person, scopes = await server.membership()
    except (KodeError, TimeoutError) as error:
        return False, f"{address.label}: cannot be reached: {error or 'no answer in time'}"
    return True, f"{address.label}: reached as {person} ({', '.join(scopes) or 'no member'})"


@asynccontextmanager
async def open_server(address: Address) -> AsyncIterator[Server]:
    """A connection for as long as the block. Raises: MemoryRefused, Unreachable."""
    require_extra("team", MemoryRefused)
    import psycopg

    with _faults():
        connection = await psycopg.AsyncConnection.connect(
            address.url,
            autocommit=True,
            connect_timeout=CONNECT_S,
            application_name="kode",
            options=f"-c lock_timeout={LOCK_MS} -c client_encoding=UTF8",
        )
    try:
        yield Server(connection, address)
    finally:
        await connection.close()


@contextmanager
def _faults() -> Iterator[None]:
    """psycopg's errors as those of kode; no password is in them."""
    import psycopg
    from psycopg import errors

    try:
        yield
    except (errors.InvalidSchemaName, errors.UndefinedTable, errors.UndefinedFunction) as error:
        raise MemoryRefused(
            "The database lacks tables of a team. Whoever owns it runs `kode memory team init`, "
            "again after an update of kode."
        ) from error
    except errors.InsufficientPrivilege as error:
        raise MemoryRefused(f"The server refused it: {_first_line(error)}.") from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise Unreachable(_first_line(error)) from error
    except (psycopg.Error, UnicodeEncodeError) as error:
        raise MemoryRefused(f"The server refused it: {_first_line(error)}.") from error


def _first_line(error: Exception) -> str:
    return redact_secrets(" ".join(str(error).split("\n")[0].split())).rstrip(".")
