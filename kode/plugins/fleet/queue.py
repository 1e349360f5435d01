"""The folder of a queue, and the only module that reads and writes it.

    tasks.jsonl     the tasks; written once
    log.jsonl       what happened; only grows, each line written under the file's lock
    spent.jsonl     the budget of all tasks, if there is one: a `SharedBudget`
    workers/        a file per worker, locked while its process lives
    tasks/ID/       per task: the output of `kode run`, and the patch

A lock dies with its process, however the process ends. So the death of a worker on this machine is
seen at once; that of a worker on another machine is noticed when its lease expires.
"""

import contextlib
import fcntl
import os
import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from kode.plugin import (
    SessionError,
    SharedBudget,
    UserError,
    beneath,
    durable,
    new_session_id,
    paths,
)
from kode.plugins.fleet.folders import fleet_folder
from kode.plugins.fleet.owner import is_own, sign
from kode.plugins.fleet.records import (
    VERSION,
    Alive,
    Cancelled,
    Finished,
    Fleet,
    Leased,
    Line,
    Lost,
    Record,
    Released,
    Reopened,
    Resumed,
    Started,
    Task,
    line_of,
    parse_line,
)
from kode.plugins.fleet.state import LEASE_S, TaskState, is_free, is_good, state_of

TASKS, LOG, SPENT = "tasks.jsonl", "log.jsonl", "spent.jsonl"
LEAST_USD = 1e-9
"""Smaller differences are rounding errors."""


class Queue:
    """An open queue. Created by `create` or `open_queue`."""

    def __init__(
        self, folder: Path, fleet: Fleet, tasks: Sequence[Task], signed: bytes = b""
    ) -> None:
        self.folder = folder
        """Its path contains no link."""
        self._signed = signed
        """The content of `tasks.jsonl`, which the signature covers."""
        self.fleet = fleet
        self.state = state_of(tasks, ())
        self.damaged: list[int] = []
        """Numbers of the log's lines that cannot be read or are duplicates, from 1."""
        self._read_to = 0
        self._lines = 0
        self._under_leases: set[int] = set()
        """Hashes of lines written under a lease, each of which is unique."""
        self._cut_bytes = 0
        """How many bytes of the log are missing without a `Lost` record so far."""
        self._budget = SharedBudget(folder / SPENT)

    def is_own(self) -> bool:
        """Whether this home made the queue: see `owner`. Raises: StorageError."""
        return is_own(paths.home(), self.folder, self._signed)

    def task_folder(self, task_id: str) -> Path:
        """The folder of one task; created with its first lease."""
        return self.folder / "tasks" / task_id

    def refresh(self) -> list[Record]:
        """Reads and returns what other processes have recorded. Raises: StorageError."""
        path = self.folder / LOG
        with durable.storage_errors(path, "read"), contextlib.suppress(FileNotFoundError):
            with path.open("rb") as file:
                return self._read(file)
        self._cut_bytes = durable.noted_length(path)
        return []

    @property
    def lost_bytes(self) -> int:
        """How many bytes of the log are missing."""
        return self.state.lost_bytes + self._cut_bytes

    def lease(self, worker: "Worker", only: str | None = None) -> Leased | None:
        """Leases a free task to a worker; with `only`, no task but that one. None if there is none,
        or if no more tasks should start.

        Raises: StorageError.
        """
        with self._locked() as file:
            if self.stopped():
                return None
            free = next(
                (
                    state
                    for state in self.state.tasks.values()
                    if only in (None, state.task.id) and self.is_free(state)
                ),
                None,
            )
            if free is None:
                return None
            leased = Leased(
                task=free.task.id,
                lease=secrets.token_hex(8),
                worker=worker.name,
                host=worker.host,
                pid=os.getpid(),
                until=time.time() + LEASE_S,
                session=free.session or new_session_id(),
            )
            self._append(file, leased)
        folder = self.task_folder(leased.task)
        with durable.storage_errors(folder, "create the folder"):
            with beneath.open_folder(folder, make=beneath.private_mode):
                return leased

    def record(self, record: Record, *, under: Leased | None = None) -> bool:
        """Appends a record, with `under` only while that lease is the current one. Returns whether
        it did.

        Raises: StorageError.
        """
        with self._locked() as file:
            if under is not None and not self.state.holds(under):
                return False
            self._append(file, record)
        return True

    def resume(self, budget_usd: float | None, *, reopen_failed: bool) -> None:
        """Prepares the queue to continue, with a new budget if one is given; `reopen_failed` also
        continues failed tasks. Raises: StorageError; UserError for a cancelled queue."""
        with self._locked() as file:
            if self.state.cancelled:
                raise UserError(
                    f"Fleet {self.fleet.id} was cancelled and cannot continue. `kode fleet collect "
                    f"{self.fleet.id}` has what it changed; start the rest as a new fleet."
                )
            self._append(file, Resumed(at=time.time(), budget_usd=budget_usd))
            for state in self.state.tasks.values() if reopen_failed else ():
                if state.finished is not None and not is_good(state.finished):
                    self._append(file, Reopened(task=state.task.id))
        if budget_usd is not None:
            self._budget.set_limit(budget_usd)
            for state in self.state.tasks.values():
                if state.finished is not None:
                    self.settle(state, state.finished.cost_usd)

    def cancel(self) -> list[Started]:
        """Cancels the queue: no more tasks start, and workers stop theirs. Returns the starts on
        this machine whose worker is gone: the caller must end their processes. Raises:
        StorageError."""
        with self._locked() as file:
            if not self.state.cancelled:
                self._append(file, Cancelled(at=time.time()))
            return [
                state.started
                for state in self.state.open_tasks()
                if state.started is not None and state.started_by is not None
                if state.started_by.host == host() and self.is_gone(state.started_by)
            ]

    def stopped(self) -> str:
        """Why no more tasks should start, as a sentence, or "". Raises: StorageError."""
        most, state = self.fleet.max_failures, self.state
        if state.cancelled:
            return "The fleet was cancelled."
        if most is not None and state.failures >= most:
            return f"{state.failures} tasks in a row failed."
        budget = self.budget()
        return budget.stopped() if budget is not None else ""

    def is_over(self) -> bool:
        """Whether no task is left to start. Raises: StorageError."""
        return not any(True for _ in self.state.open_tasks()) or bool(self.stopped())

    def budget(self) -> SharedBudget | None:
        """The current budget of all tasks; None without one. Raises: StorageError."""
        if self.state.budget_usd is None and self.fleet.budget_usd is None:
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

    def is_gone(self, lease: Leased) -> bool:
        """Whether the worker of a lease is known to be gone: it was on this machine, and its file
        is not locked."""
        if lease.host != host():
            return False
        try:
            file = os.open(self._worker_file(lease.worker), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            durable.unlock(file)
            return True
        except BlockingIOError:
            return False
        finally:
            os.close(file)

    def _worker_file(self, worker: str) -> Path:
        return self.folder / "workers" / worker

    def is_free(self, state: TaskState) -> bool:
        """Whether a task can be leased: no worker has it, or the one that had it is gone."""
        return is_free(state, self.state.until, time.time(), self.is_gone)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[IO[bytes]]:
        """The locked log, read to its end."""
        path = self.folder / LOG
        with durable.storage_errors(path, "append to"), durable.open_for_append(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                self._read(file)
                yield file
            finally:
                durable.unlock(file)

    def _append(self, file: IO[bytes], record: Record) -> None:
        records = [Lost(size_bytes=self._cut_bytes)] if self._cut_bytes else []
        lines = b"\n".join(map(line_of, [*records, record]))
        durable.append_to(file, lines, self.folder / LOG, note_end=True)
        self._read(file)

    def _read(self, file: IO[bytes]) -> list[Record]:
        """Reads the whole lines that are new. What follows the last line feed is still being
        written, or was cut off by a crash."""
        noted = durable.noted_length(self.folder / LOG)
        size = os.fstat(file.fileno()).st_size
        self._cut_bytes = max(0, noted - size)
        data = os.pread(file.fileno(), max(0, size - self._read_to), self._read_to)
        whole = data[: data.rfind(b"\n") + 1]
        self._read_to += len(whole)
        records: list[Record] = []
        for line in whole.splitlines():
            self._lines += 1
            try:
                record = parse_line(line)
            except ValueError:
                self.damaged.append(self._lines)
                continue
            if isinstance(record, Leased | Started | Released | Finished):
                if hash(line) in self._under_leases:
                    self.damaged.append(self._lines)
                    continue
                self._under_leases.add(hash(line))
            if not isinstance(record, Fleet | Task):
                self.state.apply(record)
                records.append(record)
        return records


class Worker:
    """This process as a worker of a queue. Others see that it lives by its locked file."""

    def __init__(self, name: str, file: IO[bytes]) -> None:
        self.name = name
        self.host = host()
        self._file = file

    def alive(self) -> Alive:
        """The record that renews its leases."""
        return Alive(worker=self.name, until=time.time() + LEASE_S)

    def close(self) -> None:
        """Unlocks the file, so that the worker counts as gone."""
        if not self._file.closed:
            with self._file:
                durable.unlock(self._file)


def open_worker(queue: Queue) -> Worker:
    """Registers this process as a new worker. Raises: StorageError."""
    name = secrets.token_hex(6)
    path = queue.folder / "workers" / name
    with (
        durable.storage_errors(path, "create"),
        beneath.open_folder(path.parent, make=beneath.private_mode) as folder,
    ):
        file = beneath.new_file(folder, name)
        fcntl.flock(file, fcntl.LOCK_EX)
    return Worker(name, file)


def create(folder: Path, fleet: Fleet, tasks: Sequence[Task]) -> Queue:
    """Creates a queue atomically. Raises: UserError if the folder already has one; StorageError."""
    path = folder / TASKS
    if path.exists():
        raise UserError(
            f"{folder} is already a queue. `kode fleet resume {folder}` continues it; a new one "
            "needs another folder."
        )
    durable.make_folder(folder)
    if fleet.budget_usd is not None:
        SharedBudget(folder / SPENT).set_limit(fleet.budget_usd)
    lines: list[Line] = [replace(fleet, tasks=len(tasks)), *tasks]
    data = b"".join(line_of(line) + b"\n" for line in lines)
    sign(paths.home(), folder, data)
    durable.replace(path, data)
    return Queue(Path(paths.real_path(folder)), fleet, tasks, data)


def open_queue(home: Path, name: str | None) -> Queue:
    """Opens a queue by its folder or a prefix of its id; without a name, the newest.

    Raises: SessionError if there is none, or several; UserError if it cannot be read; StorageError.
    """
    folder = Path(paths.real_path(_find(home, name)))
    path = folder / TASKS
    for file in (path, folder / LOG, folder / SPENT):
        if os.path.lexists(file) and (file.is_symlink() or not file.is_file()):
            raise UserError(
                f"{file} is not a file, so the queue is not opened: its lines would be written "
                "somewhere else. Put the file itself there."
            )
    with durable.storage_errors(path, "read"):
        data = path.read_bytes()
    fleet, tasks = _tasks_in(data)
    if fleet is not None and fleet.version > VERSION:
        raise UserError(f"{path} was written by a newer kode. Update kode to open it.")
    if fleet is None or fleet.tasks != len(tasks):
        raise UserError(
            f"{path} cannot be read: it is damaged, or of a newer kode. Its log and what its tasks "
            f"did are beside it, in {folder}."
        )
    queue = Queue(folder, fleet, tasks, data)
    queue.refresh()
    return queue


def _tasks_in(data: bytes) -> tuple[Fleet | None, list[Task]]:
    """The fleet and its unique tasks in `tasks.jsonl`; None and [] if a line is damaged."""
    try:
        first, *lines = (parse_line(line) for line in data.splitlines())
    except ValueError:
        return None, []
    tasks = {task.id: task for task in lines if isinstance(task, Task)}
    return first if isinstance(first, Fleet) else None, list(tasks.values())


def queues(home: Path) -> list[Path]:
    """The folders of the queues in `home`, the newest first."""
    root = fleet_folder(home)
    with contextlib.suppress(OSError):
        return sorted((file.parent for file in root.glob(f"*/{TASKS}")), reverse=True)
    return []


def _find(home: Path, name: str | None) -> Path:
    if name is not None and (Path(name) / TASKS).is_file():
        return Path(name)
    folders = queues(home)
    if name is None and folders:
        return folders[0]
    matches = [folder for folder in folders if name is not None and folder.name.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise SessionError(
            f"{len(matches)} fleets start with {name!r}: {', '.join(f.name for f in matches[:5])}. "
            "Give more of the id."
        )
    which = f"no fleet {name!r}" if name is not None else "no fleet yet"
    raise SessionError(f"There is {which}. `kode fleet run TASKS.jsonl` starts one.")


def host() -> str:
    """The name of this machine."""
    return socket.gethostname()
