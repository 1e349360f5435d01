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


@pytest.mark.smoke
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
        "kode continue --id 2",
        "You want the edge cases named in every summary.",
        "restored dates.py",
        "$ cat dates.py",
        "nothing stays behind",
    ]
    places = [done.stdout.find(step) for step in steps]
    assert -1 not in places
    assert places == sorted(places)
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("key", ["q", "ctrl-c"])
def test_a_pause_can_be_left(tmp_path: Path, environ: dict[str, str], key: str) -> None:
    with Terminal(KODE, ["demo"], cwd=tmp_path, env=environ, width=40, height=10) as terminal:
        terminal.until("1 of 5", "q leaves")
        terminal.type(key)
        terminal.until("Left the demo; nothing stays behind.")
        assert terminal.ended() == 130
    assert left_behind(tmp_path) == []


def test_a_terminal_that_is_closed_leaves_nothing(tmp_path: Path, environ: dict[str, str]) -> None:
    with Terminal(KODE, ["demo"], cwd=tmp_path, env=environ) as terminal:
        terminal.until("q leaves")
        assert left_behind(tmp_path) != []
        os.kill(terminal.process.pid, signal.SIGHUP)
        terminal.ended()
    assert left_behind(tmp_path) == []
