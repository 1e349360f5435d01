"""Several kodes at once: on one home, killed at random; and on one session."""

import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kode.session import log
from tests.effort import EVERYTHING, SEED, draws
from tests.faults.checks import memory_view, missing_of_session, session_of, session_paths, unfit
from tests.faults.lives import EPISODE, HERE, call, calls, task
from tests.faults.place import Place, Run, Shown

KILLS = 300 if EVERYTHING else 9
PROCESSES = 3
MEMORY = {"min_turns_for_extraction": 1, "merge_on_write": False, "facts_limit_user": 900_000}


@dataclass
class Race:
    """What the processes were shown as done, all together."""

    facts: set[str] = field(default_factory=set)
    sessions: list[Shown] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    kills: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def facts_and_script(worker: int, number: int) -> tuple[list[str], list[Any]]:
    """Three facts in three steps, and the script that has them remembered."""
    facts = [f"w{worker} run {number} fact {i}" for i in range(3)]
    steps = [calls(call("memory", action="add", target="user", content=fact)) for fact in facts]
    steps[1]["calls"].append(call("write_file", path=f"{worker}.txt", content=f"{number}\n"))
    return facts, [EPISODE, *steps, {"text": "Kept."}]


def work(place: Place, worker: int, race: Race) -> None:
    draw = draws(f"kills of worker {worker}")
    number = 0
    worked_s = 60.0
    """From the first event to the end of a run that was left alone."""
    while race.kills < KILLS:
        facts, script = facts_and_script(worker, number)
        argv = task(place, script, "run", f"Task {number} of {worker}")
        process = place.start(*argv, bufsize=0)  # what is read ahead of a line would be lost
        assert process.stdout is not None
        first = "" if number and draw.random() < 0.1 else process.stdout.readline()
        began = time.monotonic()
        try:  # the first is left alone, to see how long it takes
            left_s = worked_s * draw.uniform(0.0, 1.2) if number else worked_s
            out, err = process.communicate(timeout=left_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            out, err = process.communicate()
        run = Run(process.returncode, first + out, err)
        if not run.is_killed and first:
            worked_s = time.monotonic() - began
        with race.lock:
            race.kills += run.is_killed
            done = [e for e in run.shown if e["type"] == "tool_finished" and e["name"] == "memory"]
            race.facts |= set(facts[: len(done)])
            if session_of(run.shown):
                race.sessions.append(run.shown)
            if not run.is_killed and run.code != 0:
                race.failures.append(err[-500:])
        number += 1


@pytest.mark.timeout(3600 if EVERYTHING else 120)
def test_three_processes_killed_at_random_lose_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path / "place")
    place.configure({"memory": MEMORY})
    race = Race()
    with ThreadPoolExecutor(PROCESSES) as pool:
        list(pool.map(lambda worker: work(place, worker, race), range(PROCESSES)))

    facts = [one.text for one in memory_view(place).current("facts/user.md")]
    started = place.kode(*task(place, [EPISODE, HERE], "run", "Are you there?"))

    print(f"\n{race.kills} kills, {len(race.sessions)} sessions, {len(facts)} facts, seed {SEED}")
    assert race.failures == []
    assert race.facts <= set(facts)
    assert len(facts) == len(set(facts))
    assert [fault for shown in race.sessions for fault in missing_of_session(place, shown)] == []
    assert started.code == 0, started.err
    assert [fault for fault in unfit(place) if "project" not in fault] == []


def test_a_session_open_elsewhere_is_told_in_one_sentence(tmp_path: Path) -> None:
    place = Place(tmp_path / "place")
    place.kode(*task(place, [HERE], "run", "Look."))
    (path,) = session_paths(place)
    before = path.read_bytes()
    session, _ = log.load(place.home, path.stem)

    run = place.kode(*task(place, [HERE], "continue", "Look again."))

    session.close()
    assert run.code in (1, 3)
    assert len(run.sentences) == 1
    assert f"session fork {path.stem}" in run.err
    assert path.read_bytes() == before
