"""The JSON lines of a queue. `tasks.jsonl` is written once: a `Fleet`, then every `Task`.
`log.jsonl` only grows, by a line per event.

    Leased      a worker reserved a task, and its session id is chosen
    Alive       a worker renewed its leases
    Started     the worktree exists; the task's process starts next
    Released    a worker released a task, which has to be continued
    Finished    a task has ended, and how
    Reopened    a failed task has to be continued
    Resumed     a person resumed the queue: failures in a row count from 0 again
    Cancelled   no more tasks start
    Lost        the log was cut here

Nothing here touches a file.
"""

import functools
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, TypeAdapter

from kode.plugin import PermissionMode, sealed

VERSION = 1  # counts the changes of the log's format

# A queue may come from elsewhere. Values that become part of a path or a git argument must have a
# form that is safe there; a line with any other value cannot be read.
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
Name = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
ObjectId = Annotated[str, StringConstraints(pattern="^(?:[0-9a-f]{40}|[0-9a-f]{64})?$")]
"""The object id of a git commit or tree, or ""."""
PATCH = "changes.patch"
"""The file name of a task's patch, in the task's folder."""
PatchPath = Annotated[str, StringConstraints(pattern=f"^(?:tasks/{NAME}/{PATCH})?$")]

Isolation = Literal["worktree", "clone", "copy", "none"]
Status = Literal["success", "incomplete", "error", "timeout", "cancelled"]
Verdict = Literal["passed", "failed", ""]


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """The settings of a whole queue."""

    id: Name
    created_at: str
    version: int = VERSION
    jobs: int = 4
    """How many tasks one worker process runs at once."""
    budget_usd: float | None = None
    """For all tasks together; None: no limit."""
    max_failures: int | None = None
    """Failures in a row after which no more tasks start; None: no limit."""
    keep_trees: bool = False
    """Whether the worktree of a successful task is kept."""
    trees: str = ""
    """The folder of the worktrees."""
    flags: tuple[str, ...] = ()
    """Additional flags of every `kode run`."""
    tasks: int = 0
    """The number of tasks, known once the queue is made."""
    type: Literal["fleet"] = "fleet"


@dataclass(frozen=True, kw_only=True)
class Task:
    id: Name
    task: str
    source: str
    """The absolute path of the folder to work on, or the address of a repository."""
    isolate: Isolation
    base: ObjectId = ""
    """The commit that the worktree starts at; "" if the source is not a local repository."""
    model: str | None = None
    mode: PermissionMode | None = None
    budget_usd: float | None = None
    timeout_s: float | None = None
    verify: str = ""
    """A command whose exit status tells whether the result is good; "" for none."""
    type: Literal["task"] = "task"


@dataclass(frozen=True, kw_only=True)
class Leased:
    task: str
    lease: str
    """The unique id of the lease."""
    worker: Name
    host: str
    pid: int
    until: float
    """Seconds since the epoch, by the clock of `host`."""
    session: Name
    """The session id; every later lease of the task repeats it."""
    type: Literal["leased"] = "leased"


@dataclass(frozen=True, kw_only=True)
class Alive:
    worker: str
    until: float
    type: Literal["alive"] = "alive"


@dataclass(frozen=True, kw_only=True)
class Started:
    task: str
    lease: str
    at: float
    tree: str
    """The root of the worktree, or the source itself."""
    base: ObjectId
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
    reason: str
    killed: bool = False
    """Whether a signal from outside ended its process, such as the kernel's when memory ran out."""
    type: Literal["released"] = "released"


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The end of a task. Its figures cover the whole session, except for the seconds."""

    task: str
    lease: str
    at: float
    status: Status
    error: str | None = None
    answer: str = ""
    """The start of the model's last message."""
    steps: int = 0
    tokens: int = 0
    """Input and output."""
    cost_usd: float | None = None
    """None if a price is unknown or no request was made."""
    seconds: float = 0.0
    """From the last lease to the end."""
    child_seconds: float = 0.0
    """How much of that was spent in `kode run`."""
    verify: Verdict = ""
    """ "" if the task has no check, or it did not run."""
    verify_said: str = ""
    """The end of the check's output, if it failed."""
    patch: PatchPath = ""
    """The patch file, relative to the queue; "" without changes."""
    files: tuple[str, ...] = ()
    """The files that the patch changes."""
    tree: str = ""
    """The worktree, if it was kept."""
    type: Literal["finished"] = "finished"


@dataclass(frozen=True, kw_only=True)
class Reopened:
    task: str
    type: Literal["reopened"] = "reopened"


@dataclass(frozen=True, kw_only=True)
class Resumed:
    at: float
    budget_usd: float | None = None
    """The new budget of all tasks; None: unchanged."""
    type: Literal["resumed"] = "resumed"


@dataclass(frozen=True, kw_only=True)
class Cancelled:
    at: float
    type: Literal["cancelled"] = "cancelled"


@dataclass(frozen=True, kw_only=True)
class Lost:
    size_bytes: int
    """How many bytes of the log are missing."""
    type: Literal["lost"] = "lost"


Record = Leased | Alive | Started | Released | Finished | Reopened | Resumed | Cancelled | Lost
Line = Fleet | Task | Record


@functools.cache
def _codec() -> TypeAdapter[Line]:
    return TypeAdapter(Annotated[Line, Field(discriminator="type")])


def line_of(line: Line) -> bytes:
    """The line as bytes, without a line feed."""
    return sealed.seal(_codec().dump_json(line, exclude_defaults=False))


def parse_line(data: bytes) -> Line:
    """Raises: ValueError for a line that is invalid, damaged, or of a newer kode."""
    if not sealed.is_intact(data):
        raise ValueError("the checksum of the line does not fit")
    return _codec().validate_json(data)
