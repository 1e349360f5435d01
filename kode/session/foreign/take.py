"""Makes a session of kode's own of another agent's file. What was said in it is text from outside:
memory of a conversation that continues it waits for the person.
"""

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kode import durable, ends, paths
from kode.errors import SessionError
from kode.messages import Usage
from kode.session.entries import (
    AnyEntry,
    Header,
    Import,
    MessageEntry,
    TaintEntry,
    TurnEntry,
    line_of,
)
from kode.session.foreign import claude_code, codex
from kode.session.foreign.lines import Foreign, read_lines
from kode.session.index import files
from kode.session.log import new_session_id
from kode.session.messages import effective, turns_of

LOOKED_AT_LINES = 50
"""In which a file shows whose it is."""
HEADER_BYTES = 16_384


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What became of a file."""

    session: str
    path: Path
    known: bool = False
    """Whether it was there already."""
    agent: str = ""
    turns: int = 0
    messages: int = 0
    faults: tuple[str, ...] = ()


def imported(home: Path) -> dict[str, str]:
    """The sessions that were imported, by the SHA-256 of the file. Raises: StorageError."""
    found = {}
    for _, session_id in files(home):
        with suppress(OSError, ValueError, AttributeError, KeyError, TypeError):
            with paths.session_file(home, session_id).open("rb") as file:
                line = file.readline(HEADER_BYTES)
            if b'"imported_from"' in line:
                found[str(json.loads(line)["imported_from"]["digest"])] = session_id
    return found


def session_files(path: Path) -> list[Path]:
    """The file, or those in and below a folder that may be sessions. Raises: SessionError."""
    if path.is_dir():
        return sorted(found for found in path.rglob("*.jsonl") if found.is_file())
    if not path.is_file():
        raise SessionError(
            f"{path} does not exist. Name files, or folders such as ~/.claude/projects."
        )
    return [path]


def take(home: Path, path: Path, known: dict[str, str]) -> Taken:
    """Imports one file, and notes it in `known` (see `imported`); one that is known is left as it
    is.

    Raises: SessionError for one that is no session of an agent kode can read, or an empty one;
    StorageError.
    """
    with durable.storage_errors(path, "read"):
        data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if digest in known:
        return Taken(session=known[digest], path=path, known=True)
    foreign = _read(path, data)
    turns = turns_of(effective(foreign.entries))
    if not any(isinstance(entry, MessageEntry) for entry in foreign.entries):
        raise SessionError(f"{path}: nothing was said in it (a subagent's, or only a title).")
    header = Header(
        id=_session_id(home, foreign.entries[0].at),
        created_at=foreign.entries[0].at,
        cwd=foreign.cwd,
        model=foreign.model,
        provider=foreign.provider,
        imported_from=Import(
            agent=foreign.agent,
            session=foreign.session,
            file=str(path.resolve()),
            digest=digest,
        ),
    )
    taint = TaintEntry(source=f"a session of {foreign.agent}", at=header.created_at)
    entries: tuple[AnyEntry, ...] = (taint, *foreign.entries, _end(foreign, turns))
    text = b"".join(line_of(one) + b"\n" for one in (header, *entries))
    durable.make_folder(paths.sessions_folder(home))
    durable.replace(paths.session_file(home, header.id), text)
    ends.note(paths.session_file(home, header.id), len(text))
    known[digest] = header.id
    said = sum(isinstance(entry, MessageEntry) for entry in effective(foreign.entries))
    return Taken(
        session=header.id,
        path=path,
        agent=foreign.agent,
        turns=turns,
        messages=said,
        faults=foreign.faults,
    )


def _read(path: Path, data: bytes) -> Foreign:
    """Raises: SessionError."""
    beginning, _ = read_lines(b"\n".join(data.split(b"\n", LOOKED_AT_LINES)[:LOOKED_AT_LINES]))
    if claude_code.is_one(beginning):
        return claude_code.read(data)
    if codex.is_one(beginning):
        return codex.read(data)
    raise SessionError(f"{path} is not a session of Claude Code or Codex.")


def _end(foreign: Foreign, turns: int) -> TurnEntry:
    """So that a list need not read the whole file. What it cost was another agent's."""
    return TurnEntry(
        number=turns,
        status="success",
        steps=0,
        usage=Usage(),
        duration_ms=0,
        total_usage=Usage(),
        total_cost_usd=0.0,
        at=foreign.entries[-1].at,
    )


def _session_id(home: Path, at: str) -> str:
    """An id with the time at which the session began."""
    try:
        began = datetime.fromisoformat(at).astimezone(UTC)
    except (ValueError, OverflowError):
        return new_session_id()
    while True:
        id = f"{began:%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"
        if not paths.session_file(home, id).exists():
            return id
