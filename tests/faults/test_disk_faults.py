"""The disk says no: full, read-only, denied, broken. One clear sentence, and nothing that was
shown as done is missing afterwards.
"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.faults import strace
from tests.faults.kode_run import (
    AFTER,
    FIRST,
    Place,
    events,
    kode,
    missing,
    session_of,
    task,
    unfit,
)

LONG = os.environ.get("FAULTS") == "all"


def mounts_needed() -> None:
    """Skips the test, with the reason, where it may not mount in a namespace of its own."""
    if os.uname().sysname != "Linux":
        pytest.skip("mounting in a namespace of its own needs Linux")
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    tried = subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True
    )
    if tried.returncode != 0:
        pytest.skip(f"mounting is not possible here: {tried.stderr.strip()[:200]}")


def mounted(place: Place, script: str) -> "subprocess.CompletedProcess[bytes]":
    """Runs a shell script in a mount namespace of its own."""
    return place.run(["unshare", "-m", "sh", "-c", script])


def told(done: "subprocess.CompletedProcess[bytes]") -> str:
    """What a person was told: errors of the result, notices, standard error."""
    shown = events(done.stdout)
    texts = [event.get("error") or "" for event in shown if event["type"] == "result"]
    texts += [event["text"] for event in shown if event["type"] == "notice"]
    return "\n".join([*texts, done.stderr.decode()])


def sentences_of(done: "subprocess.CompletedProcess[bytes]") -> list[str]:
    return [line for line in done.stderr.decode().splitlines() if line.strip()]


def goes_on(place: Place, shown: list[dict[str, Any]]) -> list[str]:
    """What is missing, before and after the next start on a sound disk."""
    faults = missing(place, shown)
    started = place.run(task(place, AFTER, "continue", "Are you there?"))
    if started.returncode == 1 and b"no session" in started.stderr and not session_of(shown):
        return faults
    if started.returncode != 0 and not any(event["type"] == "replied" for event in shown):
        started = place.run(task(place, AFTER, "run", "Are you there?"))
    if started.returncode != 0:
        faults.append(started.stderr.decode()[-400:])
    return faults + missing(place, shown) + unfit(place, session_of(shown))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path / "place")
    place.prepare()
    return place


SIZES_KB = range(4, 132, 4) if LONG else (12, 28, 36, 52, 72)


@pytest.mark.parametrize("size_kb", SIZES_KB)
def test_a_disk_that_fills_up_loses_nothing_that_was_shown(place: Place, size_kb: int) -> None:
    mounts_needed()
    (place.home / "filler").write_bytes(b"x" * 4096)
    kept = place.folder / "kept"
    home, command = shlex.quote(str(place.home)), shlex.join(task(place, FIRST, "run", "Ships."))
    shutil.copytree(place.home, kept)
    done = mounted(
        place,
        f"mount -t tmpfs -o size={size_kb + 24}k,mode=700 none {home} && cp -a {kept}/. {home} "
        f"&& {{ {command}; code=$?; rm -rf {kept}; cp -a {home} {kept}; exit $code; }}",
    )
    shutil.rmtree(place.home)
    shutil.move(kept, place.home)

    assert "Traceback" not in told(done)
    if done.returncode != 0:
        assert "disk is full" in told(done)
        assert len(sentences_of(done)) <= 1
    assert goes_on(place, events(done.stdout)) == []


def test_a_read_only_home_is_told_in_one_sentence(place: Place) -> None:
    mounts_needed()
    home, command = shlex.quote(str(place.home)), shlex.join(task(place, FIRST, "run", "Ships."))
    done = mounted(
        place, f"mount --bind {home} {home} && mount -o remount,ro,bind {home} && {command}"
    )
    assert done.returncode not in (0, 70)
    assert len(sentences_of(done)) <= 1
    assert "read-only" in told(done)
    assert "KODE_HOME" in told(done)


def test_a_read_only_home_is_enough_where_nothing_is_to_be_kept(place: Place) -> None:
    mounts_needed()
    arguments = task(place, AFTER, "run", "--no-session", "--no-memory", "Ships.")
    home = shlex.quote(str(place.home))
    done = mounted(
        place,
        f"mount --bind {home} {home} && mount -o remount,ro,bind {home} && {shlex.join(arguments)}",
    )
    assert done.returncode == 0, told(done)
    assert events(done.stdout)[-1]["result"] == "Still here."


@pytest.mark.parametrize("denied", ["home", "sessions", "memory"])
def test_a_folder_of_somebody_else_is_told_in_one_sentence(place: Place, denied: str) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("giving a folder to somebody else needs root and setpriv")
    folder = place.home if denied == "home" else place.home / denied
    folder.mkdir(exist_ok=True)
    os.chown(folder, 65534, 65534)
    folder.chmod(0o700)
    # Root without the right to pass over permissions is a user like any other.
    powerless = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner,-chown"]
    done = place.run([*powerless, *task(place, FIRST, "run", "Ships.")])
    os.chown(folder, 0, 0)

    assert "Traceback" not in told(done)
    assert "ermission denied" in told(done)
    if denied == "memory":  # a turn goes on without memory
        assert done.returncode == 0
        return
    assert done.returncode != 0
    assert len(sentences_of(done)) == 1


def faults_of_the_disk(place: Place) -> list[tuple[str, str]]:
    """(system call, when) of the calls that an error is put into."""
    trial = place.copy_to(place.folder.with_name("trial"))
    calls, _ = strace.record(
        task(trial, FIRST, "run", "Ships."), environ=trial.environment(), cwd=trial.project
    )
    points = [
        (name, count)
        for name, count in strace.kill_points(calls, [trial.home, trial.project])
        if name in ("write", "fsync")
    ]
    step = 1 if LONG else max(1, len(points) // 2)
    once = [(name, str(count)) for name, count in points[::step]]
    # From one on: of syncs only, since every later write would be one to standard output too.
    syncs = [count for name, count in points if name == "fsync"]
    return once + [("fsync", f"{count}+") for count in syncs[::step]]


@pytest.mark.timeout(1800 if LONG else 120)
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_an_error_of_the_disk_loses_nothing_that_was_shown(tmp_path: Path, error: str) -> None:
    strace.needed()
    first = Place(tmp_path / "first")
    first.prepare()
    faults = []
    for number, (name, when) in enumerate(faults_of_the_disk(first)):
        place = Place(tmp_path / str(number))
        place.prepare()
        argv = task(place, FIRST, "run", "Ships.")
        done = place.run(strace.injected(argv, name, f"error={error}", when))
        where = f"{name} {when} {error}"
        if "Traceback" in told(done) or "fault in kode" in told(done):
            faults.append(f"{where}: {told(done)[-600:]}")
        if done.returncode != 0 and done.stdout and "disk" not in told(done).lower():
            faults.append(f"{where}: told {told(done)!r}")
        if len(sentences_of(done)) > 1:
            faults.append(f"{where}: told {sentences_of(done)}")
        faults += [f"{where}: {fault}" for fault in goes_on(place, events(done.stdout))]
    assert faults == [], "\n".join(faults)


def test_a_command_that_only_reads_needs_no_place_to_write(place: Place) -> None:
    mounts_needed()
    home, command = shlex.quote(str(place.home)), shlex.join(kode("session", "list", "--all"))
    done = mounted(
        place, f"mount --bind {home} {home} && mount -o remount,ro,bind {home} && {command}"
    )
    assert done.returncode == 0, done.stderr
