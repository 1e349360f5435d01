"""The disk says no: full, read-only, denied, broken. One clear sentence, and nothing that was
shown as done is missing afterwards.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.effort import EVERYTHING, draws, sample
from tests.faults import strace
from tests.faults.conftest import Record
from tests.faults.kode_run import (
    Event,
    Place,
    events,
    kode,
    outlive,
    session_of,
    task,
    unfit,
)
from tests.faults.lives import LIVES, NOTES, TIERED, Life
from tests.faults.recorded import Recorded
from tests.needs import lacking, skip_without

pytestmark = pytest.mark.sampled(of=2)

MOST = 60
"""Of the calls of a life, so many take an error once, and half as many from then on."""
PAGE = 4096
"""Bytes; what a file takes of a tmpfs is a multiple of it."""


def mounts_needed() -> None:
    """Skips the test, with the reason, where it may not mount in a namespace of its own."""
    if os.uname().sysname != "Linux":
        lacking("Linux", "to mount in a namespace")
    if os.geteuid() != 0:
        lacking("root", "to mount a small disk")
    tried = subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True
    )
    if tried.returncode != 0:
        lacking("mounting", tried.stderr.strip()[:200])


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


def goes_on(life: Life, place: Place, shown: Sequence[Event]) -> list[str]:
    """What is missing, before and after the next start on a sound disk."""
    faults = outlive(place) + life.missing(place, shown)
    # Half-written files go with the next upkeep of the home, a day later at most.
    (place.home / "upkeep").unlink(missing_ok=True)
    started = place.run(life.argv_after(place))
    if started.returncode == 3 and b"no session" in started.stderr and not session_of(shown):
        return faults
    if started.returncode != 0 and not any(event["type"] == "replied" for event in shown):
        started = place.run(life.argv_after(place, "run"))
    if started.returncode != 0:
        faults.append(started.stderr.decode()[-400:])
    faults += life.missing(place, shown) + unfit(place, session_of(shown))
    return faults + life.unreadable(place)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path / "place")
    TIERED.prepare(place)
    return place


def sizes_kb(life: Life) -> Sequence[int]:
    """What is free on the disk."""
    if EVERYTHING:
        return range(4, 400, 12) if life is NOTES else range(0, 132, 4)
    return (8, 28, 52) if life is TIERED else (96,) if life is NOTES else (32,)


@pytest.mark.parametrize(
    ("life", "size_kb"),
    [pytest.param(life, kb, id=f"{life.name}-{kb}") for life in LIVES for kb in sizes_kb(life)],
)
def test_a_disk_that_fills_up_loses_nothing_that_was_shown(
    tmp_path: Path, life: Life, size_kb: int
) -> None:
    mounts_needed()
    place = Place(tmp_path / "place")
    life.prepare(place)
    kept = place.folder / "kept"
    home, command = shlex.quote(str(place.home)), shlex.join(life.argv(place, 0))
    shutil.copytree(place.home, kept)
    sizes = [path.stat().st_size for path in kept.rglob("*") if path.is_file()]
    size_kb += sum(-(-size // PAGE) for size in sizes) * PAGE // 1024
    done = mounted(
        place,
        f"mount -t tmpfs -o size={size_kb}k,mode=700 none {home} && cp -a {kept}/. {home} "
        f"&& {{ {command}; code=$?; rm -rf {kept}; cp -a {home} {kept}; exit $code; }}",
    )
    shutil.rmtree(place.home)
    shutil.move(kept, place.home)

    assert "Traceback" not in told(done)
    if done.returncode != 0:
        assert "disk is full" in told(done)
        assert len(sentences_of(done)) <= 1
    assert goes_on(life, place, events(done.stdout)) == []


def test_a_read_only_home_is_told_in_one_sentence(place: Place) -> None:
    mounts_needed()
    home, command = shlex.quote(str(place.home)), shlex.join(TIERED.argv(place, 0))
    done = mounted(
        place, f"mount --bind {home} {home} && mount -o remount,ro,bind {home} && {command}"
    )
    assert done.returncode not in (0, 70)
    assert len(sentences_of(done)) <= 1
    assert "read-only" in told(done)
    assert "KODE_HOME" in told(done)


def test_a_read_only_home_suffices_where_nothing_is_kept(place: Place) -> None:
    mounts_needed()
    arguments = task(place, TIERED.after, "run", "--no-session", "--no-memory", "Ships.")
    home = shlex.quote(str(place.home))
    done = mounted(
        place,
        f"mount --bind {home} {home} && mount -o remount,ro,bind {home} && {shlex.join(arguments)}",
    )
    assert done.returncode == 0, told(done)
    assert events(done.stdout)[-1]["result"] == "Still here."


@pytest.mark.parametrize("denied", ["home", "sessions", "memory"])
def test_a_folder_of_somebody_else_is_told_in_one_sentence(place: Place, denied: str) -> None:
    skip_without("setpriv")
    if os.geteuid() != 0:
        lacking("root", "to give a folder to somebody else")
    folder = place.home if denied == "home" else place.home / denied
    folder.mkdir(exist_ok=True)
    os.chown(folder, 65534, 65534)
    folder.chmod(0o700)
    # Root without the right to pass over permissions is a user like any other.
    powerless = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner,-chown"]
    done = place.run([*powerless, *TIERED.argv(place, 0)])
    os.chown(folder, 0, 0)

    assert "Traceback" not in told(done)
    assert str(folder) in told(done)
    assert done.returncode != 0
    assert len(sentences_of(done)) == 1


def faults_of_the_disk(recorded: Recorded) -> list[tuple[str, str]]:
    """(system call, when) of the calls that an error is put into."""
    roots = [recorded.place.home, recorded.place.project]
    names = ("write", "pwrite64", "fsync", "fdatasync")
    points = strace.kill_points(recorded.calls[0], roots)
    once = [(name, str(count)) for name, count in points if name in names]
    # From one on: of syncs only, since every later write would be one to standard output too.
    lasting = [(name, f"{count}+") for name, count in points if name.endswith("sync")]
    if EVERYTHING:
        return sample(once, MOST, "once") + sample(lasting, MOST // 2, "lasting")
    return [draws("once").choice(once), draws("lasting").choice(lasting)]


def ended_needlessly(place: Place, shown: Sequence[Event]) -> list[str]:
    """Turns that ended because of what they could have gone on without: memory, or a file. What
    cannot be done without is the session."""
    errors = [event["error"] or "" for event in shown if event["type"] == "result"]
    dispensable = (f"{place.home}/memory", str(place.project))
    return [f"ended: {e}" for e in errors if any(path in e for path in dispensable)]


@pytest.mark.timeout(7200 if EVERYTHING else 600)
@pytest.mark.parametrize(
    ("life", "error"),
    [
        pytest.param(life, error, id=f"{life.name}-{error}")
        for life in LIVES
        for error in (("EIO", "ENOSPC") if EVERYTHING or life is TIERED else ("EIO",))
    ],
)
def test_an_error_of_the_disk_loses_nothing_that_was_shown(
    record: Record, life: Life, error: str, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    recorded = record(life)
    place = recorded.place
    faults = []
    chosen = faults_of_the_disk(recorded)
    for name, when in chosen:
        recorded.restore(0)
        argv = life.argv(place, 0)
        done = place.run(strace.injected(argv, name, f"error={error}", when, trace=trace))
        found = []
        if "Traceback" in told(done) or "error in kode" in told(done):
            found.append(told(done)[-600:])
        # Children write in another order in every run, so the call may be one to standard output.
        hit = strace.descriptors_hit(trace)
        causes = ["The output could not be written"] * (1 in hit) + ["disk"] * (hit != {1})
        named = any(cause.lower() in told(done).lower() for cause in causes)
        if done.returncode != 0 and done.stdout and not named:
            found.append(f"told {told(done)!r}")
        # Where no file can be written, memory and the session each name their own.
        others = [said for said in sentences_of(done) if not said.startswith("kode: Memory (")]
        if len(others) > 1 or len(sentences_of(done)) > 2:
            found.append(f"told {sentences_of(done)}")
        shown = events(done.stdout)
        found += ended_needlessly(place, shown) + goes_on(life, place, shown)
        faults += [f"{name} {when} {error}: {fault}" for fault in found]
    print(f"\n{life.name}: {len(chosen)} times {error}")
    assert faults == [], "\n".join(faults)


def test_a_command_that_only_reads_needs_no_place_to_write(place: Place) -> None:
    mounts_needed()
    home, command = shlex.quote(str(place.home)), shlex.join(kode("session", "list", "--all"))
    done = mounted(
        place, f"mount --bind {home} {home} && mount -o remount,ro,bind {home} && {command}"
    )
    assert done.returncode == 0, done.stderr
