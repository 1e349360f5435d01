"""Makes a session of kode's own of another agent's file. What was said in it is text from outside:
memory of a conversation that continues it waits for the person.

Plug-ins read the files: see `Plugin.imports`.
"""

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from kode import durable, installed, paths
from kode.broken_json import object_of
from kode.errors import ConfigError, SessionError
from kode.messages import Usage
from kode.session.entries import MessageEntry, Origin, TaintEntry, TurnEntry, new_session_id
from kode.session.index import files, seconds_of
from kode.session.log import write_session
from kode.session.messages import effective, turns_of
from kode.session.transcript import Transcript

HEADER_BYTES = 16_384  # a first line has a few hundred


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What became of a file."""

    session: str
    path: Path
    known: bool = False
    """Whether it was there already."""
    agent: str = ""
    turns: int = 0
    messages: int = 0
    faults: tuple[str, ...] = ()


def find_imported(home: Path) -> dict[str, str]:
    """The sessions that were imported, by the SHA-256 of the file. Raises: StorageError."""
    sessions = {}
    for _, session_id in files(home):
        with suppress(OSError), paths.session_file(home, session_id).open("rb") as file:
            origin = (object_of(file.readline(HEADER_BYTES)) or {}).get("imported_from")
            if isinstance(origin, dict):
                sessions[str(origin.get("digest"))] = session_id
    return sessions


def session_files(path: Path) -> list[Path]:
    """The file, or those in and below a folder that may be sessions. Raises: SessionError."""
    if path.is_dir():
        return sorted(file for file in path.rglob("*.jsonl") if file.is_file())
    if not path.is_file():
        raise SessionError(
            f"{path} does not exist. Name files, or folders such as ~/.claude/projects."
        )
    return [path]


def import_file(home: Path, path: Path, known: dict[str, str]) -> Imported:
    """Imports one file, and notes it in `known` (see `find_imported`); one that is known is left as
    it is.

    Raises: SessionError for one that is no session of an agent a plug-in can read, or an empty one;
    ConfigError where no plug-in reads any, or a faulty one; StorageError.
    """
    with durable.storage_errors(path, "read"):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest in known:
        return Imported(session=known[digest], path=path, known=True)
    agent, transcript = _read(path)
    counting = effective(transcript.entries)
    turns, messages = turns_of(counting), sum(isinstance(e, MessageEntry) for e in counting)
    if not messages:
        raise SessionError(f"{path}: nothing was said in it (a subagent's, or only a title).")
    begins, ends = transcript.entries[0].at, transcript.entries[-1].at
    header = transcript.header
    id_there = header.imported_from.session if header.imported_from else header.id
    origin = Origin(session=id_there, agent=agent, digest=digest)
    header = replace(header, id=_new_id(home, begins), created_at=begins, imported_from=origin)
    taint = TaintEntry(source=f"a session of {agent}", at=begins)
    # So that a list need not read the whole file. What it cost was another agent's.
    end = TurnEntry(
        number=turns,
        status="success",
        steps=0,
        usage=Usage(),
        duration_ms=0,
        total_usage=Usage(),
        total_cost_usd=0.0,
        at=ends,
    )
    file = write_session(home, header, (taint, *transcript.entries, end))
    with suppress(OSError):  # a list has it where it was last used
        os.utime(file, times=(seconds_of(ends) or 0.0,) * 2)
    known[digest] = header.id
    return Imported(
        session=header.id,
        path=path,
        agent=agent,
        turns=turns,
        messages=messages,
        faults=transcript.faults,
    )


def _read(path: Path) -> tuple[str, Transcript]:
    """Whose session it is, and the session. Raises: SessionError, ConfigError, StorageError."""
    agents = installed.added("imports")
    for agent, (plugin, where) in agents.items():
        with durable.storage_errors(path, "read"):
            transcript = installed.call(plugin, where, path)
        if isinstance(transcript, Transcript):
            return agent, transcript
    if not agents:
        raise ConfigError(
            "No plug-in that is on imports sessions. `kode plugin list` shows those that are off."
        )
    raise SessionError(f"{path} is not a session of {' or '.join(agents)}.")


def _new_id(home: Path, at: str) -> str:
    """An id with the time at which the session began."""
    seconds = seconds_of(at)
    id = new_session_id(datetime.fromtimestamp(seconds, UTC) if seconds else None)
    return _new_id(home, at) if paths.session_file(home, id).exists() else id
