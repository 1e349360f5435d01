"""The state of every task: a pure function of the log's records, whoever wrote them and wherever
the log ends.

The rules that keep a task from being lost or finished twice are here, not in the writers: only the
current lease can start, release or finish a task, a finished task cannot be leased, and any other
record is ignored.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from kode.plugins.fleet.records import (
    Alive,
    Cancelled,
    Finished,
    Leased,
    Lost,
    Record,
    Released,
    Reopened,
    Resumed,
    Started,
    Task,
)

LEASE_S = 120.0
"""How long a lease lasts unless its worker renews it."""
CLOCK_SKEW_S = 30.0
"""How far the clocks of two hosts may differ."""

Phase = Literal["waiting", "leased", "running", "ended"]


@dataclass
class TaskState:
    """The state of one task."""

    task: Task
    lease: Leased | None = None
    """The current lease; None if no worker has the task."""
    session: str = ""
    """The session id, chosen with the first lease; "" before."""
    started: Started | None = None
    """The latest start."""
    started_by: Leased | None = None
    """The lease of that start."""
    has_open_start: bool = False
    """Whether the latest start has neither been released nor finished: it is running, or its worker
    was killed."""
    starts: int = 0
    kills: int = 0
    """How often a signal from outside has ended its process."""
    unknown: tuple[str, ...] = ()
    """Calls of all starts whose effect is unknown."""
    finished: Finished | None = None
    reason: str = ""
    """Why it was released or reopened."""

    @property
    def phase(self) -> Phase:
        if self.finished is not None:
            return "ended"
        if self.lease is None:
            return "waiting"
        running = self.started is not None and self.started.lease == self.lease.lease
        return "running" if running else "leased"


@dataclass
class State:
    """The state of a queue."""

    tasks: dict[str, TaskState] = field(default_factory=dict)
    """By id, in the order of the task file."""
    until: dict[str, float] = field(default_factory=dict)
    """Worker → when its leases expire, in seconds since the epoch."""
    cancelled: bool = False
    failures: int = 0
    """Failures in a row since the queue was last resumed."""
    budget_usd: float | None = None
    """The budget of the last `Resumed` with a budget."""
    lost_bytes: int = 0
    """How many bytes of the log are missing, according to its `Lost` records."""

    def apply(self, record: Record) -> None:
        """Applies one record. A record that does not count changes nothing."""
        match record:
            case Alive(worker=worker, until=until):
                self.until[worker] = max(until, self.until.get(worker, 0.0))
            case Cancelled():
                self.cancelled = True
            case Lost(size_bytes=size):
                self.lost_bytes += size
            case Resumed(budget_usd=budget_usd):
                self.failures = 0
                self.budget_usd = self.budget_usd if budget_usd is None else budget_usd
            case _:
                task = self.tasks.get(record.task)
                if task is not None:
                    self._apply_to(task, record)

    def _apply_to(
        self, task: TaskState, record: Leased | Started | Released | Finished | Reopened
    ) -> None:
        if isinstance(record, Reopened):
            if task.finished is not None and not self.cancelled:
                task.reason = (
                    task.finished.error or f"Its check failed: {task.finished.verify_said}"
                )
                task.finished = None
        elif task.finished is not None:
            return
        elif isinstance(record, Leased):
            task.lease = record
            task.session = task.session or record.session
            self.until[record.worker] = max(record.until, self.until.get(record.worker, 0.0))
        elif task.lease is None or task.lease.lease != record.lease:
            return
        elif isinstance(record, Started):
            task.started, task.started_by, task.has_open_start = record, task.lease, True
            task.starts += 1
            task.unknown += record.unknown
        elif isinstance(record, Released):
            task.lease, task.reason, task.has_open_start = None, record.reason, False
            task.kills += record.killed
        else:
            task.finished, task.lease, task.has_open_start = record, None, False
            self.failures = 0 if is_good(record) else self.failures + 1

    def holds(self, lease: Leased) -> bool:
        """Whether a lease is the current one of its task, which has not ended."""
        task = self.tasks[lease.task]
        return task.lease is not None and task.lease.lease == lease.lease

    def open_tasks(self) -> Iterator[TaskState]:
        """The tasks that have not ended."""
        return (task for task in self.tasks.values() if task.finished is None)


def state_of(tasks: Iterable[Task], records: Iterable[Record]) -> State:
    """The state of the tasks after these records."""
    state = State({task.id: TaskState(task) for task in tasks})
    for record in records:
        state.apply(record)
    return state


def is_good(finished: Finished) -> bool:
    """Whether a task succeeded and its check, if it has one, did not fail."""
    return finished.status == "success" and finished.verify != "failed"


def is_free(
    task: TaskState, until: Mapping[str, float], now: float, is_gone: Callable[[Leased], bool]
) -> bool:
    """Whether a task can be leased: it has not ended, and it has no lease, or one that has expired
    or whose worker is gone. `is_gone` tells whether the worker of a lease is known to be gone;
    `now` is in seconds since the epoch."""
    if task.finished is not None:
        return False
    if task.lease is None or is_gone(task.lease):
        return True
    return until.get(task.lease.worker, 0.0) + CLOCK_SKEW_S < now
