"""kode is killed at the calls that change files, and started again: nothing shown is lost.

Here a sample of the calls of each life of a session; `make test-all` takes every one.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import pytest

from kode.session import upkeep
from tests.effort import EVERYTHING, sample
from tests.faults import strace
from tests.faults.conftest import Record
from tests.faults.kode_run import Event, events, outlive, unfit
from tests.faults.lives import LIVES, SUBAGENTS, TIERED, Life
from tests.faults.recorded import Recorded, live

SAMPLE = {"tiered": 4, "subagents": 3}
USUAL_SAMPLE = 2
WORKERS = 2 if EVERYTHING else 1


@dataclass(frozen=True)
class Point:
    """A call of one of the commands. `alone`: the command's own process is killed and its children
    are not; else whichever process of them comes to such a call first."""

    number: int
    call: str
    count: int
    alone: bool


def points_of(recorded: Recorded) -> list[Point]:
    roots = [recorded.place.home, recorded.place.project]
    points: dict[Point, None] = {}
    for number, calls in enumerate(recorded.calls):
        for call in calls:
            if not strace.changes_files(call) or not strace.below(call, roots):
                continue
            alone = recorded.life is SUBAGENTS and call.pid == calls[0].pid
            if EVERYTHING or not _of_a_cache(call):
                points[Point(number, call.name, call.count, alone)] = None
    return list(points)


def _of_a_cache(call: strace.Call) -> bool:
    return any("/.search/" in path or path.endswith("/.lock") for path in call.paths)


@dataclass
class Tried:
    faults: list[str]
    """What is wrong, before and after the next start."""
    is_killed: bool


def kill(recorded: Recorded, point: Point) -> Tried:
    """Kills a command at one call, and starts kode again."""
    life, place = recorded.life, recorded.place
    recorded.restore(point.number)
    argv = life.argv(place, point.number)
    done = place.run(
        strace.injected(argv, point.call, "signal=KILL", point.count, threads=not point.alone)
    )
    faults = outlive(place)
    shown = recorded.shown[point.number] + events(done.stdout)
    faults += life.missing(place, shown) + life.unreadable(place)
    faults += life.missing_of_command(place, point.number, shown)
    faults += start_again(recorded, shown)
    where = f"{life.names[point.number]}, {point.call} {point.count}{' alone' * point.alone}"
    return Tried([f"{where}: {fault}" for fault in faults], done.returncode < 0)


def start_again(recorded: Recorded, shown: list[Event]) -> list[str]:
    life, place = recorded.life, recorded.place
    # Half-written files go with the next upkeep of the home, a day later at most.
    (place.home / "upkeep").unlink(missing_ok=True)
    started = place.run(life.argv_after(place))
    is_new = not any(event["type"] == "replied" for event in shown)
    if started.returncode == 3 and b"no session" in started.stderr and is_new:
        started = place.run(life.argv_after(place, "run"))
    if started.returncode != 0 or b"Traceback" in started.stderr:
        return [f"does not start ({started.returncode}): {started.stderr[-400:]!r}"]
    upkeep.check(place.home, repair=True)
    return life.missing(place, shown) + unfit(place, None) + life.unfit(place)


@pytest.mark.timeout(7200 if EVERYTHING else 600)
@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.name)
def test_a_shown_turn_survives_a_kill_at_any_call(
    life: Life, record: Record, tmp_path: Path
) -> None:
    first = record(life)
    stands: SimpleQueue[Recorded] = SimpleQueue()
    for stand in (first, *(live(life, tmp_path / str(n)) for n in range(1, WORKERS))):
        stands.put(stand)
    every = points_of(first)
    points = sample(every, SAMPLE.get(life.name, USUAL_SAMPLE), life.name)

    def kill_one(point: Point) -> Tried:
        stand = stands.get()
        try:
            return kill(stand, point)
        finally:
            stands.put(stand)

    began = time.monotonic()
    with ThreadPoolExecutor(WORKERS) as pool:
        tried = list(pool.map(kill_one, points))
    took_s = time.monotonic() - began
    kills = sum(one.is_killed for one in tried)
    faults = [fault for one in tried for fault in one.faults]
    print(f"\n{life.name}: {kills} kills at {len(points)} of {len(every)} calls, {took_s:.0f} s")
    assert faults == [], "\n".join(faults)
    # Where a subagent is killed its parent goes on.
    assert kills >= int(len(points) * (0.4 if life is SUBAGENTS else 0.9))


def test_every_life_has_calls_of_all_its_commands(record: Record) -> None:
    assert {point.number for point in points_of(record(TIERED))} == set(range(4))
