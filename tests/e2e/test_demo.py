"""The tour, with the installed command: it plays to its end, can be left, and leaves nothing."""

import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.command import KODE
from tests.e2e.terminal import Terminal

PAUSE = "q to quit:"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    for name in ("tmp", "user"):
        (tmp_path / name).mkdir()
    return {"TMPDIR": str(tmp_path / "tmp"), "HOME": str(tmp_path / "user")}


def left_behind(tmp_path: Path) -> list[Path]:
    return [path for name in ("tmp", "user") for path in (tmp_path / name).rglob("*")]


@pytest.mark.parametrize("words", [["demo"], []])  # or without a terminal, a task and a model
def test_the_tour_fixes_remembers_comes_back_recalls_and_undoes(
    tmp_path: Path, environ: dict[str, str], words: list[str]
) -> None:
    done = subprocess.run(
        [KODE, *words],
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


def on_screen(terminal: Terminal, *texts: str) -> None:
    """Waits until the texts are in the window, whatever was there before."""
    deadline = time.monotonic() + 20
    while not all(text in "\n".join(terminal.screen.display) for text in texts):
        terminal.read()
        assert time.monotonic() < deadline, terminal.text


def test_the_person_answers_and_says_when_to_go_on(tmp_path: Path, environ: dict[str, str]) -> None:
    with Terminal(KODE, ["demo"], cwd=tmp_path, env=environ, width=100, height=24) as terminal:
        on_screen(terminal, "1 of 5", PAUSE)
        terminal.type("enter")
        on_screen(terminal, "› n  no", "n  no")
        terminal.type("n")  # one key answers
        on_screen(terminal, "You refused, so nothing was changed.", "n  no")
        terminal.type("y")
        for stop in ("2 of 5", "3 of 5", "4 of 5", "5 of 5"):
            on_screen(terminal, stop, PAUSE)
            terminal.type("enter")
        terminal.until("restored dates.py", "has been deleted", "Next: set up")
        assert terminal.ended() == 0
    assert left_behind(tmp_path) == []
