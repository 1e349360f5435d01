"""The output of `kode fleet`: a line per event, a table, a conclusion."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kode.plugin import columns, one_line, plural, print_either

if TYPE_CHECKING:
    from kode.plugins.fleet.queue import Queue
    from kode.plugins.fleet.records import Record
    from kode.plugins.fleet.report import Row
    from kode.plugins.fleet.state import TaskState
    from kode.plugins.fleet.worker import Show


def json_lines(queue: "Queue") -> "Show":
    """Prints a line of JSON whenever a task is started, released or finished."""
    from kode.plugins.fleet.report import row_of

    def show(state: "TaskState", record: "Record") -> None:
        row = row_of(queue, state).as_json()
        print_either({"type": record.type, **row}, (), as_json=True)

    return show


def lines(queue: "Queue") -> "Show":
    """Prints a line whenever a task is released or finished."""
    from kode.plugins.fleet.report import row_of

    def show(state: "TaskState", record: "Record") -> None:
        if record.type == "started":
            return
        states = queue.state.tasks.values()
        ended = sum(other.finished is not None for other in states)
        line = "  ".join(_cells(row_of(queue, state)))
        counted = f"{ended:>{len(str(len(states)))}}/{len(states)}"
        print_either(None, [f"{counted}  {line}"], as_json=False)

    return show


def _cost(row: "Row") -> str:
    return "" if row.cost_usd is None else f"${row.cost_usd:.4f}"


def _time(row: "Row") -> str:
    return f"{row.seconds:.1f} s" if row.seconds else ""


def _cells(row: "Row") -> list[str]:
    files = plural(len(row.files), "file") if row.files else ""
    verify = {"passed": "verified", "failed": "check failed", "": ""}[row.verify]
    restarts = f"{row.starts} starts" if row.starts > 1 else ""
    unknown = f"result unknown: {row.unknown[-1]}" if row.unknown else ""
    text = row.error if row.error and row.status != "success" else row.text
    cells = [
        row.task,
        row.status,
        verify,
        files,
        _cost(row),
        _time(row),
        restarts,
        one_line(unknown)[:60],
    ]
    return [*(cell for cell in cells if cell), one_line(text)[:80]]


def table(rows: "Sequence[Row]") -> list[str]:
    """One line per task, under column titles."""
    titles = ("task", "session", "status", "verify", "files", "cost", "tokens", "time", "host")
    cells: list[tuple[str, ...]] = [titles]
    for row in rows:
        state = (row.task, row.session or "", row.status, row.verify, str(len(row.files) or ""))
        usage = (_cost(row), str(row.tokens or ""), _time(row))
        cells.append((*state, *usage, one_line(row.host or "")))
    return columns(cells)


def conclusion(queue: "Queue") -> str:
    """The state of a fleet, and what to do next."""
    from kode.plugins.fleet.collect import choose
    from kode.plugins.fleet.report import summary_of

    summary = summary_of(queue)
    parts = [f"{summary.good} of {summary.tasks} tasks succeeded"]
    parts += [f"{summary.bad} failed"] if summary.bad else []
    parts += [f"{summary.running} running"] if summary.running else []
    parts += [f"{summary.waiting} waiting"] if summary.waiting else []
    text = f"{', '.join(parts)}. ${summary.cost_usd:.4f}, {summary.tokens:,} tokens."
    if summary.stopped:
        text += f" {summary.stopped}"
    log = f"{summary.folder}/log.jsonl"
    if summary.damaged:
        text += f" {summary.damaged} lines of {log} are damaged and were left out."
    if summary.lost_bytes:
        text += (
            f" {summary.lost_bytes} bytes of {log} are lost: tasks whose end was in them count as "
            "interrupted."
        )
    if (summary.waiting or summary.running) and not queue.state.cancelled:
        return f"{text} Continue with: kode fleet resume {summary.id}"
    if choose(queue, (), include_failed=True):
        text += f" The changes: kode fleet collect {summary.id}"
    return text
