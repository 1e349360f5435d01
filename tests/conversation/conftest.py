"""A conversation over real parts, with scripted replies."""

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kode.config.load import load_config
from kode.conversation import Conversation, Settings, open_conversation
from kode.events import Event
from kode.permissions.question import Ask

Open = Callable[..., Awaitable[Conversation]]


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
async def opened(tmp_path: Path, events: list[Event]) -> Any:
    project = tmp_path / "project"
    project.mkdir()
    made: list[Conversation] = []

    async def make(
        *replies: dict[str, Any],
        session_id: str | None = None,
        mode: str = "auto-edit",
        ask: Ask | None = None,
        keep_session: bool = True,
        deny: Sequence[str] = (),
    ) -> Conversation:
        script = tmp_path / f"script-{len(made)}.json"
        script.write_text(json.dumps(replies))
        flags = {
            "provider": "scripted",
            "script": str(script),
            "permissions.mode": mode,
            "permissions.deny": list(deny),
            "memory.enabled": False,
        }
        loaded = load_config(tmp_path / "kode-home", project, environ={}, flags=flags)
        conversation = await open_conversation(
            Settings(loaded, emit=events.append, ask=ask, keep_session=keep_session),
            cwd=project,
            session_id=session_id,
        )
        made.append(conversation)
        return conversation

    yield make
    for conversation in made:
        await conversation.close()
