"""The server in this process, with conversations over real parts and scripted replies."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import CallToolResult

from kode import paths
from kode.plugins.serve.bounds import Bounds
from kode.plugins.serve.server import make_server
from kode.plugins.serve.sessions import ServedSessions


class Caller:
    """What calls of one client give."""

    async def done(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        raise NotImplementedError

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The state that a call gives. Fails where the call does."""
        done = await self.done(tool, arguments)
        assert not done.is_error, text_of(done)
        assert isinstance(done.structured_content, dict)
        return done.structured_content

    async def fault(self, tool: str, **arguments: Any) -> str:
        """The text of a call that fails."""
        done = await self.done(tool, arguments)
        assert done.is_error, done
        return text_of(done)


class Connected(Caller):
    """A client of the server over conversations."""

    def __init__(self, client: Client, sessions: ServedSessions) -> None:
        self.client = client
        self.sessions = sessions

    async def done(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        done = await self.client.call_tool(tool, arguments)
        assert isinstance(done, CallToolResult)
        return done


def text_of(done: CallToolResult) -> str:
    return "\n".join(getattr(part, "text", "") for part in done.content)


Connect = Callable[..., AbstractAsyncContextManager[Connected]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    """Writes the script and the settings of the person whose kode it is."""

    def write(*replies: dict[str, Any], **settings: Any) -> None:
        script = tmp_path / "script.json"
        script.write_text(json.dumps(replies))
        config = {
            "provider": "scripted",
            "script": str(script),
            "memory": {"enabled": False},
            **settings,
        }
        paths.home().mkdir(exist_ok=True)
        paths.config_file(paths.home()).write_text(json.dumps(config))

    return write


@pytest.fixture(params=[pytest.param("legacy", marks=pytest.mark.slow), "auto"])
def connect(project: Path, request: pytest.FixtureRequest) -> Connect:
    """Connects a client of each era of the protocol."""

    @asynccontextmanager
    async def connected(
        elicit: Any = None, *, roots: tuple[Path, ...] = (), **bounds: Any
    ) -> AsyncIterator[Connected]:
        sessions = ServedSessions(Bounds(roots=roots or (project,), **bounds))
        server = make_server(sessions)
        try:
            async with Client(server, mode=request.param, elicitation_callback=elicit) as client:
                yield Connected(client, sessions)
        finally:
            await sessions.close_all()

    return connected
