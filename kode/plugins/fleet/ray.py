"""Runs the workers of a queue on a Ray cluster, each as one Ray task on a node that Ray chooses.
The queue's folder has all state and all results: Ray neither carries nor stores any.

Ray's own retries are off, because a retry would occupy part of a node. If a worker or its node is
lost, its task is free as soon as the lock is gone, and a new worker is submitted here.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError, TaskCancelledError

from kode.plugin import KodeError, UserError, kode_home, kode_version
from kode.plugins.fleet.queue import Queue, Show, open_queue
from kode.plugins.fleet.worker import END_GRACE_S, POLL_S, run_tasks

RETRIES = 3
"""How many workers may be lost in a row before a task ends; one more stops the fleet."""
CONNECT_S = 15.0
END_S = END_GRACE_S + 10.0
"""How long cancelled workers get to release their tasks."""


async def work_on_ray(queue: Queue, show: Show) -> None:
    """Runs a queue with `queue.fleet.jobs` workers; Ray reserves a CPU for each. Uses the
    cluster of `RAY_ADDRESS`, else one running on this machine, else one that it starts here for the
    duration.

    Raises: UserError if the cluster cannot be reached or has no CPU, or a node lacks kode or the
    shared folder; KodeError if workers were lost again and again; StorageError.
    """
    # In a thread: in the main thread, Ray would install its own handler of SIGTERM.
    await asyncio.to_thread(_connect_to_ray, queue)
    workers: dict[asyncio.Future[str], Any] = {}
    """The future of each running worker → Ray's reference to it."""
    lost = 0
    try:
        while True:
            left = 0 if queue.explain_stop() else len(list(queue.state.open_tasks()))
            while len(workers) < min(queue.fleet.jobs, left):
                function = ray.remote(run_worker).options(num_cpus=1, max_retries=0)
                ref = function.remote(queue.fleet.id, str(kode_home()))
                workers[asyncio.wrap_future(ref.future())] = ref
            if not workers:
                return
            await asyncio.wait(workers, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
            ended = [worker for worker in workers if worker.done()]
            lost = 0 if "finished" in _show_new(queue, show) else lost
            for worker in ended:
                del workers[worker]
                failure = _describe_loss(worker)
                lost += bool(failure)
                if lost > RETRIES:
                    raise KodeError(
                        f"{lost} Ray workers in a row ended no task ({failure}). Their work is "
                        f"kept: `kode fleet resume {queue.fleet.id}` continues it."
                    )
    finally:
        await asyncio.shield(_cancel_workers(queue, show, workers))


def run_worker(queue_id: str, home: str) -> str:
    """The function that Ray runs on a node: a worker. If cancelled by Ray or terminated, releases
    its task. Returns what is wrong with the node, or ""."""
    os.environ["KODE_HOME"] = home
    try:
        queue = open_queue(Path(home), queue_id)
        asyncio.run(run_tasks(queue, lambda state, record: None, jobs=1))
    except KodeError as error:
        return f"{socket.gethostname()}: {error}"
    return ""


def _show_new(queue: Queue, show: Show) -> set[str]:
    """Shows the new records of the workers; returns the types of all new records."""
    records = queue.refresh()
    for record in records:
        if record.type in ("started", "released", "finished"):
            show(queue.state.tasks[record.task], record)
    return {record.type for record in records}


def _describe_loss(worker: "asyncio.Future[str]") -> str:
    """How a worker was lost; "" if it ended well. Raises: UserError if another would fail, too."""
    try:
        if fault := worker.result():
            raise UserError(
                f"On {fault} Every node needs KODE_HOME, the work trees and the projects under the "
                "same path, on a shared folder."
            )
    except TaskCancelledError:
        return "it was cancelled on the cluster"
    except RayTaskError as error:
        lines = str(error.cause).strip().splitlines() or [type(error.cause).__name__]
        raise UserError(
            f"A Ray worker could not run kode: {lines[-1]}. Every node needs kode {kode_version}: "
            "pip install 'kode[ray]'."
        ) from None
    except RayError as error:
        return type(error).__name__
    return ""


async def _cancel_workers(
    queue: Queue, show: Show, workers: "Mapping[asyncio.Future[str], Any]"
) -> None:
    """Cancels these workers, waits at most `END_S` for them to release tasks, and disconnects."""
    for ref in workers.values():
        with contextlib.suppress(RayError):
            ray.cancel(ref)
    if workers:
        await asyncio.wait(workers, timeout=END_S)
        for worker in workers:
            # asyncio warns about exceptions that nobody has retrieved.
            _ = worker.cancelled() or (worker.done() and worker.exception())
    with contextlib.suppress(KodeError):
        _show_new(queue, show)
    await asyncio.to_thread(ray.shutdown)


def _connect_to_ray(queue: Queue) -> None:
    """Raises: UserError."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray prints what its daemons report to stdout, between our results, and has no setting for it.
    # What matters arrives as a task's error, and Ray's own logs have all of it.
    ray._private.worker.print_to_stdstream = lambda *_, **__: None
    try:
        name, _, port = os.environ.get("RAY_ADDRESS", "").rpartition(":")
        if name and port.isdigit():  # Ray would try for minutes
            socket.create_connection((name.rpartition("/")[2], int(port)), CONNECT_S).close()
        # Ray puts the driver's working directory first in its workers' module path, and they must
        # not import a project's `json.py`.
        with contextlib.chdir(queue.folder):
            ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        if ray.cluster_resources().get("CPU", 0) < 1:  # Ray would wait silently
            raise RuntimeError("no node of it has a CPU")
    except (RayError, OSError, RuntimeError, ValueError) as error:
        reason, *_ = [*str(error).splitlines(), type(error).__name__]
        raise UserError(
            f"No Ray cluster could be used: {reason.rstrip('.')}. `ray status` shows the one of "
            "RAY_ADDRESS or of this machine; --executor local needs none."
        ) from None
