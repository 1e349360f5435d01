"""A program that embeds kode: an empty project, and a server that plays a script."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kode
from tests.scripted_server import ScriptedServer

Open = Callable[..., Any]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def opened(server: ScriptedServer, project: Path) -> Open:
    """`kode.open` for the project and a model that says these replies, without memory."""

    def opened(*replies: dict[str, Any], folder: Path = project, **options: Any) -> Any:
        if replies:
            server.play(replies)
        given = {"base_url": server.openai_url, "model": "scripted-model", "memory": None}
        return kode.open(folder, **given | options)

    return opened
