"""The JSON lines of a queue. `tasks.jsonl` is written once: a `Fleet`, then every `Task`.
`log.jsonl` only grows, one line for each thing that happened.

    Leased      a worker has a task for itself, and the id of its session is chosen
    Alive       a worker's leases last longer
    Started     the work tree is there; the process of the task is started next
    Released    a worker gave a task back, which is to be continued
    Finished    a task has ended, and how
    Reopened    a task that had failed is to be continued
    Resumed     a person has the queue worked on again: failures in a row count from here
    Cancelled   nothing more is to be started

Nothing here touches a file.
"""

import functools
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, TypeAdapter

from kode.contracts import PermissionMode
from kode.sealed import is_intact, seal

VERSION = 1

# A queue may come from elsewhere. What becomes part of a path or an argument of git has a form in
# which it can be nothing else; a line with another one cannot be read.
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
Name = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
ObjectId = Annotated[str, StringConstraints(pattern="^(?:[0-9a-f]{40}|[0-9a-f]{64})?$")]
"""Of a commit or a tree of git, or ""."""
PATCH = "changes.patch"
"""The name of a task's patch in its folder."""
PatchPath = Annotated[str, StringConstraints(pattern=f"^(?:tasks/{NAME}/{PATCH})?$")]

Isolation = Literal["worktree", "clone", "copy", "none"]
Status = Literal["success", "error", "timeout", "cancelled"]
Verdict = Literal["passed", "failed", ""]


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """What holds for a whole queue."""

    id: Name
    created_at: str
    version: int = VERSION
    jobs: int = 4
    """Tasks at once, of one worker process."""
    budget_usd: float | None = None
    """Of all tasks together; None: no limit."""
    max_failures: int | None = None
    """Failures in a row after which nothing more is started; None: no limit."""
    keep_trees: bool = False
    """Whether the work tree of a task that succeeded stays."""
    trees: str = ""
    """The folder of the work trees."""
    flags: tuple[str, ...] = ()
    """More flags of every `kode run`."""
    type: Literal["fleet"] = "fleet"


@dataclass(frozen=True, kw_only=True)
class Task:
    id: Name
    task: str
    source: str
    """The folder it is about, absolute; or the address of a repository."""
    isolate: Isolation
    base: ObjectId = ""
    """The commit that the work tree begins with; "" where the source is no repository here."""
    model: str | None = None
    mode: PermissionMode | None = None
    budget_usd: float | None = None
    timeout_s: float | None = None
    verify: str = ""
    """A command that says by its exit status whether the result is good."""
    type: Literal["task"] = "task"


@dataclass(frozen=True, kw_only=True)
class Leased:
    task: str
    lease: str
    """Unlike every other lease."""
    worker: Name
    host: str
    pid: int
    until: float
    """Seconds since the epoch, by the clock of `host`."""
    session: Name
    """That of the first lease, for every later one."""
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
    """The folder the process works in."""
    base: ObjectId
    """What its changes are compared with: a commit or a tree; "" without a work tree of its own."""
    mark: str
    """In the environment of the process and of all it starts, so that they are found."""
    unknown: tuple[str, ...] = ()
    """Calls of an earlier start whose effect nobody knows: they are not made again unsaid."""
    type: Literal["started"] = "started"


@dataclass(frozen=True, kw_only=True)
class Released:
    task: str
    lease: str
    reason: str
    killed: bool = False
    """Whether something else, such as the kernel for lack of memory, ended its process."""
    type: Literal["released"] = "released"


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The end of a task. The figures are those of its whole session, but for the seconds."""

    task: str
    lease: str
    at: float
    status: Status
    error: str | None = None
    answer: str = ""
    """The beginning of what the model said last."""
    steps: int = 0
    tokens: int = 0
    """Input and output."""
    cost_usd: float | None = None
    """None where a price is unknown, or nothing was asked."""
    seconds: float = 0.0
    """From the lease to here."""
    child_seconds: float = 0.0
    """Of that, in `kode run`."""
    verify: Verdict = ""
    """ "" where there is no command, or it was not run."""
    verify_said: str = ""
    """The end of its output, where it failed."""
    patch: PatchPath = ""
    """The file with the changes, relative to the queue; "" where nothing was changed."""
    files: tuple[str, ...] = ()
    """The files that the patch changes."""
    tree: str = ""
    """The work tree, where it was kept."""
    type: Literal["finished"] = "finished"


@dataclass(frozen=True, kw_only=True)
class Reopened:
    task: str
    type: Literal["reopened"] = "reopened"


@dataclass(frozen=True, kw_only=True)
class Resumed:
    at: float
    budget_usd: float | None = None
    """The new budget of all tasks; None: as before."""
    type: Literal["resumed"] = "resumed"


@dataclass(frozen=True, kw_only=True)
class Cancelled:
    at: float
    type: Literal["cancelled"] = "cancelled"


Record = Leased | Alive | Started | Released | Finished | Reopened | Resumed | Cancelled
Line = Fleet | Task | Record


@functools.cache
def _codec() -> TypeAdapter[Line]:
    return TypeAdapter(Annotated[Line, Field(discriminator="type")])


def line_of(line: Line) -> bytes:
    """One line, without its line feed."""
    return seal(_codec().dump_json(line, exclude_defaults=False))


def parse_line(data: bytes) -> Line:
    """Raises: ValueError for what is none, is damaged, or is of a newer kode."""
    if not is_intact(data):
        raise ValueError("the checksum of the line does not fit")
    return _codec().validate_json(data)
