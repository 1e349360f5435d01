"""The command line of `kode start`: that of `kode run`, whatever plug-ins add to it."""

from kode.plugin import Parser


def parser_of_run() -> Parser:
    """The parser of `kode run`, with every flag that it has here, and `--worktree`."""
    from kode.plugin.prompts import Described
    from kode.plugin.prompts import main as run

    before, Parser.describing = Parser.describing, True  # completion may be asking for ours
    try:
        run([])
    except Described as described:
        parser = described.parser
    finally:
        Parser.describing = before
    parser.takes_more = False  # they are there by now
    parser.prog = "kode start"
    parser.description = "Start a task in the background: a session without a terminal."
    mine = "in a git worktree and on a branch of its own"
    parser.add_argument("--worktree", action="store_true", help=mine)
    return parser
