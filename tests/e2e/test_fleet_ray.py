"""`kode fleet` on a Ray cluster of two nodes, both on this machine."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kode.plugins.fleet.queue import open_queue
from kode.plugins.fleet.records import Leased
from tests.e2e.command import Finished, Place
from tests.e2e.ray_nodes import Cluster, cluster
from tests.needs import needs

pytestmark = [
    pytest.mark.sampled(of=3),
    needs("ray"),
    pytest.mark.timeout(300),
]

ON_RAY = ("--executor", "ray")
ENDED_S = 120
DONE = {"text": "Done."}
RETRIES = 3
"""How many lost workers in a row a fleet on Ray replaces."""
WAIT = "echo waited >> effects; touch begun; while [ ! -e ../go ]; do sleep 0.1; done"
SCRIPT: list[dict[str, Any]] = [
    {"match": "was interrupted", **DONE},
    {
        "match": "Wait",
        "calls": [{"name": "shell", "arguments": {"command": WAIT}}],
        "then": [DONE],
    },
    {
        "match": "Write",
        "calls": [{"name": "write_file", "arguments": {"path": "one.txt", "content": "1\n"}}],
        "then": [DONE],
    },
    {"match": "Fail", "error": {"status": 400}},
]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Each with room for one task. The keys to Ray are in HOME."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path_factory.mktemp("ray"))}
    with cluster(environ) as started:
        started.environ["HOME"] = environ["HOME"]
        started.add("first")
        started.add("second")
        yield started


@pytest.fixture
def place(tmp_path: Path, nodes: Cluster) -> "RayPlace":
    # A node knows nothing of this environment, so no model may be named in it.
    return RayPlace(tmp_path, extra={**nodes.environ, "KODE_MODEL": ""})


class RayPlace(Place):
    """Tasks about folders of their own, with what each did there."""

    def __post_init__(self) -> None:
        super().__post_init__()
        (self.folder / "script.json").write_text(json.dumps(SCRIPT))

    def tasks(self, *rows: dict[str, Any]) -> list[str]:
        """The arguments that start them."""
        for row in rows:
            (self.project / row["id"]).mkdir()
        lines = [json.dumps({**row, "cwd": row["id"]}) + "\n" for row in rows]
        (self.folder / "tasks.jsonl").write_text("".join(lines))
        script = str(self.folder / "script.json")
        return [str(self.folder / "tasks.jsonl"), "--", "--script", script, "--no-memory"]

    def waiting(self, *names: str) -> list[str]:
        """Tasks that wait until the test lets them go on."""
        shared = {"task": "Wait", "mode": "full", "isolate": "none"}
        return self.tasks(*({**shared, "id": name} for name in names))

    def let_go(self) -> None:
        (self.project / "go").touch()

    def begun(self) -> list[str]:
        return [path.parent.name for path in self.project.glob("*/begun")]

    def effects(self) -> dict[str, str]:
        return {path.parent.name: path.read_text() for path in self.project.glob("*/effects")}

    def a_worker_is_gone(self) -> bool:
        queue = open_queue(self.home, None)
        return any(one.lease and queue.is_free(one) for one in queue.state.open_tasks())

    def lease(self) -> Leased | None:
        """That of the only task, while a worker has it."""
        [one] = open_queue(self.home, None).state.open_tasks()
        return one.lease

    def rows(self, *fleet: str) -> dict[str, dict[str, Any]]:
        ran = self.run("fleet", "status", *fleet, "--json")
        return {row["task"]: row for row in ran.lines}


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + ENDED_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def ended(driver: "subprocess.Popen[str]") -> Finished:
    out, err = driver.communicate(timeout=ENDED_S)
    return Finished(driver.returncode, out, err)


def test_a_queue_comes_to_the_same_on_ray_as_here(place: RayPlace) -> None:
    tasks = place.tasks(
        {"id": "writes", "task": "Write", "verify": "test -e one.txt"},
        {"id": "fails", "task": "Fail"},
        {"id": "wanting", "task": "Write", "verify": "test -e two.txt"},
    )
    found = []
    for executor in ("local", "ray"):
        with place.start("fleet", "run", "--executor", executor, *tasks) as driver:
            ran = ended(driver)
        assert ran.code == 1, ran.err
        assert [line["type"] for line in ran.lines].count("finished") == 3
        rows = place.rows(ran.lines[-1]["id"])
        same = ("status", "verify", "files", "steps", "cost_usd", "answer", "starts")
        found.append(
            {
                name: [row[key] for key in same] + [row["patch"] and Path(row["patch"]).read_text()]
                for name, row in rows.items()
            }
        )
    assert found[0] == found[1]
    assert [row[0] for row in found[0].values()] == ["success", "error", "success"]


def test_a_node_that_is_lost_loses_nothing(place: RayPlace, nodes: Cluster) -> None:
    names = ["a", "b", "c"]
    with place.start("fleet", "run", *ON_RAY, *place.waiting(*names)) as driver:
        wait_until(lambda: len(place.begun()) == 2)
        before = place.rows()
        nodes.kill("second")
        wait_until(place.a_worker_is_gone)
        place.let_go()
        ran = ended(driver)
    nodes.add("second")
    assert ran.code == 0, ran.err
    assert [line["type"] for line in ran.lines].count("finished") == 3
    after = place.rows()
    assert [row["status"] for row in after.values()] == ["success"] * 3
    assert sorted(row["starts"] for row in after.values()) == [1, 1, 2]
    lost = next(row for row in after.values() if row["starts"] == 2)
    assert lost["session"] == before[lost["task"]]["session"]
    assert place.effects() == dict.fromkeys(names, "waited\n")


@pytest.mark.parametrize("executor", ["ray", "local"])
def test_a_fleet_whose_driver_was_killed_on_ray_is_continued(
    executor: str, place: RayPlace
) -> None:
    with place.start("fleet", "run", *ON_RAY, *place.waiting("a", "b")) as driver:
        wait_until(lambda: len(place.begun()) == 2)
        driver.kill()
        driver.communicate()
    before = place.rows()
    place.let_go()
    with place.start("fleet", "resume", "--executor", executor) as driver:
        ran = ended(driver)
    assert ran.code == 0, ran.err
    after = place.rows()
    assert {name: row["session"] for name, row in after.items()} == {
        name: row["session"] for name, row in before.items()
    }
    assert place.effects() == dict.fromkeys("ab", "waited\n")


def test_workers_that_are_always_killed_are_not_started_forever(place: RayPlace) -> None:
    with place.start("fleet", "run", *ON_RAY, *place.waiting("a")) as driver:
        wait_until(place.begun)
        killed: set[str] = set()
        while len(killed) < RETRIES + 1:
            wait_until(lambda: (lease := place.lease()) and lease.lease not in killed)
            lease = place.lease()
            assert lease is not None
            killed.add(lease.lease)
            os.kill(lease.pid, signal.SIGKILL)
        ran = ended(driver)
    assert ran.code == 1
    assert {line["type"] for line in ran.lines} <= {"started"}  # and nothing that Ray says
    assert "ended no task (WorkerCrashedError)" in ran.err
    place.let_go()
    with place.start("fleet", "resume", *ON_RAY) as driver:
        assert ended(driver).code == 0
    assert place.rows()["a"]["status"] == "success"


def test_no_more_tasks_run_at_once_than_wanted(place: RayPlace) -> None:
    tasks = place.tasks(*({"id": name, "task": "Write"} for name in "abc"))
    with place.start("fleet", "run", *ON_RAY, "--jobs", "1", *tasks) as driver:
        assert ended(driver).code == 0
    log = open_queue(place.home, None).folder / "log.jsonl"
    types = [json.loads(line)["type"] for line in log.read_text().splitlines()]
    assert types == ["leased", "started", "finished"] * 3


def test_modules_of_a_project_are_no_part_of_a_worker(place: RayPlace) -> None:
    """Ray has its workers look for modules in the working directory of their driver."""
    (place.project / "kode").mkdir()
    (place.project / "kode/__init__.py").write_text("raise SystemExit('imported')")
    with place.start("fleet", "run", *ON_RAY, *place.tasks({"id": "a", "task": "Write"})) as driver:
        ran = ended(driver)
    assert ran.code == 0, ran.err


def test_a_node_without_the_shared_folder_is_named(place: RayPlace) -> None:
    hidden = place.folder / "hidden"
    with place.start("fleet", "run", *ON_RAY, *place.waiting("a", "b", "c")) as driver:
        wait_until(lambda: len(place.begun()) == 2)
        queue = open_queue(place.home, None)
        queue.folder.rename(hidden)
        place.let_go()
        ran = ended(driver)
    assert ran.code == 3
    assert "Every node needs KODE_HOME" in ran.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_gives_back_what_ray_has(number: signal.Signals, place: RayPlace) -> None:
    with place.start("fleet", "run", *ON_RAY, *place.waiting("a", "b", "c")) as driver:
        wait_until(lambda: len(place.begun()) == 2)
        driver.send_signal(number)
        ran = ended(driver)
    assert ran.code == 130, ran.err
    assert [line["type"] for line in ran.lines].count("released") == 2
    found = sorted(row["status"] for row in place.rows().values())
    assert found == ["interrupted", "interrupted", "waiting"]


def test_cancel_reaches_what_ray_has(place: RayPlace) -> None:
    with place.start("fleet", "run", *ON_RAY, *place.waiting("a", "b", "c")) as driver:
        wait_until(lambda: len(place.begun()) == 2)
        assert place.run("fleet", "cancel").code == 0
        ran = ended(driver)
    assert ran.code == 1
    assert {row["status"] for row in place.rows().values()} == {"cancelled"}


def test_an_address_where_no_cluster_is_is_named(place: RayPlace) -> None:
    place.extra["RAY_ADDRESS"] = "127.0.0.1:9"
    ran = place.run("fleet", "run", *ON_RAY, *place.waiting("a"))
    assert ran.code == 3
    assert "Connection refused" in ran.err
