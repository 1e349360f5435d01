"""What a person does to sessions: trim, fork, delete, clean up and check them. None that a running
kode has open is trimmed, repaired or deleted. Also imports those of other agents, whose files
plug-ins read: see `Plugin.imports`."""

import fcntl
import hashlib
import os
import shutil
import time
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from kode import durable, installed, paths
from kode.broken_json import object_of
from kode.errors import BusyError, ConfigError, SessionError
from kode.messages import Usage, calls_of
from kode.session.entries import (
    CompactionEntry,
    MessageEntry,
    Origin,
    RestoreEntry,
    RewindEntry,
    TaintEntry,
    TrimEntry,
    TurnEntry,
    UndoEntry,
    encode_line,
    new_session_id,
)
from kode.session.index import files, list_sessions, parse_lines, parse_time, read, session_path
from kode.session.log import Session, copy_session, load, write_session
from kode.session.messages import effective, visible_messages
from kode.session.transcript import Transcript
from kode.values import Value, replace

HEADER_BYTES = 16_384  # a first line has a few hundred
SECONDS_A_DAY = 86_400  # 24 hours of 3,600
_EDITS = (CompactionEntry, TrimEntry, RewindEntry, RestoreEntry, UndoEntry)
"""Entries that, like the next message, end what was stored along with an answer."""


class Checked(Value):
    id: str
    faults: tuple[str, ...] = ()  # what is wrong, in plain words
    repaired: bool = False
    in_use: bool = False  # open in a running kode, and so not checked


def trim_session(home: Path, session_id: str, keep: int) -> tuple[int, int]:
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


def fork_session(home: Path, session_id: str, at: str | None = None) -> str:
    """Creates a session from the entries up to and including `at` (None: all); returns its id.
    Includes the results of `at`'s own calls, and what was stored before the next message. The old
    session may be open elsewhere. Raises: SessionError for an unknown entry; StorageError."""
    header, entries, _ = read(session_path(home, session_id))
    if at is None:
        return copy_session(home, header, entries, Origin(session=session_id))
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
    return copy_session(home, header, entries[: next(beyond, len(entries))], origin)


def delete_session(home: Path, session_id: str) -> None:
    """Deletes a session and what lies beside it. Raises: SessionError, BusyError, StorageError."""
    path = session_path(home, session_id)
    if is_open(path):
        raise BusyError(
            f"Session {session_id} is open in another kode. Close it there, then delete it."
        )
    # The session's file is deleted last: while it exists, a deletion can be repeated.
    shutil.rmtree(paths.session_folder(home, session_id), ignore_errors=True)
    durable.remove(path.with_name(path.name + ".torn"))
    durable.remove_length(path)
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
    """Deletes sessions last used more than `days` ago; returns the ids of those that it deleted (or
    would, with `dry_run`), and of old ones that are open in a running kode. Files of another kind
    are not touched. Raises: StorageError."""
    limit = time.time() - days * SECONDS_A_DAY
    old = sorted(s.id for s in list_sessions(home) if (parse_time(s.updated_at) or 0.0) < limit)
    busy = [session_id for session_id in old if is_open(paths.session_file(home, session_id))]
    removed = [session_id for session_id in old if session_id not in busy]
    for session_id in () if dry_run else removed:
        delete_session(home, session_id)
    return removed, busy


def check(home: Path, session_id: str | None = None, *, repair: bool = False) -> list[Checked]:
    """Checks a session, or all, for damage. With `repair`, calls without a result get one, and what
    is damaged is set aside: a torn line, contents kept for undo, and files with unreadable lines,
    which are rewritten without them if any other is left. Raises: SessionError; StorageError."""
    ids = [session_id] if session_id else sorted(id for _, id in files(home))
    return [_check_session(home, session_path(home, id), repair=repair) for id in ids]


def _check_session(home: Path, path: Path, *, repair: bool) -> Checked:
    if is_open(path):
        return Checked(id=path.stem, in_use=True)
    from kode.undo.undo import open_undo  # slow, and no other command needs it

    try:
        with durable.storage_errors(path, "read"):
            data = path.read_bytes()
        repair = repair and (b"\n" not in data or any(entry for _, entry in parse_lines(data)))
        faults = _repair_session(home, path) if repair else _find_faults(path, data)
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


def _repair_session(home: Path, path: Path) -> list[str]:
    """A sentence for each repair. Raises: SessionError, BusyError, StorageError."""
    session, repairs = load(home, path.stem)
    with closing(session), durable.storage_errors(path, "read"):
        data = path.read_bytes()
        lines = [line for line, entry in parse_lines(data) if entry]
        if len(lines) < data.count(b"\n"):
            aside = durable.set_aside(path, data)
            if not lines or not lines[0].startswith(b'{"type":"session"'):
                lines.insert(0, encode_line(session.header))
            data = b"\n".join([*lines, b""])
            durable.replace_file(path, data)
            repairs.append(f"The damaged lines are removed; the old file is saved as {aside.name}.")
        durable.write_length(path, len(data))
    return repairs


def find_imported(home: Path) -> dict[str, str]:
    """SHA-256 of each imported file → the id of its session. Raises: StorageError."""
    sessions = {}
    for _, session_id in files(home):
        with suppress(OSError), paths.session_file(home, session_id).open("rb") as file:
            origin = (object_of(file.readline(HEADER_BYTES)) or {}).get("imported_from")
            if isinstance(origin, dict):
                sessions[str(origin.get("digest"))] = session_id
    return sessions


def session_files(path: Path) -> list[Path]:
    """The file itself, or all `*.jsonl` files in and below a folder. Raises: SessionError."""
    if path.is_dir():
        return sorted(file for file in path.rglob("*.jsonl") if file.is_file())
    if not path.is_file():
        raise SessionError(f"{path} does not exist. Name files, or folders as ~/.claude/projects.")
    return [path]


def import_file(home: Path, path: Path, imported: dict[str, str]) -> tuple[str, Transcript | None]:
    """Imports one file, and notes it in `imported` (see `find_imported`); returns the id of the
    session, and its transcript, or None if the file was imported before. Raises: SessionError if
    no plug-in can read the file, or nothing was said in it; ConfigError if no plug-in imports
    sessions, or one is faulty; StorageError."""
    with durable.storage_errors(path, "read"):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest in imported:
        return imported[digest], None
    agent, transcript = _read_foreign(path)
    entries, header = effective(transcript.entries), transcript.header
    if not any(isinstance(entry, MessageEntry) for entry in entries):
        raise SessionError(f"{path}: nothing was said in it (a subagent's, or only a title).")
    begins, ends = transcript.entries[0].at, transcript.entries[-1].at
    seconds = parse_time(begins)
    id = new_session_id(datetime.fromtimestamp(seconds, UTC) if seconds else None)
    origin = Origin(session=header.id, agent=agent, digest=digest)
    header = replace(header, id=id, created_at=begins, imported_from=origin)
    taint = TaintEntry(source=f"a session of {agent}", at=begins)
    # So that a list need not read the whole file. What it cost was another agent's.
    end = TurnEntry(
        number=transcript.turns[-1].number,
        status="success",
        steps=0,
        usage=Usage(),
        duration_ms=0,
        total_usage=Usage(),
        total_cost_usd=0.0,
        at=ends,
    )
    file = write_session(home, header, (taint, *transcript.entries, end))
    with suppress(OSError):  # so that a list sorts it by when it was last used
        os.utime(file, times=(parse_time(ends) or 0.0,) * 2)
    imported[digest] = id
    return id, transcript


def _read_foreign(path: Path) -> tuple[str, Transcript]:
    """Returns the agent, and the session. Raises: SessionError, ConfigError, StorageError."""
    agents = installed.find_additions("imports")
    for agent, (plugin, where) in agents.items():
        with durable.storage_errors(path, "read"):
            transcript = installed.call_part(plugin, where, path)
        if isinstance(transcript, Transcript):
            return agent, transcript
    if not agents:
        raise ConfigError(
            "No plug-in that is on imports sessions. `kode plugin list` shows those that are off."
        )
    raise SessionError(f"{path} is not a session of {' or '.join(agents)}.")
