"""The fault tests find every defect that is known to be there, and none where there is none."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.faults import power_cut, strace
from tests.faults.stand_ins import STORES, kept

pytestmark = pytest.mark.sampled(of=2)

ROOT = Path(__file__).parents[2]
ENVIRON = {
    "PATH": os.environ["PATH"],
    "PYTHONPATH": str(ROOT),
    "PYTHONHASHSEED": "0",
    # Else the first run makes other calls than those after it.
    "PYTHONDONTWRITEBYTECODE": "1",
}
SOUND = ["sound_facts", "sound_lines"]


def argv(store: str, folder: Path, first: int, last: int) -> list[str]:
    # -S: no site packages, which start-up would spend its time on.
    program = [sys.executable, "-S", "-m", "tests.faults.stand_ins"]
    return [*program, store, str(folder), str(first), str(last)]


def run(arguments: list[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(arguments, env=ENVIRON, cwd=ROOT, capture_output=True, timeout=30)


def acknowledged(out: bytes) -> set[int]:
    lines = out.split(b"\n")[:-1]
    return {int(line[5:]) for line in lines if line.startswith(b"done ")}


def found_by_kills(store: str, folder: Path) -> set[str]:
    """Kills the store at every call that changes its folder; says what was wrong afterwards."""
    trial = folder / "trial"
    trial.mkdir()
    calls, _ = strace.record(argv(store, trial, 0, 2), environ=ENVIRON, cwd=ROOT)
    found = set()
    for number, (name, count) in enumerate(strace.kill_points(calls, [trial])):
        place = folder / str(number)
        place.mkdir()
        killed = run(strace.injected(argv(store, place, 0, 2), name, "signal=KILL", count))
        done = acknowledged(killed.stdout)
        if not done <= kept(place):
            found.add("lost")
        after = run(argv(store, place, 5, 6))
        if after.returncode != 0:
            found.add("does not start")
        elif not done | {5} <= kept(place):
            found.add("lost")
    return found


def found_by_power_cuts(store: str, folder: Path) -> set[str]:
    """Builds every disk that a power cut may leave; says what was missing, then and after going
    on from there."""
    trial = folder / "trial"
    trial.mkdir()
    disk = power_cut.Disk(trial)
    calls, _ = strace.record(argv(store, trial, 0, 3), environ=ENVIRON, cwd=ROOT)
    done: set[int] = set()
    found = set()
    seen = set()
    for call in calls:
        if call.name == "write" and call.fd == 1:
            done |= acknowledged(call.data)
        elif not disk.play(call):
            continue
        for tree in disk.states():
            key = (tuple(sorted(tree.items())), len(done))
            if key in seen:
                continue
            seen.add(key)
            with tempfile.TemporaryDirectory(dir=folder) as name:
                place = Path(name)
                power_cut.build(tree, place)
                if not done <= kept(place):
                    found.add("lost")
                STORES[store](place, 7)
                if not done | {7} <= kept(place):
                    found.add("lost later")
    return found


def found_by_racing(store: str, folder: Path) -> set[str]:
    """Three processes on one folder, one of them killed in between."""
    started = [
        subprocess.Popen(
            [*argv(store, folder, first, first + 60), "wait"],
            env=ENVIRON,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for first in (0, 100, 200)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    time.sleep(0.05)
    started[0].send_signal(signal.SIGKILL)
    done = set().union(*(acknowledged(process.communicate()[0]) for process in started))
    return set() if done <= kept(folder) else {"lost"}


@pytest.mark.parametrize(("store", "found"), [("in_place", "lost"), ("pid_file", "does not start")])
def test_killing_at_every_call_finds(store: str, found: str, tmp_path: Path) -> None:
    strace.needed()
    assert found in found_by_kills(store, tmp_path)


@pytest.mark.parametrize("store", SOUND)
def test_killing_at_every_call_finds_nothing_in_a_sound_store(store: str, tmp_path: Path) -> None:
    strace.needed()
    assert found_by_kills(store, tmp_path) == set()


def test_killing_alone_sees_nothing_wrong_with_a_plain_rename(tmp_path: Path) -> None:
    strace.needed()
    assert found_by_kills("rename_without_folder_fsync", tmp_path) == set()


@pytest.mark.parametrize(
    ("store", "found"),
    [
        ("in_place", "lost"),
        ("rename_without_fsync", "lost"),
        ("rename_without_folder_fsync", "lost"),
        ("append_without_fsync", "lost"),
        ("append_on_torn_tail", "lost later"),
    ],
)
def test_the_model_of_a_power_cut_finds(store: str, found: str, tmp_path: Path) -> None:
    strace.needed()
    assert found in found_by_power_cuts(store, tmp_path)


@pytest.mark.parametrize("store", SOUND)
def test_power_cuts_find_nothing_in_a_sound_store(store: str, tmp_path: Path) -> None:
    strace.needed()
    assert found_by_power_cuts(store, tmp_path) == set()


def test_three_processes_find_a_store_without_a_lock(tmp_path: Path) -> None:
    assert found_by_racing("no_lock", tmp_path) == {"lost"}


@pytest.mark.parametrize("store", SOUND)
def test_three_processes_find_nothing_in_a_sound_store(store: str, tmp_path: Path) -> None:
    assert found_by_racing(store, tmp_path) == set()
