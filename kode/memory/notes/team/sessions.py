"""The sessions that a team shares: a line each on the server, with the beginning of the first task
and nothing else of what was said.

What is still to be sent follows from the files of the sessions and from the lines that the server
has of them, so that nothing is queued: who was away sends what has changed since.
"""

import asyncio
import json
import math
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from kode import durable, paths
from kode.credentials import redact
from kode.errors import KodeError, StorageError
from kode.events import Emit, Notice
from kode.memory.notes.note import PROJECT_SCOPE
from kode.memory.notes.team.address import Address, origin_of, project_name
from kode.memory.notes.team.server import Unreachable, connected
from kode.session import index
from kode.session.reading import ID

ANSWER_S = 8.0
"""How long a command waits for the server."""
END_S = 1.0
"""How long the end of a process waits for it."""
RETRY_S = 30.0
"""A server that failed is left alone for so long."""
AT_ONCE = 200
"""Lines of one request."""
MAX_CHARS = 1_000
"""Of each text in a line."""

T = TypeVar("T")
_TEXTS = ("task", "cwd", "project", "model", "provider", "created_at", "updated_at")
_COUNTS = ("turns", "tokens")


@dataclass(frozen=True, kw_only=True)
class SharedSession:
    """A line of the team's list."""

    id: str
    person: str
    host: str
    """The machine that has the session."""
    project: str
    cwd: str
    task: str
    """The beginning of the first thing the person asked, credentials masked."""
    model: str
    provider: str
    turns: int
    tokens: int
    cost_usd: float | None
    created_at: str
    updated_at: str
    """When it was last used."""


# ── reading ──────────────────────────────────────────────────────────────────────────────────


def team_sessions(
    address: Address,
    *,
    project: Path | None = None,
    begins: str = "",
    words: Sequence[str] = (),
    most: int | None = None,
) -> list[SharedSession]:
    """The sessions that members share, the last used first: of the project in a folder, or of all
    that this person sees; whose ids begin so; with all of the words in the task.

    Raises: MemoryRefused; Unreachable, also where no answer comes in time.
    """
    scope = None if project is None else PROJECT_SCOPE + _project_of(project)

    async def ask() -> list[SharedSession]:
        async with connected(address) as server:
            rows = await server.sessions(scope=scope, begins=begins, words=words, most=most)
        return [one for row in rows if (one := _read(*row)) is not None]

    return _answer(ask, address)


def _read(person: str, host: str, line: Mapping[str, Any]) -> SharedSession | None:
    """A line as any program may have written it; None for what is none."""
    if not isinstance(line, dict) or not ID.fullmatch(str(line.get("id"))):
        return None
    cost = line.get("cost_usd")
    given: dict[str, Any] = {name: str(line.get(name) or "") for name in _TEXTS}
    given |= {name: n if isinstance(n := line.get(name), int) else 0 for name in _COUNTS}
    given["cost_usd"] = cost if isinstance(cost, int | float) and math.isfinite(cost) else None
    return SharedSession(id=line["id"], person=person, host=host, **given)


def _project_of(folder: Path) -> str:
    root = paths.project_root(folder)
    source = Path(origin_of(root))
    # A fleet works in clones of the folder that it was started for.
    return project_name(source if source.is_absolute() and (source / ".git").exists() else root)


# ── sending ──────────────────────────────────────────────────────────────────────────────────


def update(home: Path, address: Address) -> None:
    """Has the server hold the sessions of this home as they are, those that are deleted no more.
    Raises: MemoryRefused, Unreachable, StorageError, BusyError."""
    _answer(partial(_send, home, address, None, time.time()), address)


def withdraw(home: Path, address: Address) -> int:
    """Removes all lines of this home from the server; how many. What is shared after that begins
    from then on. Raises as `update`."""

    async def ask() -> int:
        async with connected(address) as server:
            return await server.unshare_sessions(_mark(home, address, time.time()).home)

    count = _answer(ask, address)
    durable.remove(paths.sharing_file(home, address.key))
    return count


async def _send(home: Path, address: Address, only: str | None, begun: float) -> None:
    """Sends the line of one session; with None all that the server lacks, and removes the lines of
    those that are gone. Sharing begins with what was used since `begun`, where this is the first
    time."""
    mark = _mark(home, address, begun)
    async with connected(address) as server:
        if only is None:
            # Asked for before the folder is read: what another kode begins now is in both.
            known = await server.shared_from(mark.home)
            here = {id: changed for changed, id in index.files(home)}
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
    """What colleagues see of a session; None for one that is not shared."""
    path = paths.session_file(home, session_id)
    try:
        changed = path.stat().st_mtime  # first: what is written meanwhile is sent again
    except OSError:
        return None
    known = index.summarize(path)
    # A subagent's is part of the one that started it; one that was imported was not used here.
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
    """Without credentials, and without what jsonb cannot hold."""
    return redact(text.replace("\0", ""))[:MAX_CHARS].encode("utf-8", "replace").decode()


@dataclass(frozen=True)
class _Mark:
    home: str
    """Stands for this folder of sessions, on whatever machine."""
    since: float
    """What was last used before that is not shared."""


def _mark(home: Path, address: Address, begun: float) -> _Mark:
    """Of this home at a team's server; made where there is none, as of `begun`. Raises:
    StorageError, BusyError."""
    path = paths.sharing_file(home, address.key)
    with durable.locked(path.parent):
        try:
            with durable.storage_errors(path, "read"):
                found = json.loads(path.read_bytes()) if path.exists() else None
            if found is not None:
                return _Mark(str(uuid.UUID(found["home"])), float(found["since"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            aside = durable.set_aside(path)
            raise StorageError(
                f"{path} was damaged and is now {aside.name}: sessions are shared from now on, and "
                "lines of those deleted before stay until the team's server removes them."
            ) from None
        made = _Mark(str(uuid.uuid4()), math.floor(begun))
        durable.replace(path, json.dumps(asdict(made)).encode())
        return made


# ── beside the work ──────────────────────────────────────────────────────────────────────────


class Sharing:
    """Sends the line of the open session, and what was left to send; nobody waits for it but the
    end of the process, for `END_S`."""

    def __init__(self, home: Path, address: Address, emit: Emit) -> None:
        self._home = home
        self._address = address
        self._emit = emit
        self._opened = time.time()
        self._work: Future[None] | None = None
        self._sent = ""
        self._is_complete = False
        self._not_before = 0.0
        self._has_warned = False

    def begin(self, session_id: str | None) -> None:
        """Sends what is new of the session, unless something is being sent or the server failed
        just now; the first time, and after a fault, what is new of all."""
        self._take_result()
        state = self._state(session_id)
        is_new = not self._is_complete or state != self._sent
        if self._work is None and is_new and time.monotonic() >= self._not_before:
            self._sent = state
            only = session_id if self._is_complete else None
            work = partial(_send, self._home, self._address, only, self._opened)
            self._work = _start(work)

    async def finish(self, session_id: str | None) -> None:
        """At the end of the process: what is not sent in time is sent by the next one."""
        end = time.monotonic() + END_S
        self.begin(session_id)
        while self._work is not None:
            left_s = end - time.monotonic()
            if left_s <= 0:
                self._warn(f"no answer in {END_S:g} s")
                return
            await asyncio.to_thread(wait, [self._work], left_s)
            self.begin(session_id)  # what was being sent may be older than the last turn

    def _state(self, session_id: str | None) -> str:
        """Differs once the session has changed; "" without a file."""
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
                    f"({why.rstrip('.')}). What is missing is sent later."
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
    """Runs it in a thread that may be left behind: psycopg waits for a server that has stopped in
    the middle of a request even where it is cancelled."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(asyncio.run(work()))
        except BaseException as error:  # raised where the result is asked for
            done.set_exception(error)

    threading.Thread(target=run, name="sessions of a team", daemon=True).start()
    return done
