"""`kode continue`: resumes the newest session of this directory, or the one named, with a task like
`run`, or in the REPL."""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

from kode.cli.flags import add_conversation_flags, working_directory
from kode.cli.parser import Parser
from kode.cli.screen.printer import complain
from kode.errors import EXIT_OK, ConfigError, StorageError, UserError


def main(argv: Sequence[str]) -> int:
    """Runs `kode continue` with these arguments and returns its exit code."""
    parser = Parser("kode continue", "Resume the newest session: with TASK like `kode run`.")
    parser.add_argument("--id", metavar="ID", help="the id of another, or any unique prefix")
    return _continue(parser, argv)


def by_id(argv: Sequence[str]) -> int:
    """`kode resume [ID]`: another agent's name for it, with the id as a positional argument."""
    parser = Parser("kode resume", "Resume a session; without ID, pick one.")
    help_ = "its id, or any unique prefix"
    parser.add_argument("id", nargs="?", default="", metavar="ID", help=help_)
    return _continue(parser, argv)


def _continue(parser: Parser, argv: Sequence[str]) -> int:
    parser.add_argument("task", nargs="?", metavar="TASK", help="the task; `-` reads stdin")
    add_conversation_flags(parser)
    arguments = parser.parse(argv)
    return continue_session(arguments, arguments.id, arguments.task)


def continue_session(arguments: argparse.Namespace, prefix: str | None, task: str | None) -> int:
    """Finds the session, then runs the task or opens the REPL in it. `prefix` is the beginning of
    an id, "" to let the person pick, None for the newest.

    Raises: SessionError if none or several match; ConfigError.
    """
    from kode.cli.commands.opening import open_repl, stdin_is_terminal
    from kode.cli.commands.run import run_task
    from kode.paths import home
    from kode.session.index import find

    if arguments.no_session:
        raise ConfigError("--no-session cannot be used when resuming. Drop one of the two.")
    cwd = working_directory(arguments)
    try:
        if prefix == "" and task is None and stdin_is_terminal():
            return open_repl(arguments, "/resume", None)
        if prefix == "":
            session_id = _pick(cwd)
            if session_id is None:
                return EXIT_OK
        else:
            session_id = find(home(), prefix) if prefix else _newest(cwd)
    except StorageError as error:
        raise UserError(str(error)) from error
    if task is None and stdin_is_terminal():
        return open_repl(arguments, None, session_id)
    return run_task(arguments, task, session_id)


def _newest(cwd: Path) -> str:
    """The session used last; says which later ones were passed over. Raises: SessionError."""
    from kode.paths import home
    from kode.session.index import newest, repair_order

    if damage := repair_order(home()):
        complain([damage])
    session_id, passed = newest(home(), cwd)
    for summary in passed:
        why = "cannot be read" if summary.damaged else "has no task yet"
        what = f"session {summary.id}, used later, {why}: resuming {session_id}."
        complain([f"{what} `kode session check {summary.id}` says more."])
    return session_id


def _pick(cwd: Path) -> str | None:
    """The session that the person picks, or None. Raises: ConfigError."""
    from kode.cli.commands.opening import stdin_is_terminal
    from kode.cli.prompt.pickers import pick_session
    from kode.cli.screen.screen import open_screen
    from kode.paths import home

    if not stdin_is_terminal():
        raise ConfigError(
            "There is no terminal to pick a session in. Name one with `kode -r ID`; "
            "`kode session list` lists them."
        )
    return asyncio.run(pick_session(open_screen(), home(), cwd))
