"""The server in this process, with conversations over real parts and scripted replies."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, Implementation

from kode import paths
from kode.conversation import Conversation
from kode.plugins.serve.server import make_server
from kode.plugins.serve.sessions import Bounds, ServedSessions


@dataclass
class Caller:
    """A client; without a connection it comes for each call alone, under the name `other`."""

    server: MCPServer
    client: Client | None = None
    sessions: ServedSessions | None = None
    project: Path = Path()

    async def result(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        if self.client is None:
            info = Implementation(name="other", version="1")
            async with Client(self.server, client_info=info) as client:
                return await Caller(self.server, client).result(tool, arguments)
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        return result

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The state that a call gives. Fails where the call does."""
        result = await self.result(tool, arguments)
        assert not result.is_error, text_of(result)
        assert isinstance(result.structured_content, dict)
        return result.structured_content

    async def fault(self, tool: str, **arguments: Any) -> str:
        """The text of a call that fails."""
        result = await self.result(tool, arguments)
        assert result.is_error, result
        return text_of(result)

    async def start(self, prompt: str = "x", **more: Any) -> dict[str, Any]:
        return await self("kode_start", prompt=prompt, **{"cwd": str(self.project), **more})

    async def refused(self, prompt: str = "x", **more: Any) -> str:
        """Why a task does not start."""
        return await self.fault("kode_start", prompt=prompt, **{"cwd": str(self.project), **more})

    async def question_of(self, state: dict[str, Any]) -> dict[str, Any]:
        """The question of a session that works towards one."""
        while state["status"] == "working":
            state = await self("kode_wait", session=state["session"], wait_s=0.1)
        assert state["status"] == "asks"
        return {"session": state["session"], "question": state["question"]["id"]}

    def conversation(self, session: str) -> Conversation:
        assert self.sessions is not None
        return self.sessions.find(session).conversation


def text_of(done: CallToolResult) -> str:
    return "\n".join(getattr(part, "text", "") for part in done.content)


Serve = Callable[..., AbstractAsyncContextManager[Caller]]
WRITING = {"calls": [{"name": "write_file", "arguments": {"path": "a.txt", "content": "new\n"}}]}
MADE = (WRITING, {"text": "made it"})
DONE = {"text": "done"}


def configure(**settings: Any) -> None:
    """Writes the config of the person whose kode it is."""
    paths.kode_home().mkdir(exist_ok=True)
    paths.config_file(paths.kode_home()).write_text(
        json.dumps({"provider": "scripted", **settings})
    )


@pytest.fixture(params=[pytest.param("legacy", marks=pytest.mark.slow), "auto"])
def serve(project: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Serve:
    """Serves a script to a client of each era of the protocol."""

    @asynccontextmanager
    async def serve(
        *replies: dict[str, Any], person: Any = None, config: Any = None, **bounds: Any
    ) -> AsyncIterator[Caller]:
        script = tmp_path / "script.json"
        script.write_text(json.dumps(replies))
        configure(script=str(script), **({"memory": {"enabled": False}} | (config or {})))
        sessions = ServedSessions(Bounds(**({"roots": (project,)} | bounds)))
        server = make_server(sessions)
        try:
            async with Client(server, mode=request.param, elicitation_callback=person) as client:
                yield Caller(server, client, sessions, project)
        finally:
            await sessions.close_all()

    return serve
