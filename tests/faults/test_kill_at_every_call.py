"""kode is killed at the calls that change files, and started again: nothing shown is lost.

Here a sample of the calls, spread over a session's life; `make faults` takes every one.
"""

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kode.session import upkeep
from tests.faults import strace
from tests.faults.kode_run import (
    AFTER,
    SESSION,
    Place,
    commands,
    events,
    is_trimmed,
    missing,
    newest,
    session_of,
    spread,
    task,
    unfit,
)

LONG = os.environ.get("FAULTS") == "all"
SAMPLE = 20
WORKERS = 2
STAGES = 4


@dataclass
class Stand:
    """One place, and what it held before each command."""

    place: Place
    before: list[Path] = field(default_factory=list)
    shown: list[list[dict[str, Any]]] = field(default_factory=list)
    """Every event before each command."""
    points: list[tuple[int, str, int]] = field(default_factory=list)
    """(command, system call, its count)."""

    def argv(self, stage: int) -> list[str]:
        session_id = newest(self.place) or ""
        words = commands(self.place)[stage]
        return [session_id if word == "newest" else word for word in words]

    def live(self) -> None:
        """Runs the commands once, recorded, and keeps what there was before each."""
        self.place.prepare()
        shown: list[dict[str, Any]] = []
        for stage in range(STAGES):
            argv = self.argv(stage)
            kept = self.place.folder.with_name(f"{self.place.folder.name}-before-{stage}")
            shutil.copytree(self.place.folder, kept)
            self.before.append(kept)
            self.shown.append(list(shown))
            calls, done = strace.record(
                argv, environ=self.place.environment(), cwd=self.place.project
            )
            assert done.returncode == 0, done.stderr
            shown += events(done.stdout)
            roots = [self.place.home, self.place.project]
            chosen = [call for call in calls if LONG or not _of_a_cache(call)]
            self.points += [(stage, *point) for point in strace.kill_points(chosen, roots)]
        assert missing(self.place, shown) == []

    def restore(self, stage: int) -> None:
        shutil.rmtree(self.place.folder)
        shutil.copytree(self.before[stage], self.place.folder)

    def kill(self, stage: int, name: str, count: int) -> list[str]:
        """What is wrong after a kill at one call, before and after the next start."""
        self.restore(stage)
        done = self.place.run(strace.injected(self.argv(stage), name, "signal=KILL", count))
        shown = self.shown[stage] + events(done.stdout)
        where = f"{('run', 'continue', 'trim', 'cleanup')[stage]}, {name} {count}"
        faults = missing(self.place, shown)
        faults += self.start_again(stage, shown, done.stdout)
        return [f"{where}: {fault}" for fault in faults]

    def start_again(self, stage: int, shown: list[dict[str, Any]], out: bytes) -> list[str]:
        place, faults = self.place, []
        if stage == 2 and out.strip() and not is_trimmed(place, newest(place) or ""):
            faults.append("the trim")
        if stage == 3:
            again = place.run(self.argv(3))
            left = list((place.home / "sessions").glob(f"{SESSION}*"))
            if again.returncode != 0 or left:
                faults.append(f"cleaning up again: {again.stderr!r}, {left}")
        started = place.run(task(place, AFTER, "continue", "Are you there?"))
        if started.returncode == 1 and b"no session" in started.stderr and not shown[3:]:
            started = place.run(task(place, AFTER, "run", "Are you there?"))
        if started.returncode != 0 or b"Traceback" in started.stderr:
            return [*faults, f"does not start ({started.returncode}): {started.stderr[-400:]!r}"]
        upkeep.check(place.home, repair=True)
        faults += missing(place, shown)
        return faults + unfit(place, None)


def _of_a_cache(call: strace.Call) -> bool:
    return any("/.search/" in path or path.endswith("/.lock") for path in call.paths)


@pytest.mark.timeout(3600 if LONG else 120)
def test_nothing_shown_is_lost_wherever_kode_is_killed(tmp_path: Path) -> None:
    strace.needed()
    stands = [Stand(Place(tmp_path / f"stand{number}")) for number in range(WORKERS)]
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(Stand.live, stands))
    points = stands[0].points if LONG else spread(stands[0].points, SAMPLE)
    free, lock = list(stands), threading.Lock()

    def kill(point: tuple[int, str, int]) -> list[str]:
        with lock:
            stand = free.pop()
        try:
            return stand.kill(*point)
        finally:
            free.append(stand)

    with ThreadPoolExecutor(WORKERS) as pool:
        faults = [fault for found in pool.map(kill, points) for fault in found]
    print(f"{len(points)} kills of {len(stands[0].points)} calls")
    assert session_of(stands[0].shown[1]) is not None
    assert faults == []
