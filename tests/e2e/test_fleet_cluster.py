"""A fleet whose tasks a cluster runs: here its indexes are started by hand, as Slurm and Kubernetes
would, from what `--executor print` wrote."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.command import KODE, Place
from tests.needs import skip_without

DONE = {"text": "Done."}
SCRIPT = [
    *(
        {
            "match": f"Write {name}",
            "calls": [{"name": "write_file", "arguments": {"path": name, "content": "x\n"}}],
            "then": [DONE],
        }
        for name in ("one", "two", "three", "four")
    ),
    {
        "match": "Wait",
        "calls": [{"name": "shell", "arguments": {"command": "touch begun; sleep 600"}}],
        "then": [DONE],
    },
    {"match": "was interrupted", **DONE},
    {"match": "Fail", "error": {"status": 400}},
]


class Cluster(Place):
    """One node: what a scheduler starts, it starts here."""

    def index(self, script: str, variable: str, index: int) -> "subprocess.Popen[bytes]":
        path = f"{Path(KODE).parent}:{os.environ['PATH']}"
        return subprocess.Popen(
            ["bash", "-c", script],
            cwd="/",
            env={**self.environ, variable: str(index), "PATH": path},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wait_for(self, path: Path) -> None:
        deadline = time.monotonic() + 60
        while not path.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def status(self) -> dict[str, dict[str, Any]]:
        return {row["task"]: row for row in self.run("fleet", "status", "--json").lines}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    skip_without("git")
    place = Cluster(tmp_path)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (place.project / "a.txt").write_text("a\n")
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "Begin"]):
        subprocess.run([*git, *arguments], cwd=place.project, check=True)
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    return place


def fleet_of(cluster: Cluster, *tasks: str | dict[str, Any]) -> list[str]:
    rows = [{"task": task} if isinstance(task, str) else task for task in tasks]
    path = cluster.folder / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ["run", str(path)]


def flags(cluster: Cluster) -> list[str]:
    return ["--", "--script", str(cluster.folder / "script.json"), "--no-memory"]


def print_slurm(cluster: Cluster, *arguments: str) -> str:
    more = flags(cluster) if arguments[0] == "run" else []
    ran = cluster.run("fleet", *arguments, "--executor", "print", "--format", "slurm", *more)
    assert ran.code == 0, ran.err
    assert "Nothing runs yet" in ran.err
    return ran.out


def test_array_indexes_run_in_any_order_and_at_once(cluster: Cluster) -> None:
    tasks = [f"Write {name}" for name in ("one", "two", "three", "four")]
    script = print_slurm(cluster, *fleet_of(cluster, *tasks))
    assert {row["status"] for row in cluster.status().values()} == {"waiting"}

    codes = [cluster.index(script, "SLURM_ARRAY_TASK_ID", 2).wait(60)]
    several = [cluster.index(script, "SLURM_ARRAY_TASK_ID", n) for n in (3, 0, 1, 0)]
    codes += [one.wait(60) for one in several]

    assert codes == [0] * 5
    rows = cluster.status()
    assert [(row["status"], row["starts"]) for row in rows.values()] == [("success", 1)] * 4
    assert [row["files"] for row in rows.values()] == [["one"], ["two"], ["three"], ["four"]]
    assert cluster.run("fleet", "collect", "--as", "commit").code == 0
    assert (cluster.project / "three").read_text() == "x\n"


def test_a_lost_node_loses_nothing_and_open_indexes_are_printed(
    cluster: Cluster,
) -> None:
    waits = {"task": "Wait", "mode": "full", "isolate": "none"}
    script = print_slurm(cluster, *fleet_of(cluster, "Write one", waits, "Fail"))
    assert cluster.index(script, "SLURM_ARRAY_TASK_ID", 0).wait(60) == 0
    assert cluster.index(script, "SLURM_ARRAY_TASK_ID", 2).wait(60) == 1
    node = cluster.index(script, "SLURM_ARRAY_TASK_ID", 1)
    cluster.wait_for(cluster.project / "begun")
    node.send_signal(signal.SIGKILL)
    node.wait(60)
    before = cluster.status()

    again = print_slurm(cluster, "resume")
    assert "#SBATCH --array=0-0" in again
    assert cluster.index(again, "SLURM_ARRAY_TASK_ID", 0).wait(60) == 0

    after = cluster.status()
    assert [row["status"] for row in after.values()] == ["success", "success", "error"]
    assert after["2"]["session"] == before["2"]["session"]
    assert after["2"]["starts"] == 2
    assert (after["1"], after["3"]) == (before["1"], before["3"])


def test_a_worker_that_a_scheduler_ends_gives_its_task_back(cluster: Cluster) -> None:
    waits = {"task": "Wait", "mode": "full", "isolate": "none"}
    script = print_slurm(cluster, *fleet_of(cluster, waits))
    node = cluster.index(script, "SLURM_ARRAY_TASK_ID", 0)
    cluster.wait_for(cluster.project / "begun")

    node.send_signal(signal.SIGTERM)

    assert node.wait(60) == 130
    assert cluster.status()["1"]["status"] == "interrupted"


def test_pods_of_an_indexed_job_share_this_machines_queue(cluster: Cluster) -> None:
    given = fleet_of(cluster, "Write one", "Write two", "Write three")
    pods = ["--format", "kubernetes", "--image", "i", "--claim", "c"]
    shared = ["--shared", str(cluster.folder), "--trees", str(cluster.folder / "trees")]
    ran = cluster.run("fleet", *given, "--executor", "print", *pods, *shared, *flags(cluster))
    assert ran.code == 0, ran.err
    [container] = yaml.safe_load(ran.out)["spec"]["template"]["spec"]["containers"]
    script = container["command"][-1]

    several = [cluster.index(script, "JOB_COMPLETION_INDEX", n) for n in (2, 0)]
    assert [one.wait(60) for one in several] == [0, 0]
    assert [row["status"] for row in cluster.status().values()] == ["success", "waiting", "success"]
    assert cluster.run("fleet", "resume").code == 0

    rows = cluster.status()
    assert [(row["status"], row["starts"]) for row in rows.values()] == [("success", 1)] * 3


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--executor", "print"], "--format slurm or --format kubernetes"),
        (["--format", "slurm"], "goes with --executor print only"),
        (["--executor", "print", "--format", "kubernetes", "--claim", "c"], "--image and --shared"),
        (["--executor", "print", "--format", "slurm", "--image", "i"], "with --format kubernetes"),
        (
            "--executor print --format kubernetes --image i --claim c --shared /nowhere".split(),
            "which is not in /nowhere",
        ),
    ],
)
def test_unfitting_flags_are_refused_before_a_queue_exists(
    given: list[str], said: str, cluster: Cluster
) -> None:
    ran = cluster.run("fleet", *fleet_of(cluster, "Write one"), *given)

    assert ran.code == 3
    assert said in ran.err
    assert not (cluster.home / "fleet").exists()
