"""The list of sessions that a team shares: one line a session on the server, with the beginning of
its first task and no other message.

There is no queue: comparing the session files with the server's lines shows what to send, also
after a day offline.
"""

import asyncio
import json
import math
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, wait
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from kode.plugin import (
    Opened,
    credentials,
    durable,
    load_config,
    paths,
    session_files,
    summarize_session,
)
from kode.plugin.contracts import ListedSession
from kode.plugin.errors import ConfigError, KodeError, StorageError
from kode.plugin.events import Emit, Event, Notice, TurnEnded, TurnStarted
from kode.plugins.team.address import (
    PROJECT_SCOPE,
    Address,
    address_of,
    origin_of,
    project_name,
    team_of,
)
from kode.plugins.team.server import RETRY_S, Unreachable, open_server

ANSWER_S = 8.0
"""How long a command waits for the server."""
END_S = 1.0
"""How long the end of a process waits for it."""
AT_ONCE = 200
"""Lines of one request."""
MAX_CHARS = 1_000
"""Of each text in a line."""
MAX_NUMBER = 1e12

ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
"""Of a session."""

T = TypeVar("T")
_TEXTS = ("task", "cwd", "project", "model", "provider", "created_at", "updated_at")
_COUNTS = ("turns", "tokens")


# ── at the command line ──────────────────────────────────────────────────────────────────────


class Shared:
    """The team's list as the person's config has it, for `kode session`."""

    about = "shared by your team"

    @property
    def is_set_up(self) -> bool:
        try:
            return address_of(self._config().memory.notes) is not None
        except ConfigError:
            return False  # the next command that needs the settings says what is wrong with them

    def sessions(
        self,
        *,
        project: Path | None = None,
        begins: str = "",
        words: Sequence[str] = (),
        most: int | None = None,
    ) -> list[ListedSession]:
        address = team_of(self._config().memory.notes)
        return team_sessions(address, project=project, begins=begins, words=words, most=most)

    def nothing(self, *, filtered: bool) -> str:
        return "Your team shares no such session." if filtered else "Your team shares none yet."

    def deleted(self) -> None:
        config = self._config()
        if config.sessions.share:
            update(paths.home(), team_of(config.memory.notes))

    def _config(self) -> Any:
        return load_config(paths.home(), Path.cwd(), environ=os.environ, flags={}).config


SHARED = Shared()

# ── reading ──────────────────────────────────────────────────────────────────────────────────


def team_sessions(
    address: Address,
    *,
    project: Path | None = None,
    begins: str = "",
    words: Sequence[str] = (),
    most: int | None = None,
) -> list[ListedSession]:
    """The sessions that members share, the last used first. Filters: the project of a folder, the
    beginning of an id, words that the task contains.

    Raises: MemoryRefused; Unreachable, also when the server does not answer in time.
    """
    scope = None if project is None else PROJECT_SCOPE + _project_of(project)

    async def ask() -> list[ListedSession]:
        async with open_server(address) as server:
            rows = await server.sessions(scope=scope, begins=begins, words=words, most=most)
        return [one for row in rows if (one := _read(*row)) is not None]

    return _answer(ask, address)


def _read(person: str, host: str, line: Any) -> ListedSession | None:
    """Reads a line that any program may have written; None if it is malformed."""
    if not isinstance(line, dict) or not ID.fullmatch(str(line.get("id"))):
        return None
    given: dict[str, Any] = {name: _text(line.get(name)) for name in _TEXTS}
    # A number of JSON may be infinite, or have thousands of digits.
    for name in _COUNTS:
        count = line.get(name)
        given[name] = count if isinstance(count, int) and 0 <= count < MAX_NUMBER else 0
    cost = line.get("cost_usd")
    is_price = isinstance(cost, int | float) and 0 <= cost < MAX_NUMBER
    given["cost_usd"] = cost if is_price else None
    return ListedSession(id=line["id"], person=_text(person), host=_text(host), **given)


def _text(value: Any) -> str:
    return value[:MAX_CHARS] if isinstance(value, str) else ""


def _project_of(folder: Path) -> str:
    root = paths.project_root(folder)
    source = Path(origin_of(root))
    # A fleet's tasks run in clones of a local folder: they belong to that folder's project.
    return project_name(source if source.is_absolute() and (source / ".git").exists() else root)


# ── sending ──────────────────────────────────────────────────────────────────────────────────


def update(home: Path, address: Address) -> None:
    """Sends the lines of this home's sessions that changed, and removes those of deleted ones.
    Raises: MemoryRefused, Unreachable, StorageError, BusyError."""
    _answer(partial(_send, home, address, None, time.time()), address)


def withdraw(home: Path, address: Address) -> int:
    """Removes all lines of this home from the server and returns how many. Sessions used before now
    are not shared again. Raises as `update`."""

    async def ask() -> int:
        async with open_server(address) as server:
            return await server.unshare_sessions(_mark(home, address, time.time()).home)

    count = _answer(ask, address)
    durable.remove(mark_file(home, address.key))
    return count


async def _send(home: Path, address: Address, only: str | None, begun: float) -> None:
    """Sends the line of one session; with None, of all that changed, and removes the lines of
    deleted ones. The first time, `begun` becomes the start of sharing."""
    mark = _mark(home, address, begun)
    async with open_server(address) as server:
        if only is None:
            # The server first: a session that another kode starts meanwhile must not look deleted.
            known = await server.shared_from(mark.home)
            here = {id: changed for changed, id in session_files(home)}
            gone = [id for id in known if id not in here]
            if gone:
                await server.unshare_sessions(mark.home, gone)
            fresh = [id for id, at in here.items() if at >= mark.since and known.get(id) != str(at)]
        else:
            fresh = [only]
        for first in range(0, len(fresh), AT_ONCE):
            lines = [_line(home, id, mark.since) for id in fresh[first : first + AT_ONCE]]
            if any(lines):
                await server.share_sessions(mark.home, address.host, [one for one in lines if one])


def _line(home: Path, session_id: str, since: float) -> dict[str, Any] | None:
    """The line of a session; None if it is not shared."""
    path = paths.session_file(home, session_id)
    try:
        changed = path.stat().st_mtime  # before the file is read: a later change is sent again
    except OSError:
        return None
    known = summarize_session(path)
    # A subagent's session is a part of its parent's; an imported one keeps its old times.
    if known.damaged or known.parent or not known.turns:
        return None
    if datetime.fromisoformat(known.updated_at).timestamp() < since:
        return None
    texts = {name: getattr(known, name) for name in _TEXTS if name != "project"}
    texts["project"] = _project_of(Path(known.cwd))
    return {
        "id": known.id,
        **{name: _clean(text) for name, text in texts.items()},
        **{name: getattr(known, name) for name in _COUNTS},
        "cost_usd": known.cost_usd,
        "changed": str(changed),
    }


def _clean(text: str) -> str:
    """Masks credentials, and drops characters that jsonb cannot store."""
    return (
        credentials.redact(text.replace("\0", ""))[:MAX_CHARS].encode("utf-8", "replace").decode()
    )


def mark_file(home: Path, key: str) -> Path:
    """Since when sessions are shared with a team; `key` stands for its address."""
    return home / "sharing" / f"{key}.json"


@dataclass(frozen=True)
class _Mark:
    home: str
    """A random id of this folder of sessions."""
    since: float
    """Sessions last used before this time are not shared; seconds since the epoch."""


def _mark(home: Path, address: Address, begun: float) -> _Mark:
    """The mark of this home for a team; creates a missing one. Raises: StorageError, BusyError."""
    path = mark_file(home, address.key)
    with durable.locked(path.parent):
        try:
            with durable.storage_errors(path, "read"):
                found = json.loads(path.read_bytes()) if path.exists() else None
            if found is not None:
                return _Mark(str(uuid.UUID(found["home"])), float(found["since"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            aside = durable.set_aside(path)
            raise StorageError(
                f"{path} was damaged and is now {aside.name}. Sessions used from now on are "
                "shared; the database's owner can remove lines of sessions deleted before."
            ) from None
        made = _Mark(str(uuid.uuid4()), math.floor(begun))
        durable.replace(path, json.dumps(asdict(made)).encode())
        return made


# ── beside the work ──────────────────────────────────────────────────────────────────────────


def hearing(opened: Opened) -> "Sharing | None":
    """What shares the sessions of a conversation; None, and a notice, without a server. Raises:
    ConfigError."""
    address = address_of(opened.config.memory.notes)
    if address is None:
        text = (
            "No session is shared: `sessions.share` is on, but memory.notes.url names no "
            "server. Set both or neither."
        )
        opened.emit(Notice(text=text))
        return None
    return Sharing(opened.home, address, opened.emit, lambda: opened.session_id)


class Sharing:
    """Hears a conversation, and sends the line of its session, and what earlier processes could not
    send, in the background; only the end of the process waits for it, for `END_S` at most."""

    def __init__(
        self, home: Path, address: Address, emit: Emit, session_id: Callable[[], str | None]
    ) -> None:
        self._home = home
        self._session_id = session_id
        self._address = address
        self._emit = emit
        self._opened = time.time()
        self._work: Future[None] | None = None
        self._sent = ""
        self._is_complete = False
        self._not_before = 0.0
        self._has_warned = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, TurnStarted | TurnEnded):
            self.begin(self._session_id())

    async def aclose(self) -> None:
        await self.finish(self._session_id())

    def begin(self, session_id: str | None) -> None:
        """Starts sending what changed in this session; the first time and after a fault, in all.
        Does nothing while a request runs, or shortly after a fault."""
        self._take_result()
        state = self._state(session_id)
        is_new = not self._is_complete or state != self._sent
        if self._work is None and is_new and time.monotonic() >= self._not_before:
            self._sent = state
            only = session_id if self._is_complete else None
            work = partial(_send, self._home, self._address, only, self._opened)
            self._work = _start(work)

    async def finish(self, session_id: str | None) -> None:
        """Sends what changed, at the end of the process; the next one sends what is late."""
        end = time.monotonic() + END_S
        self.begin(session_id)
        while self._work is not None:
            left_s = end - time.monotonic()
            if left_s <= 0:
                self._warn(f"no answer in {END_S:g} s")
                return
            await asyncio.to_thread(wait, [self._work], left_s)
            self.begin(session_id)  # the finished request may be older than the last turn

    def _state(self, session_id: str | None) -> str:
        """Changes with the session's file; "" without one."""
        if session_id is None:
            return ""
        try:
            return f"{session_id} {paths.session_file(self._home, session_id).stat().st_mtime}"
        except OSError:
            return ""

    def _take_result(self) -> None:
        if self._work is None or not self._work.done():
            return
        work, self._work = self._work, None
        try:
            work.result()
            self._is_complete = True
        except KodeError as error:
            self._is_complete = False
            self._not_before = time.monotonic() + RETRY_S
            self._warn(str(error))

    def _warn(self, why: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._emit(
                Notice(
                    text=f"The list of sessions of {self._address.label} is not up to date "
                    f"({why.rstrip('.')}). kode sends the missing lines later."
                )
            )


# ── asking the server ────────────────────────────────────────────────────────────────────────


def _answer(work: Callable[[], Coroutine[Any, Any, T]], address: Address) -> T:
    done = _start(work)
    wait([done], ANSWER_S)
    if not done.done():
        raise Unreachable(f"{address.label} gives no answer in {ANSWER_S:g} s. Try again later.")
    try:
        return done.result()
    except Unreachable as error:
        raise Unreachable(
            f"{address.label} cannot be reached ({error}). Try again when the server is back."
        ) from error


def _start(work: Callable[[], Coroutine[Any, Any, T]]) -> "Future[T]":
    """Runs the work in a daemon thread, which can be abandoned: psycopg keeps waiting for a server
    that hangs in the middle of a request, even when it is cancelled."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(asyncio.run(work()))
        except BaseException as error:  # raised where the result is asked for
            done.set_exception(error)

    threading.Thread(target=run, name="sessions of a team", daemon=True).start()
    return done
