"""MCP servers that an editor names for a session."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from acp.schema import (
    ClientCapabilities,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    EnvVariable,
    McpServerStdio,
)

from tests.e2e.command import Place
from tests.e2e.editor import Editor, editor
from tests.scripted_server import ScriptedServer

SCRIPT = Path(__file__).parents[1] / "extensions" / "servers" / "plain.py"
FORMS = ClientCapabilities(elicitation=ElicitationCapabilities(form=ElicitationFormCapabilities()))


def plain(name: str = "My Server", **environment: str) -> McpServerStdio:
    return McpServerStdio(
        name=name,
        command=sys.executable,
        args=[str(SCRIPT)],
        env=[EnvVariable(name=key, value=value) for key, value in environment.items()],
    )


def called(tool: str, **arguments: Any) -> list[dict[str, Any]]:
    return [{"calls": [{"name": tool, "arguments": arguments}]}, {"text": "done"}]


@pytest.fixture
async def zed(place: Place) -> AsyncIterator[tuple[Editor, ScriptedServer]]:
    """Without a sandbox, which hides the environment that the server is installed in."""
    place.home.mkdir()
    (place.home / "config.json").write_text('{"sandbox": {"enabled": false}}')
    with ScriptedServer() as server:
        place.url = server.openai_url
        async with editor(place, "--no-memory", can=FORMS) as client:
            yield client, server


async def test_a_clients_server_is_asked_about_and_not_saved(
    place: Place, zed: tuple[Editor, ScriptedServer]
) -> None:
    client, server = zed
    before = (place.home / "config.json").read_text()
    server.play(called("mcp__My-Server__add", a=2, b=40))
    session = await client.open(mcp_servers=[plain()])

    await client.prompt(session, "add")

    (question,) = client.asked
    assert "My-Server" in str(question)
    assert question["toolCallId"] == client.of("tool_call")[0]["toolCallId"]
    assert "42" in str(client.call()["content"])
    assert client.call()["kind"] == "other"
    assert (place.home / "config.json").read_text() == before
    assert not (place.home / "trust").exists()
    assert not (place.project / ".mcp.json").exists()
