"""A program that embeds kode: an empty project, and a server that plays a script."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kode
from tests.scripted_server import ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def opened(server: ScriptedServer, project: Path) -> Any:
    """`kode.open` for the project and the server, without memory."""
    given = {"base_url": server.openai_url, "model": "scripted-model", "memory": None}
    return functools.partial(kode.open, project, **given)
