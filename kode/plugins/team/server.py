"""The one door to psycopg: a team's changes and notes on PostgreSQL. What is done with them is in
`exchange.py`; who may see which rows the server decides (`schema.sql`).
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from kode.plugin import KodeError, LedgerLine, MemoryRefused, Row, redact_secrets, require_extra
from kode.plugins.team.address import Address

if TYPE_CHECKING:
    import psycopg

CONNECT_S = 5
OPEN_S = 4.0
"""How long a status waits for the server."""
RETRY_S = 30.0
"""A server that did not answer is not asked again for this long."""
LOCK_MS = 20_000
"""How long a change waits for those of colleagues."""
MAX_DEPTH = 100
"""A note has two levels; SQLite reads a thousand, and newer Pythons more than it."""
SCHEMA = resources.files("kode.plugins.team").joinpath("schema.sql")
LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('kode ' || %s, 0))"


Start = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
"""Runs work in the background of an open memory."""


class Unreachable(MemoryRefused):
    """The server does not answer. What was written waits in the copy."""


class Stale(MemoryRefused):
    """A note was changed since it was looked at."""


@dataclass(frozen=True)
class Membership:
    person: str
    """The role that logged in."""
    scopes: tuple[str, ...]
    """`*` for all of the team, else projects as `project:NAME`; none for somebody else."""

    def sees(self, scope: str) -> bool:
        """Whether notes of this scope are theirs to see."""
        return "*" in self.scopes or scope in self.scopes


class Server:
    """An open connection, for one team."""

    def __init__(self, connection: "psycopg.AsyncConnection[Any]", team: str) -> None:
        self._connection = connection
        self._team = team

    async def membership(self) -> Membership:
        """Raises: MemoryRefused where the server has no notes; Unreachable."""
        sql = (
            "SELECT session_user, array(SELECT scope FROM kode.members WHERE team = %s "
            "AND person = session_user ORDER BY scope)"
        )
        ((person, scopes),) = await self._rows(sql, (self._team,))
        return Membership(person, tuple(scopes))

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """A transaction in which nobody else changes the team's notes."""
        with _faults():
            async with self._connection.transaction():
                await self._connection.execute(LOCK, (self._team,))
                yield

    async def recorded_id(self, push: str) -> str | None:
        """The id of the change that was sent as `push`; None where it did not arrive."""
        sql = "SELECT change ->> 'id' FROM kode.changes WHERE team = %s AND push = %s"
        rows = await self._rows(sql, (self._team, push))
        return str(rows[0][0]) if rows else None

    async def stands(self, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The notes that stand, by id, of those asked for."""
        sql = "SELECT id, note FROM kode.notes WHERE team = %s AND NOT gone AND id = ANY(%s)"
        rows = await self._rows(sql, (self._team, list(ids)))
        return {id: note for id, note in rows if isinstance(note, dict)}

    async def append(
        self,
        scope: str,
        push: str,
        host: str,
        change: Row,
        before: Sequence[Row],
        after: Sequence[Row],
    ) -> None:
        """Raises: Stale; MemoryRefused for what this person may not do; Unreachable."""
        sql = "SELECT kode.append(%s, %s, %s, %s, %s, %s, %s)"
        values = [json.dumps(one, ensure_ascii=False) for one in (change, before, after)]
        await self._rows(sql, (self._team, scope, push, host, *values))

    async def since(self, seq: int, most: int) -> list[tuple[int, LedgerLine]]:
        """The changes after this one, oldest first, each with its number."""
        sql = (
            "SELECT seq, person, host, change, before, after FROM kode.changes "
            "WHERE team = %s AND seq > %s ORDER BY seq LIMIT %s"
        )
        return [
            (
                seq,
                LedgerLine(
                    change=change if isinstance(change, dict) else {},
                    before=_notes(before),
                    after=_notes(after),
                    person=person,
                    host=host,
                ),
            )
            for seq, person, host, change, before, after in await self._rows(
                sql, (self._team, seq, most)
            )
        ]

    async def prepare(self) -> str:
        """Makes the tables, or brings them up to date, and admits whoever asks; their name."""
        with _faults():
            async with self._connection.transaction():
                await self._connection.execute(SCHEMA.read_bytes())
            ((person,),) = await self._rows("SELECT session_user", ())
        await self.admit(str(person), "*")
        return str(person)

    # ── who is of the team ───────────────────────────────────────────────────────────────────

    async def admit(self, person: str, scope: str) -> None:
        """Lets a role see and write a scope. Raises: MemoryRefused for who may not decide that."""
        sql = "INSERT INTO kode.members VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
        await self._run(sql, (self._team, person, scope))

    async def dismiss(self, person: str, scope: str) -> int:
        """Takes that back; how many memberships that were. Raises as `admit`."""
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
        async with asyncio.timeout(OPEN_S), open_server(address) as server:
            member = await server.membership()
    except (KodeError, TimeoutError) as error:
        return False, f"{address.label}: cannot be reached: {error or 'no answer in time'}"
    scopes = ", ".join(member.scopes) or "no member"
    return True, f"{address.label}: reached as {member.person} ({scopes})"


@asynccontextmanager
async def open_server(address: Address) -> AsyncIterator[Server]:
    """A connection for as long as the block. Raises: MemoryRefused, Unreachable."""
    require_extra("team", MemoryRefused)
    import psycopg
    from psycopg.types.json import set_json_loads

    with _faults():
        connection = await psycopg.AsyncConnection.connect(
            address.url,
            autocommit=True,
            connect_timeout=CONNECT_S,
            application_name="kode",
            options=f"-c lock_timeout={LOCK_MS} -c client_encoding=UTF8",
        )
    set_json_loads(_loads, connection)
    try:
        yield Server(connection, address.team)
    finally:
        await connection.close()


def _loads(data: str | bytes) -> Any:
    """The value; None for one that a colleague nested too deep for Python, or gave a number of
    thousands of digits: their rows must not hide those of others."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _values_in(outer)]
        if not level:
            return value
    return None


def _values_in(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _notes(value: Any) -> tuple[dict[str, Any], ...]:
    """The rows of a change's side, as far as they can be notes."""
    rows = value if isinstance(value, list) else []
    return tuple(row for row in rows if isinstance(row, dict) and "id" in row)


@contextmanager
def _faults() -> Iterator[None]:
    """psycopg's errors as those of the house; no password is in them."""
    import psycopg
    from psycopg import errors

    try:
        yield
    except (errors.InvalidSchemaName, errors.UndefinedTable, errors.UndefinedFunction) as error:
        raise MemoryRefused(
            "The database lacks tables of a team. Whoever owns it runs `kode memory team init`, "
            "again after an update of kode."
        ) from error
    except errors.SerializationFailure as error:
        raise Stale(_words(error)) from error
    except errors.InsufficientPrivilege as error:
        raise MemoryRefused(f"The server refused it: {_words(error)}.") from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise Unreachable(_words(error)) from error
    except psycopg.Error as error:
        raise MemoryRefused(f"The server refused it: {_words(error)}.") from error
    except UnicodeEncodeError as error:
        raise MemoryRefused(
            f"{error.object!r:.80} is not valid text: write it again in UTF-8."
        ) from error


def _words(error: Exception) -> str:
    return redact_secrets(" ".join(str(error).split("\n")[0].split())).rstrip(".")
