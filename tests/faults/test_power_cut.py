"""The power goes at every moment of a session's life: whatever the disk may hold then, nothing
that was shown as done is missing, and the session can be gone on with.

What a disk may hold is computed (`power_cut.py`) from the recorded system calls.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kode.session import log, upkeep
from tests.effort import EVERYTHING, sample
from tests.faults import power_cut, strace
from tests.faults.conftest import Record
from tests.faults.kode_run import (
    Event,
    Place,
    damaged_history,
    events,
    memory_view,
    missing_changes,
    missing_of_session,
    remove,
    session_of,
    unfit,
)
from tests.faults.lives import LIVES, SHORT, TIERED, Life
from tests.faults.recorded import Recorded

SAMPLE = {"tiered": 40, "notes": 15}
USUAL_SAMPLE = 20
STARTED = 1
"""On so many of the disks the whole program is started too."""

State = tuple[dict[str, bytes | None], list[Event]]


def leave_out(path: str) -> bool:
    """Indexes for searching, which are made anew, and locks, which hold nothing."""
    return "/.search" in path or path.endswith("/.lock") or "/script-" in path


def states(recorded: Recorded, calls: Sequence[strace.Call]) -> Iterator[State]:
    """Every disk that may be left at some moment, with what had been shown by then."""
    disk = recorded.disk(leave_out)
    seen: set[int] = set()
    for call, shown in recorded.moments(calls):
        if not recorded.is_shown(call) and not disk.play(call):
            continue
        for tree in disk.states():
            key = hash((frozenset(tree.items()), len(shown)))
            if key not in seen:
                seen.add(key)
                yield tree, shown


def wrong_with(life: Life, place: Place, shown: list[Event]) -> list[str]:
    faults = life.missing(place, shown) + life.unreadable(place) + damaged_history(place)
    session_id = session_of(shown)
    if session_id is None or not any(event["type"] == "replied" for event in shown):
        return faults
    session, _ = log.load(place.home, session_id)
    session.close()
    upkeep.check(place.home, session_id, repair=True)
    faults += [fault for fault in unfit(place, session_id) if "left behind" not in fault]
    return faults + life.missing(place, shown)


@pytest.mark.timeout(7200 if EVERYTHING else 600)
@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.name)
def test_a_power_cut_loses_nothing_that_was_shown(life: Life, record: Record) -> None:
    recorded = record(life)
    place = recorded.place
    every = list(states(recorded, recorded.every_call()))
    chosen = sample(every, SAMPLE.get(life.name, USUAL_SAMPLE), life.name)
    started = set(sample(range(len(chosen)), STARTED, life.name))
    faults: Counter[str] = Counter()
    for number, (tree, shown) in enumerate(chosen):
        remove(place.folder)
        power_cut.build(tree, place.folder)
        found = wrong_with(life, place, shown)
        if number in started:
            found += starts(life, place, shown)
        faults.update(found)
    print(f"\n{life.name}: {len(chosen)} of {len(every)} disks, {len(started)} started on")
    assert faults == {}


def starts(life: Life, place: Place, shown: list[Event]) -> list[str]:
    place.project.mkdir(exist_ok=True)
    place.home.mkdir(exist_ok=True)
    # Half-written files go with the next upkeep of the home, a day later at most.
    (place.home / "upkeep").unlink(missing_ok=True)
    session_id = session_of(shown)
    known = session_id and any(event["type"] == "replied" for event in shown)
    how = ["continue", "--id", str(session_id)] if known else ["run"]
    done = place.run(life.argv_after(place, *how))
    if done.returncode != 0:
        return [f"does not start: {done.stderr.decode()[-300:]}"]
    upkeep.check(place.home, repair=True)
    return life.missing(place, shown) + unfit(place, session_id) + life.unfit(place)


def without_syncs(calls: Sequence[strace.Call], part: str, *, folders: bool) -> list[strace.Call]:
    """The same life, of a program that does not sync its folders, or its files, in one part of
    its home."""
    names = {call.paths[0] for call in calls if call.name.startswith(("mkdir", "rename", "unlink"))}
    parents = {str(Path(name).parent) for name in names}
    return [
        call
        for call in calls
        if call.name not in ("fsync", "fdatasync")
        or part not in call.paths[0]
        or (call.paths[0] in parents) is not folders
    ]


@pytest.mark.timeout(7200 if EVERYTHING else 600)
@pytest.mark.parametrize("folders", [True, False], ids=["folders", "files"])
@pytest.mark.parametrize("part", ["/sessions", "/memory"])
@pytest.mark.parametrize("life", LIVES if EVERYTHING else (TIERED,), ids=lambda life: life.name)
def test_the_model_would_find_a_sync_left_out(
    life: Life, part: str, folders: bool, record: Record
) -> None:
    recorded = record(life)
    calls = without_syncs(recorded.every_call(), part, folders=folders)
    place = recorded.place
    for tree, shown in states(recorded, calls):
        remove(place.folder)
        power_cut.build(tree, place.folder)
        if life.missing(place, shown):
            return
    raise AssertionError("a lost sync was not found")


CUTS_AFTER_KILLS = 2
"""In each life."""


@pytest.mark.timeout(7200 if EVERYTHING else 600)
@pytest.mark.parametrize("life", LIVES if EVERYTHING else (TIERED,), ids=lambda life: life.name)
def test_work_after_a_kill_survives_a_power_cut_too(life: Life, record: Record) -> None:
    """What the killed process did not sync may be what the next one builds on: a folder, the name
    of a file."""
    recorded = record(life)
    place = recorded.place
    looked_at = [
        call
        for call in recorded.calls[0]
        if not any(map(leave_out, call.paths))
        and (EVERYTHING or (call.name == "fsync" and Path(call.paths[0]).is_dir()))
    ]
    every = strace.kill_points(looked_at, [place.home, place.project])
    points = sample(every, CUTS_AFTER_KILLS, life.name)
    faults = []
    cuts = 0
    for number, point in enumerate(points):
        recorded.restore(0)
        disk = power_cut.Disk(place.folder, leave_out)
        argv = life.argv(place, 0)
        environ, cwd = place.environment(), place.project
        killed, done = strace.record(argv, environ=environ, cwd=cwd, killed_at=point)
        before = events(done.stdout)
        after, done = strace.record(argv, environ=environ, cwd=cwd)
        # What the killed process left to reflect on takes a reply that was meant for the turn.
        assert done.returncode == 0 or b"The script has" in done.stdout, done.stderr
        for call in [*killed, *after]:
            disk.play(call)
        for tree in disk.states():
            remove(place.folder)
            power_cut.build(tree, place.folder)
            cuts += 1
            # What memory holds after two lives in one is not looked at, but that it can be read.
            for shown in (before, events(done.stdout)):
                lost = missing_of_session(place, shown) + missing_changes(place, shown)
                faults += [f"{number} {point}: {fault}" for fault in lost]
            faults += [f"{point}: {fault}" for fault in life.unreadable(place)]
            facts = {one.text for one in memory_view(place).statements()}
            if life is TIERED and SHORT not in facts:
                faults.append(f"{point}: the fact")
    print(f"\n{life.name}: {len(points)} kills, then {cuts} disks")
    assert faults == []
