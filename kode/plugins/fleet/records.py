"""What a queue holds: `fleet.json`, a `Fleet` with its tasks, written once; `log.jsonl`, which only
grows, by a line per event; and what follows from both for each task.

    Leased      a worker reserved a task, and its session id is chosen
    Started     the worktree exists; the task's process starts next
    Finished    a task has ended, and how
    Released    a task is open again: given back by its worker, or continued by a person
    Cancelled   no more tasks start

The state of a task is a pure function of these lines, whoever wrote them and wherever the log ends.
The rules that keep a task from being lost or finished twice are here, not in the writers: only the
current lease can start, release or finish a task, a finished task cannot be leased before it is
released, and any other record is ignored. Nothing here touches a file.
"""

import functools
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from kode.plugin import PermissionMode

if TYPE_CHECKING:
    from pydantic import TypeAdapter

VERSION = 3  # counts the changes of both formats

PATCH = "changes.patch"
"""The file name of a task's patch, in the task's folder."""

Isolation = Literal["worktree", "clone", "copy", "none"]
Status = Literal["success", "incomplete", "error", "timeout"]
Verdict = Literal["passed", "failed", ""]


@dataclass(frozen=True, kw_only=True)
class Task:
    id: str
    """Part of names of files and branches."""
    task: str
    source: str
    """The absolute path of the folder to work on, or the address of a repository."""
    isolate: Isolation
    base: str = ""
    """The commit that the worktree starts at; "" if the source is not a local repository."""
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
    tasks: tuple[Task, ...]
    trees: str
    """The folder of the worktrees."""
    jobs: int = 4
    """How many tasks one worker process runs at once."""
    budget_usd: float | None = None
    """For all tasks together; None: no limit."""
    flags: tuple[str, ...] = ()
    """Additional flags of every `kode run`."""
    version: int = VERSION


@dataclass(frozen=True, kw_only=True)
class Leased:
    task: str
    lease: str
    """The unique id of the lease."""
    host: str
    pid: int
    session: str
    """The session id; every later lease of the task repeats it."""
    type: Literal["leased"] = "leased"


@dataclass(frozen=True, kw_only=True)
class Started:
    task: str
    lease: str
    host: str
    at: float
    tree: str
    """The root of the worktree, or the source itself."""
    base: str
    """The commit or tree to compare the changes with; "" without a worktree."""
    mark: str
    """Set in the environment of the process and everything it starts, to find them by."""
    unknown: tuple[str, ...] = ()
    """Calls of an earlier start whose effect is unknown. The model must check them first."""
    type: Literal["started"] = "started"


@dataclass(frozen=True, kw_only=True)
class Released:
    task: str
    lease: str
    """The current lease; of a task that has ended, the one under which it did."""
    reason: str
    killed: bool = False
    """Whether a signal from outside ended its process, such as the kernel's when memory ran out."""
    type: Literal["released"] = "released"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a task came to, according to its session."""

    answer: str = ""
    """The start of the model's last message."""
    steps: int = 0
    tokens: int = 0
    """Input and output."""
    cost_usd: float | None = None
    """None if a price is unknown or no request was made."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The end of a task."""

    task: str
    lease: str
    status: Status
    error: str | None = None
    figures: Figures = field(default_factory=Figures)
    seconds: float = 0.0
    """From the last lease to the end."""
    child_seconds: float = 0.0
    """How much of that was spent in `kode run`."""
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

    task: Task
    lease: Leased | None = None
    """The current lease; None if no worker has the task."""
    session: str = ""
    """The session id, chosen with the first lease; "" before."""
    starts: list[Started] = field(default_factory=list)
    has_open_start: bool = False
    """Whether the latest start has neither been released nor finished: it is running, or its worker
    was killed."""
    kills: int = 0
    """How often a signal from outside has ended its process."""
    finished: Finished | None = None
    reason: str = ""
    """Why it was released."""

    @property
    def started(self) -> Started | None:
        """The latest start."""
        return self.starts[-1] if self.starts else None

    def is_held_under(self, lease: str) -> bool:
        """Whether this is the current lease of the task, which has not ended."""
        return self.lease is not None and self.lease.lease == lease


@dataclass
class State:
    """The state of a queue."""

    tasks: dict[str, TaskState]
    """By id, in the order of the task file."""
    cancelled: bool = False

    def apply(self, record: Record) -> None:
        """Applies one record. A record that does not count changes nothing."""
        if isinstance(record, Cancelled):
            self.cancelled = True
            return
        task = self.tasks.get(record.task)
        if task is None:
            return
        if isinstance(record, Leased):
            if task.finished is None:
                task.lease, task.session = record, task.session or record.session
        elif task.finished is not None:
            is_reopened = isinstance(record, Released) and record.lease == task.finished.lease
            task.finished = None if is_reopened and not self.cancelled else task.finished
        elif not task.is_held_under(record.lease):
            pass
        elif isinstance(record, Started):
            task.starts.append(record)
            task.has_open_start = True
        elif isinstance(record, Released):
            task.lease, task.has_open_start, task.reason = None, False, record.reason
            task.kills += record.killed
        else:
            task.lease, task.has_open_start, task.finished = None, False, record

    def open_tasks(self) -> Iterator[TaskState]:
        """The tasks that have not ended."""
        return (task for task in self.tasks.values() if task.finished is None)


def state_of(tasks: Iterable[Task], records: Iterable[Record] = ()) -> State:
    """The state of the tasks after these records."""
    state = State({task.id: TaskState(task) for task in tasks})
    for record in records:
        state.apply(record)
    return state


@functools.cache
def _codec() -> "tuple[TypeAdapter[Record], TypeAdapter[Fleet]]":
    from pydantic import Field, TypeAdapter  # not for `--help`

    return TypeAdapter(Annotated[Record, Field(discriminator="type")]), TypeAdapter(Fleet)


def encode_record(record: Record) -> bytes:
    """The line, without a line feed."""
    return _codec()[0].dump_json(record)


def parse_record(line: bytes) -> Record:
    """Raises: ValueError for a line that is invalid, or of a newer kode."""
    return _codec()[0].validate_json(line)


def encode_fleet(fleet: Fleet) -> bytes:
    """Two lines: the fleet, and a checksum of the first."""
    line = _codec()[1].dump_json(fleet)
    return b"%s\n%08x\n" % (line, zlib.crc32(line))


def parse_fleet(data: bytes) -> Fleet | None:
    """None for one of another version. Raises: ValueError for one that is invalid or damaged."""
    line, checksum, *_ = [*data.split(b"\n"), b""]
    value = json.loads(line)
    if not isinstance(value, dict) or checksum != b"%08x" % zlib.crc32(line):
        raise ValueError("it is no object, or its checksum does not fit")
    return _codec()[1].validate_python(value) if value.get("version") == VERSION else None
