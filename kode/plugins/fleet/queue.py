"""A queue: its folder, `$KODE_HOME/queues/ID`, which no other module reads or writes, and the
state of every task, computed from the log in that folder.

    fleet.json      a `Fleet`: the settings and the tasks; written once, with a checksum
    log.jsonl       what happened; only grows, each line written under the file's lock
    spent.jsonl     the budget of all tasks, if there is one: a `SharedBudget`
    tasks/ID/       a lock, held while a worker has the task, and the task's patch

A line of the log is one of these:

    Leased      a worker reserved a task, and its session id is chosen
    Started     the worktree exists; the task's process starts next
    Finished    a task has ended, and how
    Released    a worker gave up a task, which is open again
    Cancelled   no more tasks start

The state of a task is a pure function of these lines, whoever wrote them and wherever the log ends,
so the rules that keep a task from being lost or finished twice are in `QueueState.apply`, not in
the writers: only the current lease can start, release or finish a task, and any record after the
end of a task is ignored.

The kernel drops a lock when its process ends, however it ends, so the task is free at once; that of
another machine goes with its connection to the shared folder. As a queue says what runs in which
mode, only queues in this home are opened, where no tool can write.
"""

import contextlib
import fcntl
import functools
import secrets
import socket
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from kode.plugin import (
    PermissionMode,
    RecordLog,
    SessionError,
    SharedBudget,
    UserError,
    hold_lock,
    make_folder,
    real_path,
    replace_file,
    storage_errors,
)

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FLEET, LOG, SPENT = "fleet.json", "log.jsonl", "spent.jsonl"

PATCH = "changes.patch"
"""The file name of a task's patch, in the task's folder."""

LEAST_USD = 1e-9
"""A smaller difference between two costs is a rounding error."""

Isolation = Literal["worktree", "clone", "copy", "none"]
Status = Literal["success", "incomplete", "error", "timeout"]
Verdict = Literal["passed", "failed", ""]


@dataclass(frozen=True, kw_only=True)
class FleetTask:
    id: str
    """Used in the names of files and branches."""
    task: str
    source: str
    """The absolute path of the folder to work on."""
    isolate: Isolation
    base: str = ""
    """The commit that the worktree starts at; "" if the source is no repository."""
    model: str | None = None
    mode: PermissionMode | None = None
    budget_usd: float | None = None
    timeout_s: float | None = None
    verify: str = ""
    """A command whose exit status tells whether the result is good; "" for none."""


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """A whole queue: its tasks, and the settings for all of them."""

    id: str
    created_at: str
    tasks: tuple[FleetTask, ...]
    trees: str
    """The folder of the worktrees."""
    jobs: int = 4
    """How many tasks one worker process runs at once."""
    budget_usd: float | None = None
    """The limit for all tasks together; None for no limit."""
    flags: tuple[str, ...] = ()
    """Additional flags of every `kode run`."""
    version: Literal[4] = 4
    """Counts the changes of the formats of `fleet.json` and `log.jsonl`."""


@dataclass(frozen=True, kw_only=True)
class LeaseRecord:
    """A record about a task, made under one lease."""

    task: str
    lease: str
    """The unique id of the lease."""


@dataclass(frozen=True, kw_only=True)
class Leased(LeaseRecord):
    host: str
    session: str
    """The session id; every later lease of the task repeats it."""
    type: Literal["leased"] = "leased"


@dataclass(frozen=True, kw_only=True)
class Started(LeaseRecord):
    host: str
    tree: str
    """The root of the worktree, or the source itself."""
    base: str
    """The commit or tree to compare the changes with; "" without a worktree."""
    mark: str
    """A value in the environment of the process and all its descendants, to find them by."""
    unknown: tuple[str, ...] = ()
    """Calls of an earlier start whose effect is unknown. The model must check them first."""
    type: Literal["started"] = "started"


@dataclass(frozen=True, kw_only=True)
class Released(LeaseRecord):
    reason: str
    killed: bool = False
    """Whether a signal from outside ended the task's process, as when memory runs out."""
    type: Literal["released"] = "released"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The answer of a task and what it has cost, according to its session."""

    answer: str = ""
    """The start of the model's last message."""
    steps: int = 0
    tokens: int = 0
    """Input and output."""
    cost_usd: float | None = None
    """None if a price is unknown or no request was made."""


@dataclass(frozen=True, kw_only=True)
class Finished(LeaseRecord):
    """The end of a task."""

    status: Status
    error: str | None = None
    figures: Figures = field(default_factory=Figures)
    seconds: float = 0.0
    """From the last lease to the end."""
    child_seconds: float = 0.0
    """How many of those seconds `kode run` took."""
    verify: Verdict = ""
    """ "" if the task has no check, or it did not run."""
    verify_output: str = ""
    """The end of the check's output, if it failed."""
    files: tuple[str, ...] = ()
    """The files that its patch changes; () without a patch."""
    tree: str = ""
    """The worktree, if it was kept."""
    type: Literal["finished"] = "finished"

    @property
    def is_good(self) -> bool:
        """Whether the task succeeded and its check, if it has one, did not fail."""
        return self.status == "success" and self.verify != "failed"


@dataclass(frozen=True, kw_only=True)
class Cancelled:
    at: float
    type: Literal["cancelled"] = "cancelled"


Record = Leased | Started | Released | Finished | Cancelled


@dataclass
class TaskState:
    """The state of one task."""

    task: FleetTask
    lease: Leased | None = None
    """The current lease; None if no worker has the task."""
    session: str = ""
    """The session id, chosen with the first lease; "" before."""
    starts: list[Started] = field(default_factory=list)
    kills: int = 0
    """How often a signal from outside has ended its process."""
    finished: Finished | None = None
    reason: str = ""
    """Why the task was last released."""

    @property
    def started(self) -> Started | None:
        """The latest start."""
        return self.starts[-1] if self.starts else None

    def is_held_under(self, lease: str) -> bool:
        """Whether the lease with this id is the current one; False once the task has ended."""
        return self.lease is not None and self.lease.lease == lease


@dataclass
class QueueState:
    """The state of a queue."""

    tasks: dict[str, TaskState]
    """By id, in the order of the task file."""
    cancelled: bool = False

    def apply(self, record: Record) -> None:
        """Applies one record; ignores one under an old lease, or about a task that has ended."""
        if isinstance(record, Cancelled):
            self.cancelled = True
            return
        task = self.tasks.get(record.task)
        if task is None or task.finished is not None:
            return
        if isinstance(record, Leased):
            task.lease, task.session = record, task.session or record.session
        elif not task.is_held_under(record.lease):
            return
        elif isinstance(record, Started):
            task.starts.append(record)
        elif isinstance(record, Released):
            task.lease, task.reason = None, record.reason
            task.kills += record.killed
        else:
            task.lease, task.finished = None, record

    def open_tasks(self) -> Iterator[TaskState]:
        """The tasks that have not ended."""
        return (task for task in self.tasks.values() if task.finished is None)


Show = Callable[[TaskState, Record], None]
"""Called for each start, release and end of a task that this process runs."""


def replay_records(tasks: Iterable[FleetTask], records: Iterable[Record] = ()) -> QueueState:
    """The state of the tasks after these records."""
    state = QueueState({task.id: TaskState(task) for task in tasks})
    for record in records:
        state.apply(record)
    return state


@functools.cache
def make_codecs() -> "tuple[TypeAdapter[Record], TypeAdapter[Fleet]]":
    """The codecs of a line of the log, and of the fleet."""
    from pydantic import Field, TypeAdapter  # not for `--help`

    return TypeAdapter(Annotated[Record, Field(discriminator="type")]), TypeAdapter(Fleet)


class Queue:
    """An open queue. Created by `create_queue` or `open_queue`."""

    def __init__(self, folder: Path, fleet: Fleet) -> None:
        self.folder = folder
        """Its path contains no link."""
        self.fleet = fleet
        self.state = replay_records(fleet.tasks)
        self.log = RecordLog(folder / LOG)
        self._locks: dict[str, contextlib.ExitStack] = {}
        """The held locks of the tasks that this process has, by task id."""
        self._budget = SharedBudget(folder / SPENT)

    def task_folder(self, task_id: str) -> Path:
        """The folder of one task; created with its first lease."""
        return self.folder / "tasks" / task_id

    def refresh(self) -> list[Record]:
        """Reads and returns what other processes have recorded. Raises: StorageError."""
        records: list[Record] = []
        for line in self.log.read():
            try:
                records.append(make_codecs()[0].validate_json(line))
            except ValueError:
                self.log.damaged += 1
            else:
                self.state.apply(records[-1])
        return records

    def lease(self) -> Leased | None:
        """Leases a free task to this process, and locks it. None if no task is free, or none should
        start any more. Raises: StorageError."""
        with self._hold_log():
            for state in self.state.open_tasks() if not self.explain_stop() else ():
                if self._lock_task(state):
                    lease = Leased(
                        task=state.task.id,
                        lease=secrets.token_hex(8),
                        host=socket.gethostname(),
                        session=state.session or new_id(),
                    )
                    self._append(lease)
                    return lease
        return None

    def record(self, record: Record, *, under: Leased) -> bool:
        """Appends a record if the lease `under` is still current, and returns whether it was.
        Unlocks the task if that lease has ended. Raises: StorageError."""
        with self._hold_log():
            is_held = self.is_current(under)
            if is_held:
                self._append(record)
        if not self.is_current(under):
            self._unlock_task(under.task)
        return is_held

    def close(self) -> None:
        """Unlocks the tasks that this process still has; their leases stay in the log."""
        for task_id in list(self._locks):
            self._unlock_task(task_id)

    def resume(self, budget_usd: float | None) -> None:
        """Checks that the queue can continue, and sets its new budget if one is given. Raises:
        StorageError; UserError for a cancelled queue."""
        if self.state.cancelled:
            raise UserError(
                f"Fleet {self.fleet.id} was cancelled and cannot continue. `kode fleet collect "
                f"{self.fleet.id}` has what it changed; start the rest as a new fleet."
            )
        if budget_usd is not None:
            self._budget.set_limit(budget_usd)
            for state in self.state.tasks.values():
                if state.finished is not None:
                    self.book_missing_cost(state, state.finished.figures.cost_usd)

    def cancel(self) -> list[Started]:
        """Cancels the queue: no more tasks start, and workers stop theirs. Returns the starts on
        this machine whose worker is gone: the caller must end their processes. Raises:
        StorageError."""
        with self._hold_log():
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
        """The budget of all tasks, read again from disk; None without one. Raises: StorageError."""
        if self.fleet.budget_usd is None and not self._budget.path.exists():
            return None
        self._budget.refresh()
        return self._budget

    def book_missing_cost(self, state: TaskState, cost_usd: float | None) -> None:
        """Adds to the budget the part of a task's cost that only its session has: a killed kode may
        have saved a reply without booking its price. Raises: StorageError."""
        budget = self.budget()
        if budget is not None and cost_usd is not None:
            missing = cost_usd - budget.spent_by[state.session]
            if missing > LEAST_USD:
                budget.add(missing, state.session)

    def is_current(self, lease: Leased) -> bool:
        """Whether a lease is still the current one of its task; False once the task has ended."""
        return self.state.tasks[lease.task].is_held_under(lease.lease)

    def is_free(self, state: TaskState) -> bool:
        """Whether a task has not ended and no worker has it, by its lease or its lock."""
        if state.lease is None:
            return state.finished is None
        try:
            with open(self.task_folder(state.task.id) / ".lock", "rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # until it is closed
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def _lock_task(self, state: TaskState) -> bool:
        """Locks a task for this process; False if a worker has it already. Raises: StorageError."""
        folder = self.task_folder(state.task.id)
        if state.task.id in self._locks:
            return False
        lock = contextlib.ExitStack()
        try:
            lock.enter_context(hold_lock(folder, timeout_s=0, follow=False))
        except UserError:
            return False
        self._locks[state.task.id] = lock
        return True

    def _unlock_task(self, task_id: str) -> None:
        if lock := self._locks.pop(task_id, None):
            lock.close()

    @contextlib.contextmanager
    def _hold_log(self) -> Iterator[None]:
        """Locks the log for the block, and reads it to its end first."""
        with self.log.hold() as self._append_line:
            self.refresh()
            yield

    def _append(self, record: Record) -> None:
        self._append_line(make_codecs()[0].dump_json(record))
        self.refresh()


def new_id() -> str:
    """An id for a fleet or for a task's session."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def create_queue(home: Path, fleet: Fleet) -> Queue:
    """Creates a queue; it exists once its `fleet.json` is in place. Raises: StorageError."""
    folder = home / "queues" / fleet.id
    make_folder(folder)
    if fleet.budget_usd is not None:
        SharedBudget(folder / SPENT).set_limit(fleet.budget_usd)
    line = make_codecs()[1].dump_json(fleet)
    replace_file(folder / FLEET, b"%s\n%08x\n" % (line, zlib.crc32(line)))
    return Queue(Path(real_path(folder)), fleet)


def open_queue(home: Path, name: str | None) -> Queue:
    """Opens the queue of this home whose id begins with `name`; without a name, the newest.

    Raises: SessionError if there is none, or several; UserError if it cannot be read; StorageError.
    """
    folder = Path(real_path(_find_queue(home, name)))
    path = folder / FLEET
    try:
        with storage_errors(path, "read"):
            line, checksum, _ = path.read_bytes().split(b"\n")
        if checksum != b"%08x" % zlib.crc32(line):
            raise ValueError("its checksum does not fit")
        fleet = make_codecs()[1].validate_json(line)
    except ValueError:
        raise UserError(
            f"{path} cannot be read: it is damaged, or of another version of kode. Its log and its "
            "patches are beside it; start the tasks that are left as a new fleet."
        ) from None
    queue = Queue(folder, fleet)
    queue.refresh()
    return queue


def list_queues(home: Path) -> list[Path]:
    """The folders of the queues in `home`, the newest first."""
    files = (home / "queues").glob(f"*/{FLEET}")
    return sorted((file.parent for file in files), reverse=True)


def _find_queue(home: Path, name: str | None) -> Path:
    folders = list_queues(home)
    if name is None and folders:
        return folders[0]
    matches = [folder for folder in folders if name is not None and folder.name.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(folder.name for folder in matches[:5])
        raise SessionError(
            f"{len(matches)} fleets start with {name!r}: {names}. Give more of the id."
        )
    which = f"no fleet {name!r}" if name is not None else "no fleet yet"
    raise SessionError(
        f"There is {which} in {home / 'queues'}. `kode fleet run TASKS.jsonl` starts one."
    )
