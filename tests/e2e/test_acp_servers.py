"""MCP servers that an editor names for a session."""

import sys
from pathlib import Path
from typing import Any

from acp.schema import McpServerStdio

from tests.e2e.command import Place
from tests.e2e.editor import editor
from tests.scripted_server import ScriptedServer

SCRIPT = Path(__file__).parents[1] / "extensions" / "servers" / "plain.py"


async def test_a_clients_server_is_asked_about_and_not_saved(
    place: Place, server: ScriptedServer
) -> None:
    # Without a sandbox, which hides the environment that the server is installed in.
    place.home.mkdir()
    before = '{"sandbox": {"enabled": false}}'
    (place.home / "config.json").write_text(before)
    add = {"name": "mcp__My-Server__add", "arguments": {"a": 2, "b": 40}}
    late = {"server": "My-Server", "tool": "add", "arguments": add["arguments"]}

    def script(request: dict[str, Any]) -> dict[str, Any]:
        """Calls the tool by the name it has: on a busy machine its server comes late."""
        if request["messages"][-1]["role"] == "tool":
            return {"text": "done"}
        named = "mcp__My-Server__add" in str(request["tools"])
        return {"calls": [add if named else {"name": "mcp_call", "arguments": late}]}

    server.play(script)
    given = McpServerStdio(name="My Server", command=sys.executable, args=[str(SCRIPT)], env=[])

    async with editor(place, "--no-memory") as client:
        session = await client.open(mcp_servers=[given])
        await client.prompt(session, "add")

    (question,) = client.asked
    assert "My-Server" in str(question)
    assert question["toolCallId"] == client.of("tool_call")[0]["toolCallId"]
    assert "42" in str(client.call()["content"])
    assert client.call()["kind"] == "other"
    assert (place.home / "config.json").read_text() == before
    assert not (place.home / "trust").exists()
    assert not (place.project / ".mcp.json").exists()
