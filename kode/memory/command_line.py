"""The command line of `kode memory ...` and `/memory ...`: words, options, errors."""

import argparse
import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from kode import installed
from kode.errors import ConfigError

LOG_LINES = 20
TARGETS: Mapping[str, Sequence[str]] = {
    "tiered": ("user", "env"),
    "vault": ("user", "preferences", "project", "episodes", "NAME"),
    "journal": ("memory", "history"),
    "notes": ("note", "log", "rule", "summary", "soul"),
}
"""What `add` accepts in each system; if NAME is included, any other name too."""

TARGETS_HELP = """\
targets:
  tiered   user     a fact about you, in every prompt
           env      one about machine and project
  vault    NAME     a line of facts/NAME.md: user, preferences, project, ...
           episodes an entry of this month
  journal  memory   a line of MEMORY.md, in every prompt
           history  an entry of the log
  notes    note     a note, or log, found when it fits
           rule     one that is in every prompt
           summary  what was done
           soul     who kode is for you, in place of what it was
"""


def add_commands(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Adds memory's commands to `parser`; pass the parsed namespace to `run_command`.

    Returns the commands' own parsers, for flags that a face also accepts after the command.
    """
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=CommandParser)
    show = commands.add_parser("show", help="show what the next session will see, or one episode")
    show.add_argument("id", nargs="?", metavar="ID", help="one full episode")
    show.add_argument("--as-of", metavar="DAY", help="the entries there were, as 2026-03-06")
    episodes = commands.add_parser("episodes", help="notes on past sessions, the newest first")
    episodes.add_argument("-n", type=int, default=LOG_LINES, metavar="N", help=f"N ({LOG_LINES})")
    commands.add_parser("status", help="show the system, how full it is, and what is pending")
    search = commands.add_parser("search", help="facts and past sessions, with scores")
    search.add_argument("query", nargs="+", metavar="QUERY")
    search.add_argument("-k", type=int, default=8, metavar="N", help="at most N hits (8)")
    log = commands.add_parser("log", help="the last changes, with reasons")
    log.add_argument("-n", type=int, default=LOG_LINES, metavar="N", help=f"N lines ({LOG_LINES})")
    why = commands.add_parser("why", help="show an entry's history, back to who said it")
    why.add_argument("entry", nargs="+", metavar="ENTRY", help="its id, or a piece of its text")
    undo = commands.add_parser("undo", help="undo a change (the last one, or ID)")
    which = undo.add_mutually_exclusive_group()
    which.add_argument("id", nargs="?", metavar="ID")
    which.add_argument("--session", metavar="SESSION", help="all that this session changed")
    which.add_argument("--import", dest="batch", metavar="ID", help="all of an import")
    undo.add_argument(
        "--with-derived", action="store_true", help="also undo everything derived from it"
    )
    commands.add_parser("rebuild", help="put back what the history has and the files do not")
    review = commands.add_parser("review", help="decide pending items, one key each")
    review.add_argument("--list", action="store_true", help="only list it")
    approve = commands.add_parser("approve", help="approve entries from outside text")
    which = approve.add_mutually_exclusive_group()
    which.add_argument("id", nargs="?", metavar="ID")
    which.add_argument(
        "--from", dest="source", metavar="AGENT", help="all of an agent, or of an import"
    )
    which.add_argument("--all", action="store_true", help="all that are pending")
    approve.add_argument("--yes", action="store_true", help="without asking")
    export = commands.add_parser("export", help="all of it as lines of JSON")
    export.add_argument("file", nargs="?", type=Path, metavar="FILE")
    import_ = commands.add_parser(
        "import",
        help="import an export, or another agent's memory",
        description="Imports an export, edited or not. What another agent remembers goes "
        "into the review, and counts once you approve it. Without FILE the usual places are "
        "looked at.",
    )
    import_.add_argument("file", nargs="?", type=Path, metavar="FILE")
    agents = list(installed.added("memory_imports"))
    import_.add_argument(
        "--from", dest="source", choices=agents, metavar="AGENT", help=", ".join(agents)
    )
    import_.add_argument("--dry-run", action="store_true", help="only list the entries")
    for name, about in installed.subcommands("memory").items():
        commands.add_parser(name, help=about).add_argument("rest", nargs="*")
    add = commands.add_parser(
        "add",
        help="keep something yourself",
        description="Keeps what you write, in the place of the system in use that TARGET names.",
        epilog=TARGETS_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = (target for targets in TARGETS.values() for target in targets if target != "NAME")
    known = _Offered(dict.fromkeys(names))
    add.add_argument("target", metavar="TARGET", choices=known)
    add.add_argument("text", nargs="+", metavar="TEXT")
    add.add_argument("--scope", choices=("global", "project"), help="tiered, notes: where it holds")
    add.add_argument("--since", metavar="WHEN", help="tiered: from when it holds, as 3.2 or a day")
    add.add_argument("--until", metavar="DAY", help="tiered: the last day it holds, as 2026-03-06")
    add.add_argument("--tag", action="append", default=[], help="notes: repeat it for several")
    add.add_argument("--ttl-days", type=int, metavar="N", help="notes: it expires after N days")
    add.add_argument("--evidence", action="append", default=[], help="notes: evidence for a rule")
    add.add_argument("--sensitive", action="store_true", help="notes: kept, never shown to a model")
    for name, words, what in (
        ("replace", ("old", "new"), "replace the one fact that contains OLD"),
        ("archive", ("old",), "keep the one fact that contains OLD for search, out of prompts"),
        ("remove", ("old",), "forget the one fact that contains OLD"),
        ("consolidate", (), "say the same in less (asks the model)"),
    ):
        command = commands.add_parser(name, help=what)
        command.add_argument("target", choices=("user", "env"))
        for word in words:
            command.add_argument(word, metavar=word.upper())
        command.add_argument("--scope", choices=("global", "project"))
    return list(commands.choices.values())


class _Offered(tuple[str, ...]):
    """Suggested words for completion; any other word is valid too."""

    def __contains__(self, word: object) -> bool:
        return True


class CommandParser(argparse.ArgumentParser):
    """An argparse parser that raises instead of ending the process, for the REPL's sake."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        wrong = _WRONG_COMMAND.fullmatch(message)
        if wrong:
            known = re.findall(r"[\w-]+", wrong[2])
            near = difflib.get_close_matches(wrong[1], known, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise ConfigError(
                f"{self.prog}: unknown command {wrong[1]!r}.{hint} "
                f"The commands are: {', '.join(known)}."
            )
        usage = " ".join(self.format_usage().split()).removeprefix("usage: ")
        raise ConfigError(f"{self.prog}: {message}. Usage: {usage}")


_WRONG_COMMAND = re.compile(r"argument COMMAND: invalid choice: '(.*)' \(choose from (.*)\)")
