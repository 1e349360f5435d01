"""The tour, with the installed command: it plays to its end, can be left, and leaves nothing."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.command import KODE
from tests.e2e.terminal import Terminal


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    for name in ("tmp", "user"):
        (tmp_path / name).mkdir()
    return {"TMPDIR": str(tmp_path / "tmp"), "HOME": str(tmp_path / "user")}


def left_behind(tmp_path: Path) -> list[Path]:
    return [path for name in ("tmp", "user") for path in (tmp_path / name).rglob("*")]


def test_the_tour_fixes_remembers_comes_back_recalls_and_undoes(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    done = subprocess.run(
        [KODE, "demo"],
        cwd=tmp_path,
        env={**environ, "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    steps = [
        " +     return year % 4 == 0 and",
        "Wants the edge cases named in every summary",
        "Stopped.",
        "kode -r 2",
        "You want the edge cases named in every summary.",
        "restored dates.py",
        "$ cat dates.py",
        "has been deleted",
        "Next: set up a model with `kode init`",
    ]
    places = [done.stdout.find(step) for step in steps]
    assert -1 not in places
    assert places == sorted(places)
    assert done.stdout.count("memory: ") == 1
    assert left_behind(tmp_path) == []


def answer(terminal: Terminal, word: str, *, question: int) -> None:
    """Answers a question once its line is there; what is typed before is dropped."""
    terminal.until_count("answer:", question)
    terminal.type(word, "enter")


def test_the_person_answers_stops_and_undoes(tmp_path: Path, environ: dict[str, str]) -> None:
    with Terminal(KODE, ["demo"], cwd=tmp_path, env=environ, width=100, height=50) as terminal:
        terminal.until("1 of 6", "any key: next")
        terminal.type(" ")
        answer(terminal, "n", question=1)
        terminal.until("You refused, so nothing was changed.", "Make the edit after all.")
        answer(terminal, "y", question=2)
        for stop in ("2 of 6", "3 of 6"):
            terminal.until(stop)
            terminal.until_count("any key: next", 1)
            terminal.type(" ")
        terminal.until("press Ctrl-C to stop it", "I'll wait for it.")
        terminal.type("ctrl-c")
        terminal.until("Stopped.", "5 of 6")
        terminal.until_count("any key: next", 1)
        terminal.type(" ")
        terminal.until("type /undo", "I remembered it")
        terminal.type("/undo", "enter")
        text = terminal.until("restored dates.py", "has been deleted", "Next: set up")
        assert terminal.ended() == 0
    assert text.count("Stopped.") >= 1
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("key", ["q", "ctrl-c"])
def test_a_pause_can_be_left(tmp_path: Path, environ: dict[str, str], key: str) -> None:
    with Terminal(KODE, ["demo"], cwd=tmp_path, env=environ, width=40, height=10) as terminal:
        terminal.until("1 of 6", "q: quit")
        terminal.type(key)
        terminal.until("The demo ended early.", "has been")
        assert terminal.ended() == 130
    assert left_behind(tmp_path) == []


def test_a_terminal_that_is_closed_leaves_nothing(tmp_path: Path, environ: dict[str, str]) -> None:
    with Terminal(KODE, ["demo"], cwd=tmp_path, env=environ) as terminal:
        terminal.until("q: quit")
        assert left_behind(tmp_path) != []
        os.kill(terminal.process.pid, signal.SIGHUP)
        terminal.ended()
    assert left_behind(tmp_path) == []
