"""One session, or one subagent, as the values of its page; and as a stand-alone file.

Nothing here needs a server.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kode.plugin import FileChanges, extras, paths, read_session, session_path
from kode.plugin.entries import AnyEntry, Header
from kode.plugin.errors import SessionError
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


def session_view(path: Path) -> SessionView:
    """A session from its file. Raises: SessionError, StorageError."""
    header, entries, faults = read_session(path)
    folder = path.with_suffix("")
    turns = turns_of(header, entries, FileChanges.of_session(folder))
    return SessionView(
        title=next((turn.asked for turn in turns if turn.asked), f"Session {header.id}"),
        header=header,
        turns=tuple(turns),
        spending=session_spending(turns),
        updated_at=_last_used(header, entries),
        faults=tuple(faults),
        tree=agents.tree(paths.agents_folder(folder)),
    )


def agent_view(home: Path, session_id: str, address: str) -> SessionView:
    """A subagent's transcript. Raises: SessionError if it is missing."""
    session_path(home, session_id)
    record = agents.find(paths.session_folder(home, session_id), address)
    kept = agents.transcript(record) if record else None
    if record is None or kept is None:
        raise SessionError(f"Session {session_id} keeps no transcript of such a subagent.")
    header, entries = kept
    turns = turns_of(header, entries, FileChanges())
    return SessionView(
        title=record.goal,
        header=header,
        turns=tuple(turns),
        spending=session_spending(turns),
        updated_at=_last_used(header, entries),
        tree=agents.tree(paths.agents_folder(record.folder), address),
        agent_of=session_id,
    )


def session_document(path: Path) -> str:
    """A full session as one HTML file: the export `html`. Raises: SessionError, StorageError;
    ConfigError without the extra."""
    extras.require("view")
    from kode.plugins.view import render

    view = session_view(path)
    return render.document(
        "session.html", session=view, part=None, shown=view.turns, session_parts=()
    )


def _last_used(header: Header, entries: Sequence[AnyEntry]) -> str:
    return entries[-1].at if entries else header.created_at
