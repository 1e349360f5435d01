"""The command line of `kode fleet`, and how it shows a queue: a summary and a row for each task, as
lines for a person or as JSON."""

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kode.plugin import (
    ConfigError,
    GitError,
    Parser,
    ProcessTree,
    UserError,
    cancelled_by_signals,
    kode_home,
    money,
    plural,
    print_either,
    require_extra,
    shorten,
    working_directory,
)
from kode.plugins.fleet.queue import (
    LOG,
    PATCH,
    Figures,
    Fleet,
    Queue,
    Record,
    Show,
    TaskState,
    create_queue,
    new_id,
    open_queue,
)
from kode.plugins.fleet.trees import choose_tasks, write_mails
from kode.plugins.worktrees import has_changes

Values = dict[str, Any]
"""A JSON object; docs/fleet.md explains the keys of a task's."""

TITLES = ("task", "session", "status", "verify", "files", "cost", "time", "starts", "host")


def task_row(queue: Queue, state: TaskState) -> Values:
    """A task as a JSON object: how it stands, and what it has cost and changed."""
    task, end, started = state.task, state.finished, state.started
    holder = state.lease or started
    reason = (end.error or end.verify_output) if end else state.reason
    tree = end.tree if end else started.tree if started else ""
    files = end.files if end else ()
    return {
        "task": task.id,
        "session": state.session or None,
        "status": _task_status(queue, state),
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


def _task_status(queue: Queue, state: TaskState) -> str:
    """How a task ended; `waiting`, `running`, `interrupted` or `cancelled` if it has not."""
    if state.finished is not None:
        return state.finished.status
    if not queue.is_free(state):
        return "running"
    if queue.state.cancelled:
        return "cancelled"
    return "interrupted" if state.starts else "waiting"


def summarize_queue(queue: Queue) -> Values:
    """The whole queue as a JSON object: the last line of `kode fleet run`."""
    states = list(queue.state.tasks.values())
    ends = [state.finished for state in states if state.finished is not None]
    good = sum(end.is_good for end in ends)
    running = sum(_task_status(queue, state) == "running" for state in states)
    is_unpriced = any(end.figures.cost_usd is None and end.figures != Figures() for end in ends)
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


def make_printer(queue: Queue, *, as_json: bool) -> Show:
    """Returns a callback that prints a line per released or ended task; as JSON, per start too."""

    def show(state: TaskState, record: Record) -> None:
        row = task_row(queue, state)
        if as_json:
            print_either({"type": record.type, **row}, as_json=True)
        elif record.type != "started":
            states, total = queue.state.tasks.values(), str(len(queue.state.tasks))
            ended = str(sum(other.finished is not None for other in states))
            text = row["error"] if row["error"] and row["status"] != "success" else row["text"]
            id, _, *cells, _ = table_cells(row)
            cells = [f"{ended:>{len(total)}}/{total}", id, *cells, shorten(text, 80)]
            print_either(lines=["  ".join(filter(None, cells))])

    return show


def table_cells(row: Values) -> tuple[str, ...]:
    """The cells of a task's row, in the order of `TITLES`; "" where there is nothing to show."""
    files = row["files"]
    return (
        row["task"],
        row["session"] or "",
        row["status"],
        {"passed": "verified", "failed": "check failed", "": ""}[row["verify"]],
        plural(len(files), "file") if files else "",
        money(row["cost_usd"]) or ("cost unknown" if row["tokens"] else ""),
        f"{row['seconds']:.1f} s" if row["seconds"] else "",
        f"{row['starts']} starts" if row["starts"] > 1 else "",
        shorten(row["host"] or "", 1000),
    )


def describe_queue(queue: Queue) -> str:
    """The state of a fleet and the command to use next, in a few sentences."""
    summary, id, log = summarize_queue(queue), queue.fleet.id, queue.folder / LOG
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
    if any(state.finished and state.finished.files for state in queue.state.tasks.values()):
        text += f" The changes: kode fleet collect {id} | git am -3"
    return text


def _start_fleet(parser: Parser, argv: Sequence[str]) -> int:
    add = parser.add_argument
    parser.epilog = "flags after `--` go to every `kode run`, e.g. -- --model M --timeout 600\n"
    add("tasks", metavar="TASKS", help="a file with one JSON object per line; - is stdin")
    budget = "spending limit of all tasks together"
    add("--budget-usd", metavar="X", type="amount", help=budget)
    add("--isolate", choices=("worktree", "clone", "copy", "none"), help="where tasks work")
    check = "command whose exit status says if a result is good"
    add("--verify", metavar="CMD", help=check)
    modes = "auto-edit, but ask with --isolate none"
    add("--permission-mode", dest="mode", type="mode", help=modes)
    add("--cwd", metavar="DIR", help="the folder of tasks that name none")
    end = list(argv).index("--") if "--" in argv else len(argv)
    arguments = _parse_run_flags(parser, argv[:end])
    from kode.plugins.fleet.tasks import make_tasks, parse_rows

    rows = parse_rows(*_read_task_file(arguments.tasks))
    tasks = make_tasks(rows, working_directory(arguments), vars(arguments))
    home, id = kode_home(), new_id()
    fleet = Fleet(
        id=id,
        created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        tasks=tasks,
        jobs=arguments.jobs or 4,
        budget_usd=arguments.budget_usd,
        # Beside the home, because no tool may write inside it.
        trees=str(home.with_name(f"{home.name}-fleet").absolute() / id),
        flags=tuple(argv[end + 1 :]),
    )
    _warn_of_changes({task.source for task in tasks if task.isolate in ("worktree", "clone")})
    return _run_queue(create_queue(home, fleet), arguments)


def _resume_fleet(parser: Parser, argv: Sequence[str]) -> int:
    add = parser.add_argument
    _add_queue_argument(parser)
    limit = "the new limit, including what was already spent"
    add("--budget-usd", metavar="X", type="amount", help=limit)
    arguments = _parse_run_flags(parser, argv)
    queue = open_queue(kode_home(), arguments.queue)
    queue.resume(arguments.budget_usd)
    return _run_queue(queue, arguments)


def _show_status(parser: Parser, argv: Sequence[str]) -> int:
    _add_queue_argument(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per task")
    queue, arguments = _open_named_queue(parser, argv)
    rows = [task_row(queue, state) for state in queue.state.tasks.values()]
    if arguments.json:
        for row in rows:
            print_either(row, as_json=True)
    else:
        print_either(rows=[TITLES, *map(table_cells, rows)], lines=[describe_queue(queue)])
    return 0


def _cancel_fleet(parser: Parser, argv: Sequence[str]) -> int:
    _add_queue_argument(parser)
    queue, _ = _open_named_queue(parser, argv)
    for started in queue.cancel():
        asyncio.run(ProcessTree(started.mark).end())
    text = f"Fleet {queue.fleet.id}: {describe_queue(queue)}"
    if number := sum(not queue.is_free(state) for state in queue.state.open_tasks()):
        text += f" Workers are stopping {plural(number, 'running task')}."
    print_either(lines=[text])
    return 0


def _collect_changes(parser: Parser, argv: Sequence[str]) -> int:
    _add_queue_argument(parser)
    which = "only these; default: all that succeeded"
    parser.add_argument("names", nargs="*", metavar="TASK", help=which)
    queue, arguments = _open_named_queue(parser, argv)
    tasks = choose_tasks(queue, arguments.names)
    if not tasks:
        raise UserError(
            "There is nothing to collect: no selected task has changes. "
            f"`kode fleet status {queue.fleet.id}` shows each task; one that failed is collected "
            "by its name."
        )
    sys.stdout.flush()
    for mail in write_mails(queue, tasks):
        if sys.stdout.isatty():  # a file may contain control sequences
            print_either(lines=[mail.decode("utf-8", "replace")])
        else:
            sys.stdout.buffer.write(mail)
    return 0


def _run_queue(queue: Queue, arguments: argparse.Namespace) -> int:
    """Runs the queue with its executor, prints progress and summary, and returns the exit code."""
    queue.fleet = replace(queue.fleet, jobs=arguments.jobs or queue.fleet.jobs)
    as_json = arguments.json or not sys.stdout.isatty()
    if not as_json:
        line = f"Fleet {queue.fleet.id}: {len(queue.state.tasks)} tasks, in {queue.folder}"
        print_either(lines=[line])
    show = make_printer(queue, as_json=as_json)
    if arguments.executor == "ray":
        from kode.plugins.fleet.ray import work_on_ray

        working = work_on_ray(queue, show)
    else:
        from kode.plugins.fleet.worker import run_tasks

        working = run_tasks(queue, show, jobs=queue.fleet.jobs)
    code = asyncio.run(_run_until_stopped(working))
    queue.refresh()
    summary = summarize_queue(queue)
    print_either({"type": "fleet", **summary}, [describe_queue(queue)], as_json=as_json)
    return code or (0 if summary["good"] == summary["tasks"] else 1)


async def _run_until_stopped(working: Coroutine[Any, Any, None]) -> int:
    """Runs a coroutine to its end, or until a signal cancels it. Returns the exit code."""
    task = asyncio.ensure_future(working)
    with cancelled_by_signals(task):
        try:
            await task
        except asyncio.CancelledError:
            return 128 + signal.SIGINT
    return 0


def _read_task_file(name: str) -> tuple[str, str]:
    """The text of a task file, and its name for errors; `-` is stdin. Raises: ConfigError."""
    if name == "-":
        return sys.stdin.read(), "stdin"
    try:
        return Path(name).read_text("utf-8"), name
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(
            f"{name} cannot be read: {reason}. Name a file with one JSON object per line, such as "
            '{"task": "Fix the failing test"}.'
        ) from None


def _warn_of_changes(sources: set[str]) -> None:
    for source in sorted(sources):
        with contextlib.suppress(GitError):
            if Path(source).is_dir() and has_changes(Path(source)):
                changed = f"{source} has uncommitted changes, which tasks will not see."
                print_either(faults=[f"{changed} To include them: --isolate copy."])


def _add_queue_argument(parser: Parser) -> None:
    what = "an id or any unique prefix; default: the newest"
    parser.add_argument("queue", nargs="?", metavar="FLEET", help=what)


def _parse_run_flags(parser: Parser, argv: Sequence[str]) -> argparse.Namespace:
    """Adds the flags of the commands that run tasks, and parses `argv`. Raises: ConfigError."""
    add = parser.add_argument
    add("--jobs", metavar="N", type="whole", help="tasks at once (4)")
    add("--executor", choices=("local", "ray"), default="local", help="where tasks run (local)")
    add("--json", action="store_true", help="JSON lines, as in a pipe")
    arguments = parser.parse(argv)
    if arguments.executor == "ray":
        require_extra("ray")
    return arguments


def _open_named_queue(parser: Parser, argv: Sequence[str]) -> tuple[Queue, argparse.Namespace]:
    arguments = parser.parse(argv)
    return open_queue(kode_home(), arguments.queue), arguments


COMMANDS = {
    "run": (_start_fleet, "start a fleet: one task per line"),
    "status": (_show_status, "show the status and result of each task"),
    "resume": (_resume_fleet, "continue after a stop or a crash"),
    "cancel": (_cancel_fleet, "stop the running tasks and start no more"),
    "collect": (_collect_changes, "print changes as mails: kode fleet collect | git am -3"),
}


def main(argv: Sequence[str]) -> int:
    """Runs `kode fleet` with these arguments and returns its exit code."""
    return Parser.run_group("fleet", COMMANDS, argv)
