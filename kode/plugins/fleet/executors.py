"""Where the workers of a queue run.

An executor is a coroutine that runs a queue. It returns when every task has ended or no more should
start; if cancelled, it stops everything it started. All input and all results are in the queue: an
executor decides nothing about a task, and may die at any moment. A worker is the same everywhere,
`worker.work`; outside this process it runs as `kode fleet worker QUEUE [--index N]`.
"""

import pkgutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from kode.plugin import extras

if TYPE_CHECKING:
    from kode.plugins.fleet.queue import Queue
    from kode.plugins.fleet.worker import Show


class Executor(Protocol):
    """Runs a queue, as described above, and passes every start, release and end to `show`. Flags
    that begin with the executor's name are keywords: `--ray-address` is `address`."""

    async def __call__(self, queue: "Queue", show: "Show") -> None:
        """Raises: KodeError, whose message says what to do next."""


async def local(queue: "Queue", show: "Show") -> None:
    """Runs the queue in this process. Raises: StorageError."""
    from kode.plugins.fleet.worker import work

    await work(queue, show, jobs=queue.fleet.jobs)


EXECUTORS: Mapping[str, str] = {
    "local": "kode.plugins.fleet.executors:local",
    "ray": "kode.plugins.fleet.ray:run_on_ray",
}
"""Name → "module:function", imported on use."""


def find_executor(name: str) -> Executor:
    """The executor of that name. Raises: ConfigError if the extra it needs is not installed."""
    if name in extras.EXTRAS:
        extras.require(name)
    executor: Executor = pkgutil.resolve_name(EXECUTORS[name])
    return executor
