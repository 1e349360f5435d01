"""The methods that a client calls, and its open sessions.

Every foreseen fault becomes an error of the protocol whose message says what to do next; none ends
the process.
"""

import asyncio
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp import RequestError, schema
from acp.interfaces import Client

from kode.plugin import (
    ConversationSettings,
    Transcript,
    UserError,
    find_session,
    kode_home,
    kode_version,
    list_sessions,
    load_config,
    resolve_provider,
    shorten,
)
from kode.plugins.acp.choices import MODE
from kode.plugins.acp.live import AUTH_REQUIRED, NOT_FOUND, Block, Live, open_live, translate_faults
from kode.plugins.acp.updates import TITLE_CHARS, replay_history

SESSIONS_A_PAGE = 50  # an editor's list; it asks for more
ANSWER_GRACE_S = 2.0
"""Time to write the answers of stopped prompts."""
VERSION = 1
"""The version of the protocol that kode speaks."""
KEY_HELP = (
    "`kode init` in a terminal asks for a key and saves it. Or set OPENAI_API_KEY or "
    "ANTHROPIC_API_KEY in the editor's environment."
)
CAPABILITIES = ("list", "resume", "close", "additionalDirectories")
"""What kode lets a client do with sessions beyond the protocol's minimum."""
Named = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio


@dataclass
class KodeAgent:
    """kode as a client sees it: the agent of package `acp`, which passes arguments by name."""

    flags: Mapping[str, Any]
    """The flags of the command line, by dotted config key."""
    trust_project: bool = False
    sessions: dict[str, Live] = field(default_factory=dict)
    opening: dict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    """The id that the client gave → a lock, held while that session is loaded or resumed."""
    answers: "set[asyncio.Task[Any]]" = field(default_factory=set)
    """The running requests of prompts, whose answers are not written yet."""
    _client: Client | None = None

    def on_connect(self, conn: Client) -> None:
        """Called once, before the first message."""
        self._client = conn

    async def close(self) -> list[BaseException]:
        """Closes all sessions concurrently, waits a moment until stopped prompts are answered, and
        returns the errors of closing."""
        open_ones, self.sessions = list(self.sessions.values()), {}
        ended = await asyncio.gather(*(live.close() for live in open_ones), return_exceptions=True)
        if self.answers:
            await asyncio.wait(self.answers, timeout=ANSWER_GRACE_S)
        return [error for error in ended if error is not None]

    @translate_faults
    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        """Answers with the one version kode supports; a client that lacks it disconnects."""
        method = {"id": "init", "name": "Set up a key", "description": KEY_HELP}
        introduction = {
            "protocolVersion": VERSION,
            "agentInfo": {"name": "kode", "title": "kode", "version": kode_version},
            "authMethods": [method],
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": True},
                "sessionCapabilities": {name: {} for name in CAPABILITIES},
            },
        }
        return schema.InitializeResponse.model_validate(introduction)

    @translate_faults
    async def authenticate(self, method_id: str, **_: Any) -> None:
        """Only checks that a key is set up, because kode accepts none through the protocol."""
        self._load_settings(Path.cwd())

    @translate_faults
    async def new_session(self, cwd: str, **more: Any) -> schema.NewSessionResponse:
        live = await self._open_session(None, cwd, **more)
        return schema.NewSessionResponse(session_id=live.id, **self._release_updates(live))

    @translate_faults
    async def load_session(
        self, cwd: str, session_id: str, **more: Any
    ) -> schema.LoadSessionResponse:
        """Opens an earlier session and sends its whole history, then answers."""
        async with self.opening[session_id]:
            live = await self._open_session(session_id, cwd, **more)
            session = live.conversation.session
            log = Transcript(header=session.header, entries=session.entries)
            live.outbox.put(*replay_history(log, live.updates))
            await live.outbox.wait_until_sent()
            return schema.LoadSessionResponse(**self._release_updates(live))

    @translate_faults
    async def resume_session(
        self, session_id: str, cwd: str, **more: Any
    ) -> schema.ResumeSessionResponse:
        """Opens an earlier session without sending its history."""
        async with self.opening[session_id]:
            live = await self._open_session(session_id, cwd, **more)
            return schema.ResumeSessionResponse(**self._release_updates(live))

    @translate_faults
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        """The sessions of a directory or of all, last used first. Raises: UserError (cursor)."""
        if cursor is not None and not cursor.isdecimal():
            raise UserError("kode did not issue this cursor. List from the beginning.")
        start = int(cursor or 0)
        end = start + SESSIONS_A_PAGE
        where = _check_folder(cwd) if cwd is not None else None
        summaries = await asyncio.to_thread(list_sessions, kode_home(), cwd=where)
        listed = [s for s in summaries if s.turns and not s.parent and not s.damaged]
        infos = [
            schema.SessionInfo(
                session_id=summary.id,
                cwd=summary.cwd,
                title=shorten(summary.title, TITLE_CHARS) or None,
                updated_at=summary.updated_at,
            )
            for summary in listed[start:end]
        ]
        following = str(end) if end < len(listed) else None
        return schema.ListSessionsResponse(sessions=infos, next_cursor=following)

    @translate_faults
    async def close_session(self, session_id: str, **_: Any) -> None:
        live = await self._find_session(session_id)
        del self.sessions[session_id]
        await live.close()

    @translate_faults
    async def prompt(
        self, session_id: str, prompt: Sequence[Block], **_: Any
    ) -> schema.PromptResponse:
        # This task is the request's: it ends once the answer is written.
        if (request := asyncio.current_task()) is not None:
            self.answers.add(request)
            request.add_done_callback(self.answers.discard)
        live = await self._find_session(session_id)
        return await live.prompt(prompt)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stops the prompts of a session. A notification, so an unknown session is ignored."""
        async with self.opening[session_id]:
            if (live := self.sessions.get(session_id)) is not None:
                live.cancel()

    @translate_faults
    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> None:
        live = await self._find_session(session_id)
        await live.choose(MODE, mode_id)

    @translate_faults
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        live = await self._find_session(session_id)
        await live.choose(config_id, str(value))
        return schema.SetSessionConfigOptionResponse(config_options=[*live.options])

    async def _find_session(self, session_id: str) -> Live:
        async with self.opening[session_id]:
            if (live := self.sessions.get(session_id)) is not None:
                return live
        what = f"The session {session_id[:80]!r} is not open. Load or resume it first"
        raise RequestError(NOT_FOUND, f"{what}; session/list lists them.")

    async def _open_session(
        self,
        session_id: str | None,
        cwd: str,
        additional_directories: Sequence[str] | None = None,
        mcp_servers: Sequence[Named] | None = None,
        **_: Any,
    ) -> Live:
        """Opens a session, or returns the open one with this id.

        Raises: RequestError without a key; UserError, SessionError, StorageError.
        """
        where = _check_folder(cwd)
        loaded = self._load_settings(
            where, [str(_check_folder(name)) for name in additional_directories or ()]
        )
        if session_id is not None:
            session_id = await asyncio.to_thread(find_session, kode_home(), session_id)
            if (live := self.sessions.get(session_id)) is not None:
                if live.work:
                    raise UserError(
                        "A prompt is running in this session. Cancel it, or wait until it ends."
                    )
                return live
        assert self._client is not None
        settings = ConversationSettings(
            loaded,
            trust_project=self.trust_project,
            client_servers=convert_servers(mcp_servers or ()),
        )
        live = await open_live(self._client, settings, where, session_id)
        self.sessions[live.id] = live
        return live

    def _load_settings(self, cwd: Path, directories: Sequence[str] = ()) -> Any:
        """Loads the settings. Raises: ConfigError; RequestError without a usable provider, with the
        code by which clients recognize that a key is missing."""
        flags = dict(self.flags)
        if directories:
            flags["add_dirs"] = [*flags.get("add_dirs", ()), *directories]
        loaded = load_config(kode_home(), cwd, environ=os.environ, flags=flags)
        try:
            resolve_provider(loaded.config, os.environ)
        except UserError as error:
            raise RequestError(AUTH_REQUIRED, str(error)) from error
        return loaded

    def _release_updates(self, live: Live) -> dict[str, Any]:
        """Returns the session's choices for the answer, and lets updates be sent after the answer,
        which is queued in the loop step in which the method returns, before the next one."""
        live.send_commands()
        asyncio.get_running_loop().call_soon(live.outbox.release)
        return live.describe_choices()


def _check_folder(path: str) -> Path:
    """Returns the path of a directory. Raises: UserError if it is not absolute or none."""
    folder = Path(path)
    if not folder.is_absolute() or not folder.is_dir():
        raise UserError(
            f"{path[:200]!r} is not a directory on this machine. Give an absolute path."
        )
    return folder


def convert_servers(servers: Sequence[Named]) -> dict[str, dict[str, Any]]:
    """Converts a client's MCP servers to entries of kode's config by name; nothing is stored. The
    servers may change the project and use the network, because other agents start them without a
    sandbox, and a client cannot say what they need.

    Raises: UserError for an unsupported kind of server.
    """
    named: dict[str, dict[str, Any]] = {}
    for server in servers:
        # A name that can be part of a tool's: `My Server` → `My-Server`.
        plain = re.sub(r"[^A-Za-z0-9.-]+", "-", server.name).strip("-.")[:36] or "server"
        numbered = (f"{plain}-{number}" for number in range(2, len(servers) + 2))
        named[next(name for name in (plain, *numbered) if name not in named)] = _convert_server(
            server
        )
    return named


def _convert_server(server: Named) -> dict[str, Any]:
    if isinstance(server, schema.McpServerStdio):
        return {
            "command": server.command,
            "args": list(server.args),
            "env": {variable.name: variable.value for variable in server.env},
            "write": True,
            "network": True,
        }
    if isinstance(server, schema.AcpMcpServer):
        raise UserError(
            f"kode cannot reach the MCP server {server.name[:40]!r}: it speaks stdio, "
            "Streamable HTTP and SSE. Configure it in one of these ways."
        )
    headers = {header.name: header.value for header in server.headers}
    return {"type": server.type, "url": server.url, "headers": headers}
