"""Where every task stands: a function of the records, whoever wrote them and however many are
missing at the end.

What keeps a task from being lost or finished twice is here, not with the writers: only the lease
that counts can start, release or finish a task, a task that has ended takes no lease, and any other
record changes nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from kode.plugins.fleet.records import (
    Alive,
    Cancelled,
    Finished,
    Leased,
    Record,
    Released,
    Reopened,
    Resumed,
    Started,
    Task,
)

LEASE_S = 120.0
"""A lease counts so long without a word from its worker."""
CLOCKS_DIFFER_S = 30.0
"""By so much may the clocks of two hosts differ."""

Standing = Literal["waiting", "leased", "running", "ended"]


@dataclass
class TaskState:
    """One task."""

    task: Task
    lease: Leased | None = None
    """The one that counts; None while nobody has the task."""
    session: str = ""
    """Chosen with the first lease."""
    started: Started | None = None
    """The latest start."""
    started_by: Leased | None = None
    """The lease of that start."""
    is_cut: bool = False
    """Whether its latest start was neither given back nor came to an end; so is one that runs."""
    starts: int = 0
    kills: int = 0
    """How often something else has ended its process."""
    unknown: tuple[str, ...] = ()
    """Calls of all starts whose effect nobody knows."""
    finished: Finished | None = None
    reason: str = ""
    """Why it is to be continued."""

    @property
    def standing(self) -> Standing:
        if self.finished is not None:
            return "ended"
        if self.lease is None:
            return "waiting"
        running = self.started is not None and self.started.lease == self.lease.lease
        return "running" if running else "leased"


@dataclass
class State:
    """All tasks of a queue, in the order of its file."""

    tasks: dict[str, TaskState] = field(default_factory=dict)
    until: dict[str, float] = field(default_factory=dict)
    """Worker → how long its leases count."""
    cancelled: bool = False
    failures: int = 0
    """In a row, since a person last had the queue worked on."""
    budget_usd: float | None = None
    """The latest."""

    def take(self, record: Record) -> None:
        """Takes one record in. One that does not count changes nothing."""
        match record:
            case Alive(worker=worker, until=until):
                self.until[worker] = max(until, self.until.get(worker, 0.0))
            case Cancelled():
                self.cancelled = True
            case Resumed(budget_usd=budget_usd):
                self.failures = 0
                self.budget_usd = self.budget_usd if budget_usd is None else budget_usd
            case _:
                one = self.tasks.get(record.task)
                if one is not None:
                    self._take_of(one, record)

    def _take_of(
        self, one: TaskState, record: Leased | Started | Released | Finished | Reopened
    ) -> None:
        if isinstance(record, Reopened):
            if one.finished is not None and not self.cancelled:
                one.reason = one.finished.error or f"Its check failed: {one.finished.verify_said}"
                one.finished = None
        elif one.finished is not None:
            return
        elif isinstance(record, Leased):
            one.lease = record
            one.session = one.session or record.session
            self.until[record.worker] = max(record.until, self.until.get(record.worker, 0.0))
        elif one.lease is None or one.lease.lease != record.lease:
            return
        elif isinstance(record, Started):
            one.started, one.started_by, one.is_cut = record, one.lease, True
            one.starts += 1
            one.unknown += record.unknown
        elif isinstance(record, Released):
            one.lease, one.reason, one.is_cut = None, record.reason, False
            one.kills += record.killed
        else:
            one.finished, one.lease, one.is_cut = record, None, False
            self.failures = 0 if is_good(record) else self.failures + 1

    def holds(self, lease: Leased) -> bool:
        """Whether a lease counts: its task has not ended, and nobody else has taken it."""
        one = self.tasks[lease.task]
        return one.lease is not None and one.lease.lease == lease.lease

    def open_tasks(self) -> Iterator[TaskState]:
        """Those that have not ended."""
        return (one for one in self.tasks.values() if one.finished is None)


def state_of(tasks: Iterable[Task], records: Iterable[Record]) -> State:
    """Where every task stands after these records."""
    state = State({task.id: TaskState(task) for task in tasks})
    for record in records:
        state.take(record)
    return state


def is_good(finished: Finished) -> bool:
    """Whether a task succeeded and its result was not found wanting."""
    return finished.status == "success" and finished.verify != "failed"


def is_free(
    one: TaskState, until: Mapping[str, float], now: float, is_gone: Callable[[Leased], bool]
) -> bool:
    """Whether a task can be taken: it has not ended, and nobody has it, or who had it is gone.
    `is_gone` says what is known of a worker beside its lease: False where nothing is."""
    if one.finished is not None:
        return False
    if one.lease is None or is_gone(one.lease):
        return True
    return until.get(one.lease.worker, 0.0) + CLOCKS_DIFFER_S < now
