"""The methods that a client calls, and its open sessions.

Every foreseen fault becomes an error of the protocol whose message says what to do next; none ends
the process.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp import RequestError
from acp.interfaces import Client
from acp.schema import (
    AuthenticateResponse,
    ClientCapabilities,
    CloseSessionResponse,
    ForkSessionResponse,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptResponse,
    ResumeSessionResponse,
    SessionInfo,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
)

from kode.plugin import (
    Loaded,
    Transcript,
    UserError,
    fork_session,
    list_sessions,
    load_config,
    paths,
    shorten,
)
from kode.plugin import find_session as find
from kode.plugins.acp.faults import NOT_FOUND, require_provider, translate_faults
from kode.plugins.acp.hello import introduction
from kode.plugins.acp.live import Live, open_live
from kode.plugins.acp.options import MODE, config_options
from kode.plugins.acp.prompts import Block
from kode.plugins.acp.replay import history
from kode.plugins.acp.servers import Named, entries_of

SESSIONS_A_PAGE = 50  # an editor's list; it asks for more
ANSWER_GRACE_S = 2.0
"""Time to write the answers of stopped prompts."""
TITLE_CHARS = 80  # one line of an editor's list


@dataclass
class KodeAgent:
    """kode, as a client sees it; what `acp` calls an agent."""

    flags: Mapping[str, Any]
    """The flags of the command line, by dotted config key."""
    trust_project: bool = False
    keep_sessions: bool = True
    sessions: dict[str, Live] = field(default_factory=dict)
    opening: dict[str, asyncio.Event] = field(default_factory=dict)
    """The sessions that are being loaded or resumed, by the id that the client gave."""
    answers: "set[asyncio.Task[Any]]" = field(default_factory=set)
    """Prompts whose answer is not written yet."""
    can: ClientCapabilities = field(default_factory=ClientCapabilities)
    _client: Client | None = None

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    def on_connect(self, conn: Client) -> None:
        """Called once, before the first message."""
        self._client = conn

    async def close(self) -> list[BaseException]:
        """Ends all sessions concurrently, and waits until stopped prompts are answered; returns the
        errors."""
        open_ones, self.sessions = list(self.sessions.values()), {}
        closing = (live.close() for live in open_ones)
        ended = await asyncio.gather(*closing, return_exceptions=True)
        if self.answers:
            await asyncio.wait(self.answers, timeout=ANSWER_GRACE_S)
        return [error for error in ended if error is not None]

    @translate_faults
    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        client_info: Implementation | None = None,
        **_: Any,
    ) -> InitializeResponse:
        """Answers with the one version kode supports; a client that lacks it disconnects."""
        self.can = client_capabilities or ClientCapabilities()
        terminal = self.can.auth is not None and bool(self.can.auth.terminal)
        return InitializeResponse.model_validate(introduction(in_terminal=terminal))

    @translate_faults
    async def authenticate(self, method_id: str, **_: Any) -> AuthenticateResponse:
        """Checks that a key is set up: kode accepts none through the protocol."""
        require_provider(self._load(Path.cwd(), ()))
        return AuthenticateResponse()

    @translate_faults
    async def new_session(
        self,
        cwd: str,
        additional_directories: Sequence[str] | None = None,
        mcp_servers: Sequence[Named] | None = None,
        **_: Any,
    ) -> NewSessionResponse:
        live = await self._open(cwd, None, additional_directories, mcp_servers)
        self._release(live)
        return NewSessionResponse(session_id=live.id, **live.offer())

    @translate_faults
    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: Sequence[Named] | None = None,
        additional_directories: Sequence[str] | None = None,
        **_: Any,
    ) -> LoadSessionResponse:
        """Opens an earlier session and sends its whole history, then answers."""
        async with self._opening(session_id):
            live = await self._open(cwd, session_id, additional_directories, mcp_servers)
            session, place = live.conversation.session, live.conversation.agent.place
            log = Transcript(header=session.header, entries=session.entries)
            live.outbox.put(*history(log, live.updates, place.plan))
            await live.outbox.sent()
            self._release(live)
            return LoadSessionResponse(**live.offer())

    @translate_faults
    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: Sequence[str] | None = None,
        mcp_servers: Sequence[Named] | None = None,
        **_: Any,
    ) -> ResumeSessionResponse:
        """Opens an earlier session without sending its history."""
        async with self._opening(session_id):
            live = await self._open(cwd, session_id, additional_directories, mcp_servers)
            self._release(live)
            return ResumeSessionResponse(**live.offer())

    @translate_faults
    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: Sequence[str] | None = None,
        mcp_servers: Sequence[Named] | None = None,
        **_: Any,
    ) -> ForkSessionResponse:
        """Opens a copy of a session; the original may be open."""
        found = await asyncio.to_thread(find, paths.home(), session_id)
        copy = await asyncio.to_thread(fork_session, paths.home(), found)
        live = await self._open(cwd, copy, additional_directories, mcp_servers)
        self._release(live)
        return ForkSessionResponse(session_id=live.id, **live.offer())

    @translate_faults
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> ListSessionsResponse:
        """The sessions of a directory or of all, last used first. Raises: UserError (cursor)."""
        if cursor is not None and not cursor.isdecimal():
            raise UserError("kode did not issue this cursor. List from the beginning.")
        start = int(cursor or 0)
        where = _folder(cwd) if cwd is not None else None
        summaries = await asyncio.to_thread(list_sessions, paths.home(), cwd=where)
        listed = [s for s in summaries if s.turns and not s.parent and not s.damaged]
        end = start + SESSIONS_A_PAGE
        return ListSessionsResponse(
            sessions=[
                SessionInfo(
                    session_id=summary.id,
                    cwd=summary.cwd,
                    title=shorten(summary.task, TITLE_CHARS) or None,
                    updated_at=summary.updated_at,
                )
                for summary in listed[start:end]
            ],
            next_cursor=str(end) if end < len(listed) else None,
        )

    @translate_faults
    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse:
        live = await self._live(session_id)
        del self.sessions[session_id]
        await live.close()
        return CloseSessionResponse()

    @translate_faults
    async def prompt(self, session_id: str, prompt: Sequence[Block], **_: Any) -> PromptResponse:
        # It ends when the answer is written: it is the request's task.
        if (request := asyncio.current_task()) is not None:
            self.answers.add(request)
            request.add_done_callback(self.answers.discard)
        live = await self._live(session_id)
        return await live.prompt(prompt)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stops the prompts of a session. A notification, so an unknown session is ignored."""
        await self._opened(session_id)
        if (live := self.sessions.get(session_id)) is not None:
            live.cancel()

    @translate_faults
    async def set_session_mode(
        self, session_id: str, mode_id: str, **_: Any
    ) -> SetSessionModeResponse:
        live = await self._live(session_id)
        await live.choose(MODE, mode_id)
        return SetSessionModeResponse()

    @translate_faults
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> SetSessionConfigOptionResponse:
        live = await self._live(session_id)
        await live.choose(config_id, str(value))
        return SetSessionConfigOptionResponse(config_options=config_options(live.choices()))

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Refuses: kode adds no methods to the protocol. Raises: RequestError."""
        raise RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Ignores what is not part of the protocol."""

    @contextlib.asynccontextmanager
    async def _opening(self, session_id: str) -> AsyncIterator[None]:
        """While a session is being opened; one at a time."""
        await self._opened(session_id)
        done = self.opening[session_id] = asyncio.Event()
        try:
            yield
        finally:
            del self.opening[session_id]
            done.set()

    async def _opened(self, session_id: str) -> None:
        """Waits until the session, if it is being opened, is open, or cannot be."""
        while (opening := self.opening.get(session_id)) is not None:
            await opening.wait()

    async def _live(self, session_id: str) -> Live:
        await self._opened(session_id)
        live = self.sessions.get(session_id)
        if live is None:
            raise RequestError(
                NOT_FOUND,
                f"The session {session_id[:80]!r} is not open. Load or resume it first; "
                "session/list lists them.",
            )
        return live

    async def _open(
        self,
        cwd: str,
        session_id: str | None,
        directories: Sequence[str] | None,
        servers: Sequence[Named] | None,
    ) -> Live:
        """Opens a session, or returns the open one with this id.

        Raises: RequestError without a key; UserError, SessionError, StorageError.
        """
        where = _folder(cwd)
        loaded = self._load(where, tuple(str(_folder(name)) for name in directories or ()))
        require_provider(loaded)
        if session_id is not None:
            session_id = await asyncio.to_thread(find, paths.home(), session_id)
            if (live := self.sessions.get(session_id)) is not None:
                if live.work:
                    raise UserError(
                        "A prompt is running in this session. Cancel it, or wait until it ends."
                    )
                return live
        live = await open_live(
            self.client,
            self.can,
            loaded,
            cwd=where,
            session_id=session_id,
            servers=entries_of(servers or (), where),
            keep_session=self.keep_sessions,
            trust_project=self.trust_project,
        )
        self.sessions[live.id] = live
        await live.look_up_models()
        return live

    def _load(self, cwd: Path, directories: tuple[str, ...]) -> Loaded:
        """Raises: ConfigError."""
        flags = dict(self.flags)
        if directories:
            flags["add_dirs"] = [*flags.get("add_dirs", ()), *directories]
        return load_config(paths.home(), cwd, environ=os.environ, flags=flags)

    def _release(self, live: Live) -> None:
        """Lets updates be sent once the client has the session's id: the answer is queued in the
        loop step in which the method returns, before the next one."""
        live.send_commands()
        asyncio.get_running_loop().call_soon(live.outbox.release)


def _folder(path: str) -> Path:
    """Raises: UserError if it is not an absolute path of a directory."""
    folder = Path(path)
    if not folder.is_absolute() or not folder.is_dir():
        raise UserError(
            f"{path[:200]!r} is not a directory on this machine. Give an absolute path."
        )
    return folder
