"""Commands end when kode is killed, and only then."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kode.tools import processes
from tests.needs import needs
from tests.tools.conftest import lives, until

ROOT = Path(__file__).parents[2]

COMMANDS_AND_WAIT = """
import os, subprocess, time
from kode.tools.processes import MARK, WATCH, new_mark

first, second = new_mark(), new_mark()

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
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def wait_until(is_so: Callable[[], object]) -> None:
    asyncio.run(until(is_so))


def living(path: Path) -> list[int]:
    """The processes that wrote their ids to a file, and still live."""
    lines = path.read_text().split() if path.exists() else ()
    return [int(line) for line in lines if lives(int(line))]


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    return tmp_path / "pids"


def noting(pids: Path) -> str:
    """A shell command that notes its process id and stays."""
    return f"sh -c 'echo $$ >> {pids}; exec sleep 59.25'"


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
        pytest.param(
            # Somebody ends the process that watches; the next command starts it again.
            "start(first, '{note}')\n"
            "watches = subprocess.run(['pgrep', '-P', str(os.getpid()), '-f', 'trap .. HUP'], "
            "capture_output=True, text=True).stdout.split()\n"
            "os.kill(int(watches[0]), 9)\n"
            "os.waitid(os.P_PID, int(watches[0]), os.WEXITED | os.WNOWAIT)\n"
            "start(second, '{note}')",
            2,
            id="watch ended",
            marks=needs("pgrep"),
        ),
    ],
)
def test_a_killed_kode_ends_its_commands_processes(pids: Path, body: str, count: int) -> None:
    note = noting(pids).replace("'", "\\'")
    kode = kode_with(body.replace("{note}", note))
    wait_until(lambda: len(living(pids)) == count)

    kill(kode)

    wait_until(lambda: not living(pids))


@LEFT
def test_a_process_quoting_a_mark_is_left_alone(pids: Path) -> None:
    """A key may be anything, and a file with a mark in it may be damaged."""
    mark = processes.new_mark()
    path = {"PATH": os.environ["PATH"]}
    command = ["sh", "-c", f"exec {noting(pids)}"]
    with (
        subprocess.Popen(command, env={**path, "API_KEY": f"sk-{mark}"}) as stranger,
        subprocess.Popen(command, env={**path, **processes.mark_environment(mark)}) as marked,
    ):
        wait_until(lambda: len(living(pids)) == 2)

        pids_found = [process.pid for process in processes.ProcessTree(mark).find()]
        processes.ProcessTree(mark).kill()
        marked.wait()

        assert pids_found == [marked.pid]
        assert lives(stranger.pid)
        stranger.kill()


@needs("pgrep")
def test_a_finished_call_is_left_alone_and_the_watch_ends(pids: Path, tmp_path: Path) -> None:
    """Its group may be another's by then."""
    watch = tmp_path / "watch"
    body = (
        f"start(first, {noting(pids)!r}); WATCH.remove(first)\n"
        f"subprocess.run(['pgrep', '-P', str(os.getpid()), '-f', 'trap .. HUP'], "
        f"stdout=open({str(watch)!r}, 'w'))"
    )
    kode = kode_with(body)
    wait_until(lambda: living(pids))
    assert len(living(watch)) == 1

    kill(kode)

    wait_until(lambda: not living(watch))
    [left] = living(pids)
    os.kill(left, signal.SIGKILL)
