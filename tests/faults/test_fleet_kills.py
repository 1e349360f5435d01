"""A fleet is killed at its own writes and at random moments, alone and with all that it started, on
this machine and on two nodes of Ray: no task is lost, none ends twice, no effect is repeated, and
the budget holds.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from kode.errors import KodeError
from kode.plugins.fleet.queue import list_queues, open_queue
from kode.tools.processes import ProcessTree
from tests.e2e.ray_nodes import Cluster, cluster
from tests.effort import EVERYTHING, SEED, draws
from tests.faults.checks import session_paths
from tests.faults.driver import CommandStory, Stage, try_kills
from tests.faults.place import Place, Run, Shown
from tests.needs import needs

pytestmark = pytest.mark.timeout(7200 if EVERYTHING else 600)

TASKS, JOBS = 4, 2
REPLY_USD = 1.0
LIMIT_USD = 5.5
LONGEST_ON_RAY_S = 8.0
USAGE = {"input_tokens": 1000, "output_tokens": 0}

REPLIES = [
    {
        "match": "Task [0-9]",
        "calls": [{"name": "shell", "arguments": {"command": "echo done >> effects"}}],
        "usage": USAGE,
        "then": [{"text": "Done.", "usage": USAGE}],
    },
    {"match": "interrupted", "text": "Done, after a look.", "usage": USAGE},
]


class Fleet(CommandStory):
    """Four tasks, which a budget does not suffice for."""

    name = "fleet"

    def __init__(self, executor: str = "local") -> None:
        self.executor = ["--executor", executor]

    def prepare(self, place: Place) -> Shown:
        place.configure({"prices": {"scripted": {"input": 1000, "output": 1000}}})
        rows = []
        for number in range(TASKS):
            folder = place.folder / f"p{number}"
            folder.mkdir()
            row = {"task": f"Task {number}", "cwd": str(folder), "id": folder.name}
            rows.append(json.dumps({**row, "mode": "full", "isolate": "none"}))
        (place.folder / "tasks.jsonl").write_text("\n".join(rows))
        return []

    def argv(self, place: Place) -> list[str]:
        limits = ["--jobs", str(JOBS), "--budget-usd", str(LIMIT_USD)]
        tasks = [str(place.folder / "tasks.jsonl"), *self.executor, *limits]
        _, _, *script = place.script(REPLIES)  # the provider is that of the script
        return ["fleet", "run", *tasks, "--", *script, "--no-memory"]

    def start_again(self, place: Place, shown: Shown) -> Run:
        """First within its budget, which is exceeded by a reply of each job at most."""
        resume = ["fleet", "resume", *self.executor]
        place.kode(*(resume if list_queues(place.home) else self.argv(place)))
        if (spent := spent_usd(place)) > LIMIT_USD + JOBS * REPLY_USD:
            return Run(1, "", f"${spent} spent of ${LIMIT_USD}")
        return place.kode(*resume, "--budget-usd", "100")

    def unfinished(self, stage: Stage, shown: Shown, told: Run) -> list[str]:
        return faults_of_queue(stage.place)


def spent_usd(place: Place) -> float:
    """What all sessions say they cost."""
    lines = (line for path in session_paths(place) for line in path.read_text().splitlines())
    entries = [json.loads(line) for line in lines]
    return sum(e.get("cost_usd", 0.0) for e in entries if e["type"] == "message")


def faults_of_queue(place: Place) -> list[str]:
    """What is wrong once all tasks have ended."""
    queue = open_queue(place.home, None)
    lines = (queue.folder / "log.jsonl").read_text().splitlines()
    ends = Counter(r["task"] for r in map(json.loads, lines) if r["type"] == "finished")
    faults = []
    for name, task in queue.state.tasks.items():
        end = task.finished
        if end is None or end.status != "success" or ends[name] != 1:
            faults.append(f"{name} ended {ends[name]} times: {end}")
        effects = place.folder / name / "effects"
        times = effects.read_text().count("done") if effects.exists() else 0
        if times > 1 or (times == 0 and len(task.starts) < 2):
            faults.append(f"{name} took effect {times} times in {len(task.starts)} starts")
    budget, spent = queue.budget(), spent_usd(place)
    if budget is None or abs(budget.spent_usd - spent) > 1e-6:
        faults.append(f"the budget says {budget and budget.spent_usd}, not {spent}")
    return faults


def test_a_fleet_killed_while_writing_its_queue_continues(tmp_path: Path) -> None:
    try_kills(Fleet(), tmp_path)


def test_a_fleet_killed_at_any_moment_is_continued(tmp_path: Path) -> None:
    draw, faults = draws("fleet"), list[str]()
    for number in range(100 if EVERYTHING else 1):
        fleet, place = Fleet(), Place(tmp_path / str(number))
        fleet.prepare(place)
        driver = place.start(*fleet.argv(place))
        after_s, with_all = draw.uniform(0.2, 4.0), draw.random() < 0.5
        time.sleep(after_s)  # the moment itself is what is random here
        if with_all:
            kill_all_below(driver.pid)
        driver.kill()
        driver.communicate()
        where = f"{after_s:.2f} s, all {with_all}"
        faults += [f"{where}: {fault}" for fault in continue_fleet(fleet, place)]
    assert faults == [], "\n".join(faults)


def continue_fleet(fleet: Fleet, place: Place) -> list[str]:
    told = fleet.start_again(place, [])
    faults = [told.err] * (told.code != 0) + faults_of_queue(place)
    shutil.rmtree(place.folder)
    return faults


def kill_all_below(pid: int) -> None:
    """As when the machine goes: nobody is there to see another one end."""
    with contextlib.suppress(ProcessLookupError):  # it has ended
        os.kill(pid, signal.SIGSTOP)
    for child in processes_below(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def processes_below(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        threads = Path(f"/proc/{pid}/task").iterdir()
        children = [int(id) for t in threads for id in (t / "children").read_text().split()]
        return children + [deeper for child in children for deeper in processes_below(child)]
    return []


@needs("ray")
def test_a_fleet_on_ray_killed_at_any_moment_is_continued(tmp_path: Path) -> None:
    """The driver, a worker or a node is killed; one of each where not all moments are tried."""
    draw = draws("fleet on Ray")
    faults = []
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with cluster(environ) as nodes:
        for name in ("first", "second"):
            nodes.add(name)
        for number in range(100 if EVERYTHING else 3):
            fleet = Fleet("ray")
            place = Place(tmp_path / str(number), extra={**nodes.environ, "HOME": str(tmp_path)})
            fleet.prepare(place)
            victim = ("driver", "worker", "node")[number % 3]
            after_s = draw.uniform(1.0, LONGEST_ON_RAY_S)
            driver = place.start(*fleet.argv(place))
            time.sleep(after_s)  # the moment itself is what is random here
            if victim == "driver":
                driver.kill()
            elif victim == "worker":
                kill_a_worker(place, draw)
            else:
                kill_a_node(nodes, draw)
            driver.communicate(timeout=240)
            where = f"{victim}, {after_s:.2f} s, seed {SEED}"
            faults += [f"{where}: {fault}" for fault in continue_fleet(fleet, place)]
    assert faults == [], "\n".join(faults)


def kill_a_worker(place: Place, draw: random.Random) -> None:
    with contextlib.suppress(KodeError, ProcessLookupError):  # no queue yet; ended meanwhile
        tasks = open_queue(place.home, None).state.open_tasks()
        marks = [task.started.mark for task in tasks if task.lease and task.started]
        children = ProcessTree(draw.choice(marks)).find() if marks else []
        for worker in {child.parent for child in children} - {1, *(it.pid for it in children)}:
            os.kill(worker, signal.SIGKILL)


def kill_a_node(nodes: Cluster, draw: random.Random) -> None:
    name = draw.choice(("first", "second"))
    nodes.kill(name)
    nodes.add(name)
