"""One session, or one subagent, as the values of its page; and as a stand-alone file.

Nothing here needs a server.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kode.plugin import (
    FileChanges,
    SessionError,
    Spending,
    Transcript,
    find_session,
    require_extra,
    session_file,
    subagent_records,
)
from kode.plugins.view.turns import TurnView, turns_of


@dataclass(frozen=True, kw_only=True)
class SessionView:
    transcript: Transcript
    folder: Path
    """With what belongs to it, such as the records of its subagents."""
    title: str
    turns: Sequence[TurnView]
    spending: Spending
    """Also of rewound turns, which were paid for too."""
    agent_of: str = ""
    """The session, if this is one of its subagents."""
    address: str = ""
    """Of a subagent: the ids from the session's own child down to it, with slashes."""


def session_view(transcript: Transcript) -> SessionView:
    """A session for display. Raises: StorageError."""
    assert transcript.path is not None  # it was read
    folder = transcript.path.with_suffix("")
    turns = [*turns_of(transcript, FileChanges.of_session(folder))]
    titles = (turn.title for turn in turns if turn.title)
    return SessionView(
        transcript=transcript,
        folder=folder,
        title=next(titles, f"Session {transcript.header.id}"),
        turns=turns,
        spending=Spending.of(transcript.entries),
    )


def agent_view(home: Path, session_id: str, address: str) -> SessionView:
    """A subagent's transcript. Raises: SessionError if it is missing; StorageError."""
    folder = session_file(home, find_session(home, session_id)).with_suffix("")
    record = None
    for name in address.split("/"):
        record = next((each for each in subagent_records(folder) if each.id == name), None)
        folder = record.folder if record else folder / "missing"
    if record is None or not record.transcript.is_file():
        raise SessionError(f"Session {session_id} keeps no transcript of such a subagent.")
    transcript = Transcript.read(record.transcript)
    return SessionView(
        transcript=transcript,
        folder=record.folder,
        title=record.goal,
        turns=[*turns_of(transcript, FileChanges())],
        spending=Spending.of(transcript.entries),
        agent_of=session_id,
        address=address,
    )


def session_document(transcript: Transcript) -> str:
    """A full session as one HTML file: the export `html`. Raises: SessionError, StorageError;
    ConfigError without the extra."""
    require_extra("view")
    from kode.plugins.view import render

    view = session_view(transcript)
    return render.document("session.html", session=view, part=None, shown=view.turns)
