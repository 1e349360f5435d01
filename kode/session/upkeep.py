"""What a person does to sessions: trim, fork, delete, clean up, check. Each takes the session's
lock, so that nothing disappears under a running kode.

`index.py` lists sessions; `export.py` makes documents of them."""

import fcntl
import shutil
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from kode import durable, paths
from kode.errors import BusyError, SessionError
from kode.messages import calls_of
from kode.session.entries import (
    CompactionEntry,
    Origin,
    RestoreEntry,
    RewindEntry,
    TrimEntry,
    UndoEntry,
    line_of,
)
from kode.session.index import files, list_sessions, parse_lines, read, seconds_of, session_path
from kode.session.log import Session, copy_to, load
from kode.session.messages import visible_messages
from kode.undo.undo import open_undo

SECONDS_A_DAY = 86_400  # 24 hours of 3,600
_EDITS = (CompactionEntry, TrimEntry, RewindEntry, RestoreEntry, UndoEntry)
"""What ends, as the next message does, what was stored with an answer."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    id: str
    faults: tuple[str, ...] = ()  # what is wrong, in plain words
    repaired: bool = False
    in_use: bool = False  # open in a running kode, and so not checked


def trim(home: Path, session_id: str, keep: int) -> tuple[int, int]:
    """Keeps the last `keep` messages; returns (kept, dropped). Never splits a tool exchange.
    Dropped messages stay in the file, but are neither sent to a model nor shown any more. Raises:
    SessionError, BusyError, StorageError."""
    session, _ = load(home, session_id)
    with closing(session):
        messages = visible_messages(session.entries)
        start = max(0, len(messages) - keep)
        while start < len(messages) and messages[start].role == "tool":
            start += 1
        if start:
            first = messages[start] if start < len(messages) else None
            session.append(TrimEntry(kept_from=getattr(first, "id", None)))
        return len(messages) - start, start


def fork(home: Path, session_id: str, at: str | None = None) -> str:
    """Creates a session from the entries up to and including `at` (None: all); returns its id.
    Includes the results of `at`'s own calls, and what was stored before the next message. The old
    session may be open elsewhere. Raises: SessionError for an unknown entry; StorageError."""
    header, entries, _ = read(session_path(home, session_id))
    if at is None:
        return copy_to(home, header, entries, Origin(session=session_id))
    matching = [i for i, entry in enumerate(entries) if at and entry.id.startswith(at)]
    if len(matching) != 1:
        raise SessionError(
            f"{len(matching) or 'No'} entries of session {session_id} begin with {at[:80]!r}. "
            f"`kode session show {session_id}` shows the id of each message."
        )
    begins = matching[0]
    beyond = (
        i
        for i, entry in enumerate(entries)
        if i > begins and (isinstance(entry, _EDITS) or getattr(entry, "role", "tool") != "tool")
    )
    origin = Origin(session=session_id, entry=entries[begins].id)
    return copy_to(home, header, entries[: next(beyond, len(entries))], origin)


def delete(home: Path, session_id: str) -> None:
    """Deletes a session and what lies beside it. Raises: SessionError, BusyError, StorageError."""
    path = session_path(home, session_id)
    if is_open(path):
        raise BusyError(
            f"Session {session_id} is open in another kode. Close it there, then delete it."
        )
    # The session's file is deleted last: while it exists, a deletion can be repeated.
    shutil.rmtree(paths.session_folder(home, session_id), ignore_errors=True)
    durable.remove(path.with_name(path.name + ".torn"))
    durable.forget_length(path)
    durable.remove(paths.unfinished_undo(home, session_id))
    with durable.storage_errors(path, "delete"):
        durable.sync_folder(path.parent)
    durable.remove(path)


def is_open(path: Path) -> bool:
    """Whether a running kode has the session open."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            durable.unlock(file)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    return False


def cleanup(home: Path, days: float, *, dry_run: bool = False) -> tuple[list[str], list[str]]:
    """Deletes sessions last used more than `days` ago; returns the ids of those that it deleted, or
    would, and of those that are old enough, but open in a running kode. Files of another kind are
    not touched. Raises: StorageError."""
    limit = time.time() - days * SECONDS_A_DAY
    old = sorted(s.id for s in list_sessions(home) if (seconds_of(s.updated_at) or 0.0) < limit)
    busy = [session_id for session_id in old if is_open(paths.session_file(home, session_id))]
    removed = [session_id for session_id in old if session_id not in busy]
    for session_id in () if dry_run else removed:
        delete(home, session_id)
    return removed, busy


def check(home: Path, session_id: str | None = None, *, repair: bool = False) -> list[Checked]:
    """Checks a session, or all, for damage. With `repair`, calls without a result get one, and what
    is damaged is set aside: a torn line, contents kept for undo, and files with unreadable lines,
    which are rewritten without them unless that leaves nothing: then it may be no session at all.
    Raises: SessionError for an unknown id; StorageError."""
    ids = [session_id] if session_id else sorted(id for _, id in files(home))
    return [_check(home, session_path(home, id), repair=repair) for id in ids]


def _check(home: Path, path: Path, *, repair: bool) -> Checked:
    if is_open(path):
        return Checked(id=path.stem, in_use=True)
    try:
        with durable.storage_errors(path, "read"):
            data = path.read_bytes()
        repair = repair and (b"\n" not in data or any(entry for _, entry in parse_lines(data)))
        faults = _repair(home, path) if repair else _find_faults(path, data)
        faults += open_undo(paths.undo_folder(path.with_suffix(""))).check(repair=repair)
    except SessionError as error:
        return Checked(id=path.stem, faults=(str(error),))
    return Checked(id=path.stem, faults=tuple(faults), repaired=repair and bool(faults))


def _find_faults(path: Path, data: bytes) -> list[str]:
    header, entries, faults = read(path)
    if data and not data.endswith(b"\n"):
        faults.append("The last line is incomplete.")
    session = Session(header=header, path=None)
    session.append(*entries)
    if session.messages and calls_of(session.messages[-1]):
        faults.append("It ended in the middle of a call, whose result is unknown.")
    return faults


def _repair(home: Path, path: Path) -> list[str]:
    """A sentence for each repair. Raises: SessionError, BusyError, StorageError."""
    session, repairs = load(home, path.stem)
    with closing(session), durable.storage_errors(path, "read"):
        data = path.read_bytes()
        lines = [line for line, entry in parse_lines(data) if entry]
        if len(lines) < data.count(b"\n"):
            aside = durable.set_aside(path, data)
            if not lines or not lines[0].startswith(b'{"type":"session"'):
                lines.insert(0, line_of(session.header))
            data = b"\n".join([*lines, b""])
            durable.replace(path, data)
            repairs.append(
                f"The damaged lines have been removed; the old file is saved as {aside.name}."
            )
        durable.note_length(path, len(data))
    return repairs
