"""On a Ray cluster. Each task is one Ray task, which does what a worker does everywhere, on a node
that Ray chooses. All that counts is in the queue: Ray carries no result, and its store no state.

Ray is asked to start nothing again by itself. A task whose node was lost is free once its lease has
run out, or at once where its process is seen to be gone; then it is handed to Ray again. Ray's own
retry would hold its part of a node while it waits for that.
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

from kode import __version__, paths
from kode.errors import KodeError, UserError
from kode.plugins.fleet.child import END_GRACE_S
from kode.plugins.fleet.queue import Queue, host, open_queue
from kode.plugins.fleet.state import TaskState
from kode.plugins.fleet.worker import POLL_S, Show, work

RETRIES = 3
"""How often a task is handed to Ray again that did not come to an end."""
ONE_CPU: Mapping[str, float] = {"CPU": 1.0}
END_S = END_GRACE_S + 10.0
"""For workers that are asked to end: they give their tasks back."""
CONNECT_S = 15.0
OWN_OPTIONS = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
"""Resources that Ray takes under names of their own."""


async def work_on_ray(
    queue: Queue,
    show: Show,
    *,
    address: str | None = None,
    resources: Mapping[str, float] = ONE_CPU,
    retries: int = RETRIES,
) -> None:
    """Has a queue worked on by Ray, `queue.fleet.jobs` tasks at once; Ray sets `resources` aside
    for each. Without an address it is the cluster of `RAY_ADDRESS`, else one that runs on this
    machine, else one that is started here for as long as this takes.

    Raises: UserError where there is no such cluster, no node has what a task needs, or one lacks
    what every node needs; KodeError where a task came to no end in `retries` more starts;
    StorageError.
    """
    # Not in the main thread, where Ray would put its own handler of SIGTERM.
    await asyncio.to_thread(_connect, queue, address)
    fleet = _OnRay(queue, show, resources, retries)
    try:
        _check_that_a_node_has(resources)
        await fleet.run()
    finally:
        await asyncio.shield(fleet.end())


class _OnRay:
    """One fleet on a cluster that is connected."""

    def __init__(
        self, queue: Queue, show: Show, resources: Mapping[str, float], retries: int
    ) -> None:
        self.queue = queue
        self.show = show
        self.retries = retries
        self.resources = resources
        self.running: dict[asyncio.Future[str], tuple[str, Any]] = {}
        """What Ray has: the id of the task, and Ray's reference."""
        self.submissions: Counter[str] = Counter()
        self.lost: dict[str, str] = {}
        """Tasks that came to no end, and why."""

    async def run(self) -> None:
        """Raises: KodeError."""
        while True:
            for one in self._to_submit():
                self._submit(one)
            if not self.running and self._is_over():
                break
            if self.running:
                await asyncio.wait(
                    self.running, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED
                )
            else:
                await asyncio.sleep(POLL_S)
            self._take_in()
        if not self.queue.stopped() and (left := self._exhausted()):
            why = "; ".join(f"{name} ({self.lost[name]})" for name in left)
            raise KodeError(
                f"--ray-retries {self.retries} was not enough for {why}. What they did is kept: "
                f"`kode fleet resume {self.queue.fleet.id}` continues it."
            )

    async def end(self) -> None:
        """Ends what Ray still has; workers give their tasks back."""
        for _, ref in self.running.values():
            with contextlib.suppress(RayError):
                ray.cancel(ref)
        if self.running:
            await asyncio.wait(self.running, timeout=END_S)
            for future in self.running:
                # Each is looked at, or asyncio says that nobody did.
                _ = future.cancelled() or (future.done() and future.exception())
        self._show_new()
        await asyncio.to_thread(ray.shutdown)

    def _to_submit(self) -> Iterator[TaskState]:
        """What Ray is to have now. Handing over more would only have it wait there."""
        if self.queue.stopped():
            return
        names = {name for name, _ in self.running.values()}
        room = self.queue.fleet.jobs - len(names)
        for one in list(self.queue.state.open_tasks()):
            if room <= 0:
                return
            tried = self.submissions[one.task.id] > self.retries
            if not tried and one.task.id not in names and self.queue.is_free(one):
                room -= 1
                yield one

    def _submit(self, one: TaskState) -> None:
        """Raises: UserError for resources that Ray does not take."""
        own = {OWN_OPTIONS[name]: n for name, n in self.resources.items() if name in OWN_OPTIONS}
        others = {name: n for name, n in self.resources.items() if name not in OWN_OPTIONS}
        options = {"num_cpus": 0, **own, "resources": others, "max_retries": 0}
        try:
            on_ray = ray.remote(work_on_task).options(**options)
            ref = on_ray.remote(str(self.queue.folder), str(paths.home()), one.task.id)
        except ValueError as error:
            raise UserError(f"--ray-resources: Ray says: {error}") from None
        self.running[asyncio.wrap_future(ref.future())] = one.task.id, ref
        self.submissions[one.task.id] += 1

    def _is_over(self) -> bool:
        open_tasks = {one.task.id for one in self.queue.state.open_tasks()}
        return bool(self.queue.stopped()) or not open_tasks - set(self._exhausted())

    def _exhausted(self) -> list[str]:
        """The open tasks that are not handed over again."""
        return [
            one.task.id
            for one in self.queue.state.open_tasks()
            if self.submissions[one.task.id] > self.retries
        ]

    def _take_in(self) -> None:
        """What came of what Ray had. Raises: UserError; StorageError."""
        done = [future for future in self.running if future.done()]
        self._show_new()  # after that: what they came to is on record
        for future in done:
            name, _ = self.running.pop(future)
            self.lost[name] = _why(future)

    def _show_new(self) -> None:
        for record in self.queue.refresh():
            if record.type in ("started", "released", "finished"):
                self.show(self.queue.state.tasks[record.task], record)


def work_on_task(folder: str, home: str, task_id: str) -> str:
    """What one Ray task does, on some node: works on one task of the queue in `folder`. Cancelled
    by Ray or asked to end, it gives the task back. Returns what is wrong with the node, "" where
    nothing is."""
    os.environ["KODE_HOME"] = home
    try:
        queue = open_queue(Path(home), folder)
        asyncio.run(work(queue, lambda one, record: None, jobs=1, only=task_id))
    except KodeError as error:
        return f"{host()}: {error}"
    return ""


def _why(future: "asyncio.Future[str]") -> str:
    """Why a Ray task did not end its task, where it did not; a sentence or less. Raises: UserError
    for what starting again would not change."""
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
    # What matters of it comes as the error of a task, and all of it is in Ray's own logs.
    ray._private.worker.print_to_stdstream = lambda *_, **__: None
    try:
        _reach(address or os.environ.get("RAY_ADDRESS", ""))
        # Ray puts its driver's working directory before all else where its workers look for
        # modules: a project's `json.py` must not become part of them.
        with contextlib.chdir(queue.folder):
            ray.init(
                address,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except (RayError, OSError, RuntimeError, ValueError) as error:
        said = [*str(getattr(error, "strerror", "") or error).splitlines(), type(error).__name__]
        raise UserError(
            f"No Ray cluster could be used{f' at {address}' if address else ''}: "
            f"{said[0].rstrip('.')}. `ray status` looks at it; --executor local needs none."
        ) from None


def _reach(address: str) -> None:
    """Ray would try an address that nobody listens on for minutes. Raises: OSError."""
    name, _, port = address.rpartition(":")
    if name and port.isdigit():
        socket.create_connection((name.rpartition("/")[2], int(port)), CONNECT_S).close()


def _check_that_a_node_has(resources: Mapping[str, float]) -> None:
    """Ray would wait without a word. Raises: UserError."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(all(node.get(name, 0) >= n for name, n in resources.items()) for node in nodes):
        needed = ", ".join(f"{name}={n:g}" for name, n in resources.items())
        most = {name: max((node.get(name, 0) for node in nodes), default=0) for name in resources}
        has = ", ".join(f"{name}={n:g}" for name, n in most.items())
        raise UserError(
            f"A task needs {needed}, and no node of the cluster has that; the most that one has "
            f"is {has}. Ask for less with --ray-resources, or add a node."
        )
