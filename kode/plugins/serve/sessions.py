"""The open conversations of this process, and the sessions on disk that clients see."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kode.plugin import (
    SessionSummary,
    TaintEntry,
    UserError,
    find_session,
    list_sessions,
    open_conversation,
    paths,
    summarize_session,
    visible,
)
from kode.plugins.serve.bounds import Bounds, Wish
from kode.plugins.serve.session import ServedSession

MAX_OPEN = 16
CLIENT = "a client of kode's MCP server"
"""The speaker in these sessions: not a person, so what they leave in memory waits for approval."""


@dataclass
class ServedSessions:
    bounds: Bounds
    opened: dict[str, ServedSession] = field(default_factory=dict)
    """By session id."""
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def start(self, cwd: str, wish: Wish) -> ServedSession:
        """Starts a session in `cwd`. Raises: UserError, StorageError."""
        async with self._opening:
            return await self._open(self.bounds.folder(cwd), wish, None)

    async def take_up(self, session: str) -> ServedSession:
        """The open conversation with this session id (or prefix), else opens the session on disk.

        Raises: UserError, also for one outside of the roots; SessionError; BusyError if it is open
        elsewhere.
        """
        async with self._opening:
            id = find_session(paths.home(), session)
            summary = summarize_session(paths.session_file(paths.home(), id))
            self.bounds.folder(summary.cwd)
            return self.opened.get(id) or await self._open(Path(summary.cwd), Wish(), id)

    def find(self, session: str) -> ServedSession:
        """The open conversation. Raises: UserError."""
        ids = [id for id in self.opened if session and id.startswith(session)]
        if len(ids) == 1:
            return self.opened[ids[0]]
        raise UserError(
            f"No session {session[:80]!r} is open here: `kode_sessions` lists them, and "
            "`kode_reply` opens one that is closed."
        )

    async def close(self, served: ServedSession) -> None:
        """Closes one; its session can be resumed, also by `kode continue`."""
        self.opened.pop(served.conversation.session.id or "", None)
        await served.close()

    async def close_all(self) -> None:
        """Closes all concurrently. If cancelled, memory leaves its work for the next start."""
        endings = [asyncio.create_task(served.close()) for served in self.opened.values()]
        try:
            await asyncio.gather(*endings, return_exceptions=True)
        finally:
            await asyncio.gather(*endings, return_exceptions=True)

    def listed(self, limit: int) -> list[dict[str, Any]]:
        """The sessions below the roots, last used first."""
        rows: list[dict[str, Any]] = []
        for session in list_sessions(paths.home()):
            served = self.opened.get(session.id)
            if len(rows) < limit and self._may_see(session) and (served or session.turns):
                row = {
                    "session": session.id,
                    "status": served.status if served is not None else "closed",
                    "cwd": visible(session.cwd),
                    "task": visible(session.task),
                    "turns": session.turns,
                    "updated_at": session.updated_at,
                    "model": visible(session.model),
                }
                rows.append(row)
        return rows

    async def _open(self, cwd: Path, wish: Wish, session_id: str | None) -> ServedSession:
        if len(self.opened) >= MAX_OPEN:
            raise UserError(f"{MAX_OPEN} sessions are open here: `kode_stop` one of them first.")
        loaded = self.bounds.settings(cwd, wish)
        served = ServedSession()
        served.opened = await open_conversation(
            loaded, cwd=cwd, emit=served.note_event, ask=served.ask, session_id=session_id
        )
        session = served.conversation.session
        assert session.id is not None
        try:
            if not session.tainted:
                session.append(TaintEntry(source=CLIENT))
        except BaseException:
            await served.conversation.close()
            raise
        self.opened[session.id] = served
        return served

    def _may_see(self, summary: SessionSummary) -> bool:
        is_own = bool(summary.cwd) and not summary.parent
        return is_own and self.bounds.holds(Path(paths.real_path(summary.cwd)))
