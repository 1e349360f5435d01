"""A provider that talks to a server that plays a script, faults and all."""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from functools import cache
from typing import Any

import pytest

from tests.providers.line import Line, open_at
from tests.scripted_server import ScriptedServer

Connect = Callable[..., Line]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """`connect(name, model, **settings)` → the line of a provider to a server of its own."""
    lines: list[Line] = []
    with ExitStack() as servers:

        def open_line(name: str, model: str = "some-model", **settings: Any) -> Line:
            server = servers.enter_context(ScriptedServer())
            lines.append(Line(server, open_at(server, name, model, **settings)))
            return lines[-1]

        yield open_line
        for line in lines:
            await line.provider.aclose()


@pytest.fixture
def reuse(connect: Connect) -> Connect:
    """As `connect`, but the same line for the same settings."""
    return cache(connect)
