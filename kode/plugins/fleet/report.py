"""The state of a queue for people and programs: a summary and a row per task, as lines or JSON."""

from dataclasses import asdict
from typing import Any

from kode.plugin import money, plural, print_either, shorten
from kode.plugins.fleet.collect import choose
from kode.plugins.fleet.queue import LOG, Queue
from kode.plugins.fleet.records import PATCH, Figures, Record, TaskState
from kode.plugins.fleet.worker import Show

Values = dict[str, Any]
"""As JSON; docs/fleet.md explains those of a task."""

TITLES = ("task", "session", "status", "verify", "files", "cost", "time", "starts", "host")


def row_of(queue: Queue, state: TaskState) -> Values:
    """One task."""
    task, end, started = state.task, state.finished, state.started
    holder = state.lease or started
    reason = (end.error or end.verify_output) if end else state.reason
    tree = end.tree if end else started.tree if started else ""
    files = end.files if end else ()
    return {
        "task": task.id,
        "session": state.session or None,
        "status": _status(queue, state),
        "patch": str(queue.task_folder(task.id) / PATCH) if files else None,
        "files": files,
        "verify": end.verify if end else "",
        "seconds": end.seconds if end else 0.0,
        **asdict(end.figures if end else Figures()),
        "host": holder.host if holder else None,
        "starts": len(state.starts),
        "unknown": [call for start in state.starts for call in start.unknown],
        "error": reason or None,
        "tree": tree or None,
        "text": task.task,
    }


def _status(queue: Queue, state: TaskState) -> str:
    """How a task ended; else `waiting`, `leased`, `running`, `interrupted` or `cancelled`."""
    if state.finished is not None:
        return state.finished.status
    if not queue.is_free(state):
        return "running" if state.has_open_start else "leased"
    if queue.state.cancelled:
        return "cancelled"
    return "interrupted" if state.starts else "waiting"


def rows_of(queue: Queue) -> list[Values]:
    """Every task, in the order of the task file."""
    return [row_of(queue, state) for state in queue.state.tasks.values()]


def summary_of(queue: Queue) -> Values:
    """The whole queue, as the last line of `kode fleet run` has it."""
    states = list(queue.state.tasks.values())
    ends = [state.finished for state in states if state.finished is not None]
    good = sum(end.is_good for end in ends)
    running = sum(_status(queue, state) in ("leased", "running") for state in states)
    is_unpriced = any(end.figures.cost_usd is None and end.figures.tokens for end in ends)
    return {
        "id": queue.fleet.id,
        "folder": str(queue.folder),
        "created_at": queue.fleet.created_at,
        "tasks": len(states),
        "waiting": len(states) - len(ends) - running,
        "running": running,
        "good": good,
        "bad": len(ends) - good,
        "cost_usd": None if is_unpriced else sum(end.figures.cost_usd or 0.0 for end in ends),
        "tokens": sum(end.figures.tokens for end in ends),
        "stopped": queue.explain_stop(),
        "damaged": queue.log.damaged + queue.log.duplicates,
        "lost_bytes": queue.log.lost_bytes,
    }


def json_printer(queue: Queue) -> Show:
    """Prints a line of JSON whenever a task is started, released or finished."""

    def show(state: TaskState, record: Record) -> None:
        print_either({"type": record.type, **row_of(queue, state)}, as_json=True)

    return show


def line_printer(queue: Queue) -> Show:
    """Prints a line whenever a task is released or finished."""

    def show(state: TaskState, record: Record) -> None:
        if record.type == "started":
            return
        states = queue.state.tasks.values()
        ended = str(sum(other.finished is not None for other in states))
        row, total = row_of(queue, state), str(len(states))
        text = row["error"] if row["error"] and row["status"] != "success" else row["text"]
        id, _, *cells, _ = cells_of(row)
        cells = [f"{ended:>{len(total)}}/{total}", id, *cells, shorten(text, 80)]
        print_either(lines=["  ".join(filter(None, cells))])

    return show


def cells_of(row: Values) -> tuple[str, ...]:
    """What stands under `TITLES`."""
    files = row["files"]
    return (
        row["task"],
        row["session"] or "",
        row["status"],
        {"passed": "verified", "failed": "check failed", "": ""}[row["verify"]],
        plural(len(files), "file") if files else "",
        money(row["cost_usd"]),
        f"{row['seconds']:.1f} s" if row["seconds"] else "",
        f"{row['starts']} starts" if row["starts"] > 1 else "",
        shorten(row["host"] or "", 1000),
    )


def conclusion(queue: Queue) -> str:
    """The state of a fleet, and what to do next."""
    summary, id, log = summary_of(queue), queue.fleet.id, queue.folder / LOG
    parts = [f"{summary['good']} of {summary['tasks']} tasks succeeded"]
    states = {"failed": "bad", "running": "running", "waiting": "waiting"}
    parts += [f"{summary[key]} {word}" for word, key in states.items() if summary[key]]
    cost = money(summary["cost_usd"]) or "Cost unknown"
    text = f"{', '.join(parts)}. {cost}, {summary['tokens']:,} tokens."
    if summary["stopped"]:
        text += f" {summary['stopped']}"
    if summary["damaged"]:
        text += f" {summary['damaged']} lines of {log} are damaged and were left out."
    if summary["lost_bytes"]:
        text += (
            f" {summary['lost_bytes']} bytes of {log} are lost: tasks whose end was in them count "
            "as interrupted."
        )
    if (summary["waiting"] or summary["running"]) and not queue.state.cancelled:
        return f"{text} Continue with: kode fleet resume {id}"
    if choose(queue, (), include_failed=True):
        text += f" The changes: kode fleet collect {id}"
    return text
