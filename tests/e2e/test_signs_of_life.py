"""A running step shows that it runs, every second: in the prompt and in a run that asks.

The seconds are kode's own, read from its screen: how fast the machine is does not matter, only that
none of them is missing.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.command import KODE, Place
from tests.e2e.terminal import Terminal
from tests.scripted_server import ScriptedServer

STEP = re.compile(r"Running sleep \d+… (\d)s")
LONGEST_GAP_S = 2
"""One second, and one for a machine that stalls."""


def longest_gap_s(terminal: Terminal, until_s: int = 4) -> int:
    """Between two numbers that the screen shows of the running step, until it shows `until_s`."""
    shown = [0]
    feed, terminal.stream.feed = terminal.stream.feed, lambda data: None
    read = 0
    while shown[-1] < until_s:
        assert terminal.read(), terminal.text
        # In small pieces, so that no update hides behind the next one.
        for at in range(read, len(terminal.raw), 16):
            feed(terminal.raw[at : at + 16])
            found = STEP.search("\n".join(terminal.screen.display))
            if found and int(found[1]) != shown[-1]:
                shown.append(int(found[1]))
        read = len(terminal.raw)
    terminal.stream.feed = feed
    return max(after - before for before, after in itertools.pairwise(shown))


@contextmanager
def at_a_slow_step(place: Place, arguments: Sequence[str], keys: str) -> Iterator[Terminal]:
    call = {"name": "shell", "arguments": {"command": "sleep 60"}}
    with ScriptedServer([{"calls": [call]}, {"text": "The end."}], repeat_last=True) as server:
        place.url = server.openai_url
        with Terminal(KODE, arguments, cwd=place.project, env=place.environ) as terminal:
            if keys:
                terminal.until("/help", " · ", timeout_s=60)
                terminal.type(keys, "enter")
            yield terminal


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        (["--allow", "shell(sleep *)"], "Wait for it"),
        (["run", "--ask", "--allow", "shell(sleep *)", "Wait for it"], ""),
        (["run", "--allow", "shell(sleep *)", "Wait for it"], ""),
    ],
)
def test_a_running_step_counts_every_second(
    place: Place, arguments: Sequence[str], keys: str
) -> None:
    with at_a_slow_step(place, arguments, keys) as terminal:
        assert longest_gap_s(terminal) <= LONGEST_GAP_S


IMPORTS = """
import sys, threading

class Watch:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is threading.main_thread():
            print(name, file=written, flush=True)

written = open(sys.argv.pop(1), "w")
sys.meta_path.insert(0, Watch())
from kode.__main__ import main
sys.exit(main())
"""
SLOW_IMPORTS = {"openai", "httpx2", "kode.conversation"}


@pytest.mark.parametrize(
    ("words", "keys", "end"),
    [(["demo"], ["", "enter"], "answer:"), ([], ["Say hello", "enter"], "Hello.")],
    ids=["demo", "prompt"],
)
def test_the_screen_waits_for_no_import_of_an_sdk(
    place: Place, words: Sequence[str], keys: Sequence[str], end: str
) -> None:
    python, listed = Path(KODE).with_name("python"), place.folder / "imports"
    with ScriptedServer([{"text": "Hello."}], repeat_last=True) as server:
        place.url = server.openai_url
        arguments = ["-c", IMPORTS, str(listed), *words]
        with Terminal(str(python), arguments, cwd=place.project, env=place.environ) as terminal:
            terminal.until("q to quit:" if words else "\n>", timeout_s=60)
            terminal.type(*keys)
            terminal.until(end, timeout_s=60)
    imported = set(listed.read_text().split())
    assert "kode.cli" in imported
    assert imported & SLOW_IMPORTS == set()
