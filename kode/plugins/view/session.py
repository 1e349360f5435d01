"""One session, or one subagent, as the values of its page; and as a stand-alone file.

Nothing here needs a server.
"""

from dataclasses import dataclass
from pathlib import Path

from kode.plugin import FileChanges, Header, SessionError, Transcript, extras, paths, session_path
from kode.plugins.view import agents
from kode.plugins.view.agents import Agent
from kode.plugins.view.spent import SessionSpending, session_spending
from kode.plugins.view.transcript import Turn, turns_of


@dataclass(frozen=True, kw_only=True)
class SessionView:
    title: str
    header: Header
    turns: tuple[Turn, ...]
    spending: SessionSpending
    updated_at: str
    faults: tuple[str, ...] = ()
    """What was unreadable."""
    tree: tuple[Agent, ...] = ()
    agent_of: str = ""
    """The session, if this is one of its subagents."""


def session_view(transcript: Transcript) -> SessionView:
    """A session for display. Raises: StorageError."""
    assert transcript.path is not None  # it was read
    folder = transcript.path.with_suffix("")
    turns = turns_of(transcript, FileChanges.of_session(folder))
    return SessionView(
        title=next((turn.asked for turn in turns if turn.asked), f"Session {transcript.header.id}"),
        header=transcript.header,
        turns=tuple(turns),
        spending=session_spending(turns),
        updated_at=_last_used(transcript),
        faults=transcript.faults,
        tree=agents.tree(folder),
    )


def agent_view(home: Path, session_id: str, address: str) -> SessionView:
    """A subagent's transcript. Raises: SessionError if it is missing."""
    session_path(home, session_id)
    record = agents.find(paths.session_folder(home, session_id), address)
    transcript = agents.transcript(record) if record else None
    if record is None or transcript is None:
        raise SessionError(f"Session {session_id} keeps no transcript of such a subagent.")
    turns = turns_of(transcript, FileChanges())
    return SessionView(
        title=record.goal,
        header=transcript.header,
        turns=tuple(turns),
        spending=session_spending(turns),
        updated_at=_last_used(transcript),
        tree=agents.tree(record.folder, address),
        agent_of=session_id,
    )


def session_document(transcript: Transcript) -> str:
    """A full session as one HTML file: the export `html`. Raises: SessionError, StorageError;
    ConfigError without the extra."""
    extras.require("view")
    from kode.plugins.view import render

    view = session_view(transcript)
    return render.document(
        "session.html", session=view, part=None, shown=view.turns, session_parts=()
    )


def _last_used(transcript: Transcript) -> str:
    entries = transcript.entries
    return entries[-1].at if entries else transcript.header.created_at
