"""`kode` without a command, `kode continue` and `kode resume`: the prompt, one task, or a session
to resume."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from kode.cli.flags import add_conversation_flags, working_directory
from kode.cli.parser import COMMANDS, Parser
from kode.errors import EXIT_OK, ConfigError, StorageError, UserError

PICK = ""
"""`-r` without an id: the person picks a session."""


def command_first(argv: Sequence[str]) -> list[str]:
    """The words with a command that stands behind flags before them: `--plain run TASK` is `run
    TASK --plain`."""
    for at, word in enumerate(argv):
        if word not in COMMANDS:
            continue
        try:
            before = _parser().parse_known_args(list(argv[:at]))[0]
        except ConfigError:  # the word is the value of a flag
            continue
        if before.task is None and not before.print:
            return [word, *argv[at + 1 :], *argv[:at]]
    return list(argv)


def main(argv: Sequence[str]) -> int:
    """Runs a command line without a command and returns its exit code. Raises: ConfigError for an
    unknown command."""
    parser = _parser()
    arguments = parser.parse(argv)
    if arguments.session_id and not arguments.print:
        raise ConfigError("--session-id goes with `kode run` or -p. `kode -r ID` opens a session.")
    prints = arguments.print or arguments.input_format == "stream-json"
    if arguments.newest or arguments.resume is not None:
        task = arguments.task or ("-" if prints else None)
        return continue_session(arguments, arguments.resume, task)
    if prints:
        from kode.cli.commands.run import run_task

        return run_task(arguments, arguments.task, None)
    if arguments.task and not any(c.isspace() for c in arguments.task):
        raise ConfigError(
            f"kode: unknown command {arguments.task!r}. "
            f"To run a task of one word: `kode run {arguments.task}`."
        )
    from kode.cli.commands.opening import is_set_up, open_repl, stdin_is_terminal

    if stdin_is_terminal():
        return open_repl(arguments, arguments.task, None)
    from kode.cli.commands.run import run_read_task
    from kode.cli.commands.task import read_task

    task, piped = read_task(arguments.task)
    wants_text = arguments.output_format in (None, "text")
    if not task.strip() and wants_text and not is_set_up(arguments, working_directory(arguments)):
        from kode.cli.commands import demo

        print("kode: no terminal and no task, so here is the demo.", file=sys.stderr)
        return demo.main([])
    return run_read_task(arguments, task, piped, None)


def continue_newest(argv: Sequence[str]) -> int:
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
    an id, `PICK` to let the person pick, None for the newest.

    Raises: SessionError if none or several match; ConfigError.
    """
    from kode.cli.commands.opening import open_repl, stdin_is_terminal
    from kode.cli.commands.run import run_task
    from kode.paths import home
    from kode.session.index import find

    if arguments.no_session:
        raise ConfigError("--no-session cannot be used when resuming. Drop one of the two.")
    cwd, is_watched = working_directory(arguments), stdin_is_terminal()
    if prefix == PICK and not is_watched:
        raise ConfigError(
            "There is no terminal to pick a session in. Name one with `kode -r ID`; "
            "`kode session list` lists them."
        )
    if prefix == PICK and task is None:
        return open_repl(arguments, "/resume", None)
    try:
        if prefix == PICK:
            from kode.cli.prompt.pickers import pick_session
            from kode.cli.screen.screen import open_screen

            session_id = asyncio.run(pick_session(open_screen(), home(), cwd))
        else:
            session_id = find(home(), prefix) if prefix else _newest(cwd)
    except StorageError as error:
        raise UserError(str(error)) from error
    if session_id is None:
        return EXIT_OK
    if task is None and is_watched:
        return open_repl(arguments, None, session_id)
    return run_task(arguments, task, session_id)


def _newest(cwd: Path) -> str:
    """The session used last; says which later ones were passed over. Raises: SessionError."""
    from kode.cli.screen.printer import complain
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


def _parser() -> Parser:
    parser = Parser("kode", "The REPL of kode, a coding agent.")
    parser.add_argument("task", nargs="?", metavar="TASK", help="a first task, in quotes")
    parser.add_argument("-p", "--print", action="store_true", help="same as `kode run TASK`")
    parser.add_argument(
        *("-c", "--continue"), action="store_true", dest="newest", help="same as `kode continue`"
    )
    parser.add_argument(
        *("-r", "--resume"), nargs="?", const=PICK, metavar="ID", help="that session, or pick one"
    )
    parser.add_argument("--session-id", metavar="ID", help="with -p: the id of the new session")
    add_conversation_flags(parser)
    return parser
