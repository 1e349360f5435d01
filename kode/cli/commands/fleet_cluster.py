"""`kode fleet run --executor print`: prints the queue as a cluster job on stdout."""

import argparse
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kode import paths
from kode.cli.parser import Parser
from kode.cli.screen.lines import clean
from kode.errors import EXIT_OK, ConfigError
from kode.messages import plural

if TYPE_CHECKING:
    from kode.fleet.queue import Queue

PRINT = "print"
"""The executor that only prints what to run."""
FLAGS = ("format", "image", "claim", "shared")


def add_cluster_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("--format", choices=("slurm", "kubernetes"), help="format of the job that `print` writes")
    add("--image", metavar="IMAGE", help="kubernetes: a container image with kode")
    add("--claim", metavar="NAME", help="kubernetes: the volume claim of the shared folder")
    add("--shared", metavar="DIR", help="kubernetes: path of the shared folder in every pod")


def check_cluster_flags(arguments: argparse.Namespace) -> None:
    """Checks the flags before a queue is created. Raises: ConfigError for flags that do not fit."""
    given = [name for name in FLAGS if getattr(arguments, name) is not None]
    if arguments.executor != PRINT:
        if given:
            raise ConfigError(f"--{given[0]} goes with --executor {PRINT} only.")
        return
    if arguments.format is None:
        raise ConfigError(f"--executor {PRINT} needs --format slurm or --format kubernetes.")
    wanted = list(FLAGS) if arguments.format == "kubernetes" else ["format"]
    if missing := [name for name in wanted if name not in given]:
        raise ConfigError(f"--format kubernetes needs --{' and --'.join(missing)}, too.")
    if more := [name for name in given if name not in wanted]:
        raise ConfigError(f"--{more[0]} goes with --format kubernetes only.")


def job_text(queue: "Queue", arguments: argparse.Namespace) -> str:
    """The job of a queue. Raises: ConfigError if it cannot run as one."""
    from kode.fleet.cluster_jobs import Shared, kubernetes, slurm

    if arguments.format == "slurm":
        return slurm(queue, paths.home(), _program())
    folder = Path(arguments.shared).absolute()
    shared = Shared(image=arguments.image, claim=arguments.claim, folder=folder)
    return kubernetes(queue, paths.home(), shared)


def print_job(queue: "Queue", arguments: argparse.Namespace) -> int:
    """Prints the job of a queue, and on stderr what to do with it. Raises: ConfigError."""
    print(job_text(queue, arguments), end="")
    taken_by = "sbatch" if arguments.format == "slurm" else "kubectl create -f -"
    tasks = plural(len(queue.state.tasks), "task")
    said = f"Fleet {queue.fleet.id}: {tasks}, in {queue.folder}. Nothing runs yet: give this to "
    said += f"`{taken_by}`, then look with `kode fleet status {queue.fleet.id}`."
    print(clean(f"kode: {said}"), file=sys.stderr)
    return EXIT_OK


def _program() -> Path:
    """This process's `kode`: a cluster's nodes have it at the same path, or the line in the script
    must be edited."""
    beside = Path(sys.executable).with_name("kode")
    return beside if beside.exists() else Path(shutil.which("kode") or "kode")
