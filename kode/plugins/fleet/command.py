"""Parses the command line of `kode fleet`, runs queues and prints their results."""

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode.plugin import (
    ConfigError,
    GitError,
    Parser,
    ProcessTree,
    UserError,
    cancelled_by_signals,
    kode_home,
    plural,
    print_either,
    require_extra,
    working_directory,
)

if TYPE_CHECKING:
    from kode.plugins.fleet.queue import Queue

COMMANDS = {
    "run": "start a fleet: one task per line",
    "status": "show the status and result of each task",
    "resume": "continue after a stop or a crash",
    "cancel": "stop the running tasks and start no more",
    "collect": "collect changes as patches, branches or commits",
}


def main(argv: Sequence[str]) -> int:
    """Runs `kode fleet` with these arguments and returns its exit code."""
    name, parser, rest = Parser.of_group("fleet", COMMANDS, argv)
    commands = (_run, _status, _resume, _cancel, _collect)
    return dict(zip(COMMANDS, commands, strict=True))[name](parser, rest)


def _run(parser: Parser, argv: Sequence[str]) -> int:
    add = parser.add_argument
    parser.epilog = "flags after `--` go to every `kode run`, e.g. -- --allow 'shell(pytest:*)'\n"
    add("tasks", metavar="TASKS", help="a file with one JSON object per line; - is stdin")
    budget = "spending limit of all tasks together"
    add("--budget-usd", dest="total_usd", metavar="X", type="amount", help=budget)
    each = "spending limit of each task"
    add("--task-budget-usd", dest="budget_usd", metavar="X", type="amount", help=each)
    limit = "time limit of each task"
    add("--timeout", dest="timeout_s", metavar="S", type="seconds", help=limit)
    add("--isolate", choices=("worktree", "clone", "copy", "none"), help="where tasks work")
    check = "command whose exit status says if a result is good"
    add("--verify", metavar="CMD", help=check)
    add("--model", metavar="M", help="the model to use")
    modes = "auto-edit, but ask with --isolate none"
    add("--permission-mode", dest="mode", type="mode", help=modes)
    add("--cwd", metavar="DIR", help="the folder of tasks that name none")
    end = list(argv).index("--") if "--" in argv else len(argv)
    arguments = _parse_running(parser, argv[:end])
    from kode.plugins.fleet.queue import create, new_id
    from kode.plugins.fleet.records import Fleet
    from kode.plugins.fleet.tasks import parse_rows, tasks_from

    rows = parse_rows(*_text_of(arguments.tasks))
    tasks = tasks_from(rows, working_directory(arguments), vars(arguments))
    home, id = kode_home(), new_id()
    fleet = Fleet(
        id=id,
        created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        tasks=tasks,
        jobs=arguments.jobs or 4,
        budget_usd=arguments.total_usd,
        # Beside the home, because no tool may write inside it.
        trees=str(home.with_name(f"{home.name}-fleet").absolute() / id),
        flags=tuple(argv[end + 1 :]),
    )
    _warn_of_changes({task.source for task in tasks if task.isolate in ("worktree", "clone")})
    return _drive(create(home, fleet), arguments)


def _resume(parser: Parser, argv: Sequence[str]) -> int:
    add = parser.add_argument
    _add_queue(parser)
    limit = "the new limit, including what was already spent"
    add("--budget-usd", metavar="X", type="amount", help=limit)
    add("--failed", action="store_true", help="also continue tasks that failed, in their sessions")
    arguments = _parse_running(parser, argv)
    queue = _open(arguments)
    queue.resume(arguments.budget_usd, reopen_failed=arguments.failed)
    return _drive(queue, arguments)


def _status(parser: Parser, argv: Sequence[str]) -> int:
    _add_queue(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per task")
    arguments = parser.parse(argv)
    from kode.plugins.fleet.report import TITLES, cells_of, conclusion, rows_of

    queue = _open(arguments)
    rows = rows_of(queue)
    if arguments.json:
        for row in rows:
            print_either(row, as_json=True)
    else:
        print_either(rows=[TITLES, *map(cells_of, rows)], lines=[conclusion(queue)])
    return 0


def _cancel(parser: Parser, argv: Sequence[str]) -> int:
    _add_queue(parser)
    arguments = parser.parse(argv)
    from kode.plugins.fleet.report import conclusion

    queue = _open(arguments)
    for started in queue.cancel():
        asyncio.run(ProcessTree(started.mark).end())
    text = f"Fleet {queue.fleet.id}: {conclusion(queue)}"
    if number := sum(not queue.is_free(state) for state in queue.state.open_tasks()):
        text += f" Workers are stopping {plural(number, 'running task')}."
    print_either(lines=[text])
    return 0


def _collect(parser: Parser, argv: Sequence[str]) -> int:
    from kode.plugins.fleet.collect import choose, collect, patches

    _add_queue(parser)
    add = parser.add_argument
    add("names", nargs="*", metavar="TASK", help="only these; default: all that succeeded")
    ways = ("patch", "branch", "commit")
    add("--as", dest="way", choices=ways, default="patch", help="patch (on stdout)")
    add("--all", action="store_true", help="include tasks that failed")
    arguments = parser.parse(argv)
    queue = _open(arguments)
    tasks = choose(queue, arguments.names, include_failed=arguments.all)
    if not tasks:
        raise UserError(
            "There is nothing to collect: no selected task has changes. "
            f"`kode fleet status {queue.fleet.id}` shows each task"
            + ("." if arguments.all else ", and `--all` includes those that failed.")
        )
    if arguments.way == "patch":
        sys.stdout.flush()
        for _, patch in patches(queue, tasks):
            if sys.stdout.isatty():  # a file may contain control sequences
                print_either(lines=[patch.decode("utf-8", "replace")])
            else:
                sys.stdout.buffer.write(patch)
        return 0
    results = collect(queue, tasks, arguments.way)
    for result in results:
        line = f"{result.task}  {result.ref or f'left out: {result.reason}'}"
        print_either(lines=[line])
    return 0 if all(result.ref for result in results) else 1


def _drive(queue: "Queue", arguments: argparse.Namespace) -> int:
    """Runs the queue with its executor, prints progress and summary, and returns the exit code."""
    from dataclasses import replace

    from kode.plugins.fleet.report import conclusion, json_printer, line_printer, summary_of

    queue.fleet = replace(queue.fleet, jobs=arguments.jobs or queue.fleet.jobs)
    as_json = arguments.json or not sys.stdout.isatty()
    if not as_json:
        line = f"Fleet {queue.fleet.id}: {len(queue.state.tasks)} tasks, in {queue.folder}"
        print_either(lines=[line])
    show = json_printer(queue) if as_json else line_printer(queue)
    if arguments.executor == "ray":
        from kode.plugins.fleet.ray import work_on_ray

        code = _until_stopped(work_on_ray(queue, show))
    else:
        from kode.plugins.fleet.worker import work

        code = _until_stopped(work(queue, show, jobs=queue.fleet.jobs))
    queue.refresh()
    summary = summary_of(queue)
    print_either({"type": "fleet", **summary}, [conclusion(queue)], as_json=as_json)
    return code or (0 if summary["good"] == summary["tasks"] else 1)


def _until_stopped(work: Coroutine[Any, Any, None]) -> int:
    """Runs a coroutine until it returns, or until a signal cancels it. Returns the exit code."""

    async def run() -> int:
        task = asyncio.create_task(work)
        with cancelled_by_signals(task):
            try:
                await task
            except asyncio.CancelledError:
                return 128 + signal.SIGINT
        return 0

    return asyncio.run(run())


def _text_of(name: str) -> tuple[str, str]:
    """The text of a file of tasks, and its name. Raises: ConfigError."""
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
    from kode.plugins.worktrees import has_changes

    for source in sorted(sources):
        with contextlib.suppress(GitError):
            if Path(source).is_dir() and has_changes(Path(source)):
                changed = f"{source} has uncommitted changes, which tasks will not see."
                print_either(faults=[f"{changed} To include them: --isolate copy."])


def _add_queue(parser: Parser) -> None:
    what = "an id or any unique prefix; default: the newest"
    parser.add_argument("queue", nargs="?", metavar="FLEET", help=what)


def _parse_running(parser: Parser, argv: Sequence[str]) -> argparse.Namespace:
    """Adds the flags of commands that run tasks, and parses. Raises: ConfigError."""
    add = parser.add_argument
    add("--jobs", metavar="N", type="whole", help="tasks at once (4)")
    add("--executor", choices=("local", "ray"), default="local", help="where tasks run (local)")
    add("--json", action="store_true", help="JSON lines, as in a pipe")
    arguments = parser.parse(argv)
    if arguments.executor == "ray":
        require_extra("ray")
    return arguments


def _open(arguments: argparse.Namespace) -> "Queue":
    from kode.plugins.fleet.queue import open_queue

    return open_queue(kode_home(), arguments.queue)
