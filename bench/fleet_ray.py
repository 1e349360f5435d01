"""What a second node of Ray brings: `python -m bench.fleet_ray [--tasks N] [--json]`.

    one_node_s, two_nodes_s  the same queue of tasks on a cluster with one node, and with two, from
                             the driver's start to its end
    speed_up                 the first over the second; 2 would be ideal
    local_s                  the same without Ray, with as many tasks at once as two nodes have
    connect_s                of each time on Ray: until it has its first task
    same, lost, repeated     whether all three came to the same; tasks without an end; tasks that
                             were started, or took effect, more than once

A node takes eight tasks at once. Each is a session of two replies by a script, with a command in
between that waits twenty seconds, as for a model. All of it is one machine: the start of a `kode
run`, about a second of processor time, is shared by both nodes, and that is what the speed-up lacks
where its cores are busy.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.fleet import is_repeated
from bench.measure import KODE, report, workplace
from kode.plugins.fleet.queue import open_queue
from tests.e2e.ray_nodes import cluster

AT_ONCE = 8
"""Of a node with one CPU."""
SCRIPT = [
    {
        "match": "Task",
        "calls": [{"name": "shell", "arguments": {"command": "sleep 20; echo done >> effects"}}],
        "then": [{"text": "Done."}],
    }
]


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    parser = argparse.ArgumentParser(prog="python -m bench.fleet_ray")
    parser.add_argument("--tasks", type=int, default=64)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    if importlib.util.find_spec("ray") is None:
        print("needs Ray: pip install 'kode[ray]'")
        return 0
    with workplace("http://127.0.0.1:9/v1") as (project, environ), cluster(environ) as nodes:
        (project / "script.json").write_text(json.dumps(SCRIPT))
        on_ray = {**environ, **nodes.environ}
        ran = {}
        for name in ("one_node", "two_nodes"):
            nodes.add(name)
            ran[name] = _fleet(project, on_ray, name, arguments.tasks, "ray")
        ran["local"] = _fleet(project, environ, "local", arguments.tasks, "local")
    figures: dict[str, Any] = {"tasks": arguments.tasks}
    figures |= {f"{name}_s": round(one["wall_s"], 1) for name, one in ran.items()}
    figures["speed_up"] = round(ran["one_node"]["wall_s"] / ran["two_nodes"]["wall_s"], 2)
    figures["connect_s"] = round(ran["two_nodes"]["first_s"], 1)
    figures["same"] = len({str(one["results"]) for one in ran.values()}) == 1
    figures |= {name: sum(one[name] for one in ran.values()) for name in ("lost", "repeated")}
    return report(figures, as_json=arguments.json)


def _fleet(
    project: Path, environ: Mapping[str, str], name: str, tasks: int, executor: str
) -> dict[str, Any]:
    rows = [{"task": f"Task {number}", "cwd": f"{name}/{number}"} for number in range(tasks)]
    for row in rows:
        (project / row["cwd"]).mkdir(parents=True)
    (project / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    queue = project / f"queue-{name}"
    line = [KODE, "fleet", "run", "tasks.jsonl", "--queue", str(queue), "--executor", executor]
    line += ["--jobs", str(2 * AT_ONCE)]
    line += ["--ray-resources", f"CPU={1 / AT_ONCE}"] if executor == "ray" else []
    line += ["--isolate", "none", "--permission-mode", "full"]
    line += ["--", "--script", str(project / "script.json"), "--no-memory"]
    began = time.monotonic()
    driver = subprocess.Popen(
        line, cwd=project, env=dict(environ), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    assert driver.stdout is not None
    first_s = 0.0
    for _ in driver.stdout:
        first_s = first_s or time.monotonic() - began
    driver.wait()
    states = open_queue(project, str(queue)).state.tasks.values()
    ends = [one.finished for one in states]
    return {
        "wall_s": time.monotonic() - began,
        "first_s": first_s,
        "results": [end and (end.task, end.status, end.steps, end.answer) for end in ends],
        "lost": ends.count(None),
        "repeated": sum(map(is_repeated, states)),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
