"""A Ray cluster on this machine, in a process of its own. `python -m tests.e2e.ray_nodes` prints
its address; then each line on stdin adds a node of one CPU, or kills one: `add NAME`, `kill NAME`.
It answers with a line once that is done, and ends with its stdin.
"""

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
STORE_BYTES = 80 * 2**20
"""The least that Ray takes."""
START_S = 120


@dataclass
class Cluster:
    """What a test needs of it."""

    process: "subprocess.Popen[str]"
    environ: dict[str, str]
    """For a driver."""

    def add(self, name: str) -> None:
        self._say(f"add {name}")

    def kill(self, name: str) -> None:
        """As when a machine goes."""
        self._say(f"kill {name}")

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"


@contextlib.contextmanager
def cluster(environ: dict[str, str]) -> Iterator[Cluster]:
    """A cluster whose head has no CPU for tasks, so that each runs on a node that was added."""
    # A short path: Ray's sockets lie deep below it.
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        of_ray = {"RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0"}
        command = [sys.executable, "-m", "tests.e2e.ray_nodes"]
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env={**environ, **of_ray},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address
            yield Cluster(process, {**of_ray, "RAY_ADDRESS": address})


def main() -> None:
    """Serves stdin."""
    from ray.cluster_utils import Cluster as Nodes

    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE_BYTES}
    nodes = Nodes(initialize_head=True, head_node_args=head)
    print(nodes.address, flush=True)
    added = {}
    for line in sys.stdin:
        word, name = line.split()
        if word == "add":
            added[name] = nodes.add_node(
                wait=False, num_cpus=1, object_store_memory=STORE_BYTES, resources={name: 1}
            )
            nodes.wait_for_nodes(timeout=START_S)
        else:
            nodes.remove_node(added.pop(name), allow_graceful=False)
        print("done", flush=True)
    nodes.shutdown()


if __name__ == "__main__":
    main()
