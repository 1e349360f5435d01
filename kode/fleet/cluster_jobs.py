"""A queue as a job of a cluster: the text of a Slurm array, or of an indexed Job of Kubernetes.
Pure functions; the cluster's own commands take the text.

Each index is one `kode fleet worker`, which works on one task. That it may be started anywhere, in
any order, killed and started again, is the queue's doing, not this module's.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kode.errors import ConfigError
from kode.fleet.executors import worker_arguments
from kode.fleet.queue import Queue

END_S = 60
"""From SIGTERM to the kill: time for a worker to release its task."""
RETRIES = 3
"""Of an index whose worker was killed or asked to end."""
FAILED = [1, 3]
"""Exit codes after which starting a worker again would change nothing: the task has failed, or the
worker cannot start."""
SECRET = "kode"
"""The secret of Kubernetes whose values become variables, the keys of models among them."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What the pods of a cluster need to know."""

    image: str
    """Has `kode` on its path."""
    claim: str
    """The persistent volume claim of the shared folder."""
    folder: Path
    """Where the shared folder is here, and in every pod."""


def slurm(queue: Queue, home: Path, kode: Path) -> str:
    """A script for `sbatch`: an array with one index for each open task. `kode` is the program's
    path, the same on every node. Raises: ConfigError where no task is open."""
    indexes = _open(queue)
    for name in (queue.fleet.id, str(queue.folder), str(home)):
        if "\n" in name:
            raise ConfigError(f"{name!r} cannot be used in a script: it has a line break.")
    output = str(queue.folder).replace("\\", "\\\\").replace("%", "%%").replace('"', '\\"')
    return "\n".join(
        [
            "#!/bin/bash",
            f"#SBATCH --job-name=kode-{queue.fleet.id}",
            f"#SBATCH --array=0-{len(indexes) - 1}%{queue.fleet.jobs}",
            f'#SBATCH --output="{output}/slurm-%A-%a.out"',
            "#SBATCH --requeue",
            "#SBATCH --open-mode=append",
            f"#SBATCH --signal=B:TERM@{END_S}",
            f"export KODE_HOME={shlex.quote(str(home))}",
            *_command(queue, indexes, shlex.quote(str(kode)), "SLURM_ARRAY_TASK_ID"),
            "",
        ]
    )


def kubernetes(queue: Queue, home: Path, shared: Shared) -> str:
    """A Job for `kubectl create -f -`, as YAML. Raises: ConfigError where no task is open, or what
    a worker needs does not lie in the shared folder."""
    indexes = _open(queue)
    _check_shared(queue, home, shared.folder)
    script = "\n".join(_command(queue, indexes, "kode", "JOB_COMPLETION_INDEX"))
    job: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": f"kode-{queue.fleet.id}-"},
        "spec": {
            "completionMode": "Indexed",
            "completions": len(indexes),
            "parallelism": min(queue.fleet.jobs, len(indexes)),
            "backoffLimitPerIndex": RETRIES,
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailIndex",
                        "onExitCodes": {"operator": "In", "values": FAILED},
                    },
                    {
                        "action": "Ignore",
                        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                    },
                ]
            },
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": END_S,
                    "containers": [
                        {
                            "name": "kode",
                            "image": shared.image,
                            "command": ["/bin/sh", "-c", script],
                            "env": [{"name": "KODE_HOME", "value": str(home)}],
                            "envFrom": [{"secretRef": {"name": SECRET, "optional": True}}],
                            "volumeMounts": [{"name": "shared", "mountPath": str(shared.folder)}],
                        }
                    ],
                    "volumes": [
                        {
                            "name": "shared",
                            "persistentVolumeClaim": {"claimName": shared.claim},
                        }
                    ],
                }
            },
        },
    }
    return str(yaml.safe_dump(job, sort_keys=False))


def _command(queue: Queue, indexes: Sequence[int], kode: str, variable: str) -> list[str]:
    """The lines that become the worker of the task that a variable's index stands for. Only
    open tasks are counted, so that every index has one."""
    lines = [f'index="${variable}"']
    if list(indexes) != list(range(len(indexes))):
        lines = [f"set -- {' '.join(map(str, indexes))}", f'shift "${variable}"', 'index="$1"']
    *words, _ = worker_arguments(queue, "")
    return [*lines, f'exec {kode} {shlex.join(words)} "$index"']


def _open(queue: Queue) -> list[int]:
    """The indexes of the tasks that have not ended. Raises: ConfigError."""
    tasks = queue.state.tasks.values()
    indexes = [index for index, one in enumerate(tasks) if one.finished is None]
    if not indexes:
        raise ConfigError(
            f"Every task of fleet {queue.fleet.id} has ended: there is nothing to run. `kode fleet "
            f"status {queue.fleet.id}` lists them; `resume --failed` has those that failed again."
        )
    return indexes


def _check_shared(queue: Queue, home: Path, shared: Path) -> None:
    """Raises: ConfigError."""
    needed = {"The queue": queue.folder, "KODE_HOME": home, "--trees": Path(queue.fleet.trees)}
    for one in queue.state.tasks.values():
        if one.finished is None and Path(one.task.source).is_absolute():
            needed[f"The project of task {one.task.id}"] = Path(one.task.source)
    for what, path in needed.items():
        if not path.is_relative_to(shared):
            raise ConfigError(
                f"{what} is {path}, which is not in {shared}: a pod would not see it. Move it "
                "there, or name another folder with --shared."
            )
