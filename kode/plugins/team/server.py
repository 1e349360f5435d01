"""The one door to psycopg: a team's changes, notes and list of sessions on PostgreSQL. What is done
with them is in `exchange.py` and `sessions.py`; who may see which rows the server decides
(`schema.sql`).
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode.plugin import credentials, extras
from kode.plugin.contracts import LedgerLine, Row
from kode.plugin.errors import MemoryRefused
from kode.plugins.team.address import Address

if TYPE_CHECKING:
    import psycopg

CONNECT_S = 5
RETRY_S = 30.0
"""A server that did not answer is not asked again for this long."""
LOCK_MS = 20_000
"""How long a change waits for those of colleagues."""
SCHEMA = Path(__file__).with_name("schema.sql")
VECTORS = Path(__file__).with_name("vectors.sql")
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
    has_vectors: bool
    """Whether members share vectors of notes there."""

    def sees(self, scope: str) -> bool:
        """Whether notes of this scope are theirs to see."""
        return "*" in self.scopes or scope in self.scopes

    @property
    def pgvector(self) -> str:
        """What that means for a member."""
        if self.has_vectors:
            return "pgvector: yes (vectors of memory.embedding are shared)"
        return (
            "pgvector: not when `kode memory team init` was last run (each member makes the "
            "vectors of memory.embedding)"
        )


@dataclass(frozen=True)
class KeptVector:
    """A vector as the server has it."""

    digest: str
    """The SHA-256 of the text that it was made from."""
    embedding: str
    """A JSON array."""
    person: str
    """Who sent it."""


class Server:
    """An open connection, for one team."""

    def __init__(self, connection: "psycopg.AsyncConnection[Any]", team: str) -> None:
        self._connection = connection
        self._team = team

    async def membership(self) -> Membership:
        """Raises: MemoryRefused where the server has no notes; Unreachable."""
        sql = (
            "SELECT session_user, array(SELECT scope FROM kode.members WHERE team = %s "
            "AND person = session_user ORDER BY scope), to_regclass('kode.vectors') IS NOT NULL"
        )
        ((person, scopes, has_vectors),) = await self._rows(sql, (self._team,))
        return Membership(person, tuple(scopes), has_vectors)

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

    async def sent(self) -> set[tuple[str, str]]:
        """Id and time of every change of this person's."""
        sql = (
            "SELECT change ->> 'id', change ->> 'at' FROM kode.changes "
            "WHERE team = %s AND person = session_user"
        )
        return {(id, at) for id, at in await self._rows(sql, (self._team,))}

    async def prepare(self) -> str:
        """Makes the tables, or brings them up to date, and admits whoever asks; their name."""
        with _faults():
            async with self._connection.transaction():
                await self._connection.execute(SCHEMA.read_bytes())
            ((person,),) = await self._rows("SELECT session_user", ())
        await self.admit(str(person), "*")
        return str(person)

    async def prepare_vectors(self) -> str:
        """Makes the tables of vectors, or brings them up to date, where there is pgvector; else why
        there are none, for who can change that. After `prepare`. Raises: Unreachable."""
        offered = "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
        if not await self._rows(offered, ()):
            return "the server does not offer it"
        sql = (
            "SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n "
            "ON n.oid = e.extnamespace WHERE e.extname = 'vector' "
            "AND EXISTS (SELECT 1 FROM pg_am WHERE amname = 'hnsw')"
        )
        try:
            await self._run("CREATE EXTENSION IF NOT EXISTS vector", ())
            found = await self._rows(sql, ())
            if not found:
                return (
                    "it is older than 0.5; an administrator can update it, before this runs again"
                )
            with _faults():
                async with self._connection.transaction():
                    text = VECTORS.read_text().replace("@ext@", found[0][0])
                    await self._connection.execute(text.encode())
        except Unreachable:
            raise
        except MemoryRefused as error:
            return (
                f"{error} An administrator can run CREATE EXTENSION vector in this database, "
                "before this runs again"
            )
        return ""

    # ── vectors of notes, where `Membership.has_vectors` ─────────────────────────────────────

    async def vectors(self, model: str, dims: int, ids: Sequence[str]) -> dict[str, KeptVector]:
        """Those of these notes, by id."""
        sql = (
            "SELECT v.id, v.digest, v.embedding::text, v.person FROM kode.vectors v "
            "JOIN kode.spaces s USING (space) "
            "WHERE s.team = %s AND s.model = %s AND s.dims = %s AND v.id = ANY(%s)"
        )
        rows = await self._rows(sql, (self._team, model, dims, ids))
        return {id: KeptVector(*row) for id, *row in rows}

    async def lacking(self, model: str, dims: int, after: str, most: int) -> list[str]:
        """The ids after this one, in order, of notes that have no vector there."""
        sql = "SELECT kode.lacking(%s, %s, %s, %s, %s)"
        return [id for (id,) in await self._rows(sql, (self._team, model, dims, after, most))]

    async def keep_vectors(self, model: str, dims: int, vectors: list[dict[str, str]]) -> None:
        """Each of them `id`, `digest` and `vector`, as `KeptVector` has them. What fits no note
        that stands is passed over. Raises: MemoryRefused, Unreachable."""
        sql = "SELECT kode.keep_vectors(%s, %s, %s, %s)"
        await self._rows(sql, (self._team, model, dims, json.dumps(vectors)))

    async def nearest(
        self, model: str, vector: str, project: str | None, most: int
    ) -> dict[str, float]:
        """Cosines by id; of all projects, or of notes that a project sees."""
        sql = "SELECT id, cosine FROM kode.nearest(%s, %s, %s, %s, %s)"
        return dict(await self._rows(sql, (self._team, model, vector, project, most)))

    # ── sessions ─────────────────────────────────────────────────────────────────────────────

    async def share_sessions(self, home: str, host: str, lines: list[dict[str, Any]]) -> None:
        """Stores lines of this person's sessions; see `sessions.py`. Raises: MemoryRefused."""
        sql = "SELECT kode.share_sessions(%s, %s, %s, %s)"
        await self._rows(sql, (self._team, home, host, json.dumps(lines)))

    async def unshare_sessions(self, home: str, ids: Sequence[str] | None = None) -> int:
        """Removes lines that this person sent from a home, with None all; returns how many."""
        sql = "SELECT kode.unshare_sessions(%s, %s, %s)"
        ((count,),) = await self._rows(sql, (self._team, home, None if ids is None else [*ids]))
        return int(count)

    async def shared_from(self, home: str) -> dict[str, str]:
        """`changed` of each line that this person sent from a home, by the session's id."""
        sql = (
            "SELECT id, coalesce(line ->> 'changed', '') FROM kode.sessions "
            "WHERE team = %s AND person = session_user AND home = %s"
        )
        return dict(await self._rows(sql, (self._team, home)))

    async def sessions(
        self,
        *,
        scope: str | None = None,
        begins: str = "",
        words: Sequence[str] = (),
        most: int | None = None,
    ) -> list[tuple[str, str, dict[str, Any]]]:
        """Person, host and line of the sessions that this person sees, the last used first.
        Filters: a scope, the beginning of an id, words that the task contains."""
        sql = (
            "SELECT person, host, line FROM kode.sessions WHERE team = %s "
            "AND (%s::text IS NULL OR scope = %s) AND starts_with(id, %s) "
            "AND NOT EXISTS (SELECT 1 FROM unnest(%s::text[]) w "
            "WHERE strpos(lower(line ->> 'task'), lower(w)) = 0) "
            "ORDER BY used_at DESC, id LIMIT %s"
        )
        values = (self._team, scope, scope, begins, [*words], most)
        return [(person, host, line) for person, host, line in await self._rows(sql, values)]

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


@asynccontextmanager
async def open_server(address: Address) -> AsyncIterator[Server]:
    """A connection for as long as the block. Raises: MemoryRefused, Unreachable."""
    extras.require("team", MemoryRefused)
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
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


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
    return credentials.redact(" ".join(str(error).split("\n")[0].split())).rstrip(".")
