"""A fleet on two nodes of Ray. The driver, a worker or a node is killed at a random moment: no task
is lost, none ends twice, no effect is repeated, and the budget holds.

Here one of each; `make faults` takes a hundred.
"""

import contextlib
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from kode.errors import KodeError
from kode.plugins.fleet.queue import open_queue
from tests.e2e.ray_nodes import Cluster, cluster
from tests.effort import EVERYTHING, SEED, draws
from tests.faults.test_fleet_kills import Stand
from tests.needs import needs

MOMENTS = 100 if EVERYTHING else 3
LONGEST_S = 8.0
"""The fleet takes about that long, from the first word to Ray to the last result."""


@needs("ray")
@pytest.mark.timeout(7200 if EVERYTHING else 600)
def test_a_fleet_on_ray_killed_at_any_moment_is_continued(tmp_path: Path) -> None:
    draw = draws("fleet on Ray")
    faults = []
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with cluster(environ) as nodes:
        for name in ("first", "second"):
            nodes.add(name)
        for number in range(MOMENTS):
            stand = Stand(tmp_path / str(number), "ray", {**nodes.environ, "HOME": str(tmp_path)})
            victim = ("driver", "worker", "node")[number % 3]
            after_s = draw.uniform(1.0, LONGEST_S)
            driver = stand.start(stand.run)
            time.sleep(after_s)  # the moment itself is what is random here
            if victim == "driver":
                driver.kill()
            elif victim == "worker":
                kill_a_worker(stand, draw)
            else:
                kill_a_node(nodes, draw)
            driver.wait(240)
            faults += [f"{victim}, {after_s:.2f} s: {fault}" for fault in stand.continue_it()]
            shutil.rmtree(stand.folder)
    print(f"\nfleet on Ray: killed at {MOMENTS} moments, seed {SEED}")
    assert faults == [], "\n".join(faults)


def kill_a_worker(stand: Stand, draw: random.Random) -> None:
    with contextlib.suppress(KodeError):  # there is no queue yet
        queue = open_queue(stand.home, None)
        leases = [one.lease for one in queue.state.open_tasks() if one.lease is not None]
        for lease in draw.sample(leases, min(1, len(leases))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(lease.pid, signal.SIGKILL)


def kill_a_node(nodes: Cluster, draw: random.Random) -> None:
    name = draw.choice(("first", "second"))
    nodes.kill(name)
    nodes.add(name)
