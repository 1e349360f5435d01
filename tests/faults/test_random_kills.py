"""Three processes work on one home, and are killed at random times: what any of them was shown
as done is there in the end, and nothing of another is gone.
"""

import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kode.session import upkeep
from tests.effort import EVERYTHING, SEED, draws
from tests.faults.kode_run import (
    Event,
    Place,
    call,
    events,
    memory_view,
    missing_of_session,
    session_of,
    task,
    unfit,
)
from tests.faults.lives import EPISODE

KILLS = 300 if EVERYTHING else 9
PROCESSES = 3
SETTINGS = {
    "memory": {
        "min_turns_for_extraction": 1,
        "merge_on_write": False,
        "facts_limit_user": 900_000,
    }
}


@dataclass
class Tried:
    """What the processes were shown as done, all together."""

    facts: set[str] = field(default_factory=set)
    sessions: list[list[Event]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    kills: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def script(worker: int, number: int) -> tuple[list[str], list[Any]]:
    """Three facts in three steps, and the script that has them remembered."""
    facts = [f"w{worker} run {number} fact {i}" for i in range(3)]
    steps = [
        {"calls": [call("memory", action="add", target="user", content=fact)]} for fact in facts
    ]
    steps[1]["calls"].append(call("write_file", path=f"{worker}.txt", content=f"{number}\n"))
    return facts, [EPISODE, *steps, {"text": "Kept."}]


def work(place: Place, worker: int, tried: Tried) -> None:
    draw = draws(f"kills of worker {worker}")
    number = 0
    worked_s = 60.0
    """From the first event to the end of a run that was left alone."""
    while tried.kills < KILLS:
        facts, replies = script(worker, number)
        argv = task(place, replies, "run", f"Task {number} of {worker}")
        process = subprocess.Popen(
            argv,
            env=place.environment(),
            cwd=place.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # what is read ahead of a line would be lost
        )
        assert process.stdout is not None
        first = b"" if number and draw.random() < 0.1 else process.stdout.readline()
        began = time.monotonic()
        try:  # the first is left alone, to see how long it takes
            left_s = worked_s * draw.uniform(0.0, 1.2) if number else worked_s
            out, err = process.communicate(timeout=left_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            out, err = process.communicate()
        out = first + out
        killed = process.returncode == -signal.SIGKILL
        if not killed and first:
            worked_s = time.monotonic() - began
        with tried.lock:
            tried.kills += killed
            shown = events(out)
            kept = [e for e in shown if e["type"] == "tool_finished" and e["name"] == "memory"]
            tried.facts |= set(facts[: len(kept)])
            if session_of(shown):
                tried.sessions.append(shown)
            if not killed and process.returncode != 0:
                tried.failures.append(err.decode()[-500:])
        number += 1


@pytest.mark.timeout(3600 if EVERYTHING else 120)
def test_three_processes_killed_at_random_lose_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path / "place")
    place.prepare(SETTINGS)
    print(f"\nSAMPLE_SEED={SEED}")
    tried = Tried()
    with ThreadPoolExecutor(PROCESSES) as pool:
        list(pool.map(lambda worker: work(place, worker, tried), range(PROCESSES)))

    facts = [one.text for one in memory_view(place).current("facts/user.md")]
    last = task(place, [EPISODE, {"text": "Here."}], "run", "Are you there?")
    started = place.run(last)
    upkeep.check(place.home, repair=True)

    print(f"{tried.kills} kills, {len(tried.sessions)} sessions, {len(facts)} facts")
    assert tried.failures == []
    assert tried.facts <= set(facts)
    assert len(facts) == len(set(facts))
    assert [fault for shown in tried.sessions for fault in missing_of_session(place, shown)] == []
    assert started.returncode == 0, started.stderr
    assert [fault for fault in unfit(place, None) if "project" not in fault] == []
