"""Finding sessions and keeping house among them: list, find, trim, clean up, fork, delete, check.

A list reads the head and the tail of each file, never all of it, and only of the files it shows.
What one session says is `log.py`'s business.
"""

import fcntl
import heapq
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kode import durable, paths
from kode.errors import BusyError, SessionError
from kode.messages import Text, calls_of
from kode.session.entries import (
    Header,
    MessageEntry,
    Origin,
    TrimEntry,
    TurnEntry,
    parse_line,
)
from kode.session.log import ID, Session, copy_to, is_turn, load, read, session_path
from kode.session.told import effective, told

HEAD_BYTES = 16_384
"""Enough for the header, the system prompt and the first task."""
TAIL_BYTES = 8_192
"""Enough for the last turn's end; a longer last line makes the figures unknown, not wrong."""

SECONDS_A_DAY = 86_400


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One line of a list of sessions."""

    id: str
    updated_at: float
    """Seconds since the epoch: the file's last change."""
    size_bytes: int
    created_at: str = ""
    cwd: str = ""
    model: str = ""
    task: str = ""
    """The beginning of the first thing the person asked."""
    turns: int | None = None
    """None where the end of the file does not tell."""
    cost_usd: float | None = None
    damaged: bool = False


@dataclass(frozen=True, kw_only=True)
class Removed:
    """What a clean-up did, or would do."""

    ids: tuple[str, ...] = ()
    in_use: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Checked:
    id: str
    faults: tuple[str, ...] = field(default=())


def files(home: Path) -> list[tuple[float, str]]:
    """(time of the last change, id) of every session file, unsorted; one folder scan."""
    found = []
    try:
        with os.scandir(paths.sessions_folder(home)) as entries:
            for entry in entries:
                stem, dot, ending = entry.name.partition(".")
                if dot and ending == "jsonl" and ID.fullmatch(stem):
                    found.append((entry.stat().st_mtime, stem))
    except FileNotFoundError:
        return []
    return found


def list_sessions(
    home: Path, *, cwd: Path | None = None, limit: int | None = None
) -> list[Summary]:
    """Sessions by last change, newest first: those of `cwd` or, with None, of every directory.

    At most `limit` files are summarized; with `cwd` others are only looked at by their first line.
    """
    summaries = _newest_first(home)
    if cwd is not None:
        wanted = os.path.realpath(cwd)
        summaries = (s for s in summaries if s.damaged or os.path.realpath(s.cwd) == wanted)
    if limit is None:
        return list(summaries)
    return [summary for summary, _ in zip(summaries, range(limit), strict=False)]


def _newest_first(home: Path) -> Iterator[Summary]:
    known = files(home)
    heap = [(-changed, session_id) for changed, session_id in known]
    heapq.heapify(heap)
    while heap:
        _, session_id = heapq.heappop(heap)
        yield summarize(paths.session_file(home, session_id))


def summarize(path: Path) -> Summary:
    """What the head and the tail of a file tell. Never raises for what is in it."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            head = file.read(HEAD_BYTES)
            tail = head
            if status.st_size > HEAD_BYTES:
                file.seek(-min(TAIL_BYTES, status.st_size), os.SEEK_END)
                tail = file.read()
    except OSError:
        return Summary(id=path.stem, updated_at=0.0, size_bytes=0, damaged=True)
    lines = head.split(b"\n")
    whole = lines if status.st_size <= HEAD_BYTES else lines[:-1]
    header: Header | None = None
    task = ""
    for line in whole:
        entry = _parsed(line, b'"session"', b'"message"')
        if isinstance(entry, Header) and header is None:
            header = entry
        elif isinstance(entry, MessageEntry) and is_turn(entry):
            task = next(p.text for p in entry.parts if isinstance(p, Text) and not p.source)
            break
    last: TurnEntry | None = None
    for line in reversed(tail.split(b"\n")):
        entry = _parsed(line, b'"turn"')
        if isinstance(entry, TurnEntry):
            last = entry
            break
    return Summary(
        id=path.stem,
        updated_at=status.st_mtime,
        size_bytes=status.st_size,
        created_at=header.created_at if header else "",
        cwd=header.cwd if header else "",
        model=header.model if header else "",
        task=" ".join(task.split())[:200],
        turns=last.number if last else None,
        cost_usd=last.total_cost_usd if last else None,
        damaged=header is None,
    )


def find(home: Path, prefix: str) -> str:
    """The id that begins with `prefix`.

    Raises: SessionError when none or several do.
    """
    ids = sorted(session_id for _, session_id in files(home))
    fitting = [known for known in ids if prefix and known.startswith(prefix)]
    if len(fitting) == 1 or prefix in fitting:
        return prefix if prefix in fitting else fitting[0]
    if fitting:
        shown = ", ".join(fitting[-5:])
        raise SessionError(
            f"{len(fitting)} sessions begin with {prefix!r} ({shown}). Give more of the id."
        )
    raise SessionError(
        f"No session begins with {prefix[:80]!r}. `kode session list --all` shows them."
    )


def newest(home: Path, cwd: Path) -> str:
    """The id of the session of this directory that was used last. Raises: SessionError."""
    wanted = os.path.realpath(cwd)
    for summary in _newest_first(home):
        if not summary.damaged and os.path.realpath(summary.cwd) == wanted:
            return summary.id
    raise SessionError(
        f"There is no session of {cwd} yet. Start one with `kode`; `kode session list --all` "
        "shows those of other directories."
    )


def delete(home: Path, session_id: str) -> None:
    """Deletes a session and what lies beside it. Raises: SessionError, BusyError, StorageError."""
    path = session_path(home, session_id)
    if in_use(path):
        raise BusyError(f"Session {session_id} is open in another kode. Leave it there first.")
    durable.remove(path)
    with durable.storage_errors(path, "delete what lies beside"):
        path.with_name(path.name + ".torn").unlink(missing_ok=True)
        shutil.rmtree(paths.session_folder(home, session_id), ignore_errors=True)


def in_use(path: Path) -> bool:
    """Whether another process has the session open."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def trim(home: Path, session_id: str, keep: int) -> tuple[int, int]:
    """Keeps the last `keep` messages, as (kept, dropped); a tool exchange is kept whole or not at
    all. The dropped ones stay in the file and are no longer told or shown.

    Raises: SessionError, BusyError, StorageError.
    """
    session, _ = load(home, session_id)
    try:
        messages = session.messages
        start = max(0, len(messages) - keep)
        while start < len(messages) and messages[start].role == "tool":
            start += 1
        if start == 0:
            return len(messages), 0
        first = messages[start] if start < len(messages) else None
        before = len(messages)
        session.append(TrimEntry(kept_from=getattr(first, "id", None)))
        return len(session.messages), before - len(session.messages)
    finally:
        session.close()


def cleanup(home: Path, days: float, *, dry_run: bool = False) -> Removed:
    """Deletes the sessions that nobody has used for `days`. Files of another kind are not touched.

    Raises: StorageError.
    """
    limit = time.time() - days * SECONDS_A_DAY
    removed, busy = [], []
    for changed, session_id in sorted(files(home)):
        if changed >= limit:
            continue
        if in_use(paths.session_file(home, session_id)):
            busy.append(session_id)
            continue
        if not dry_run:
            delete(home, session_id)
        removed.append(session_id)
    return Removed(ids=tuple(removed), in_use=tuple(busy))


def fork(home: Path, session_id: str, at: str | None = None) -> Session:
    """A new session that begins with the entries up to and including `at` (all of them with None),
    open. The old one may be open elsewhere.

    Raises: SessionError when there is no entry `at`; StorageError.
    """
    path = session_path(home, session_id)
    header, entries, _ = read(path)
    if at is not None:
        fitting = [i for i, entry in enumerate(entries) if entry.id.startswith(at)]
        if len(fitting) != 1:
            raise SessionError(
                f"Session {session_id} has {len(fitting)} entries that begin with {at!r}. "
                "`kode session show ID` shows the id of each message."
            )
        entries = entries[: fitting[0] + 1]
    return copy_to(home, header, entries, Origin(session=session_id, entry=at))


def check(home: Path, session_id: str | None = None, *, repair: bool = False) -> list[Checked]:
    """What is wrong with a session, or with all. With `repair` what can be mended is: a torn line
    is cut off and kept aside, calls without a result get one.

    Raises: SessionError, StorageError.
    """
    ids = [session_id] if session_id else sorted(known for _, known in files(home))
    return [Checked(id=known, faults=tuple(_faults(home, known, repair))) for known in ids]


def _faults(home: Path, session_id: str, repair: bool) -> list[str]:
    path = session_path(home, session_id)
    if in_use(path):
        return []
    if repair:
        session, repairs = load(home, session_id)
        session.loaded = True
        session.close()
        return repairs
    with durable.storage_errors(path, "read"):
        torn = path.stat().st_size > 0 and not _ends_with_line(path)
    try:
        _, entries, faults = read(path)
    except SessionError as error:
        return [str(error)]
    if torn:
        faults.append("The last line was cut short by a crash.")
    messages = told(effective(entries))
    if messages and calls_of(messages[-1]):
        faults.append("It ended in the middle of a call, whose result is unknown.")
    return faults


def _ends_with_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _parsed(line: bytes, *kinds: bytes) -> object:
    """The entry of a line if it is one of these types; None otherwise or when it is damaged."""
    if not any(line.startswith((b'{"type":' + kind, b'{"type": ' + kind)) for kind in kinds):
        return None
    try:
        return parse_line(line)
    except ValueError:
        return None
