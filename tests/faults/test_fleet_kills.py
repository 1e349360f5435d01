"""A fleet is killed at the writes of its queue and at random moments, alone and with all that it
started: no task is lost, none ends twice, no effect is repeated, and the budget holds.

Here a sample; `make faults` takes every write, and a hundred moments.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kode.plugins.fleet.queue import open_queue, queues
from tests.e2e.command import KODE
from tests.effort import EVERYTHING, SEED, draws, sample
from tests.faults import strace

WRITES, MOMENTS = 2, 100 if EVERYTHING else 1
TASKS, JOBS = 4, 2
REPLY_USD = 1.0
LIMIT_USD = 5.5
USAGE = {"input_tokens": 1000, "output_tokens": 0}

REPLIES: list[dict[str, Any]] = [
    {
        "match": "Task [0-9]",
        "calls": [{"name": "shell", "arguments": {"command": "echo done >> effects"}}],
        "usage": USAGE,
        "then": [{"text": "Done.", "usage": USAGE}],
    },
    {"match": "interrupted|The task above failed", "text": "Done, after a look.", "usage": USAGE},
]


class Stand:
    """A home, four projects, and a queue over them."""

    def __init__(
        self, folder: Path, executor: str = "local", environ: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.home = folder / "kode"
        self.executor = ["--executor", executor]
        self.more = environ or {}
        (folder / "kode").mkdir(parents=True)
        prices = {"prices": {"scripted": {"input": 1000, "output": 1000}}}
        (folder / "kode/config.json").write_text(json.dumps(prices))
        (folder / "script.json").write_text(json.dumps(REPLIES))
        rows = []
        for number in range(TASKS):
            (folder / f"p{number}").mkdir()
            row = {"task": f"Task {number}", "cwd": f"p{number}", "id": f"p{number}"}
            rows.append(json.dumps({**row, "mode": "full", "isolate": "none"}))
        (folder / "tasks.jsonl").write_text("\n".join(rows))

    @property
    def environ(self) -> dict[str, str]:
        folder = str(self.folder)
        names = {"HOME": folder, "KODE_HOME": f"{folder}/kode", "LANG": "C.UTF-8"}
        return {**names, "PATH": os.environ["PATH"], **self.more}

    @property
    def run(self) -> list[str]:
        line = [sys.executable, KODE, "fleet", "run", "tasks.jsonl"]
        line += [*self.executor, "--jobs", str(JOBS), "--budget-usd", str(LIMIT_USD)]
        return [*line, "--", "--script", str(self.folder / "script.json"), "--no-memory"]

    @property
    def resume(self) -> list[str]:
        return [sys.executable, KODE, "fleet", "resume", *self.executor]

    def start(self, argv: list[str]) -> "subprocess.Popen[bytes]":
        out, err = ((self.folder / name).open("ab") for name in ("out", "err"))
        with out, err:
            return subprocess.Popen(
                argv, cwd=self.folder, env=self.environ, stdin=subprocess.DEVNULL, stdout=out,
                stderr=err,
            )  # fmt: skip

    def spent_usd(self) -> float:
        """What all sessions say they cost."""
        spent = 0.0
        for path in (self.folder / "kode/sessions").glob("*.jsonl"):
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                spent += entry.get("cost_usd", 0.0) if entry["type"] == "message" else 0.0
        return spent

    def continue_it(self) -> list[str]:
        """Has the fleet come to its end, first within its budget; what is wrong then."""
        argv = self.resume if queues(self.home) else self.run
        self.start(argv).wait(120)
        faults = []
        if (spent := self.spent_usd()) > LIMIT_USD + JOBS * REPLY_USD:
            faults.append(f"${spent} spent of ${LIMIT_USD}")
        self.start([*self.resume, "--budget-usd", "100"]).wait(120)
        return faults + self.wrong()

    def wrong(self) -> list[str]:
        queue = open_queue(self.home, None)
        lines = (queue.folder / "log.jsonl").read_text().splitlines()
        ends = Counter(r["task"] for r in map(json.loads, lines) if r["type"] == "finished")
        faults = []
        for name, one in queue.state.tasks.items():
            end = one.finished
            if end is None or end.status != "success" or ends[name] != 1:
                faults.append(f"{name} ended {ends[name]} times: {end}")
            effects = self.folder / name / "effects"
            times = effects.read_text().count("done") if effects.exists() else 0
            if times > 1 or (times == 0 and len(one.starts) < 2):
                faults.append(f"{name} took effect {times} times in {len(one.starts)} starts")
        budget = queue.budget()
        if budget is None or abs(budget.spent_usd - self.spent_usd()) > 1e-6:
            faults.append(f"the budget says {budget and budget.spent_usd}, not {self.spent_usd()}")
        return faults


@pytest.mark.timeout(7200 if EVERYTHING else 600)
def test_a_fleet_killed_while_writing_its_queue_continues(tmp_path: Path) -> None:
    strace.needed()
    stand = Stand(tmp_path / "recorded")
    calls, done = strace.record(stand.run, environ=stand.environ, cwd=stand.folder)
    assert done.returncode in (0, 1), done.stderr
    own = [call for call in calls if call.pid == calls[0].pid]
    every = strace.kill_points(own, [stand.home / "queues"])
    points = sample(every, WRITES, "fleet")
    faults, kills = [], 0
    for number, (name, count) in enumerate(points):
        stand = Stand(tmp_path / str(number))
        killed = strace.injected(stand.run, name, "signal=KILL", count, threads=False)
        kills += stand.start(killed).wait(120) != 0
        faults += [f"{name} {count}: {fault}" for fault in stand.continue_it()]
        shutil.rmtree(stand.folder)
    print(f"\nfleet: killed at {kills} of {len(every)} writes")
    assert faults == [], "\n".join(faults)


@pytest.mark.timeout(7200 if EVERYTHING else 600)
def test_a_fleet_killed_at_any_moment_is_continued(tmp_path: Path) -> None:
    draw = draws("fleet")
    faults = []
    for number in range(MOMENTS):
        stand = Stand(tmp_path / str(number))
        driver = stand.start(stand.run)
        after_s, with_all = draw.uniform(0.2, 4.0), draw.random() < 0.5
        time.sleep(after_s)  # the moment itself is what is random here
        if with_all:
            kill_all_below(driver.pid)
        driver.kill()
        driver.wait()
        faults += [f"{after_s:.2f} s, all {with_all}: {fault}" for fault in stand.continue_it()]
        shutil.rmtree(stand.folder)
    print(f"\nfleet: killed at {MOMENTS} moments, seed {SEED}")
    assert faults == [], "\n".join(faults)


def kill_all_below(pid: int) -> None:
    """As when the machine goes: nobody is there to see another one end."""
    os.kill(pid, signal.SIGSTOP)
    for child in below(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def below(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        threads = Path(f"/proc/{pid}/task").iterdir()
        children = [int(one) for t in threads for one in (t / "children").read_text().split()]
        return children + [deeper for child in children for deeper in below(child)]
    return []
