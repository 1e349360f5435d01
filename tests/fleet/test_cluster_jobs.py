"""What a cluster is given to run a queue."""

import subprocess
from pathlib import Path

import pytest
import yaml

from kode.errors import ConfigError
from kode.fleet.cluster_jobs import Shared, kubernetes, slurm
from kode.fleet.queue import Queue
from kode.fleet.records import Finished, Fleet, Leased, Task
from tests.needs import needs

FLEET = Fleet(id="20260102-030405-a1b2c3", created_at="", jobs=2, trees="/shared/trees")
HOME = Path("/shared/home")
PODS = Shared(image="registry/kode:1", claim="work", folder=Path("/shared"))


def queue_of(*sources: str, ended: tuple[int, ...] = (), folder: str = "/shared/my queue") -> Queue:
    tasks = [
        Task(id=str(n), task="Do it.", source=source, isolate="none")
        for n, source in enumerate(sources)
    ]
    queue = Queue(Path(folder), FLEET, tasks)
    for n in ended:
        leased = {"task": str(n), "lease": f"l{n}"}
        queue.state.take(
            Leased(**leased, worker="w", host="h", pid=1, until=9e9, session=f"session-{n}")
        )
        queue.state.take(Finished(**leased, at=1.0, status="success"))
    return queue


def worker_of(script: str, variable: str, index: int, kode: str) -> list[str]:
    """The words of the command that an index of the array comes to; `kode` is a program that prints
    what it gets."""
    done = subprocess.run(
        ["bash", "-c", script],
        env={variable: str(index), "PATH": f"{Path(kode).parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.fixture
def kode(tmp_path: Path) -> str:
    program = tmp_path / "kode"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    return str(program)


def both(queue: Queue, kode: str) -> list[tuple[str, str]]:
    """(script, the variable of its index) of both kinds."""
    [container] = yaml.safe_load(kubernetes(queue, HOME, PODS))["spec"]["template"]["spec"][
        "containers"
    ]
    *shell, script = container["command"]
    assert shell == ["/bin/sh", "-c"]
    return [
        (slurm(queue, HOME, Path(kode)), "SLURM_ARRAY_TASK_ID"),
        (script, "JOB_COMPLETION_INDEX"),
    ]


def test_each_index_is_the_worker_of_one_task(kode: str) -> None:
    queue = queue_of("/shared/a", "/shared/b", "/shared/c")

    for script, variable in both(queue, kode):
        started = [worker_of(script, variable, index, kode) for index in range(3)]
        assert started == [
            ["fleet", "worker", "/shared/my queue", "--index", str(index)] for index in range(3)
        ]


def test_a_half_done_queue_gives_indexes_to_open_tasks(kode: str) -> None:
    queue = queue_of(*["/shared/a"] * 5, ended=(0, 2, 3))

    for script, variable in both(queue, kode):
        started = [worker_of(script, variable, index, kode)[-1] for index in range(2)]
        assert started == ["1", "4"]
    assert "#SBATCH --array=0-1%2" in slurm(queue, HOME, Path(kode))
    spec = yaml.safe_load(kubernetes(queue, HOME, PODS))["spec"]
    assert (spec["completions"], spec["parallelism"]) == (2, 2)


def test_a_queue_in_which_nothing_is_open_is_no_job() -> None:
    queue = queue_of("/shared/a", ended=(0,))

    with pytest.raises(ConfigError, match="nothing to run"):
        slurm(queue, HOME, Path("kode"))
    with pytest.raises(ConfigError, match="nothing to run"):
        kubernetes(queue, HOME, PODS)


def test_slurm_reads_its_lines_before_the_first_command(kode: str) -> None:
    lines = slurm(queue_of("/shared/a", folder="/100%/q"), HOME, Path(kode)).splitlines()

    commands = [n for n, line in enumerate(lines) if not line.startswith("#")]
    assert all(line.startswith("#") for line in lines[: commands[0]])
    assert '#SBATCH --output="/100%%/q/slurm-%A-%a.out"' in lines


def test_a_pod_is_started_again_unless_its_task_has_failed(kode: str) -> None:
    spec = yaml.safe_load(kubernetes(queue_of("/shared/a"), HOME, PODS))["spec"]

    assert spec["completionMode"] == "Indexed"
    assert spec["backoffLimitPerIndex"] > 0
    assert spec["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"] == [1, 3]
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize(
    ("queue", "home", "named"),
    [
        (queue_of("/shared/a", folder="/root/q"), HOME, "The queue is /root/q"),
        (queue_of("/shared/a"), Path("/root/.kode"), "KODE_HOME"),
        (queue_of("/shared/a", "/root/b"), HOME, "The project of task 1"),
    ],
)
def test_paths_a_pod_cannot_see_are_named(queue: Queue, home: Path, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        kubernetes(queue, home, PODS)


def test_a_fetched_project_may_lie_outside_the_shared_folder() -> None:
    assert kubernetes(queue_of("https://host/a.git"), HOME, PODS)


@needs("kubernetes_validate")
def test_the_job_is_one_that_kubernetes_takes() -> None:
    validate = pytest.importorskip("kubernetes_validate")
    job = yaml.safe_load(kubernetes(queue_of("/shared/a"), HOME, PODS))

    validate.validate(job, "1.37", strict=True)
