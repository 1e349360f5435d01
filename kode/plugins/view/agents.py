"""The tree of a session's subagents, including their own."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kode import paths
from kode.errors import SessionError, StorageError
from kode.session.entries import AnyEntry, Header
from kode.session.reading import ID, read
from kode.subagents.protocol import Result
from kode.subagents.records import Record, records

MAX_DEPTH = 8
TRANSCRIPT = "transcript.jsonl"


@dataclass(frozen=True, kw_only=True)
class Agent:
    id: str
    address: str
    """Its place in the tree: the ids from the session's own child down to it, with slashes."""
    goal: str
    status: str
    result: Result | None
    """None if it left none."""
    has_transcript: bool
    children: "tuple[Agent, ...]"


def tree(agents_folder: Path, address: str = "", depth: int = 0) -> tuple[Agent, ...]:
    """The children recorded in a folder, oldest first, each with its own."""
    if depth == MAX_DEPTH:
        return ()
    found = []
    for record in records(agents_folder):
        own = f"{address}/{record.id}".lstrip("/")
        running = "running" if record.alive else "interrupted, without a result"
        found.append(
            Agent(
                id=record.id,
                address=own,
                goal=record.goal,
                status=record.result.status if record.result else running,
                result=record.result,
                has_transcript=(record.folder / TRANSCRIPT).is_file(),
                children=tree(paths.agents_folder(record.folder), own, depth + 1),
            )
        )
    return tuple(found)


def sessions_with_agents(home: Path) -> Iterator[str]:
    """The ids of sessions that have started subagents, the newest first."""
    folder = paths.sessions_folder(home)
    try:
        ids = sorted((one.name for one in folder.iterdir() if ID.fullmatch(one.name)), reverse=True)
    except OSError:
        return
    for session_id in ids:
        if paths.agents_folder(folder / session_id).is_dir():
            yield session_id


def find(session_folder: Path, address: str) -> Record | None:
    """A subagent by its address; None if there is none."""
    found: Record | None = None
    for name in address.split("/")[:MAX_DEPTH]:
        folder = found.folder if found else session_folder
        known = {record.id: record for record in records(paths.agents_folder(folder))}
        if name not in known:
            return None
        found = known[name]
    return found


def transcript(folder: Path) -> tuple[Header, list[AnyEntry]] | None:
    """A subagent's transcript; None if it is missing."""
    try:
        header, entries, _ = read(folder / TRANSCRIPT)
    except (SessionError, StorageError):
        return None
    return header, entries
