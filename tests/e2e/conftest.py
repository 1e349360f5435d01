import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.command import Place
from tests.e2e.terminal import Terminal
from tests.scripted_server import ScriptedServer

ROOT = Path(__file__).parents[2]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def server(place: Place) -> Iterator[ScriptedServer]:
    """The model of the place; a test says what it answers with `play`."""
    with ScriptedServer(keep=100) as server:
        place.url = server.openai_url
        yield server


@pytest.fixture
def repl(tmp_path):
    """Opens the REPL in a terminal, over a conversation that plays written turns."""
    opened = []

    def open_repl(*, width=80, height=30, typed_ahead="", **env):
        (tmp_path / "project").mkdir(exist_ok=True)
        (tmp_path / "project" / "calculator.py").write_text("x")
        terminal = Terminal(
            sys.executable,
            ["-m", "tests.cli.fake_conversation"],
            cwd=tmp_path / "project",
            env={"KODE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT), **env},
            width=width,
            height=height,
        )
        opened.append(terminal)
        terminal.type(typed_ahead)
        terminal.until("kode in")
        if env.get("TERM") != "dumb":
            terminal.until("ask (Shift-Tab) · big-model")
        return terminal

    yield open_repl
    for terminal in opened:
        terminal.__exit__()
