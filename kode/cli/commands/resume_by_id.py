"""`kode resume [ID]`: `kode continue` under another agent's name, which takes the id as a word."""

from collections.abc import Sequence

from kode.cli.commands.resume import continue_session
from kode.cli.flags import add_conversation_flags
from kode.cli.parser import Parser


def main(argv: Sequence[str]) -> int:
    """Runs `kode resume` with these arguments and returns its exit code."""
    parser = Parser("kode resume", "Resume a session; without ID, pick one.")
    parser.add_argument("id", nargs="?", default="", metavar="ID", help="the beginning of its id")
    parser.add_argument("task", nargs="?", metavar="TASK", help="the task; `-` reads stdin")
    add_conversation_flags(parser)
    arguments = parser.parse(argv)
    return continue_session(arguments, arguments.id, arguments.task)
