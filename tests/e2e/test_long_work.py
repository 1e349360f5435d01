"""Long work on a real terminal: the installed kode and its tools, a server that plays a script."""

import itertools
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kode.subagents import records
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


def test_a_background_command_is_read_killed_and_asked_about(
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
    terminal.until("bg1  running", "     serving", "/bg kill ID stops a command")
    terminal.type("/bg read 1", "enter")
    terminal.until("Full output:")
    terminal.type("/bg kill bg1", "enter")
    terminal.until("Stopped bg1: echo serving")
    begun.unlink()
    terminal.type("again", "enter")
    wait_for(terminal, begun)
    terminal.type("\x02")
    terminal.until("Again.")
    terminal.until_gone("Ctrl-C stops")
    terminal.type("ctrl-d")
    terminal.until("1 background command is still running:", "Quit and stop it?")
    terminal.type("enter")
    terminal.until_gone("Quit and stop it?")
    terminal.type("/quit", "enter")
    terminal.until("Quit and stop it?")
    terminal.type("y", "enter")

    terminal.until("Resume with")
    assert terminal.ended() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)


WAITS = "(setsid sleep 61.5 &); touch begun; until [ -e go ]; do sleep 0.02; done; echo on"


def play_children(request: Reply) -> Reply:
    """The parent starts two children; each waits for `go`, and repeats what it was told."""
    texts = [json.dumps(message) for message in request["messages"]]
    begun = [at for at, text in enumerate(texts) if "# Goal" in text]
    if begun:
        answered = len(texts) - begun[-1] > 1
        return {"text": f"The last I heard: {texts[-1]}"} if answered else shell(WAITS)
    if request["messages"][-1]["role"] == "tool":
        return {"text": "They run."}
    tasks = [{"goal": "Wait."}, {"goal": "Wait too."}]
    return {"calls": [{"name": "delegate_tasks", "arguments": {"tasks": tasks}}]}


def test_a_person_moves_tells_and_stops_children(
    place: Place, repl: Callable[..., Terminal]
) -> None:
    terminal = repl(play_children)
    terminal.type("work", "enter")
    terminal.until("Agent 2:")
    wait_for(terminal, place.project / "begun")
    terminal.type("\x02")
    terminal.until("They run.")
    terminal.type("/bg", "enter")
    terminal.until("bg1  running", "bg2  running", "Wait too.")
    terminal.type("/bg kill bg2", "enter")
    terminal.until("Stopped bg2: Wait too.")
    terminal.type("/bg tell bg1 Take the greens.", "enter")
    terminal.until("bg1 gets it with its next step.")
    (place.project / "go").touch()
    terminal.until("bg1 has ended, success")
    terminal.type("/bg read bg1", "enter")
    terminal.until("The last I heard", "Take the greens.")
    terminal.type("ctrl-d")
    terminal.until("Resume with")

    (path,) = place.session_files
    agents = records.read_records(path.with_suffix("") / "agents")
    statuses = [record.result.status for record in agents if record.result]
    assert statuses == ["success", "interrupted"]


STEP = re.compile(r"Running sleep \d+… (\d)s")


@pytest.mark.parametrize("words", [("run", "--ask"), ("run",), ()])
def test_a_running_step_counts_every_second(
    repl: Callable[..., Terminal], words: tuple[str, ...]
) -> None:
    """The seconds are kode's own, read from its screen: how fast the machine is does not matter,
    only that none of them is missing."""
    terminal = repl([shell("sleep 60")], *words, "--allow", "shell(sleep *)", "Wait for it")
    shown = [0]
    feed, terminal.stream.feed = terminal.stream.feed, lambda data: None
    read = 0
    while shown[-1] < 4:
        assert terminal.read(), terminal.text
        # In small pieces, so that no update hides behind the next one.
        for at in range(read, len(terminal.raw), 16):
            feed(terminal.raw[at : at + 16])
            found = STEP.search("\n".join(terminal.screen.display))
            if found and int(found[1]) != shown[-1]:
                shown.append(int(found[1]))
        read = len(terminal.raw)
    # One second, and one for a machine that stalls.
    assert max(after - before for before, after in itertools.pairwise(shown)) <= 2
