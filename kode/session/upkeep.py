"""What a person does to sessions: trim, fork, delete, clean up, check. Each takes the session's
lock, so that nothing disappears under a running kode.

`index.py` lists sessions; `export.py` makes documents of them.
"""

import fcntl
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kode import durable, paths
from kode.errors import BusyError, SessionError
from kode.messages import calls_of
from kode.session.entries import (
    AnyEntry,
    MessageEntry,
    Origin,
    RequestEntry,
    StateEntry,
    TrimEntry,
    TurnEntry,
    UsageEntry,
    line_of,
)
from kode.session.index import (
    files,
    read,
    read_lines,
    seconds_of,
    session_path,
    summarize,
)
from kode.session.log import Session, copy_to, load
from kode.session.messages import visible_messages
from kode.undo.undo import check_undo

SECONDS_A_DAY = 86_400  # 24 hours of 3,600
_AFTER_ANSWERS = (StateEntry, RequestEntry, UsageEntry, TurnEntry)


@dataclass(frozen=True, kw_only=True)
class Checked:
    id: str
    faults: tuple[str, ...] = ()
    """What is wrong, in plain words."""
    repaired: bool = False
    in_use: bool = False
    """Open in a running kode, and so not checked."""


def trim(home: Path, session_id: str, keep: int) -> tuple[int, int]:
    """Keeps the last `keep` messages; returns (kept, dropped). Never splits a tool exchange.
    Dropped messages stay in the file, but are neither sent to a model nor shown any more.

    Raises: SessionError, BusyError, StorageError.
    """
    session, _ = load(home, session_id)
    try:
        messages = visible_messages(session.entries)
        start = max(0, len(messages) - keep)
        while start < len(messages) and messages[start].role == "tool":
            start += 1
        if start:
            first = messages[start] if start < len(messages) else None
            session.append(TrimEntry(kept_from=getattr(first, "id", None)))
        return len(messages) - start, start
    finally:
        session.close()


def fork(home: Path, session_id: str, at: str | None = None) -> str:
    """Creates a session from the entries up to and including `at` (None: all); returns its id.
    Includes the results of `at`'s own calls, and after the last answer of a turn what was stored at
    its end. The old session may be open elsewhere.

    Raises: SessionError if there is no such entry; StorageError.
    """
    header, entries, _ = read(session_path(home, session_id))
    if at is None:
        return copy_to(home, header, entries, Origin(session=session_id))
    matching = [i for i, entry in enumerate(entries) if at and entry.id.startswith(at)]
    if len(matching) != 1:
        raise SessionError(
            f"{len(matching) or 'No'} entries of session {session_id} begin with {at[:80]!r}. "
            f"`kode session show {session_id}` shows the id of each message."
        )
    end = _end_of_exchange(entries, matching[0])
    origin = Origin(session=session_id, entry=entries[matching[0]].id)
    return copy_to(home, header, entries[:end], origin)


def _end_of_exchange(entries: Sequence[AnyEntry], position: int) -> int:
    """The index behind the entry at `position`, the results of its exchange with tools, if it is in
    one, and what is stored after an answer."""
    entry, end = entries[position], position + 1
    if isinstance(entry, MessageEntry) and (calls_of(entry) or entry.role == "tool"):
        for index, later in enumerate(entries[end:], end + 1):
            if isinstance(later, MessageEntry):
                if later.role != "tool":
                    break
                end = index
    while end < len(entries) and isinstance(entries[end], _AFTER_ANSWERS):
        end += 1
    return end


def delete(home: Path, session_id: str) -> None:
    """Deletes a session and what lies beside it. Raises: SessionError, BusyError, StorageError."""
    path = session_path(home, session_id)
    if is_open(path):
        raise BusyError(
            f"Session {session_id} is open in another kode. Close it there, then delete it."
        )
    # The session's own file is deleted last: while it exists, an interrupted deletion can be
    # repeated.
    shutil.rmtree(paths.session_folder(home, session_id), ignore_errors=True)
    durable.remove(path.with_name(path.name + ".torn"))
    durable.forget_length(path)
    durable.remove(paths.unfinished_undo(home, session_id))
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
    removed, busy = list[str](), list[str]()
    for _, session_id in sorted(files(home)):
        path = paths.session_file(home, session_id)
        summary = summarize(path)
        if summary is not None and (seconds_of(summary.updated_at) or 0.0) < limit:
            (busy if is_open(path) else removed).append(session_id)
    for session_id in () if dry_run else removed:
        delete(home, session_id)
    return removed, busy


def check(home: Path, session_id: str | None = None, *, repair: bool = False) -> list[Checked]:
    """Checks a session, or all, for damage.

    With `repair`, a torn line is set aside and cut off, calls without a result get one, and a file
    with unreadable lines is set aside in full and rewritten without them, unless that leaves
    nothing: then it may be no session at all. So is the record of its changes, and contents kept
    for undo that are damaged are set aside. Otherwise nothing is written.

    Raises: SessionError for an unknown id; StorageError.
    """
    ids = [session_id] if session_id else sorted(id for _, id in files(home))
    return [_check(home, session_path(home, id), repair=repair) for id in ids]


def _check(home: Path, path: Path, *, repair: bool) -> Checked:
    if is_open(path):
        return Checked(id=path.stem, in_use=True)
    undo = paths.undo_folder(path.with_suffix(""))
    try:
        with durable.storage_errors(path, "read"):
            data = path.read_bytes()
        # A file of which no line can be read may be no session at all.
        if repair and (b"\n" not in data or read_lines(data, path.stem).sound):
            faults = [*_repair(home, path), *check_undo(undo, repair=True)]
            return Checked(id=path.stem, faults=tuple(faults), repaired=bool(faults))
        header, entries, faults = read(path)
    except SessionError as error:
        return Checked(id=path.stem, faults=(str(error),))
    if data and not data.endswith(b"\n"):
        faults.append("The last line is incomplete.")
    faults += check_undo(undo, repair=False)
    session = Session(header=header, path=None)
    session.append(*entries)
    if session.messages and calls_of(session.messages[-1]):
        faults.append("It ended in the middle of a call, whose result is unknown.")
    return Checked(id=path.stem, faults=tuple(faults))


def _repair(home: Path, path: Path) -> list[str]:
    """A sentence for each repair. Raises: SessionError, BusyError, StorageError."""
    session, repairs = load(home, path.stem)
    try:
        with durable.storage_errors(path, "read"):
            data = path.read_bytes()
        lines = read_lines(data, path.stem).sound
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
    finally:
        session.close()
    return repairs
