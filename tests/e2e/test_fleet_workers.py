"""Workers of one queue in processes of their own, as the schedulers of a cluster start them."""

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

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
        for name in ("one", "two", "three")
    ),
    {
        "match": "Wait",
        "calls": [{"name": "shell", "arguments": {"command": "touch begun; sleep 600"}}],
        "then": [DONE],
    },
    {"match": "was interrupted", **DONE},
]
WAITS = {"task": "Wait", "mode": "full", "isolate": "none"}


class Cluster(Place):
    """One node: what a scheduler starts, it starts here."""

    def fleet(self, *arguments: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [KODE, "fleet", *arguments],
            cwd=self.project,
            env=self.environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def begin(self, *tasks: str | dict[str, Any]) -> "subprocess.Popen[bytes]":
        """A driver that works on one task at a time, once it has begun the first, which waits."""
        rows = [{"task": task} if isinstance(task, str) else task for task in (WAITS, *tasks)]
        path = self.folder / "tasks.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        flags = ["--", "--script", str(self.folder / "script.json"), "--no-memory"]
        driver = self.fleet("run", str(path), "--jobs", "1", *flags)
        self.wait_for(self.project / "begun")
        return driver

    def wait_for(self, path: Path) -> None:
        deadline = time.monotonic() + 60
        while not path.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def status(self) -> list[dict[str, Any]]:
        return self.run("fleet", "status", "--json").lines


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    skip_without("git")
    place = Cluster(tmp_path)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (place.project / "there").mkdir()
    (place.project / "a.txt").write_text("a\n")
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "Begin"]):
        subprocess.run([*git, *arguments], cwd=place.project, check=True)
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    return place


def test_workers_join_the_queue_of_a_running_driver(cluster: Cluster) -> None:
    driver = cluster.begin("Write one", "Write two", "Write three")

    indexes = [cluster.fleet("worker", "--index", n) for n in ("3", "1", "2", "1")]
    assert [one.wait(60) for one in indexes] == [0] * 4
    driver.send_signal(signal.SIGINT)
    assert driver.wait(60) == 130

    rows = cluster.status()
    assert [(row["status"], row["starts"]) for row in rows[1:]] == [("success", 1)] * 3
    assert [row["files"] for row in rows[1:]] == [["one"], ["two"], ["three"]]
    assert rows[0]["status"] == "interrupted"
    assert cluster.fleet("worker").wait(60) == 0
    assert cluster.status()[0]["starts"] == 2


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_continues_the_task_of_a_lost_driver(
    how: signal.Signals, cluster: Cluster
) -> None:
    driver = cluster.begin()
    driver.send_signal(how)
    driver.wait(60)

    assert cluster.fleet("worker").wait(60) == 0

    (row,) = cluster.status()
    assert (row["status"], row["starts"]) == ("success", 2)


def test_a_worker_that_a_scheduler_ends_gives_its_task_back(cluster: Cluster) -> None:
    driver = cluster.begin({**WAITS, "cwd": "there"})
    worker = cluster.fleet("worker", "--index", "1")
    cluster.wait_for(cluster.project / "there" / "begun")

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(60) == 130
    assert cluster.status()[1]["status"] == "interrupted"
    driver.send_signal(signal.SIGTERM)
    driver.wait(60)
