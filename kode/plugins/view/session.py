"""One session, or one subagent, as the values of its page; and as a stand-alone file.

Nothing here needs a server.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kode import paths
from kode.errors import SessionError
from kode.plugins.cost.breaks import Break
from kode.session.entries import AnyEntry, Header
from kode.session.reading import read, session_path
from kode.plugins.view import agents, render
from kode.plugins.view.agents import Agent
from kode.plugins.view.calls import Changed, changed_files
from kode.plugins.view.spent import SessionSpending, session_spending
from kode.plugins.view.transcript import Turn, turns_of


@dataclass(frozen=True, kw_only=True)
class SessionView:
    title: str
    header: Header
    turns: tuple[Turn, ...]
    spending: SessionSpending
    updated_at: str
    lost: tuple[Break, ...] = ()
    """Where a server had to read a beginning again."""
    faults: tuple[str, ...] = ()
    """What was unreadable."""
    tree: tuple[Agent, ...] = ()
    agent_of: str = ""
    """The session, if this is one of its subagents."""


def session_view(home: Path, session_id: str) -> SessionView:
    """A session from disk. Raises: SessionError, StorageError."""
    header, entries, faults = read(session_path(home, session_id))
    folder = paths.session_folder(home, session_id)
    turns = turns_of(header, entries, changed_files(folder))
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
    kept = agents.transcript(record.folder) if record else None
    if record is None or kept is None:
        raise SessionError(f"Session {session_id} keeps no transcript of such a subagent.")
    header, entries = kept
    turns = turns_of(header, entries, Changed())
    return SessionView(
        title=record.goal,
        header=header,
        turns=tuple(turns),
        spending=session_spending(turns),
        updated_at=_last_used(header, entries),
        tree=agents.tree(paths.agents_folder(record.folder), address),
        agent_of=session_id,
    )


def session_document(home: Path, session_id: str) -> str:
    """A full session as one HTML file. Raises: SessionError, StorageError."""
    view = session_view(home, session_id)
    return render.document("session.html", session=view, part=None, shown=view.turns)


def _last_used(header: Header, entries: Sequence[AnyEntry]) -> str:
    return entries[-1].at if entries else header.created_at
