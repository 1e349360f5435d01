"""Parses the command line of `kode fleet`, runs queues and prints their results."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from kode.plugin import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    MODE_CALLED,
    MODE_MEANS,
    ConfigError,
    Parser,
    UserError,
    cancelled_by_signals,
    clean,
    command_of,
    paths,
    plural,
    print_either,
    shorten,
    working_directory,
)
from kode.plugins.fleet.lines import conclusion, json_lines, lines, table
from kode.plugins.fleet.ray_flags import add_ray_flags, executor_of

if TYPE_CHECKING:
    from kode.plugin import PermissionMode
    from kode.plugins.fleet.executors import Executor
    from kode.plugins.fleet.queue import Queue

COMMANDS = {
    "run": "start a fleet: one task per line, or a template over repositories",
    "status": "show the status and result of each task",
    "resume": "continue after a stop or a crash",
    "cancel": "stop the running tasks and start no more",
    "collect": "collect changes as patches, branches or commits",
}
WORKER = "worker"
"""Executors and cluster schedulers start this command; it is not listed for people."""


def main(argv: Sequence[str]) -> int:
    """Runs `kode fleet` with these arguments and returns its exit code."""
    if argv and argv[0] == WORKER:
        return _worker(Parser("kode fleet worker", "Run tasks of a queue."), argv[1:])
    name, parser, rest = command_of("fleet", COMMANDS, argv)
    commands: dict[str, Callable[[Parser, Sequence[str]], int]] = {
        "run": _run,
        "status": _status,
        "resume": _resume,
        "cancel": _cancel,
        "collect": _collect,
    }
    return commands[name](parser, rest)


def _run(parser: Parser, argv: Sequence[str]) -> int:
    add = parser.add_argument
    parser.epilog = "flags after `--` go to every `kode run`, e.g. -- --allow 'shell(pytest:*)'\n"
    add(
        "tasks", nargs="?", metavar="TASKS", help="a file with one JSON object per line; - is stdin"
    )
    add(
        "--template", metavar="TEXT", help="one task per repository: {repo} and {name} are replaced"
    )
    add("--repos", metavar="REPO", nargs="+", default=[], help="folders or addresses")
    add("--jobs", metavar="N", type="whole", default=4, help="tasks at once (4)")
    add("--budget-usd", metavar="X", type="amount", help="spending limit of all tasks together")
    add("--task-budget-usd", metavar="X", type="amount", help="spending limit of each task")
    add("--timeout", metavar="S", type="seconds", help="time limit of each task")
    add(
        "--max-failures",
        metavar="N",
        type="whole",
        default=20,
        help="stop after N failures in a row (20)",
    )
    add("--isolate", choices=("worktree", "clone", "copy", "none"), help="where tasks work")
    add(
        "--verify",
        metavar="CMD",
        default="",
        help="command whose exit status says if a result is good",
    )
    add("--model", metavar="M", help="the model to use")
    add(
        "--permission-mode",
        type=lambda name: MODE_CALLED.get(name, name),
        choices=tuple(MODE_MEANS),
        help="auto-edit, but ask with --isolate none",
    )
    add("--queue", metavar="DIR", help="keep the queue in this folder")
    add("--trees", metavar="DIR", help="make worktrees in this folder")
    add("--keep-trees", action="store_true", help="keep the worktrees of tasks that succeed")
    add("--cwd", metavar="DIR", help="the folder of tasks that name none")
    _add_executor(parser)
    argv, flags = _split(argv)
    arguments = parser.parse(argv)
    executor = executor_of(arguments)
    from kode.plugin import new_session_id, timestamp
    from kode.plugins.fleet.folders import fleet_folder, trees_folder
    from kode.plugins.fleet.queue import create
    from kode.plugins.fleet.records import Fleet
    from kode.plugins.fleet.tasks import Defaults, tasks_from

    cwd = working_directory(arguments)
    tasks = tasks_from(
        _rows(arguments),
        Defaults(
            cwd=cwd,
            model=arguments.model,
            mode=arguments.permission_mode,
            budget_usd=arguments.task_budget_usd,
            timeout_s=arguments.timeout,
            verify=arguments.verify,
            isolate=arguments.isolate,
        ),
    )
    home, id = paths.home(), new_session_id()
    folder = Path(arguments.queue).absolute() if arguments.queue else fleet_folder(home) / id
    trees = Path(arguments.trees).absolute() if arguments.trees else trees_folder(home)
    fleet = Fleet(
        id=id,
        created_at=timestamp(),
        jobs=arguments.jobs,
        budget_usd=arguments.budget_usd,
        max_failures=arguments.max_failures,
        keep_trees=arguments.keep_trees,
        trees=str(trees / id),
        flags=tuple(flags),
    )
    _warn_of_changes({task.source for task in tasks if task.isolate in ("worktree", "clone")})
    return _drive(create(folder, fleet, tasks), executor, arguments)


def _resume(parser: Parser, argv: Sequence[str]) -> int:
    add = parser.add_argument
    _add_queue(parser)
    add("--jobs", metavar="N", type="whole", help="tasks at once")
    add(
        "--budget-usd",
        metavar="X",
        type="amount",
        help="the new limit, including what was already spent",
    )
    add("--failed", action="store_true", help="also continue tasks that failed, in their sessions")
    add(
        "--permission-mode",
        type=lambda name: MODE_CALLED.get(name, name),
        choices=tuple(MODE_MEANS),
        help="the mode of a queue that another home made",
    )
    _add_executor(parser)
    arguments = parser.parse(argv)
    executor = executor_of(arguments)
    queue = _open(arguments)
    if not queue.is_own():
        queue = _take_over(queue, arguments.permission_mode)
    queue.resume(arguments.budget_usd, reopen_failed=arguments.failed)
    return _drive(queue, executor, arguments)


def _take_over(queue: "Queue", mode: "PermissionMode | None") -> "Queue":
    """Prints the unfinished tasks of a queue that another home made, and copies them to a new queue
    of this home, to run in the mode that the person chose. Raises: ConfigError without a mode;
    StorageError."""
    from kode.plugin import new_session_id
    from kode.plugins.fleet.folders import fleet_folder, trees_folder
    from kode.plugins.fleet.owner import adopt
    from kode.plugins.fleet.queue import create

    tasks = [state.task for state in queue.state.open_tasks()]
    for task in tasks:
        check = f"; check: {task.verify}" if task.verify else ""
        line = f"{task.id}  {task.source} ({task.isolate}): {shorten(task.task, 100)}{check}"
        print(clean(line), file=sys.stderr)
    if mode is None:
        raise ConfigError(
            f"{queue.folder} was made by another home: its modes and flags are not used. Give the "
            f"mode in which its {plural(len(tasks), 'open task')} may run here: `kode fleet resume "
            f"{queue.folder} --permission-mode auto-edit`."
        )
    home, id = paths.home(), new_session_id()
    trees = trees_folder(home)
    fleet, tasks = adopt(queue.fleet, tasks, id=id, trees=trees, mode=mode)
    return create(fleet_folder(home) / id, fleet, tasks)


def _worker(parser: Parser, argv: Sequence[str]) -> int:
    _add_queue(parser)
    parser.add_argument("--index", type=int, metavar="N", help="only this task, from 0")
    parser.add_argument("--jobs", type="whole", metavar="N", default=1, help="tasks at once (1)")
    arguments = parser.parse(argv)
    from kode.plugins.fleet.state import is_good
    from kode.plugins.fleet.worker import work

    queue = _open(arguments)
    if not queue.is_own():
        raise ConfigError(
            f"{queue.folder} was made by another home, so no worker runs it here. Set KODE_HOME to "
            f"the home that made it, or take its tasks over: `kode fleet resume {queue.folder}`."
        )
    tasks = list(queue.state.tasks)
    if arguments.index is not None and not 0 <= arguments.index < len(tasks):
        raise ConfigError(f"--index {arguments.index}: the queue has {len(tasks)} tasks, from 0.")
    only = None if arguments.index is None else tasks[arguments.index]
    code = _until_stopped(work(queue, json_lines(queue), jobs=arguments.jobs, only=only))
    ends = [state.finished for name, state in queue.state.tasks.items() if only in (None, name)]
    if code == EXIT_OK and not all(end is not None and is_good(end) for end in ends):
        return EXIT_FAILED
    return code


def _status(parser: Parser, argv: Sequence[str]) -> int:
    _add_queue(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per task")
    arguments = parser.parse(argv)
    from kode.plugins.fleet.report import rows_of

    queue = _open(arguments)
    rows = rows_of(queue)
    if arguments.json:
        for row in rows:
            print_either(row.as_json(), (), as_json=True)
    else:
        print_either(None, [*table(rows), conclusion(queue)], as_json=False)
    return EXIT_OK


def _cancel(parser: Parser, argv: Sequence[str]) -> int:
    _add_queue(parser)
    arguments = parser.parse(argv)
    from kode.plugins.fleet.child import end_orphans

    queue = _open(arguments)
    for started in queue.cancel():
        asyncio.run(end_orphans(started.mark))
    leases = [state.lease for state in queue.state.open_tasks() if state.lease is not None]
    alive = [lease for lease in leases if not queue.is_gone(lease)]
    text = f"Fleet {queue.fleet.id}: {conclusion(queue)}"
    if alive:
        text += f" Workers are stopping {plural(len(alive), 'running task')}."
    print_either(None, [text], as_json=False)
    return EXIT_OK


def _collect(parser: Parser, argv: Sequence[str]) -> int:
    from kode.plugins.fleet.collect import Way, choose, collect, patches

    _add_queue(parser)
    add = parser.add_argument
    add("names", nargs="*", metavar="TASK", help="only these; default: all that succeeded")
    add("--as", dest="way", choices=get_args(Way), default="patch", help="patch (on stdout)")
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
                print_either(None, [patch.decode("utf-8", "replace")], as_json=False)
            else:
                sys.stdout.buffer.write(patch)
        return EXIT_OK
    collected = collect(queue, tasks, arguments.way)
    for result in collected:
        files = f" Files: {', '.join(result.conflicts)}." if result.conflicts else ""
        line = f"{result.task}  {result.ref or f'left out: {result.reason}{files}'}"
        print_either(None, [line], as_json=False)
    return EXIT_OK if all(result.ref for result in collected) else EXIT_FAILED


def _drive(queue: "Queue", executor: "Executor", arguments: argparse.Namespace) -> int:
    """Runs the queue with the executor, prints progress and summary, and returns the exit code."""
    from dataclasses import replace

    if arguments.jobs is not None:
        queue.fleet = replace(queue.fleet, jobs=arguments.jobs)
    as_json = arguments.json or not sys.stdout.isatty()
    if not as_json:
        line = f"Fleet {queue.fleet.id}: {len(queue.state.tasks)} tasks, in {queue.folder}"
        print_either(None, [line], as_json=False)
    code = _until_stopped(executor(queue, json_lines(queue) if as_json else lines(queue)))
    from kode.plugins.fleet.report import summary_of

    queue.refresh()
    summary = summary_of(queue)
    print_either({"type": "fleet", **summary.as_json()}, [conclusion(queue)], as_json=as_json)
    return code or (EXIT_OK if summary.good == summary.tasks else EXIT_FAILED)


def _until_stopped(work: Coroutine[Any, Any, None]) -> int:
    """Runs a coroutine until it returns, or until a signal cancels it. Returns the exit code."""

    async def run() -> int:
        task = asyncio.create_task(work)
        with cancelled_by_signals(task):
            try:
                await task
            except asyncio.CancelledError:
                return EXIT_INTERRUPTED
        return EXIT_OK

    return asyncio.run(run())


def _rows(arguments: argparse.Namespace) -> "list[Any]":
    from kode.plugins.fleet.tasks import parse_rows, rows_from_template

    if arguments.template is not None:
        if arguments.tasks is not None or not arguments.repos:
            raise ConfigError("--template needs --repos REPO ..., and no file of tasks.")
        return rows_from_template(arguments.template, arguments.repos)
    if arguments.tasks is None or arguments.repos:
        raise ConfigError(
            "Name a file of tasks with one JSON object per line, such as "
            '{"task": "Fix the failing test"}; or give --template TEXT --repos REPO ...'
        )
    if arguments.tasks == "-":
        return parse_rows(sys.stdin.read(), "stdin")
    try:
        text = Path(arguments.tasks).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"{arguments.tasks} cannot be read: {why}.") from None
    return parse_rows(text, arguments.tasks)


def _warn_of_changes(sources: set[str]) -> None:
    from kode.plugin import GitError
    from kode.plugins.worktrees import has_changes

    for source in sorted(sources):
        try:
            changed = Path(source).is_dir() and has_changes(Path(source))
        except GitError:
            changed = False
        if changed:
            text = f"kode: {source} has uncommitted changes, which tasks will not see."
            print(clean(f"{text} To include them: --isolate copy."), file=sys.stderr)


def _split(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The arguments before `--`, and those after it."""
    end = list(argv).index("--") if "--" in argv else len(argv)
    return argv[:end], argv[end + 1 :]


def _add_queue(parser: Parser) -> None:
    what = "an id, any unique prefix, or a folder; default: the newest"
    parser.add_argument("queue", nargs="?", metavar="FLEET", help=what)


def _add_executor(parser: Parser) -> None:
    from kode.plugins.fleet.executors import EXECUTORS

    add = parser.add_argument
    add("--executor", choices=tuple(EXECUTORS), default="local", help="where tasks run (local)")
    add_ray_flags(parser)
    add("--json", action="store_true", help="JSON lines, as in a pipe")


def _open(arguments: argparse.Namespace) -> "Queue":
    from kode.plugins.fleet.queue import open_queue

    return open_queue(paths.home(), arguments.queue)
