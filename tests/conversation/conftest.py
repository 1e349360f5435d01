"""A conversation over real parts, with scripted replies."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kode.config.load import load_config
from kode.conversation import Conversation, Settings, open_conversation
from kode.events import Event, Notice
from kode.permissions.question import Ask
from tests.scripted_server import ScriptedServer
from tests.tools.conftest import until

Open = Callable[..., Awaitable[Conversation]]


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer([{"text": "Yes."}], repeat_last=True) as server:
        yield server


@pytest.fixture
async def opened(tmp_path: Path, project: Path, events: list[Event]) -> Any:
    """Opens a conversation whose model gives these replies, or is that of the provider in `flags`.
    Each `__` in the name of a flag stands for a dot."""
    made: list[Conversation] = []

    async def make(
        *replies: dict[str, Any],
        session_id: str | None = None,
        cwd: Path = project,
        mode: str = "auto-edit",
        ask: Ask | None = None,
        keep_session: bool = True,
        **flags: Any,
    ) -> Conversation:
        given = {"permissions.mode": mode, "memory.enabled": False}
        if "provider" not in flags:
            script = tmp_path / f"script-{len(made)}.json"
            script.write_text(json.dumps(replies))
            given |= {"provider": "scripted", "script": str(script)}
        given |= {name.replace("__", "."): value for name, value in flags.items()}
        loaded = load_config(tmp_path / "kode-home", cwd, environ={}, flags=given)
        settings = Settings(loaded, emit=events.append, ask=ask, keep_session=keep_session)
        made.append(await open_conversation(settings, cwd=cwd, session_id=session_id))
        return made[-1]

    yield make
    for conversation in made:
        await conversation.close()


def served_by(server: ScriptedServer, wire: str = "openai") -> dict[str, str]:
    """The flags of a conversation with this server."""
    url = server.openai_url if wire == "openai" else server.anthropic_url
    return {"provider": wire, "base_url": url, "api_key": "k", "model": "m"}


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


def calling(name: str, **arguments: Any) -> dict[str, Any]:
    """A reply that calls this tool."""
    return {"calls": [{"name": name, "arguments": arguments}]}


def writing(path: str, content: str) -> dict[str, Any]:
    return calling("write_file", path=path, content=content)


async def in_background(conversation: Conversation, begun: Path, text: str) -> None:
    """Runs a turn whose first command is sent to the background once a file is there."""
    turn = asyncio.ensure_future(conversation.turn(text))
    await until(begun.exists)
    assert conversation.commands.move()
    assert (await turn).status == "success"
