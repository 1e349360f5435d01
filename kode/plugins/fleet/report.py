"""The status and results of a queue, for people and programs: a summary, and a row per task."""

from dataclasses import asdict, dataclass
from typing import Any

from kode.plugins.fleet.queue import Queue
from kode.plugins.fleet.records import Verdict
from kode.plugins.fleet.state import TaskState, is_good


@dataclass(frozen=True, kw_only=True)
class Row:
    """One task; docs/fleet.md explains the fields."""

    task: str
    session: str | None
    status: str
    """`waiting`, `leased`, `running` or `interrupted`; for a task that has ended, how it ended."""
    patch: str | None
    """The absolute path of the patch."""
    files: tuple[str, ...]
    verify: Verdict
    cost_usd: float | None
    tokens: int
    steps: int
    seconds: float
    host: str | None
    starts: int
    unknown: tuple[str, ...]
    error: str | None
    tree: str | None
    text: str
    """The task's message."""
    answer: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A whole queue; `as_json` gives what the last line of `kode fleet run` prints."""

    id: str
    folder: str
    created_at: str
    tasks: int
    waiting: int
    running: int
    good: int
    """Tasks that succeeded and did not fail their check."""
    bad: int
    cost_usd: float
    """Of the finished tasks, as far as prices are known."""
    tokens: int
    stopped: str
    """Why no more tasks are started; "" if they are."""
    damaged: int
    """Lines of the log that cannot be read or are duplicates."""
    lost_bytes: int
    """Missing bytes of the log, which was cut."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def row_of(queue: Queue, state: TaskState) -> Row:
    """The row of one task."""
    end = state.finished
    lease = state.lease or state.started_by
    return Row(
        task=state.task.id,
        session=state.session or None,
        status=_status(queue, state),
        patch=str(queue.folder / end.patch) if end is not None and end.patch else None,
        files=end.files if end is not None else (),
        verify=end.verify if end is not None else "",
        cost_usd=end.cost_usd if end is not None else None,
        tokens=end.tokens if end is not None else 0,
        steps=end.steps if end is not None else 0,
        seconds=end.seconds if end is not None else 0.0,
        host=lease.host if lease is not None else None,
        starts=state.starts,
        unknown=state.unknown,
        error=(end.error or end.verify_said or None) if end is not None else state.reason or None,
        tree=(end.tree or None)
        if end is not None
        else state.started.tree
        if state.started
        else None,
        text=state.task.task,
        answer=end.answer if end is not None else "",
    )


def _status(queue: Queue, state: TaskState) -> str:
    if state.finished is not None:
        return state.finished.status
    if state.lease is not None and not queue.is_gone(state.lease):
        return state.phase
    if queue.state.cancelled:
        return "cancelled"
    return "interrupted" if state.starts else "waiting"


def rows_of(queue: Queue) -> list[Row]:
    """The row of every task, in the order of the task file."""
    return [row_of(queue, state) for state in queue.state.tasks.values()]


def summary_of(queue: Queue) -> Summary:
    """The summary of a queue."""
    states = list(queue.state.tasks.values())
    ends = [state.finished for state in states if state.finished is not None]
    good = sum(map(is_good, ends))
    running = sum(_status(queue, state) in ("leased", "running") for state in states)
    return Summary(
        id=queue.fleet.id,
        folder=str(queue.folder),
        created_at=queue.fleet.created_at,
        tasks=len(states),
        waiting=len(states) - len(ends) - running,
        running=running,
        good=good,
        bad=len(ends) - good,
        cost_usd=sum(end.cost_usd or 0.0 for end in ends),
        tokens=sum(end.tokens for end in ends),
        stopped=queue.stopped(),
        damaged=len(queue.damaged),
        lost_bytes=queue.lost_bytes,
    )
