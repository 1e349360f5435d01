"""The tree of a session's subagents, including their own."""

from dataclasses import dataclass
from pathlib import Path

from kode.plugin import (
    SessionError,
    StorageError,
    SubagentRecord,
    Transcript,
    paths,
    subagent_records,
)

MAX_DEPTH = 8  # subagents nest less deeply


@dataclass(frozen=True, kw_only=True)
class Agent:
    record: SubagentRecord
    address: str
    """Its place in the tree: the ids from the session's own child down to it, with slashes."""
    has_transcript: bool
    children: "tuple[Agent, ...]"


def tree(folder: Path, address: str = "", depth: int = 0) -> tuple[Agent, ...]:
    """The children recorded in the folder of a session or a subagent, oldest first, each with its
    own."""
    if depth == MAX_DEPTH:
        return ()
    agents = []
    for record in _records(folder):
        own = f"{address}/{record.id}".lstrip("/")
        agents.append(
            Agent(
                record=record,
                address=own,
                has_transcript=record.transcript.is_file(),
                children=tree(record.folder, own, depth + 1),
            )
        )
    return tuple(agents)


def _records(folder: Path) -> list[SubagentRecord]:
    return [*subagent_records(paths.agents_folder(folder))]


def find(session_folder: Path, address: str) -> SubagentRecord | None:
    """A subagent by its address; None if there is none."""
    found: SubagentRecord | None = None
    for name in address.split("/")[:MAX_DEPTH]:
        records = {
            record.id: record for record in _records(found.folder if found else session_folder)
        }
        if name not in records:
            return None
        found = records[name]
    return found


def transcript(record: SubagentRecord) -> Transcript | None:
    """A subagent's transcript; None if it is missing."""
    try:
        return Transcript.read(record.transcript)
    except (SessionError, StorageError):
        return None
