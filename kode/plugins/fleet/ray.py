"""Runs a queue on a Ray cluster. Each task is one Ray task, which does a worker's job on a node
that Ray chooses. Everything that matters is in the queue: Ray carries no results and stores no
state.

Ray's own retries are off. If a node is lost, its task is free once the lease has expired, or at
once if the worker is seen to be gone; then it is submitted again. Ray's retry would occupy part of
a node while waiting for that.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError, TaskCancelledError

from kode.plugin import KodeError, UserError, paths
from kode.plugin import kode_version as __version__
from kode.plugins.fleet.child import END_GRACE_S
from kode.plugins.fleet.queue import Queue, host, open_queue
from kode.plugins.fleet.state import TaskState
from kode.plugins.fleet.worker import POLL_S, Show, work

RETRIES = 3
"""How often a task that did not end is submitted again."""
ONE_CPU: Mapping[str, float] = {"CPU": 1.0}
END_S = END_GRACE_S + 10.0
"""How long cancelled workers get to release their tasks."""
CONNECT_S = 15.0
"""How long an address may take to accept a connection."""
OWN_OPTIONS = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
"""Resources for which Ray's API has its own parameter."""


async def run_on_ray(
    queue: Queue,
    show: Show,
    *,
    address: str | None = None,
    resources: Mapping[str, float] = ONE_CPU,
    retries: int = RETRIES,
) -> None:
    """Runs a queue on Ray, `queue.fleet.jobs` tasks at once; Ray reserves `resources` for each.
    Without an address, uses the cluster of `RAY_ADDRESS`, else one running on this machine, else
    one that it starts here for the duration.

    Raises: UserError if the cluster cannot be reached, no node has the resources, or a node lacks
    kode or the shared folder; KodeError if a task did not end after `retries` more submissions;
    StorageError.
    """
    # In a thread: in the main thread, Ray would install its own handler of SIGTERM.
    await asyncio.to_thread(_connect, queue, address)
    fleet = _RayFleet(queue, show, resources, retries)
    try:
        _check_that_a_node_has(resources)
        await fleet.run()
    finally:
        await asyncio.shield(fleet.end())


class _RayFleet:
    """One fleet on a connected cluster."""

    def __init__(
        self, queue: Queue, show: Show, resources: Mapping[str, float], retries: int
    ) -> None:
        self.queue = queue
        self.show = show
        self.retries = retries
        self.resources = resources
        self.running: dict[asyncio.Future[str], tuple[str, Any]] = {}
        """Submitted tasks: the id, and Ray's reference."""
        self.submissions: Counter[str] = Counter()
        self.failures: dict[str, str] = {}
        """Why a task's latest submission did not end it, by task id."""

    async def run(self) -> None:
        """Submits tasks until none is left. Raises: KodeError; StorageError."""
        while True:
            for state in self._to_submit():
                self._submit(state)
            if not self.running and self._is_over():
                break
            if self.running:
                await asyncio.wait(
                    self.running, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED
                )
            else:
                await asyncio.sleep(POLL_S)
            self._collect_finished()
        if not self.queue.stopped() and (left := self._exhausted()):
            tasks = "; ".join(f"{name} ({self.failures[name]})" for name in left)
            raise KodeError(
                f"--ray-retries {self.retries} was not enough for {tasks}. Their work is kept: "
                f"`kode fleet resume {self.queue.fleet.id}` continues it."
            )

    async def end(self) -> None:
        """Cancels what Ray still has, so that workers release their tasks, and disconnects."""
        for _, ref in self.running.values():
            with contextlib.suppress(RayError):
                ray.cancel(ref)
        if self.running:
            await asyncio.wait(self.running, timeout=END_S)
            for future in self.running:
                # asyncio warns about exceptions that nobody has retrieved.
                _ = future.cancelled() or (future.done() and future.exception())
        self._show_new()
        await asyncio.to_thread(ray.shutdown)

    def _to_submit(self) -> Iterator[TaskState]:
        """The tasks to submit now. More than `jobs` would only wait in Ray's own queue."""
        if self.queue.stopped():
            return
        names = {name for name, _ in self.running.values()}
        room = self.queue.fleet.jobs - len(names)
        for state in list(self.queue.state.open_tasks()):
            if room <= 0:
                return
            exhausted = self.submissions[state.task.id] > self.retries
            if not exhausted and state.task.id not in names and self.queue.is_free(state):
                room -= 1
                yield state

    def _submit(self, state: TaskState) -> None:
        """Raises: UserError for resources that Ray rejects."""
        own = {OWN_OPTIONS[name]: n for name, n in self.resources.items() if name in OWN_OPTIONS}
        others = {name: n for name, n in self.resources.items() if name not in OWN_OPTIONS}
        options = {"num_cpus": 0, **own, "resources": others, "max_retries": 0}
        try:
            on_ray = ray.remote(run_task).options(**options)
            ref = on_ray.remote(str(self.queue.folder), str(paths.home()), state.task.id)
        except ValueError as error:
            raise UserError(f"--ray-resources: Ray says: {error}") from None
        self.running[asyncio.wrap_future(ref.future())] = state.task.id, ref
        self.submissions[state.task.id] += 1

    def _is_over(self) -> bool:
        open_tasks = {state.task.id for state in self.queue.state.open_tasks()}
        return bool(self.queue.stopped()) or not open_tasks - set(self._exhausted())

    def _exhausted(self) -> list[str]:
        """The open tasks that are not submitted again."""
        return [
            state.task.id
            for state in self.queue.state.open_tasks()
            if self.submissions[state.task.id] > self.retries
        ]

    def _collect_finished(self) -> None:
        """Removes finished submissions. Raises: UserError; StorageError."""
        done = [future for future in self.running if future.done()]
        self._show_new()  # their results are recorded by now
        for future in done:
            name, _ = self.running.pop(future)
            self.failures[name] = _failure(future)

    def _show_new(self) -> None:
        for record in self.queue.refresh():
            if record.type in ("started", "released", "finished"):
                self.show(self.queue.state.tasks[record.task], record)


def run_task(folder: str, home: str, task_id: str) -> str:
    """The function that Ray runs on a node: runs one task of the queue in `folder`. If cancelled by
    Ray or terminated, releases the task. Returns what is wrong with the node, or ""."""
    os.environ["KODE_HOME"] = home
    try:
        queue = open_queue(Path(home), folder)
        asyncio.run(work(queue, lambda state, record: None, jobs=1, only=task_id))
    except KodeError as error:
        return f"{host()}: {error}"
    return ""


def _failure(future: "asyncio.Future[str]") -> str:
    """Why a submission may not have ended its task, in a few words. Raises: UserError if submitting
    it again would not help."""
    try:
        if fault := future.result():
            raise UserError(
                f"On {fault} Every node needs the queue, KODE_HOME, the work trees and the "
                "projects under the same path, on a shared folder."
            )
    except TaskCancelledError:
        return "it was cancelled on the cluster"
    except RayTaskError as error:
        lines = str(error.cause).strip().splitlines() or [type(error.cause).__name__]
        raise UserError(
            f"A Ray worker could not run kode: {lines[-1]}. Every node needs kode {__version__}: "
            "pip install 'kode[ray]'."
        ) from None
    except RayError as error:
        return type(error).__name__
    return "it was released"


def _connect(queue: Queue, address: str | None) -> None:
    """Raises: UserError."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray prints what its daemons report to stdout, between our results, and has no setting for it.
    # What matters arrives as a task's error, and Ray's own logs have all of it.
    ray._private.worker.print_to_stdstream = lambda *_, **__: None
    try:
        _check_address(address or os.environ.get("RAY_ADDRESS", ""))
        # Ray puts the driver's working directory first in its workers' module path, and they must
        # not import a project's `json.py`.
        with contextlib.chdir(queue.folder):
            ray.init(
                address,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except (RayError, OSError, RuntimeError, ValueError) as error:
        text = str(getattr(error, "strerror", "") or error)
        reason, *_ = [*text.splitlines(), type(error).__name__]
        raise UserError(
            f"No Ray cluster could be used{f' at {address}' if address else ''}: "
            f"{reason.rstrip('.')}. `ray status` shows it; --executor local needs none."
        ) from None


def _check_address(address: str) -> None:
    """Checks that somebody listens at an address: Ray would try for minutes. Raises: OSError."""
    name, _, port = address.rpartition(":")
    if name and port.isdigit():
        socket.create_connection((name.rpartition("/")[2], int(port)), CONNECT_S).close()


def _check_that_a_node_has(resources: Mapping[str, float]) -> None:
    """Checks the resources: Ray would wait silently. Raises: UserError."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(all(node.get(name, 0) >= n for name, n in resources.items()) for node in nodes):
        needed = ", ".join(f"{name}={n:g}" for name, n in resources.items())
        most = {name: max((node.get(name, 0) for node in nodes), default=0) for name in resources}
        has = ", ".join(f"{name}={n:g}" for name, n in most.items())
        raise UserError(
            f"A task needs {needed}, and no node of the cluster has that; the most that one has is "
            f"{has}. Ask for less with --ray-resources, or add a node."
        )
