"""What a fleet costs beside its tasks: `python -m bench.fleet [--tasks N] [--jobs N] [--json]`.

    overhead_ratio  the time of a fleet, over the ideal schedule of its tasks plus one start. The
                    ideal schedule gives each task, in order, to the slot that is free first, for as
                    long as its `kode run` process took in this very run
    loop_ratio      the same, over the same command lines started by a plain loop with as many
                    slots: no queue, no work trees, no results. What the driver takes from its own
                    tasks on a busy machine is in here, and not in the first
    lost, repeated  tasks without an end; tasks that were started, or took effect, more than once
    rss_growth_mb   of the driver, from the first tenth of the tasks to the end
    driver_...      the same of the driver alone: a thousand tasks (`--many`) whose process is a
                    `sleep` that prints a result, so that the cores are not what is waited for

Each task is a session of two replies by a script, with one command in between. On a machine with
fewer cores than slots, tasks are slower side by side than alone, in the loop too.
"""

import argparse
import asyncio
import heapq
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.measure import KODE, report, workplace
from kode.plugins.fleet import worker
from kode.plugins.fleet.queue import Fleet, FleetTask, Record, TaskState, create_queue, open_queue
from kode.plugins.fleet.worker import run_tasks

SCRIPT = [
    {
        "match": "Task",
        "calls": [{"name": "shell", "arguments": {"command": "echo done >> effects"}}],
        "then": [{"text": "Done."}],
    }
]
SLEEP_S = 0.5
STARTS = 3
"""Bare starts, of which the median counts."""


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    parser = argparse.ArgumentParser(prog="python -m bench.fleet")
    parser.add_argument("--tasks", type=int, default=48)
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--many", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    with workplace("http://127.0.0.1:9/v1") as (project, environ):
        (project / "script.json").write_text(json.dumps(SCRIPT))
        for number in range(arguments.tasks + STARTS):
            (project / f"p{number}").mkdir()
        start_s = statistics.median(
            _loop_s(project, environ, [arguments.tasks + number], 1) for number in range(STARTS)
        )
        figures = _fleet(project, environ, arguments.tasks, arguments.jobs)
        figures["start_s"] = round(start_s, 3)
        figures["overhead_ratio"] = round(figures["wall_s"] / (figures["ideal_s"] + start_s), 3)
        loop_s = _loop_s(project, environ, range(arguments.tasks), arguments.jobs)
        figures["loop_s"] = round(loop_s, 1)
        figures |= _driver(project, arguments.many, arguments.jobs)
        figures["loop_ratio"] = round(figures["wall_s"] / loop_s, 3)
    return report(figures, as_json=arguments.json)


def _fleet(project: Path, environ: Mapping[str, str], tasks: int, jobs: int) -> dict[str, Any]:
    rows = [{"task": f"Task {number}", "cwd": f"p{number}"} for number in range(tasks)]
    (project / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    line = [KODE, "fleet", "run", "tasks.jsonl", "--jobs", str(jobs)]
    line += ["--isolate", "none", "--permission-mode", "full", "--", *_flags(project)]
    began = time.monotonic()
    driver = subprocess.Popen(
        line, cwd=project, env=dict(environ), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    assert driver.stdout is not None
    rss = []
    for printed in driver.stdout:
        if b'"type": "finished"' in printed:
            rss.append(_rss_mb(driver.pid))
    driver.wait()
    wall_s = time.monotonic() - began
    states = list(open_queue(Path(environ["KODE_HOME"]), None).state.tasks.values())
    ends = [state.finished for state in states]
    times = [end.child_seconds for end in ends if end is not None]
    return {
        "tasks": tasks,
        "jobs": jobs,
        "wall_s": round(wall_s, 1),
        "ideal_s": round(_ideal_s(times, jobs), 1),
        "task_s": round(statistics.median(times), 3),
        "lost": sum(one.finished is None for one in states),
        "repeated": sum(is_repeated(one) for one in states),
        "failed": sum(end is not None and end.status != "success" for end in ends),
        "rss_mb": round(rss[-1], 1),
        "rss_growth_mb": round(rss[-1] - rss[len(rss) // 10], 1),
    }


def _driver(project: Path, many: int, jobs: int) -> dict[str, Any]:
    sleep = f"""sleep {SLEEP_S}; echo '{{"status": "success"}}'"""
    tasks = [
        FleetTask(id=str(number), task="Sleep.", source=str(project), isolate="none")
        for number in range(many)
    ]
    trees = str(project / "trees")
    about = Fleet(id="bench", created_at="", tasks=tuple(tasks), jobs=jobs, trees=trees)
    queue = create_queue(project / "many", about)
    rss = []

    def show(state: TaskState, record: Record) -> None:
        rss.append(_rss_mb(os.getpid()))

    began, cpu_s = time.monotonic(), time.process_time()
    with patch.object(worker, "make_command_line", lambda *_, **__: ["/bin/sh", "-c", sleep]):
        asyncio.run(run_tasks(queue, show, jobs=jobs))
    wall_s = time.monotonic() - began
    ends = [state.finished for state in queue.state.tasks.values()]
    times = [end.child_seconds for end in ends if end is not None]
    return {
        "driver_tasks": many,
        "driver_wall_s": round(wall_s, 1),
        "driver_ratio": round(wall_s / (_ideal_s(times, jobs) + SLEEP_S), 3),
        "driver_cpu_ms_a_task": round((time.process_time() - cpu_s) * 1000 / many, 2),
        "driver_lost": sum(end is None for end in ends),
        "driver_repeated": sum(len(one.starts) != 1 for one in queue.state.tasks.values()),
        "driver_rss_growth_mb": round(rss[-1] - rss[len(rss) // 10], 1),
    }


def _ideal_s(times: Sequence[float], jobs: int) -> float:
    slots = [0.0] * jobs
    for time_s in times:
        heapq.heapreplace(slots, slots[0] + time_s)
    return max(slots)


def is_repeated(state: TaskState) -> bool:
    """Whether a task was started, or took effect, more than once."""
    effects = Path(state.task.source) / "effects"
    return len(state.starts) != 1 or not effects.exists() or effects.read_text().count("done") != 1


def _loop_s(project: Path, environ: Mapping[str, str], numbers: Sequence[int], jobs: int) -> float:
    """The same tasks without a queue."""

    def run(number: int) -> None:
        cwd = str(project / f"p{number}")
        line = [KODE, "run", "--output-format", "json", "--quiet", "--cwd", cwd]
        line += ["--permission-mode", "full", *_flags(project), f"Task {number}"]
        subprocess.run(
            line, env=dict(environ), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True
        )

    began = time.monotonic()
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run, numbers))
    return time.monotonic() - began


def _flags(project: Path) -> list[str]:
    return ["--script", str(project / "script.json"), "--no-memory"]


def _rss_mb(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
