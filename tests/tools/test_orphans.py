"""Commands end when kode is killed, and only then."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kode.tools import processes
from tests.needs import needs
from tests.tools.conftest import lives

ROOT = Path(__file__).parents[2]
needs_pgrep = needs("pgrep")

COMMANDS_AND_WAIT = """
import os, secrets, subprocess, sys, time
from kode.tools.processes import WATCH
from kode.tools.processes import MARK

first, second = secrets.token_hex(12), secrets.token_hex(12)

def start(mark, command):
    WATCH.add(mark)
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        env={{**os.environ, MARK: mark}},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    WATCH.add(mark, process.pid)
    return process

{body}
print("ready", flush=True)
time.sleep(60)
"""


def kode_with(body: str) -> "subprocess.Popen[str]":
    """A process that has started commands in the manner of kode."""
    process = subprocess.Popen(
        [sys.executable, "-c", COMMANDS_AND_WAIT.format(body=body)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def killed(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def comes_true(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def living(path: Path) -> list[int]:
    """The processes that wrote their ids to a file, and still live."""
    return [int(line) for line in path.read_text().split() if lives(int(line))]


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    path = tmp_path / "pids"
    path.write_text("")
    return path


def noting(pids: Path, *prefix: str) -> str:
    """A shell command that notes its process id and stays."""
    return f"{' '.join(prefix)} sh -c 'echo $$ >> {pids}; exec sleep 59.25'".strip()


LEFT = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="marks are read in /proc")


@pytest.mark.parametrize(
    ("body", "count"),
    [
        pytest.param("start(first, '{note} & env -i PATH=/usr/bin:/bin {note}')", 2, id="children"),
        pytest.param(
            "start(first, 'setsid {note} & exit 0').wait()", 1, id="another group", marks=LEFT
        ),
        pytest.param(
            "start(first, 'trap \"\" TERM; {note}')", 1, id="deaf", marks=pytest.mark.slow
        ),
    ],
)
def test_a_killed_kode_ends_its_commands_processes(pids: Path, body: str, count: int) -> None:
    note = noting(pids).replace("'", "\\'")
    kode = kode_with(body.replace("{note}", note))
    assert comes_true(lambda: len(living(pids)) == count)

    killed(kode)

    assert comes_true(lambda: not living(pids))


@LEFT
def test_a_process_quoting_a_mark_is_left_alone(pids: Path) -> None:
    """A key may be anything, and a file with a mark in it may be damaged."""
    mark = processes.new_mark()
    bare = {"PATH": os.environ["PATH"]}
    command = ["sh", "-c", noting(pids, "exec")]
    with (
        subprocess.Popen(command, env={**bare, "API_KEY": f"sk-{mark}"}) as stranger,
        subprocess.Popen(command, env={**bare, **processes.marked(mark)}) as own,
    ):
        assert comes_true(lambda: len(living(pids)) == 2)

        found = [one.pid for one in processes.find(processes.NO_GROUP, mark)]
        processes.kill(processes.NO_GROUP, mark)
        own.wait()

        assert found == [own.pid]
        assert lives(stranger.pid)
        stranger.kill()


def test_a_finished_call_is_left_alone(pids: Path, tmp_path: Path) -> None:
    """Its group may be another's by then."""
    other = tmp_path / "other"
    other.write_text("")
    body = f"start(first, {noting(pids)!r}); WATCH.remove(first)\nstart(second, {noting(other)!r})"
    kode = kode_with(body)
    assert comes_true(lambda: bool(living(pids) and living(other)))

    killed(kode)

    assert comes_true(lambda: not living(other))
    left = living(pids)
    assert len(left) == 1
    os.kill(left[0], signal.SIGKILL)


@needs_pgrep
def test_it_is_started_again_when_somebody_has_ended_it(pids: Path) -> None:
    body = (
        f"start(first, {noting(pids)!r})\n"
        "children = subprocess.run(['pgrep', '-P', str(os.getpid()), '-f', 'trap .. HUP'], "
        "capture_output=True, text=True).stdout.split()\n"
        "os.kill(int(children[0]), 9); os.waitpid(int(children[0]), 0)\n"
        f"start(second, {noting(pids)!r})"
    )
    kode = kode_with(body)
    assert comes_true(lambda: len(living(pids)) == 2)

    killed(kode)

    assert comes_true(lambda: not living(pids))


@needs_pgrep
def test_it_goes_with_kode_when_nothing_runs(pids: Path) -> None:
    noted = 'subprocess.run(["pgrep", "-P", str(os.getpid())], stdout=open(%r, "w"))'
    kode = kode_with(f"WATCH.add(first); WATCH.remove(first); {noted % str(pids)}")
    watching = living(pids)

    killed(kode)

    assert len(watching) == 1
    assert comes_true(lambda: not living(pids))
