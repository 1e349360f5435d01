"""The disk says no: full, read-only, denied, broken. One clear sentence, and nothing that was
shown as done is missing afterwards.
"""

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.effort import EVERYTHING, draws
from tests.faults.driver import Stage, Story, find_faults, set_stage
from tests.faults.injected import LOST, TO_DISK, Injection
from tests.faults.lives import HERE, SUBAGENTS, TIERED, Life, LifeCommand, task
from tests.faults.place import Place, Run, Shown
from tests.faults.stories import STORIES
from tests.needs import lacking, skip_without
from tests.warm import KODE

pytestmark = [
    pytest.mark.sampled(of=2),
    pytest.mark.timeout(7200 if EVERYTHING else 600),
]

TRIES = 30 if EVERYTHING else 1
"""So many writes and syncs of each story take an error once, and so many from then on."""
SHIPS = LifeCommand(TIERED, 0)
PAGE = 4096
"""Bytes; what a file takes of a tmpfs is a multiple of it."""
ON_STDERR = [story for story in STORIES if story.name not in ("editor", "client", "goal")]
"""The stories whose errors are told there: clients and goals tell them in values of their own."""
SENTENCES = {"EIO": "check the disk", "ENOSPC": "free some space"}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path / "place")
    SHIPS.prepare(place)
    return place


# ── errors of single calls ───────────────────────────────────────────────────────────────────


def injections(stage: Stage, error: str) -> list[Injection]:
    """Of writes and syncs that take an error once, and of some from which on all do. With such a
    disk a command's new files are no longer undone, so that changes are not among those."""
    numbers = [n for n, name in enumerate(stage.events, 1) if name in TO_DISK]
    draw = draws(f"{stage.story.name} {error}")
    return [
        Injection(number, error, lasts)
        for lasts in (False, True)
        for number in draw.sample(numbers, min(TRIES, len(numbers)))
    ]


@pytest.mark.parametrize("error", SENTENCES)
@pytest.mark.parametrize("story", ON_STDERR, ids=lambda story: story.name)
def test_an_error_of_the_disk_loses_nothing_that_was_shown(
    story: Story, error: str, tmp_path: Path
) -> None:
    if story.is_sandboxed:
        skip_without("bwrap")
    stage = set_stage(story, tmp_path)
    faults = []
    for injection in injections(stage, error):
        run, shown = stage.play(injection)
        others = [line for line in run.sentences if line not in stage.sentences]
        run = replace(run, err="\n".join(others))
        found = [*wrongly_told(run, SENTENCES[error]), *ended_needlessly(stage.place, run.shown)]
        found += find_faults(stage, shown)
        faults += [f"{injection}: {fault}" for fault in found]
    assert faults == [], "\n".join(faults)


def test_a_disk_that_silently_keeps_nothing_is_found(tmp_path: Path) -> None:
    """The tests of faults see what is missing."""
    stage = set_stage(SHIPS, tmp_path)
    run, shown = stage.play(Injection(1, LOST))

    faults = "\n".join(stage.story.missing(stage.place, shown))

    assert run.code == 0
    assert "the reply" in faults
    assert "ships.txt holds" in faults
    assert "the change" in faults


def wrongly_told(run: Run, advice: str) -> list[str]:
    """What a person is told of a broken disk, if it is not one sentence that says what to do."""
    faults = []
    if "Traceback" in run.told or "error in kode" in run.told:
        faults.append(run.told[-600:])
    if run.code != 0 and advice not in run.told:
        faults.append(f"told {run.told!r}")
    # Where no file can be written, memory and the session each name their own.
    others = [line for line in run.sentences if not line.startswith("kode: Memory ")]
    if len(others) > 1 or len(run.sentences) > 2:
        faults.append(f"told {run.sentences}")
    return faults


def ended_needlessly(place: Place, shown: Shown) -> list[str]:
    """Turns that ended because of what they could have gone on without: memory, or a file. What
    cannot be done without is the session."""
    errors = [event["error"] or "" for event in shown if event["type"] == "result"]
    dispensable = (f"{place.home}/memory", str(place.project))
    return [f"ended: {e}" for e in errors if any(path in e for path in dispensable)]


# ── disks ────────────────────────────────────────────────────────────────────────────────────


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


def line(*argv: str) -> str:
    return shlex.join([sys.executable, KODE, *argv])


def mounted(place: Place, script: str) -> Run:
    """Runs a shell script in a mount namespace of its own."""
    return place.cold(["unshare", "-m", "sh", "-c", script])


def read_only(place: Place, *argv: str) -> Run:
    """Runs a command with a home that cannot be written to."""
    mounts_needed()
    home = shlex.quote(str(place.home))
    mounts = f"mount --bind {home} {home} && mount -o remount,ro,bind {home}"
    return mounted(place, f"{mounts} && {line(*argv)}")


SIZES_KB = [
    pytest.param(life, size_kb, id=f"{life.name}-{size_kb}")
    for life, sizes_kb in ((TIERED, (8, 28, 52)), (SUBAGENTS, (32,)))
    for size_kb in (range(0, 200, 8) if EVERYTHING else sizes_kb)
]
"""What is free on the disk."""


@pytest.mark.parametrize(("life", "size_kb"), SIZES_KB)
def test_a_disk_that_fills_up_loses_nothing_that_was_shown(
    tmp_path: Path, life: Life, size_kb: int
) -> None:
    mounts_needed()
    story = LifeCommand(life, 0)
    stage = set_stage(story, tmp_path)
    place = stage.place
    place.restore()
    copy, home = (shlex.quote(str(path)) for path in (place.folder / "copy", place.home))
    command = line(*story.argv(place))
    shutil.copytree(place.home, place.folder / "copy")
    sizes = [path.stat().st_size for path in place.home.rglob("*") if path.is_file()]
    size_kb += sum(-(-size // PAGE) for size in sizes) * PAGE // 1024
    run = mounted(
        place,
        f"mount -t tmpfs -o size={size_kb}k,mode=700 none {home} && cp -a {copy}/. {home} "
        f"&& {{ {command}; code=$?; rm -rf {copy}; cp -a {home} {copy}; exit $code; }}",
    )
    shutil.rmtree(place.home)
    shutil.move(place.folder / "copy", place.home)

    assert "Traceback" not in run.told
    if run.code != 0:
        assert "disk is full" in run.told
        assert len(run.sentences) <= 1
    assert find_faults(stage, [*stage.before, *run.shown]) == []


def test_a_read_only_home_is_told_in_one_sentence(place: Place) -> None:
    run = read_only(place, *SHIPS.argv(place))
    assert run.code not in (0, 70)
    assert len(run.sentences) <= 1
    assert "read-only" in run.told
    assert "KODE_HOME" in run.told


def test_a_read_only_home_suffices_where_nothing_is_kept(place: Place) -> None:
    run = read_only(place, *task(place, [HERE], "run", "--no-session", "--no-memory", "Ships."))
    assert run.code == 0, run.told
    assert run.shown[-1]["result"] == "Still here."


def test_a_command_that_only_reads_needs_no_place_to_write(place: Place) -> None:
    assert read_only(place, "session", "list", "--all").code == 0


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
    run = place.cold([*powerless, sys.executable, KODE, *SHIPS.argv(place)])
    os.chown(folder, 0, 0)

    assert "Traceback" not in run.told
    assert str(folder) in run.told
    assert run.code != 0
    assert len(run.sentences) == 1
