"""The command line of `kode memory ...` and `/memory ...`: words, options, errors."""

import argparse
import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from kode import installed
from kode.errors import ConfigError
from kode.registry import SYSTEMS

LOG_LINES = 20


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of `kode memory` and `/memory`."""

    name: str
    help: str
    arguments: Callable[["CommandParser", str], None] = lambda parser, system: None
    """Adds its arguments; those of one system only for it, or for "" (any)."""
    of_all: bool = True
    """Whether every system has it, and not only those whose row says so."""
    reads: bool = False
    """Whether it changes nothing, and creates not even an empty database."""

    def is_of(self, system: str) -> bool:
        return self.of_all or _has(system, self.name)


def _show(parser: "CommandParser", system: str) -> None:
    if _has(system, "show ID"):
        parser.add_argument("id", nargs="?", metavar="ID", help="one full session note")
    parser.add_argument(
        "--as-of", metavar="DAY", help="the entries there were: 2026-03-06, yesterday"
    )


def _count(parser: "CommandParser", system: str) -> None:
    parser.add_argument("-n", type=int, default=LOG_LINES, metavar="N", help=f"N ({LOG_LINES})")


def _search(parser: "CommandParser", system: str) -> None:
    parser.add_argument("query", nargs="+", metavar="QUERY")
    parser.add_argument("-k", type=int, default=8, metavar="N", help="at most N hits (8)")


def _why(parser: "CommandParser", system: str) -> None:
    parser.add_argument("entry", nargs="+", metavar="ENTRY", help="its id, or a piece of its text")


def _undo(parser: "CommandParser", system: str) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("id", nargs="?", metavar="ID")
    which.add_argument("--session", metavar="SESSION", help="all that this session changed")
    which.add_argument("--import", dest="batch", metavar="ID", help="all of an import")
    parser.add_argument(
        "--with-derived", action="store_true", help="also undo everything derived from it"
    )


def _review(parser: "CommandParser", system: str) -> None:
    parser.add_argument("--list", action="store_true", help="only list it")


def _approve(parser: "CommandParser", system: str) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("id", nargs="?", metavar="ID")
    which.add_argument(
        "--from", dest="source", metavar="AGENT", help="all of an agent, or of an import"
    )
    which.add_argument("--all", action="store_true", help="all that are pending")
    parser.add_argument("--yes", action="store_true", help="without asking")


def _drop(parser: "CommandParser", system: str) -> None:
    parser.add_argument("id", metavar="ID")


def _export(parser: "CommandParser", system: str) -> None:
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE")


def _import(parser: "CommandParser", system: str) -> None:
    parser.description = (
        "Imports an export, edited or not. What another agent remembers goes into the review, and "
        "counts once you approve it. Without FILE the usual places are looked at."
    )
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE")
    agents = list(installed.added("memory_imports"))
    parser.add_argument(
        "--from", dest="source", choices=agents, metavar="AGENT", help=", ".join(agents)
    )
    parser.add_argument("--dry-run", action="store_true", help="only list the entries")


def _add(parser: "CommandParser", system: str) -> None:
    parser.description = "Keeps what you write, in the place that TARGET names."
    parser.epilog = "\n".join(("targets:", *_targets_help(system)))
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    names = (word for one in _systems(system) for word in SYSTEMS[one].targets if word != "NAME")
    known = _Offered(dict.fromkeys(names))
    parser.add_argument("target", metavar="TARGET", choices=known)
    parser.add_argument("text", nargs="+", metavar="TEXT")
    for flag, options in ADD_OPTIONS:
        known_here = any(flag in SYSTEMS[one].options for one in _systems(system))
        hidden = {} if known_here else {"help": argparse.SUPPRESS}
        parser.add_argument(flag, **{**options, **hidden})


def _fact(*words: str) -> Callable[["CommandParser", str], None]:
    def arguments(parser: "CommandParser", system: str) -> None:
        parser.add_argument("target", choices=("user", "env"))
        for word in words:
            parser.add_argument(word, metavar=word.upper())
        parser.add_argument("--scope", choices=("global", "project"))

    return arguments


ADD_OPTIONS: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("--scope", {"choices": ("global", "project"), "help": "where it holds"}),
    ("--since", {"metavar": "WHEN", "help": "from when it holds, as 3.2 or a day"}),
    ("--until", {"metavar": "DAY", "help": "its last day, as 2026-03-06"}),
    ("--tag", {"action": "append", "default": [], "help": "repeat it for several"}),
    ("--ttl-days", {"type": int, "metavar": "N", "help": "it expires after N days"}),
    ("--evidence", {"action": "append", "default": [], "help": "for a rule"}),
    ("--sensitive", {"action": "store_true", "help": "never shown to a model"}),
)
"""Flag, how it is parsed; a system's row says which it keeps."""

COMMANDS: Sequence[Command] = (
    Command(name="show", help="what the next session will see", arguments=_show, reads=True),
    Command(name="add", help="keep something yourself", arguments=_add),
    Command(
        name="replace",
        help="replace the one fact that contains OLD",
        arguments=_fact("old", "new"),
        of_all=False,
    ),
    Command(
        name="remove",
        help="forget the one fact that contains OLD",
        arguments=_fact("old"),
        of_all=False,
    ),
    Command(
        name="archive",
        help="keep the one fact that contains OLD out of prompts",
        arguments=_fact("old"),
        of_all=False,
    ),
    Command(
        name="consolidate",
        help="join facts that repeat or outdate others (asks the model)",
        arguments=_fact(),
        of_all=False,
    ),
    Command(
        name="episodes", help="session notes, the newest first", arguments=_count, of_all=False
    ),
    Command(name="review", help="decide what waits, one key each", arguments=_review, reads=True),
    Command(name="approve", help="approve what waits, without keys", arguments=_approve),
    Command(name="drop", help="drop what waits, without keys", arguments=_drop),
    Command(name="log", help="history: the last changes", arguments=_count, reads=True),
    Command(name="why", help="history: who said an entry, and when", arguments=_why, reads=True),
    Command(name="undo", help="history: undo a change (the last one, or ID)", arguments=_undo),
    Command(name="rebuild", help="history: put back what the files no longer have"),
    Command(
        name="search",
        help="facts and session notes, with scores",
        arguments=_search,
        reads=True,
    ),
    Command(name="status", help="how full it is, and what waits", reads=True),
    Command(name="export", help="all of it as lines of JSON", arguments=_export, reads=True),
    Command(name="import", help="import an export, or another agent's memory", arguments=_import),
)
"""What a person may do with memory, at the shell and at the prompt."""


def add_commands(
    parser: argparse.ArgumentParser, system: str = ""
) -> list[argparse.ArgumentParser]:
    """Adds the commands of a system to `parser`, those of all for ""; pass the parsed namespace to
    `run_command`.

    Returns the commands' own parsers, for flags that a face also accepts after the command.
    """
    added = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=CommandParser)
    for command in COMMANDS:
        if command.is_of(system):
            command.arguments(added.add_parser(command.name, help=command.help), system)
    for name, about in installed.subcommands("memory", system).items():
        added.add_parser(name, help=about).add_argument("rest", nargs="*")
    return list(added.choices.values())


def _has(system: str, command: str) -> bool:
    return any(command in SYSTEMS[one].commands for one in _systems(system))


def _targets_help(system: str) -> Iterator[str]:
    for name in _systems(system):
        for at, (target, what) in enumerate(SYSTEMS[name].targets.items()):
            yield f"  {'' if at else name:<9}{target:<12}{what}"


def _systems(system: str) -> Sequence[str]:
    return (system,) if system in SYSTEMS else tuple(SYSTEMS)


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
