"""Long work on a real terminal: the installed kode and its tools, a server that plays a script."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Place
from tests.e2e.terminal import Terminal
from tests.scripted_server import ScriptedServer

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning"),
]

Reply = dict[str, Any]
FULL = ("--permission-mode", "full", "--no-memory")


def shell(command: str) -> Reply:
    return {"calls": [{"name": "shell", "arguments": {"command": command}}]}


@pytest.fixture
def repl(place: Place, server: ScriptedServer) -> Iterator[Callable[..., Terminal]]:
    """Opens kode in a terminal, over a model that plays this script."""
    opened: list[Terminal] = []

    def open_repl(script: Any, *arguments: str) -> Terminal:
        server.play(script)
        words = list(arguments or FULL)
        opened.append(place.terminal(*words, width=100))
        if words[0] != "run":
            opened[-1].until(" · gpt-")
        return opened[-1]

    yield open_repl
    for terminal in opened:
        terminal.__exit__()


def wait_for(terminal: Terminal, path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        terminal.read()
        assert time.monotonic() < deadline, terminal.text


def test_a_background_command_is_listed_killed_and_asked_about(
    place: Place, repl: Callable[..., Terminal]
) -> None:
    serve = "echo serving; echo $$ > begun; exec sleep 600"
    terminal = repl([shell(serve), {"text": "It serves."}, shell(serve), {"text": "Again."}])
    begun = place.project / "begun"
    terminal.type("serve", "enter")
    wait_for(terminal, begun)
    terminal.until("  serving")

    terminal.type("\x02")
    terminal.until("moved to the background as bg1", "It serves.")
    terminal.type("/bg", "enter")
    terminal.until("bg1  running", "     serving", "/bg kill ID stops one")
    terminal.type("/bg kill bg1", "enter")
    terminal.until("Stopped bg1: echo serving")
    begun.unlink()
    terminal.type("again", "enter")
    wait_for(terminal, begun)
    terminal.type("\x02")
    terminal.until("Again.")
    terminal.until_gone("Ctrl-C to stop")
    terminal.type("ctrl-d")
    terminal.until("Still running: 1 background command", "Quit and stop what runs?")
    terminal.type("enter")
    terminal.until_gone("Quit and stop what runs?")
    terminal.type("/quit", "enter")
    terminal.until("Quit and stop what runs?")
    terminal.type("y", "enter")

    terminal.until("Resume with")
    assert terminal.ended() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)
