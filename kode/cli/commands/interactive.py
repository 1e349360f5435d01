"""`kode` without a command: the REPL; `-p`, `-c` and `-r` are shortcuts to other commands.

This module parses; `opening.py` opens the prompt.
"""

import sys
from collections.abc import Sequence

from kode.cli.flags import add_conversation_flags, working_directory
from kode.cli.parser import COMMANDS, Parser
from kode.errors import ConfigError

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
        from kode.cli.commands.resume import continue_session

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
