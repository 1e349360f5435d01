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
from kode.plugins.serve.served import ServedSession

CLOSE_WAIT_S = 5.0  # memory mostly ends sooner, and else in the background
MAX_OPEN = 16
"""Beyond this, the conversation idle for longest is closed; its session stays."""
CLIENT = "a client of kode's MCP server"
"""The speaker in these sessions: not a person, so what they leave in memory waits for approval."""


@dataclass
class ServedSessions:
    bounds: Bounds
    opened: dict[str, ServedSession] = field(default_factory=dict)
    """By session id."""
    closing: dict[str, "asyncio.Task[None]"] = field(default_factory=dict)
    """Sessions that are ending, which may take memory half a minute."""
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def start(self, cwd: str, wish: Wish) -> ServedSession:
        """Starts a session in `cwd`. Raises: UserError, StorageError."""
        async with self._opening:
            return await self._open(self.bounds.folder(cwd), wish, None)

    async def take_up(self, session: str) -> ServedSession:
        """The open conversation with this session id (or prefix), else opens the session on disk.

        Raises: UserError, SessionError, BusyError if it is open elsewhere.
        """
        async with self._opening:
            summary = self._named(session)
            if summary.id in self.closing:
                await asyncio.wait([self.closing[summary.id]], timeout=CLOSE_WAIT_S)
            if summary.id in self.closing:
                raise UserError(f"{summary.id} is still closing: try again in half a minute.")
            served = self.opened.get(summary.id)
            return served or await self._open(Path(summary.cwd), Wish(), summary.id)

    def find(self, session: str) -> ServedSession:
        """The open conversation. Raises: UserError."""
        ids = [id for id in self.opened if session and id.startswith(session)]
        if len(ids) == 1:
            return self.opened[ids[0]]
        raise UserError(
            f"No session {session[:80]!r} is open here: `kode_sessions` lists them, and "
            "`kode_reply` opens one that is closed."
        )

    async def close(self, served: ServedSession, wait_s: float = CLOSE_WAIT_S) -> None:
        """Closes one, and waits at most `wait_s` for its end; its session can be resumed, also by
        `kode continue`."""
        session = served.conversation.session.id or ""
        self.opened.pop(session, None)
        ending = self.closing[session] = asyncio.create_task(served.close())
        ending.add_done_callback(lambda _: self.closing.pop(session, None))
        await asyncio.wait([ending], timeout=wait_s)

    async def close_all(self) -> None:
        """Closes all concurrently. If cancelled, memory leaves its work for the next start."""
        for served in list(self.opened.values()):
            await self.close(served, wait_s=0)
        endings = list(self.closing.values())
        try:
            await asyncio.gather(*endings, return_exceptions=True)
        except asyncio.CancelledError:
            await asyncio.gather(*endings, return_exceptions=True)
            raise

    def listed(self, limit: int) -> list[dict[str, Any]]:
        """The sessions below the roots, last used first."""
        rows: list[dict[str, Any]] = []
        for session in list_sessions(paths.home()):
            if len(rows) >= limit:
                break
            served = self.opened.get(session.id)
            if not self._may_see(session) or (served is None and not session.turns):
                continue
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
        await self._close_idle()
        loaded = self.bounds.settings(cwd, wish)
        served = ServedSession()
        served.opened = await open_conversation(
            loaded, cwd=cwd, emit=served.take, ask=served.ask, session_id=session_id
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

    async def _close_idle(self) -> None:
        if len(self.opened) < MAX_OPEN:
            return
        idle = [served for served in self.opened.values() if served.status in ("idle", "done")]
        if not idle:
            raise UserError(
                f"{MAX_OPEN} sessions are busy here. Wait for one of them, or `kode_stop` it."
            )
        await self.close(min(idle, key=lambda served: served.used_at), wait_s=0)

    def _named(self, session: str) -> SessionSummary:
        """Raises: SessionError, UserError for one outside of the roots."""
        found = find_session(paths.home(), session)
        summary = summarize_session(paths.session_file(paths.home(), found))
        self.bounds.folder(summary.cwd)
        return summary

    def _may_see(self, summary: SessionSummary) -> bool:
        is_own = bool(summary.cwd) and not summary.parent
        return is_own and self.bounds.holds(Path(paths.real_path(summary.cwd)))
