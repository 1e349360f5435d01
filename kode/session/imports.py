"""Makes a session of kode's own of another agent's file. What was said in it is text from outside:
memory of a conversation that continues it waits for the person.

Plug-ins read the files: see `Plugin.imports`.
"""

import hashlib
import os
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from kode import durable, installed, paths
from kode.broken_json import object_of
from kode.errors import ConfigError, SessionError
from kode.messages import Usage
from kode.session.entries import MessageEntry, Origin, TaintEntry, TurnEntry, new_session_id
from kode.session.index import files, seconds_of
from kode.session.log import write_session
from kode.session.messages import effective
from kode.session.transcript import Transcript

HEADER_BYTES = 16_384  # a first line has a few hundred


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


def import_file(home: Path, path: Path, imported: dict[str, str]) -> tuple[str, Transcript | None]:
    """Imports one file, and notes it in `imported` (see `find_imported`); returns the id of the
    session, and what the file holds; None for one that is known, and left as it is. Raises:
    SessionError for one that no plug-in can read, or an empty one; ConfigError where no plug-in
    reads any, or for a faulty one; StorageError."""
    with durable.storage_errors(path, "read"):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest in imported:
        return imported[digest], None
    agent, transcript = _read(path)
    entries, header = effective(transcript.entries), transcript.header
    if not any(isinstance(entry, MessageEntry) for entry in entries):
        raise SessionError(f"{path}: nothing was said in it (a subagent's, or only a title).")
    begins, ends = transcript.entries[0].at, transcript.entries[-1].at
    seconds = seconds_of(begins)
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
    with suppress(OSError):  # a list has it where it was last used
        os.utime(file, times=(seconds_of(ends) or 0.0,) * 2)
    imported[digest] = id
    return id, transcript


def _read(path: Path) -> tuple[str, Transcript]:
    """Whose session it is, and the session. Raises: SessionError, ConfigError, StorageError."""
    agents = installed.find_additions("imports")
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
