"""The output of `kode fleet`: a line per event, a table, a conclusion."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kode.cli.screen.lines import clean, one_line
from kode.cli.screen.output import print_line, to_json
from kode.messages import columns, plural

if TYPE_CHECKING:
    from kode.plugins.fleet.queue import Queue
    from kode.plugins.fleet.records import Record
    from kode.plugins.fleet.report import Row
    from kode.plugins.fleet.state import TaskState
    from kode.plugins.fleet.worker import Show


def json_lines(queue: "Queue") -> "Show":
    """Prints a line of JSON for each start, release and end."""
    from kode.plugins.fleet.report import row_of

    def show(one: "TaskState", record: "Record") -> None:
        print_line(to_json({"type": record.type, **row_of(queue, one).as_json()}))

    return show


def lines(queue: "Queue") -> "Show":
    """Prints one line per task that ended or was released."""
    from kode.plugins.fleet.report import row_of

    def show(one: "TaskState", record: "Record") -> None:
        if record.type == "started":
            return
        states = queue.state.tasks.values()
        ended = sum(other.finished is not None for other in states)
        line = "  ".join(_cells(row_of(queue, one)))
        print_line(clean(f"{ended:>{len(str(len(states)))}}/{len(states)}  {line}"))

    return show


def _cost(row: "Row") -> str:
    return "" if row.cost_usd is None else f"${row.cost_usd:.4f}"


def _time(row: "Row") -> str:
    return f"{row.seconds:.1f} s" if row.seconds else ""


def _cells(row: "Row") -> list[str]:
    files = plural(len(row.files), "file") if row.files else ""
    verify = {"passed": "verified", "failed": "check failed", "": ""}[row.verify]
    again = f"{row.starts} starts" if row.starts > 1 else ""
    unknown = f"result unknown: {row.unknown[-1]}" if row.unknown else ""
    what = row.error if row.error and row.status != "success" else row.text
    cells = [
        row.task,
        row.status,
        verify,
        files,
        _cost(row),
        _time(row),
        again,
        one_line(unknown)[:60],
    ]
    return [*(cell for cell in cells if cell), one_line(what)[:80]]


def table(rows: "Sequence[Row]") -> list[str]:
    """One line per task, under column titles."""
    titles = ("task", "session", "status", "verify", "files", "cost", "tokens", "time", "host")
    cells: list[tuple[str, ...]] = [titles]
    for row in rows:
        what = (row.task, row.session or "", row.status, row.verify, str(len(row.files) or ""))
        used = (_cost(row), str(row.tokens or ""), _time(row))
        cells.append((*what, *used, one_line(row.host or "")))
    return columns(cells)


def conclusion(queue: "Queue") -> str:
    """The state of a fleet, and what to do next."""
    from kode.plugins.fleet.collect import choose
    from kode.plugins.fleet.report import summary_of

    of = summary_of(queue)
    parts = [f"{of.good} of {of.tasks} tasks succeeded"]
    parts += [f"{of.bad} failed"] if of.bad else []
    parts += [f"{of.running} running"] if of.running else []
    parts += [f"{of.waiting} waiting"] if of.waiting else []
    text = f"{', '.join(parts)}. ${of.cost_usd:.4f}, {of.tokens:,} tokens."
    if of.stopped:
        text += f" {of.stopped}"
    if of.damaged:
        text += f" {of.damaged} lines of {of.folder}/log.jsonl cannot be read and are left out."
    if (of.waiting or of.running) and not queue.state.cancelled:
        return f"{text} Continue with: kode fleet resume {of.id}"
    if choose(queue, (), all_ended=True):
        text += f" The changes: kode fleet collect {of.id}"
    return text
