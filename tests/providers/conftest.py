"""A provider that talks to a server that plays a script, faults and all."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kode.provider import Provider
from kode.providers import open_provider
from tests.scripted_server import ScriptedServer

Connect = Callable[..., tuple[Provider, ScriptedServer]]


@pytest.fixture
async def connect(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connect]:
    """`connect(name, replies, **settings)` → a provider and the server it talks to."""
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    servers: list[ScriptedServer] = []
    providers: list[Provider] = []

    def open_both(name: str, replies: Any, **settings: Any) -> tuple[Provider, ScriptedServer]:
        server = ScriptedServer(replies).__enter__()
        servers.append(server)
        given = {"base_url": server.openai_url, "api_key": "test-key", **settings}
        providers.append(open_provider(name, given.pop("model", "some-model"), **given))
        return providers[-1], server

    yield open_both
    for provider in providers:
        await provider.aclose()
    for server in servers:
        server.__exit__()
