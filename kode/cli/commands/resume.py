"""`kode continue`: resume the newest session of this directory, or the one named, with a task as
`run` does it or in the REPL.
"""

import argparse
from collections.abc import Sequence

from kode.cli.flags import add_conversation_flags, working_directory
from kode.cli.parser import Parser
from kode.errors import ConfigError, StorageError, UserError


def main(argv: Sequence[str]) -> int:
    """Runs `kode continue` with these arguments and returns its exit code."""
    parser = Parser("kode continue", "Resume a session: with TASK as `kode run`, else the REPL.")
    parser.add_argument("task", nargs="?", metavar="TASK", help="the task; `-` reads stdin")
    parser.add_argument("--id", metavar="ID", help="a session id, or any unique beginning of one")
    add_conversation_flags(parser)
    arguments = parser.parse(argv)
    return continue_session(arguments, arguments.id, arguments.task)


def continue_session(arguments: argparse.Namespace, prefix: str | None, task: str | None) -> int:
    """Finds the session, then runs the task or opens the REPL in it.

    Raises: SessionError when there is none or several fit; ConfigError.
    """
    from kode.cli.commands.opening import open_repl, stdin_is_terminal
    from kode.cli.commands.run import run_task
    from kode.paths import home
    from kode.session.index import find, newest

    if arguments.no_session:
        raise ConfigError("--no-session and continuing a session exclude each other. Drop one.")
    cwd = working_directory(arguments)
    try:
        session_id = find(home(), prefix) if prefix else newest(home(), cwd)
    except StorageError as error:
        raise UserError(str(error)) from error
    if task is None and stdin_is_terminal():
        return open_repl(arguments, None, session_id)
    return run_task(arguments, task, session_id)
