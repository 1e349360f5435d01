"""Where the workers of a queue run.

An executor is one coroutine. It has the tasks of a queue worked on and returns when each has ended
or nothing more is to be started; cancelled, it ends what it has started. All that it needs to know
is in the queue, and so is all that comes of it: an executor decides nothing about a task, and may
die at any moment. What a worker does is `worker.work`, the same everywhere; elsewhere than in this
process it is the command `kode fleet worker QUEUE [--index N]`.
"""

import pkgutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from kode import extras

if TYPE_CHECKING:
    from kode.plugins.fleet.queue import Queue
    from kode.plugins.fleet.worker import Show


class Executor(Protocol):
    """Has a queue worked on, see above. `show` gets what happens to the tasks. Flags that begin
    with its name are keywords: `--ray-address` is `address`."""

    async def __call__(self, queue: "Queue", show: "Show") -> None:
        """Raises: KodeError that says what to do next."""


async def local(queue: "Queue", show: "Show") -> None:
    """In this process."""
    from kode.plugins.fleet.worker import work

    await work(queue, show, jobs=queue.fleet.jobs)


EXECUTORS: Mapping[str, str] = {
    "local": "kode.plugins.fleet.executors:local",
    "ray": "kode.plugins.fleet.ray:work_on_ray",
}
"""Name → module and function, imported when it is used."""


def find_executor(name: str) -> Executor:
    """The executor of that name. Raises: ConfigError where what it needs is not installed."""
    if name in extras.EXTRAS:
        extras.require(name)
    found: Executor = pkgutil.resolve_name(EXECUTORS[name])
    return found
