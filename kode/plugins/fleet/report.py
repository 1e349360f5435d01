"""What a person or a program sees of a queue: where it stands, and a row of each task."""

from dataclasses import asdict, dataclass
from typing import Any

from kode.plugins.fleet.queue import Queue
from kode.plugins.fleet.records import Verdict
from kode.plugins.fleet.state import TaskState, is_good


@dataclass(frozen=True, kw_only=True)
class Row:
    """One task; docs/fleet.md says what each field means."""

    task: str
    session: str | None
    status: str
    """`waiting`, `leased`, `running`, `interrupted`; or how it ended."""
    patch: str | None
    """Absolute."""
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
    """What was asked."""
    answer: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A whole queue."""

    id: str
    folder: str
    created_at: str
    tasks: int
    waiting: int
    running: int
    good: int
    """Ended well, and not found wanting."""
    bad: int
    cost_usd: float
    """Of the tasks that have ended and whose price is known."""
    tokens: int
    stopped: str
    """Why nothing more is started; "" where it is."""
    damaged: int
    """Lines of its log that cannot be read."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def row_of(queue: Queue, one: TaskState) -> Row:
    """The row of one task, as it stands."""
    end = one.finished
    by = one.lease or one.started_by
    return Row(
        task=one.task.id,
        session=one.session or None,
        status=_status(queue, one),
        patch=str(queue.folder / end.patch) if end is not None and end.patch else None,
        files=end.files if end is not None else (),
        verify=end.verify if end is not None else "",
        cost_usd=end.cost_usd if end is not None else None,
        tokens=end.tokens if end is not None else 0,
        steps=end.steps if end is not None else 0,
        seconds=end.seconds if end is not None else 0.0,
        host=by.host if by is not None else None,
        starts=one.starts,
        unknown=one.unknown,
        error=(end.error or end.verify_said or None) if end is not None else one.reason or None,
        tree=(end.tree or None) if end is not None else one.started.tree if one.started else None,
        text=one.task.task,
        answer=end.answer if end is not None else "",
    )


def _status(queue: Queue, one: TaskState) -> str:
    if one.finished is not None:
        return one.finished.status
    if one.lease is not None and not queue.is_gone(one.lease):
        return one.standing
    if queue.state.cancelled:
        return "cancelled"
    return "interrupted" if one.starts else "waiting"


def rows_of(queue: Queue) -> list[Row]:
    """A row a task, in the order of the file."""
    return [row_of(queue, one) for one in queue.state.tasks.values()]


def summary_of(queue: Queue) -> Summary:
    """The whole queue, as it stands."""
    states = list(queue.state.tasks.values())
    ends = [one.finished for one in states if one.finished is not None]
    good = sum(map(is_good, ends))
    running = sum(_status(queue, one) in ("leased", "running") for one in states)
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
    )
