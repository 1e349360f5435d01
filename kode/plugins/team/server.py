"""A team's lines on PostgreSQL, and `kode memory team`, which manages who may see and write them.
The server itself checks each line (`schema.sql`).
"""

import asyncio
import hashlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from kode.plugin import (
    ConfigError,
    KodeError,
    MemoryRefused,
    Parser,
    RemoteAnswer,
    RemoteLine,
    keep_secret,
    kode_home,
    load_config,
    print_either,
    redact_secrets,
    require_extra,
)

Query = Callable[..., Awaitable[list[dict[str, Any]]]]
"""(statement, its values after the first, which is always the team) → rows."""
CONNECT_S = 5
LOCK_MS = 20_000
"""How long writing a line waits for colleagues who are writing theirs."""
ALL = "*"
"""The scope of a member who sees all lines of the team."""
_NEW_LINES = """
SELECT id, scope, line AS text, seq AS number, person, host,
    to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS at
FROM kode.lines WHERE team = %s AND seq > %s ORDER BY seq"""
_MEMBERSHIP = """
SELECT session_user AS person, array(
    SELECT scope FROM kode.members WHERE team = %s AND person = session_user ORDER BY scope
) AS scopes"""
_ADMIT = """
INSERT INTO kode.members VALUES (%s, coalesce(%s::text, session_user), %s) ON CONFLICT DO NOTHING"""
_DISMISS = """
DELETE FROM kode.members WHERE team = %s AND person = %s AND %s IN ('*', scope) RETURNING 1"""
_MEMBERS = "SELECT person, scope FROM kode.members WHERE team = %s ORDER BY 1, 2"


def open_log(settings: Any) -> "TeamLog":
    """The log that a config's `memory.notes` names. Raises: ConfigError."""
    if settings.url is None:
        raise ConfigError(
            "Set memory.notes.url, or KODE_NOTES_URL, to an address like postgresql://ada@db/kode."
        )
    try:
        parts = urlsplit(settings.url)
        keep_secret(unquote(parts.password or ""))
        parts.port  # noqa: B018 - reading it checks it
    except ValueError:  # whose text may quote a password
        raise ConfigError(
            "memory.notes.url cannot be read. Write it as postgresql://PERSON@HOST/DATABASE, with "
            "special characters of a password percent-encoded (/ as %2F, @ as %40)."
        ) from None
    host = settings.host or socket.gethostname().split(".")[0] or "unnamed"
    return TeamLog(settings.url, settings.team, host)


@dataclass(frozen=True)
class TeamLog:
    """A team's log, a `RemoteLog` of memory. Each exchange opens a connection of its own."""

    url: str
    """The address, for libpq. It may contain a password: show `label` instead."""
    team: str
    host: str
    """The name of this machine that colleagues see with each change."""

    @property
    def _parts(self) -> tuple[str, str, str, str]:
        """Person, server, port and database, as far as the address names them."""
        parts = urlsplit(self.url)
        query, server = dict(parse_qsl(parts.query)), parts.netloc.rpartition("@")[2]
        person = unquote(parts.username or "") or query.get("user", "")
        database = unquote(parts.path.strip("/")) or query.get("dbname", "")
        return person, server or query.get("host", ""), query.get("port", ""), database

    @property
    def label(self) -> str:
        """`platform on db.example:5432/kode`, without a password."""
        server, database = self._parts[1::2]
        return f"{self.team} on {server or 'this machine'}/{database}"

    @property
    def key(self) -> str:
        """A key per server, person and team, since each may be allowed to see other lines."""
        return hashlib.sha256("\0".join((*self._parts, self.team)).encode()).hexdigest()[:16]

    async def exchange(self, after: int, lines: Sequence[RemoteLine]) -> RemoteAnswer:
        """See `kode.memory.contract.RemoteLog`."""
        refused, add = dict[str, str](), "SELECT kode.add_line(%s, %s, %s, %s, %s)"
        async with self.open() as query:
            for line in lines:
                try:
                    await query(add, line.id, line.scope, self.host, line.text)
                except MemoryRefused as error:
                    refused[line.id] = str(error)
            (member,) = await query(_MEMBERSHIP)
            new = [RemoteLine(**row) for row in await query(_NEW_LINES, after)]
        return RemoteAnswer(**member, lines=new, refused=refused)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Query]:
        """A connection for as long as the block. Raises, like each query: MemoryRefused; KodeError
        for a server that does not answer."""
        require_extra("team", MemoryRefused)
        import psycopg
        from psycopg.rows import dict_row

        with self._convert_errors():
            connection = await psycopg.AsyncConnection.connect(
                self.url,
                autocommit=True,
                row_factory=dict_row,
                connect_timeout=CONNECT_S,
                application_name="kode",
                options=f"-c lock_timeout={LOCK_MS} -c client_encoding=UTF8",
            )

        async def query(sql: str, *values: Any) -> list[dict[str, Any]]:
            with self._convert_errors():
                # A script of several statements takes no values.
                needed = (self.team, *values) if "%s" in sql else None
                cursor = await connection.execute(sql.encode(), needed)
                return await cursor.fetchall() if cursor.description else []

        try:
            yield query
        finally:
            await connection.close()

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Converts psycopg's errors to those of kode, with passwords masked."""
        from psycopg import Error, InterfaceError, OperationalError, errors

        try:
            yield
        except (errors.InvalidSchemaName, errors.UndefinedTable, errors.UndefinedFunction) as error:
            raise MemoryRefused(
                "The database lacks tables of a team. Whoever owns it runs `kode memory team "
                "init`, again after an update of kode."
            ) from error
        except (Error, UnicodeEncodeError) as error:
            line = redact_secrets(" ".join(str(error).split("\n")[0].split())).rstrip(".")
            if not isinstance(error, OperationalError | InterfaceError):
                raise MemoryRefused(f"The server refused it: {line}.") from error
            raise KodeError(
                f"{self.label} cannot be reached ({line}). Check memory.notes.url; until it "
                "answers, kode works with what is here, and sends later what is remembered."
            ) from error


# ── kode memory team ─────────────────────────────────────────────────────────────────────────────


def main(argv: Sequence[str]) -> int:
    """Runs `kode memory team ...`. Raises: ConfigError, MemoryRefused, KodeError."""
    parser = Parser("kode memory team", "The members of a team's notes.")
    parser.add_argument("action", nargs="?", choices=("init", "admit", "dismiss"))
    parser.add_argument("person", nargs="?", metavar="PERSON", help="a role of the server")
    parser.add_argument("--project", default=ALL, help="only this: github.com/org/repo")
    values = parser.parse(argv, mixed=True)
    notes = load_config(kode_home(), Path.cwd(), environ=os.environ, flags={}).config.memory.notes
    text = asyncio.run(manage_team(open_log(notes), values.action, values.person, values.project))
    print_either(None, text.split("\n"), as_json=False)
    return 0


async def manage_team(
    log: TeamLog, action: str | None, person: str | None, scope: str = ALL
) -> str:
    """Carries out one action, and returns what it did as text; without an action, lists the
    members. Raises: ConfigError, MemoryRefused, KodeError."""
    if (person is None) == (action in ("admit", "dismiss")):
        raise ConfigError(
            "`kode memory team admit PERSON` and `dismiss PERSON` name a role of the server; "
            "`init` and the list of the members take no person."
        )
    team = f"{'all' if scope == ALL else scope} of {log.label}"
    async with log.open() as query:
        if action == "init":
            await query(Path(__file__).with_name("schema.sql").read_text())
            await query(_ADMIT, None, ALL)
            return f"{log.label} is ready. Others join with `kode memory team admit PERSON`."
        if action == "admit":
            await query(_ADMIT, person, scope)
            return f"{person} sees and writes {team}"
        if action == "dismiss":
            if not await query(_DISMISS, person, scope):
                return f"{person} was no member of {team}"
            return f"{person} sees {team} no more, and what they got goes when they next connect"
        rows = await query(_MEMBERS)
    lines = [f"  {row['person']}: {row['scope']}".replace(": *", ": all") for row in rows]
    return "\n".join([f"members of {log.label}, as far as you may see:", *lines])
