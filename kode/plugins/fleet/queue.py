"""The folder of a queue, `$KODE_HOME/queues/ID`, and the only module that reads and writes it.

    fleet.json      the settings and the tasks; written once
    log.jsonl       what happened; only grows, each line written under the file's lock
    spent.jsonl     the budget of all tasks, if there is one: a `SharedBudget`
    tasks/ID/       a lock, held while a worker has the task, and the task's patch

A lock dies with its process, however the process ends, so that the task is free at once; one on
another machine dies with its connection to the shared folder. A queue says what runs in which mode:
only one in this home, where no tool writes, is opened.
"""

import contextlib
import fcntl
import os
import secrets
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from kode.plugin import (
    RecordLog,
    SessionError,
    SharedBudget,
    UserError,
    lock_file,
    make_folder,
    real_path,
    replace_file,
    storage_errors,
)
from kode.plugins.fleet.records import (
    Cancelled,
    Fleet,
    Leased,
    Record,
    Released,
    Started,
    TaskState,
    encode_fleet,
    encode_record,
    parse_fleet,
    parse_record,
    state_of,
)

FLEET, LOG, SPENT = "fleet.json", "log.jsonl", "spent.jsonl"
LEAST_USD = 1e-9
"""Smaller differences are rounding errors."""


class Queue:
    """An open queue. Created by `create` or `open_queue`."""

    def __init__(self, folder: Path, fleet: Fleet) -> None:
        self.folder = folder
        """Its path contains no link."""
        self.fleet = fleet
        self.state = state_of(fleet.tasks)
        self.log = RecordLog(folder / LOG)
        self._locks: dict[str, contextlib.ExitStack] = {}
        """Of the tasks that this process has, by id."""
        self._budget = SharedBudget(folder / SPENT)

    def task_folder(self, task_id: str) -> Path:
        """The folder of one task; created with its first lease."""
        return self.folder / "tasks" / task_id

    def refresh(self) -> list[Record]:
        """Reads and returns what other processes have recorded. Raises: StorageError."""
        records: list[Record] = []
        for line in self.log.read():
            try:
                records.append(parse_record(line))
            except ValueError:
                self.log.damaged += 1
            else:
                self.state.apply(records[-1])
        return records

    def lease(self) -> Leased | None:
        """Leases a free task to this process. None if there is none, or if no more tasks should
        start. Raises: StorageError."""
        with self._locked():
            for state in self.state.open_tasks() if not self.explain_stop() else ():
                if self._take(state):
                    lease = Leased(
                        task=state.task.id,
                        lease=secrets.token_hex(8),
                        host=socket.gethostname(),
                        pid=os.getpid(),
                        session=state.session or new_id(),
                    )
                    self._append(lease)
                    return lease
        return None

    def record(self, record: Record, *, under: Leased) -> bool:
        """Appends a record, if the lease is the current one, and gives up the task's lock if the
        record ends the lease. Returns whether it did. Raises: StorageError."""
        with self._locked():
            is_held = self.holds(under)
            if is_held:
                self._append(record)
        if not self.holds(under):
            self._let_go(under.task)
        return is_held

    def close(self) -> None:
        """Gives up the tasks that this process still has."""
        for task_id in list(self._locks):
            self._let_go(task_id)

    def resume(self, budget_usd: float | None, *, reopen_failed: bool) -> None:
        """Prepares the queue to continue, with a new budget if one is given; `reopen_failed` also
        continues failed tasks. Raises: StorageError; UserError for a cancelled queue."""
        with self._locked():
            if self.state.cancelled:
                raise UserError(
                    f"Fleet {self.fleet.id} was cancelled and cannot continue. `kode fleet collect "
                    f"{self.fleet.id}` has what it changed; start the rest as a new fleet."
                )
            ends = [state.finished for state in self.state.tasks.values() if state.finished]
            for end in ends if reopen_failed else ():
                if not end.is_good:
                    self._append(Released(task=end.task, lease=end.lease, reason=end.status))
        if budget_usd is not None:
            self._budget.set_limit(budget_usd)
            for end in ends:
                self.settle(self.state.tasks[end.task], end.figures.cost_usd)

    def cancel(self) -> list[Started]:
        """Cancels the queue: no more tasks start, and workers stop theirs. Returns the starts on
        this machine whose worker is gone: the caller must end their processes. Raises:
        StorageError."""
        with self._locked():
            if not self.state.cancelled:
                self._append(Cancelled(at=time.time()))
            starts = [state.started for state in self.state.open_tasks() if self.is_free(state)]
            return [start for start in starts if start and start.host == socket.gethostname()]

    def explain_stop(self) -> str:
        """Why no more tasks should start, as a sentence, or "". Raises: StorageError."""
        if self.state.cancelled:
            return "The fleet was cancelled."
        budget = self.budget()
        return budget.explain_stop() if budget is not None else ""

    def is_over(self) -> bool:
        """Whether no task is left to start. Raises: StorageError."""
        return not any(True for _ in self.state.open_tasks()) or bool(self.explain_stop())

    def budget(self) -> SharedBudget | None:
        """The current budget of all tasks; None without one. Raises: StorageError."""
        if self.fleet.budget_usd is None and not self._budget.path.exists():
            return None
        self._budget.refresh()
        return self._budget

    def settle(self, state: TaskState, cost_usd: float | None) -> None:
        """Adds to the budget what it lacks of a task's cost according to its session: a killed kode
        may have saved a reply but not yet its price. Raises: StorageError."""
        budget = self.budget()
        if budget is not None and cost_usd is not None:
            missing = cost_usd - budget.spent_by[state.session]
            if missing > LEAST_USD:
                budget.add(missing, state.session)

    def holds(self, lease: Leased) -> bool:
        """Whether a lease is the current one of its task, which has not ended."""
        return self.state.tasks[lease.task].is_held_under(lease.lease)

    def is_free(self, state: TaskState) -> bool:
        """Whether no worker has an open task."""
        if state.lease is None:
            return state.finished is None
        try:
            with open(self.task_folder(state.task.id) / ".lock", "rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                fcntl.flock(file, fcntl.LOCK_UN)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def _take(self, state: TaskState) -> bool:
        """Locks a task for this process, if no worker has it. Raises: StorageError."""
        folder = self.task_folder(state.task.id)
        if state.task.id in self._locks:
            return False
        lock = contextlib.ExitStack()
        try:
            lock.enter_context(lock_file(folder, timeout_s=0, follow=False))
        except UserError:
            return False
        self._locks[state.task.id] = lock
        return True

    def _let_go(self, task_id: str) -> None:
        if lock := self._locks.pop(task_id, None):
            lock.close()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds the log, read to its end."""
        with self.log.locked():
            self.refresh()
            yield

    def _append(self, record: Record) -> None:
        self.log.append(encode_record(record))
        self.refresh()


def new_id() -> str:
    """An id for a fleet or for a task's session."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def create(home: Path, fleet: Fleet) -> Queue:
    """Creates a queue atomically. Raises: StorageError."""
    folder = _queues_folder(home) / fleet.id
    make_folder(folder)
    if fleet.budget_usd is not None:
        SharedBudget(folder / SPENT).set_limit(fleet.budget_usd)
    replace_file(folder / FLEET, encode_fleet(fleet))
    return Queue(Path(real_path(folder)), fleet)


def open_queue(home: Path, name: str | None) -> Queue:
    """Opens a queue by a prefix of its id, or its folder; without a name, the newest.

    Raises: SessionError if there is none, or several; UserError if it cannot be read, or is not of
    this home; StorageError.
    """
    folder = Path(real_path(_find(home, name)))
    path = folder / FLEET
    try:
        with storage_errors(path, "read"):
            fleet = parse_fleet(path.read_bytes())
    except ValueError:
        raise UserError(
            f"{path} cannot be read: it is damaged. Its log and its patches are beside it; start "
            "the tasks that are left as a new fleet."
        ) from None
    if fleet is None:
        raise UserError(
            f"{path} is of another version of kode, so it is not opened. Start its tasks as a new "
            "fleet."
        )
    queue = Queue(folder, fleet)
    queue.refresh()
    return queue


def queues(home: Path) -> list[Path]:
    """The folders of the queues in `home`, the newest first."""
    with contextlib.suppress(OSError):
        files = _queues_folder(home).glob(f"*/{FLEET}")
        return sorted((file.parent for file in files), reverse=True)
    return []


def _queues_folder(home: Path) -> Path:
    return home / "queues"


def _find(home: Path, name: str | None) -> Path:
    folders = queues(home)
    if name is None and folders:
        return folders[0]
    if name is not None and (Path(name) / FLEET).is_file():
        folder = Path(real_path(name))
        if folder.parent != Path(real_path(_queues_folder(home))):
            raise UserError(
                f"{folder} is not a queue of this home, so nothing of it is read or run. Set "
                "KODE_HOME to the home that made it, or start its tasks as a new fleet."
            )
        return folder
    matches = [folder for folder in folders if name is not None and folder.name.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(folder.name for folder in matches[:5])
        raise SessionError(
            f"{len(matches)} fleets start with {name!r}: {names}. Give more of the id."
        )
    which = f"no fleet {name!r}" if name is not None else "no fleet yet"
    raise SessionError(f"There is {which}. `kode fleet run TASKS.jsonl` starts one.")
