"""The power goes at every moment of a session's life: whatever the disk may hold then, nothing
that was shown as done is missing, and the session can be gone on with.

What a disk may hold is computed (`power_cut.py`) from the recorded system calls.
"""

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kode.memory.history import History
from kode.session import log, upkeep
from tests.faults import power_cut, strace
from tests.faults.kode_run import (
    AFTER,
    FIRST,
    Place,
    commands,
    events,
    missing,
    missing_changes,
    missing_of_session,
    newest,
    session_of,
    spread,
    task,
    unfit,
)

LONG = os.environ.get("FAULTS") == "all"
SAMPLE = 400
STARTED = 200 if LONG else 3
"""On so many of the disks the whole program is started too."""

State = tuple[dict[str, bytes | None], list[dict[str, Any]]]


def leave_out(path: str) -> bool:
    """Indexes for searching, which are made anew, and locks, which hold nothing."""
    return "/.search" in path or path.endswith("/.lock") or "/script-" in path


def recorded(place: Place) -> tuple[power_cut.Disk, list[strace.Call]]:
    """The disk before, and every call of a session's life."""
    place.prepare()
    disk = power_cut.Disk(place.folder, leave_out)
    calls: list[strace.Call] = []
    for argv in commands(place):
        words = [(newest(place) or "") if word == "newest" else word for word in argv]
        made, done = strace.record(words, environ=place.environment(), cwd=place.project)
        assert done.returncode == 0, done.stderr
        calls += made
    return disk, calls


def states(disk: power_cut.Disk, calls: list[strace.Call]) -> Iterator[State]:
    """Every disk that may be left at some moment, with what had been shown by then."""
    out = b""
    seen: set[int] = set()
    for call in calls:
        if call.name == "write" and call.fd == 1:
            out += call.data
        elif not disk.play(call):
            continue
        shown = events(out)
        for tree in disk.states():
            key = hash((frozenset(tree.items()), len(shown)))
            if key not in seen:
                seen.add(key)
                yield tree, shown


def wrong_with(place: Place, shown: list[dict[str, Any]]) -> list[str]:
    faults = missing(place, shown)
    History(place.home / "memory/history.jsonl").tail(10)
    session_id = session_of(shown)
    if session_id is None or not any(event["type"] == "replied" for event in shown):
        return faults
    session, _ = log.load(place.home, session_id)
    session.close()
    upkeep.check(place.home, session_id, repair=True)
    faults += [fault for fault in unfit(place, session_id) if "left behind" not in fault]
    return faults + missing(place, shown)


@pytest.mark.timeout(3600 if LONG else 120)
def test_a_power_cut_at_any_moment_loses_nothing_that_was_shown(tmp_path: Path) -> None:
    strace.needed()
    disk, calls = recorded(Place(tmp_path / "lived"))
    every = list(states(disk, calls))
    draw = random.Random(1)
    chosen = every if LONG else draw.sample(every, min(SAMPLE, len(every)))
    started = set(draw.sample(range(len(chosen)), min(STARTED, len(chosen))))
    faults: dict[str, int] = {}
    for number, (tree, shown) in enumerate(chosen):
        place = Place(tmp_path / "cut")
        power_cut.build(tree, place.folder)
        found = wrong_with(place, shown)
        if number in started:
            found += starts(place, shown)
        for fault in found:
            faults[fault] = faults.get(fault, 0) + 1
        shutil.rmtree(place.folder)
    print(f"{len(chosen)} of {len(every)} disks, {len(started)} started on")
    assert faults == {}


def starts(place: Place, shown: list[dict[str, Any]]) -> list[str]:
    place.project.mkdir(exist_ok=True)
    place.home.mkdir(exist_ok=True)
    session_id = session_of(shown)
    known = session_id and any(event["type"] == "replied" for event in shown)
    how = ["continue", "--id", str(session_id)] if known else ["run"]
    done = place.run(task(place, AFTER, *how, "Are you there?"))
    if done.returncode != 0:
        return [f"does not start: {done.stderr.decode()[-300:]}"]
    upkeep.check(place.home, repair=True)
    # Where the project is now nobody knows: the session was recorded elsewhere.
    litter = [f for f in unfit(place, session_id) if "left behind: project" not in f]
    return missing(place, shown) + litter


def without_syncs(calls: list[strace.Call], *, folders: bool) -> list[strace.Call]:
    """The same life, of a program that does not sync its folders, or its files."""
    return [
        call
        for call in calls
        if call.name != "fsync" or Path(call.paths[0]).is_dir() is not folders
    ]


@pytest.mark.parametrize("folders", [True, False])
def test_the_model_would_find_a_sync_left_out(tmp_path: Path, folders: bool) -> None:
    strace.needed()
    disk, calls = recorded(Place(tmp_path / "lived"))
    cut = states(disk, without_syncs(calls, folders=folders))
    for number, (tree, shown) in enumerate(cut):
        place = Place(tmp_path / f"cut{number}")
        power_cut.build(tree, place.folder)
        if missing(place, shown):
            return
    raise AssertionError("a lost sync was not found")


CUTS_AFTER_KILLS = 1000 if LONG else 5


@pytest.mark.timeout(3600 if LONG else 120)
def test_what_is_done_after_a_kill_survives_a_power_cut_too(tmp_path: Path) -> None:
    """What the killed process did not sync may be what the next one builds on: a folder, the name
    of a file."""
    strace.needed()
    tried = Place(tmp_path / "tried")
    tried.prepare()
    calls, _ = strace.record(
        task(tried, FIRST, "run", "Ships."), environ=tried.environment(), cwd=tried.project
    )
    looked_at = [
        call
        for call in calls
        if not any(map(leave_out, call.paths))
        and (LONG or (call.name == "fsync" and Path(call.paths[0]).is_dir()))
    ]
    points = strace.kill_points(looked_at, [tried.home, tried.project])
    faults = []
    for number, point in enumerate(spread(points, CUTS_AFTER_KILLS)):
        place = Place(tmp_path / f"place{number}")
        place.prepare()
        disk = power_cut.Disk(place.folder, leave_out)
        killed, done = strace.record(
            task(place, FIRST, "run", "Ships."),
            environ=place.environment(),
            cwd=place.project,
            killed_at=point,
        )
        before = events(done.stdout)
        after, done = strace.record(
            task(place, FIRST, "run", "Ships."), environ=place.environment(), cwd=place.project
        )
        assert done.returncode == 0, done.stderr
        for call in [*killed, *after]:
            disk.play(call)
        for state, tree in enumerate(disk.states()):
            cut = Place(tmp_path / f"cut{number}-{state}")
            power_cut.build(tree, cut.folder)
            # The facts are told twice; each session is looked at alone.
            for shown in (before, events(done.stdout)):
                lost = missing_of_session(cut, shown) + missing_changes(cut, shown)
                faults += [f"{point}: {fault}" for fault in lost]
            facts = cut.home / "memory/facts/user.md"
            if not facts.exists() or "Likes short answers" not in facts.read_text():
                faults.append(f"{point}: the fact")
    assert faults == []
