"""The folder of a queue, and the only module that reads and writes it.

    tasks.jsonl     what is to be done; written once
    log.jsonl       what happened; only grows, each line under the lock of the file
    spent.jsonl     the budget of all tasks, where there is one: see `kode.shared_budget`
    workers/        a file a worker, locked as long as its process lives
    tasks/ID/       of one task: what `kode run` printed, its patch

A lock dies with its process, however that ends. So a worker on this machine is known to be gone the
moment it is; of one on another machine only its lease tells, which ends when no word comes.
"""

import contextlib
import fcntl
import os
import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from kode import durable, paths
from kode.errors import SessionError, UserError
from kode.plugins.fleet.owner import is_own, sign
from kode.plugins.fleet.records import (
    VERSION,
    Alive,
    Cancelled,
    Fleet,
    Leased,
    Line,
    Record,
    Reopened,
    Resumed,
    Started,
    Task,
    line_of,
    parse_line,
)
from kode.plugins.fleet.state import LEASE_S, TaskState, is_free, is_good, state_of
from kode.session.log import new_session_id
from kode.shared_budget import SharedBudget

TASKS, LOG, SPENT = "tasks.jsonl", "log.jsonl", "spent.jsonl"
LEAST_USD = 1e-9
"""Less is a matter of rounding."""


class Queue:
    """An open queue. Made by `create` or `open_queue`."""

    def __init__(
        self, folder: Path, fleet: Fleet, tasks: Sequence[Task], signed: bytes = b""
    ) -> None:
        self.folder = folder
        self._signed = signed
        """The bytes of its tasks."""
        self.fleet = fleet
        self.state = state_of(tasks, ())
        self.damaged: list[int] = []
        """Numbers of lines of the log that cannot be read, from 1."""
        self._read_to = 0
        self._lines = 0
        self._budget = SharedBudget(folder / SPENT)

    def is_own(self) -> bool:
        """Whether this home made it: see `owner`. Raises: StorageError."""
        return is_own(paths.home(), self.folder, self._signed)

    def task_folder(self, task_id: str) -> Path:
        """What is kept of one task; made when it is first leased."""
        return self.folder / "tasks" / task_id

    def refresh(self) -> list[Record]:
        """Takes in what others have recorded, and returns it. Raises: StorageError."""
        path = self.folder / LOG
        with durable.storage_errors(path, "read"), contextlib.suppress(FileNotFoundError):
            with path.open("rb") as file:
                return self._read(file)
        return []

    def lease(self, worker: "Worker", only: str | None = None) -> Leased | None:
        """A task for a worker, `only` the one named; None where none is free, or nothing more is to
        be started.

        Raises: StorageError.
        """
        with self._locked() as file:
            if self.stopped():
                return None
            found = (one for one in self.state.tasks.values() if self.is_free(one))
            free = next((one for one in found if only in (None, one.task.id)), None)
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
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return leased

    def record(self, record: Record, *, under: Leased | None = None) -> bool:
        """Records something; with `under` only as long as that lease counts. Says whether it did.

        Raises: StorageError.
        """
        with self._locked() as file:
            if under is not None and not self.state.holds(under):
                return False
            self._append(file, record)
        return True

    def resume(self, budget_usd: float | None, *, failed_too: bool) -> None:
        """Has the queue worked on again: with another budget where one is given, and with what had
        failed where that is wanted. Raises: StorageError; UserError for a cancelled queue."""
        with self._locked() as file:
            if self.state.cancelled:
                raise UserError(
                    f"Fleet {self.fleet.id} was cancelled, and stays so. `kode fleet collect "
                    f"{self.fleet.id}` has what was done; start the rest as a new fleet."
                )
            self._append(file, Resumed(at=time.time(), budget_usd=budget_usd))
            for one in self.state.tasks.values() if failed_too else ():
                if one.finished is not None and not is_good(one.finished):
                    self._append(file, Reopened(task=one.task.id))
        if budget_usd is not None:
            self._budget.set_limit(budget_usd)
            for one in self.state.tasks.values():
                if one.finished is not None:
                    self.settle(one, one.finished.cost_usd)

    def cancel(self) -> list[Started]:
        """Has nothing more started. Returns the starts on this machine whose worker is gone: nobody
        else ends what is left of them. Raises: StorageError."""
        with self._locked() as file:
            if not self.state.cancelled:
                self._append(file, Cancelled(at=time.time()))
            return [
                one.started
                for one in self.state.open_tasks()
                if one.started is not None and one.started_by is not None
                if one.started_by.host == host() and self.is_gone(one.started_by)
            ]

    def stopped(self) -> str:
        """Why nothing more is to be started; "" where it is."""
        most, state = self.fleet.max_failures, self.state
        if state.cancelled:
            return "The fleet was cancelled."
        if most is not None and state.failures >= most:
            return f"{state.failures} tasks in a row failed."
        budget = self.budget()
        if budget is not None and budget.is_used_up():
            return (
                f"The budget of ${budget.limit_usd:g} is used up (${budget.spent_usd:.4f} spent)."
            )
        return ""

    def is_over(self) -> bool:
        """Whether every task has ended, or will not be started."""
        return not any(True for _ in self.state.open_tasks()) or bool(self.stopped())

    def budget(self) -> SharedBudget | None:
        """The budget of all tasks, as it stands now. Raises: StorageError."""
        if self.state.budget_usd is None and self.fleet.budget_usd is None:
            return None
        self._budget.refresh()
        return self._budget

    def settle(self, one: TaskState, cost_usd: float | None) -> None:
        """Has the budget hold what a task's session says it cost: a kode that was killed may have
        recorded a reply and not yet its price. Raises: StorageError."""
        budget = self.budget()
        if budget is not None and cost_usd is not None:
            missing = cost_usd - budget.spent_by[one.session]
            if missing > LEAST_USD:
                budget.add(missing, one.session)

    def is_gone(self, lease: Leased) -> bool:
        """Whether the worker of a lease is known to be gone: it was on this machine, and nobody
        holds its file."""
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

    def is_free(self, one: TaskState) -> bool:
        """Whether a task can be taken: nobody has it, or who had it is gone."""
        return is_free(one, self.state.until, time.time(), self.is_gone)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[IO[bytes]]:
        """The log, with all its lines taken in and nobody else writing."""
        path = self.folder / LOG
        with durable.storage_errors(path, "append to"), durable.open_for_append(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                self._read(file)
                yield file
            finally:
                durable.unlock(file)

    def _append(self, file: IO[bytes], record: Record) -> None:
        durable.append_to(file, line_of(record), self.folder / LOG)
        self._read(file)

    def _read(self, file: IO[bytes]) -> list[Record]:
        """Takes in the whole lines that were not read yet. What follows the last line feed is being
        written, or was cut by a crash."""
        size = os.fstat(file.fileno()).st_size
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
            if not isinstance(record, Fleet | Task):
                self.state.take(record)
                records.append(record)
        return records


class Worker:
    """A process that works on a queue, and the locked file by which others know that it lives."""

    def __init__(self, name: str, file: IO[bytes]) -> None:
        self.name = name
        self.host = host()
        self._file = file

    def alive(self) -> Alive:
        """The word that its leases last longer."""
        return Alive(worker=self.name, until=time.time() + LEASE_S)

    def close(self) -> None:
        """From now on it counts as gone."""
        if not self._file.closed:
            with self._file:
                durable.unlock(self._file)


def open_worker(queue: Queue) -> Worker:
    """A new worker of this process. Raises: StorageError."""
    name = secrets.token_hex(6)
    path = queue.folder / "workers" / name
    durable.make_folder(path.parent)
    with durable.storage_errors(path, "create"):
        file = durable.open_for_append(path)
        fcntl.flock(file, fcntl.LOCK_EX)
    return Worker(name, file)


def create(folder: Path, fleet: Fleet, tasks: Sequence[Task]) -> Queue:
    """A new queue; it is there whole or not at all. Raises: UserError where there is one already;
    StorageError."""
    path = folder / TASKS
    if path.exists():
        raise UserError(
            f"{folder} is already a queue. `kode fleet resume {folder}` continues it; a new one "
            "needs another folder."
        )
    durable.make_folder(folder)
    if fleet.budget_usd is not None:
        SharedBudget(folder / SPENT).set_limit(fleet.budget_usd)
    lines: list[Line] = [fleet, *tasks]
    data = b"".join(line_of(line) + b"\n" for line in lines)
    sign(paths.home(), folder, data)
    durable.replace(path, data)
    return Queue(folder, fleet, tasks, data)


def open_queue(home: Path, name: str | None) -> Queue:
    """The queue named by its folder or by the beginning of its id, without a name the newest.

    Raises: SessionError where there is none; UserError for one that cannot be read.
    """
    folder = _find(home, name)
    path = folder / TASKS
    for file in (path, folder / LOG, folder / SPENT):
        if os.path.lexists(file) and (file.is_symlink() or not file.is_file()):
            raise UserError(
                f"{file} is not a file, so the queue is not opened: its lines would be written "
                "somewhere else. Put the file itself there."
            )
    with durable.storage_errors(path, "read"):
        try:
            data = path.read_bytes()
            lines = [parse_line(line) for line in data.splitlines()]
        except ValueError:
            raise UserError(
                f"{path} cannot be read: it is damaged, or of a newer kode. Its log and what its "
                f"tasks did are beside it, in {folder}."
            ) from None
    fleet, tasks = lines[0] if lines else None, lines[1:]
    if not isinstance(fleet, Fleet) or fleet.version > VERSION:
        raise UserError(f"{path} was written by a newer kode. Update kode to open it.")
    queue = Queue(folder, fleet, [task for task in tasks if isinstance(task, Task)], data)
    queue.refresh()
    return queue


def queues(home: Path) -> list[Path]:
    """The folders of the queues in `home`, the newest first."""
    root = paths.fleet_folder(home)
    with contextlib.suppress(OSError):
        return sorted((one.parent for one in root.glob(f"*/{TASKS}")), reverse=True)
    return []


def _find(home: Path, name: str | None) -> Path:
    if name is not None and (Path(name) / TASKS).is_file():
        return Path(name).resolve()
    known = queues(home)
    if name is None and known:
        return known[0]
    fitting = [folder for folder in known if name is not None and folder.name.startswith(name)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise SessionError(
            f"{len(fitting)} fleets start with {name!r}: {', '.join(f.name for f in fitting[:5])}. "
            "Give more of the id."
        )
    which = f"no fleet {name!r}" if name is not None else "no fleet yet"
    raise SessionError(f"There is {which}. `kode fleet run TASKS.jsonl` starts one.")


def host() -> str:
    """The name of this machine."""
    return socket.gethostname()
