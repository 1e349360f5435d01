"""`kode memory ...` and `/memory ...`: what a person can do with memory, in every system.

Commands return an outcome, which the shell and the prompt show.
"""

import argparse
import contextlib
import difflib
import functools
import io
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from kode import installed
from kode.contracts import MemorySystem
from kode.errors import ConfigError, MemoryRefused
from kode.memory import report, review, transfer
from kode.memory.files import UNDO
from kode.memory.guarded import inside, statements_of
from kode.memory.learn import consolidate
from kode.memory.markdown import display
from kode.memory.policy import NO_NOTES, Addition
from kode.memory.scan import check
from kode.memory.statement import Amendment, Outcome, Statement
from kode.memory.system import Memory
from kode.memory.why import why
from kode.messages import shorten
from kode.registry import SYSTEMS, system_row

LOG_LINES = 20  # fits on a screen
HIT_CHARS = 200  # two lines of a terminal
Confirm = Callable[[str], bool]
"""Asks the person."""
Argument = tuple[tuple[str, ...], Mapping[str, Any]]
"""What `add_argument` takes."""
Run = Callable[[Any, argparse.Namespace], Awaitable[str | Outcome]]
"""Runs a command on an open `Memory`; `search` on any system. The namespace has the arguments, and
`confirm`, which is None if nobody can be asked."""


class Command(NamedTuple):
    """A command of `kode memory` and `/memory`."""

    name: str
    help: str
    run: Run
    arguments: Sequence[Argument]
    one_of: Sequence[Argument]
    """Of these at most one is given."""
    of_all: bool
    """Whether every system has it, and not only those whose row says so."""

    def is_of(self, system: str) -> bool:
        return self.of_all or any(self.name in SYSTEMS[name].commands for name in _systems(system))

    def declare(self, parser: argparse.ArgumentParser, system: str) -> None:
        """Adds the arguments to a parser, for one system or for all ("")."""
        if self.name == "add":
            _declare_targets(parser, system)
        for names, options in self.arguments:
            parser.add_argument(*names, **options)
        if self.one_of:  # an empty group has no help
            group = parser.add_mutually_exclusive_group()
            for names, options in self.one_of:
                group.add_argument(*names, **options)


COMMANDS: list[Command] = []
"""What a person can do with memory, at the shell and at the prompt."""


def _command(
    name: str,
    help: str,
    *arguments: Argument,
    one_of: Sequence[Argument] = (),
    of_all: bool = True,
) -> Callable[[Run], Run]:
    """Declares what a command does, and its arguments."""

    def declare(run: Run) -> Run:
        COMMANDS.append(Command(name, help, run, arguments, one_of, of_all))
        return run

    return declare


def _argument(*names: str, **options: Any) -> Argument:
    return names, options


def _flag(name: str, help: str) -> Argument:
    return _argument(name, action="store_true", help=help)


ADD_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--scope": {"choices": ("global", "project"), "help": "where it holds"},
    "--since": {"metavar": "WHEN", "help": "from when it holds, as 3.2 or a day"},
    "--until": {"metavar": "DAY", "help": "its last day, as 2026-03-06"},
    "--tag": {"action": "append", "default": [], "help": "repeat it for several"},
    "--ttl-days": {"type": int, "metavar": "N", "help": "it expires after N days"},
    "--evidence": {"action": "append", "default": [], "help": "for a rule"},
    "--sensitive": {"action": "store_true", "help": "never shown to a model"},
}
"""The options of `add`; a system's row says which it keeps."""


def _declare_targets(parser: argparse.ArgumentParser, system: str) -> None:
    """The place and the options of `add`, and what its help says of the places of a system."""
    names = _systems(system)
    lines = [
        f"  {'' if number else name:<9}{target:<12}{what}"
        for name in names
        for number, (target, what) in enumerate(SYSTEMS[name].targets.items())
    ]
    parser.description = "Keeps what you write, in the place that TARGET names."
    parser.epilog = "\n".join(("targets:", *lines))
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    words = (word for name in names for word in SYSTEMS[name].targets)
    offered = _Offered(dict.fromkeys(word for word in words if word != "NAME"))
    parser.add_argument("target", metavar="TARGET", choices=offered)
    shown = {flag for name in names for flag in SYSTEMS[name].options}
    for flag, options in ADD_OPTIONS.items():
        hidden = {} if flag in shown else {"help": argparse.SUPPRESS}
        parser.add_argument(flag, **{**options, **hidden})


_COUNT = _argument("-n", type=int, default=LOG_LINES, metavar="N", help=f"N ({LOG_LINES})")
_WORDS = _argument("words", nargs="+", metavar="WHAT")
_TARGET_AND_TEXT = _argument("words", nargs="+", metavar="[TARGET] OLD")
_SCOPE = _argument("--scope", default="", **ADD_OPTIONS["--scope"])


# ── what each command does ───────────────────────────────────────────────────────────────────────


@_command(
    "show",
    "the entries, with their ids",
    _argument("id", nargs="?", metavar="ID", help="one entry or session note, whole"),
)
async def _show(memory: Memory, values: argparse.Namespace) -> str:
    if not values.id:
        return report.show(memory)
    notes = memory.notes()
    named = [note for note in notes if note.session.startswith(values.id) or note.id == values.id]
    return memory.note_text(named[-1]) if named else display(memory.store.find(values.id).text)


@_command("add", "keep something yourself", _argument("text", nargs="+", metavar="TEXT"))
async def _add(memory: Memory, values: argparse.Namespace) -> Outcome:
    row = system_row(memory.name)
    targets = row.targets or {"NAME": ""}
    if "NAME" not in targets and values.target not in targets:
        raise ConfigError(
            f"kode memory add: the {memory.name} memory has no {values.target!r}. It has: "
            f"{', '.join(targets)}. `kode memory add --help` says what they are."
        )
    for flag in ADD_OPTIONS:
        if getattr(values, flag[2:].replace("-", "_")) and flag not in row.options:
            raise ConfigError(f"kode memory add: {memory.name} has no {flag}. Leave it out.")
    details = {"tags": values.tag, "ttl_days": values.ttl_days, "evidence": values.evidence}
    addition = Addition(
        target=values.target,
        text=" ".join(values.text),
        scope=values.scope or "",
        since=values.since or "",
        until=values.until or "",
        private=values.sensitive,
        details={name: value for name, value in details.items() if value not in (None, [])},
    )
    return await memory.save(memory.policy.draft(memory, addition, memory.author("user")))


@_command("replace", "as edit: [TARGET] OLD NEW", _TARGET_AND_TEXT, _SCOPE)
@_command("edit", "change one entry: WHAT (its id or a part of it), NEW", _WORDS)
async def _edit(memory: Memory, values: argparse.Namespace) -> Outcome:
    *words, new = _texts(values, 2)
    remark = check(new, author="user")
    statement = _find(memory, values, words)
    outcome = await memory.store.edit(statement.id, new, memory.author("user"))
    return memory.announce(outcome, remark)


@_command("remove", "as forget", _TARGET_AND_TEXT, _SCOPE)
@_command("forget", "forget one entry", _WORDS, _flag("--erase", "also blank it in the history"))
async def _forget(memory: Memory, values: argparse.Namespace) -> Outcome:
    statement, erase = _find(memory, values, _texts(values, 1)), getattr(values, "erase", False)
    outcome = await memory.store.forget(statement.id, memory.author("user"), erase=erase)
    if erase:
        memory.update_indexes(float("inf"))  # the text is in the file of a large one, too
    return memory.announce(outcome)


@_command("archive", "keep one entry out of prompts", _TARGET_AND_TEXT, _SCOPE, of_all=False)
async def _archive(memory: Memory, values: argparse.Namespace) -> Outcome:
    statement, archived = _find(memory, values, _texts(values, 1)), Amendment(state="archived")
    outcome = await memory.store.amend(statement.id, archived, memory.author("user"), "archive")
    return memory.announce(outcome)


def _texts(values: argparse.Namespace, count: int) -> list[str]:
    """The arguments of a command that takes `count` texts, with a target before them or without."""
    words: list[str] = values.words
    if len(words) in (count, count + 1):
        return words
    raise ConfigError(
        f"kode memory {values.command}: {len(words)} arguments. Put each text into quotation marks."
    )


def _find(memory: Memory, values: argparse.Namespace, words: Sequence[str]) -> Statement:
    """The entry that `[TARGET] OLD` means."""
    *target, old = words
    return memory.store.find(old, *target, scope=getattr(values, "scope", ""))


@_command(
    "consolidate",
    "join facts that repeat or outdate others (asks the model)",
    _argument("target", metavar="TARGET"),
    _SCOPE,
    of_all=False,
)
async def _consolidate(memory: Memory, values: argparse.Namespace) -> Outcome:
    place = memory.layout.place_of(values.target, values.scope, memory.store.project)
    facts = memory.store.view().current(place)
    return memory.announce(await consolidate(memory, place, facts))


@_command("episodes", "session notes, the newest first", _COUNT)
async def _episodes(memory: Memory, values: argparse.Namespace) -> str:
    return memory.list_notes(max(1, values.n)) or NO_NOTES


@_command("review", "decide what waits, one key each", _flag("--list", "only list it"))
async def _review(memory: Memory, values: argparse.Namespace) -> str:
    return review.list_items(await review.items(memory))


@_command(
    "approve",
    "approve what waits, without keys",
    _flag("--yes", "without asking"),
    one_of=(
        _argument("id", nargs="?", metavar="ID"),
        _argument(
            "--from",
            dest="source",
            metavar="SOURCE",
            help="all of an import, by its id, or of a file",
        ),
        _flag("--all", "all that are pending"),
    ),
)
async def _approve(memory: Memory, values: argparse.Namespace) -> str | Outcome:
    if values.id:
        return await review.decide(memory, values.id, "approve")
    if values.all or values.source:
        return await review.approve_many(
            memory, values.source or "", confirm=values.confirm, is_sure=values.yes
        )
    return review.list_items([i for i in await review.items(memory) if i.reason == "outside"])


@_command("drop", "drop what waits, without keys", _argument("id", metavar="ID"))
async def _drop(memory: Memory, values: argparse.Namespace) -> Outcome:
    return await review.decide(memory, values.id, "drop")


@_command("log", "history: the last changes", _COUNT)
async def _log(memory: Memory, values: argparse.Namespace) -> str:
    return report.list_changes(memory, max(1, values.n))


@_command("why", "history: who said an entry, and when", _WORDS)
async def _why(memory: Memory, values: argparse.Namespace) -> str:
    return why(memory, " ".join(values.words))


@_command(
    "undo",
    "history: undo a change (the last one, or ID)",
    _flag("--with-derived", "also undo everything derived from it"),
    one_of=(
        _argument("id", nargs="?", metavar="ID"),
        _argument("--session", metavar="SESSION", help="all that this session changed"),
        _argument("--import", dest="batch", metavar="ID", help="all of an import"),
    ),
)
async def _undo(memory: Memory, values: argparse.Namespace) -> Outcome:
    store, with_derived = memory.store, values.with_derived
    if group := values.batch or values.session:
        outcome = await store.undo_all(group, with_derived=with_derived)
    else:
        outcome = await store.undo(values.id or "", with_derived=with_derived)
    return memory.announce(outcome)


@_command(
    "search",
    "facts and session notes",
    _argument("query", nargs="+", metavar="QUERY"),
    _argument("-k", type=int, default=8, metavar="N", help="at most N hits (8)"),
)
async def _search(system: MemorySystem, values: argparse.Namespace) -> str:
    query = " ".join(values.query)
    hits = await system.search(query, max(1, values.k))
    lines = [f"{hit.match:5}  [{hit.where}] {shorten(hit.text, HIT_CHARS)}" for hit in hits]
    return "\n".join(lines) or f"No matching memory for: {query}"


@_command("status", "how full it is, and what waits")
async def _status(memory: Memory, values: argparse.Namespace) -> str:
    return await report.status(memory)


_FILE = _argument("file", nargs="?", type=Path, metavar="FILE")


@_command("export", "all of it as lines of JSON", _FILE)
async def _export(memory: Memory, values: argparse.Namespace) -> str:
    return transfer.export_log(memory, values.file)


@_command(
    "import",
    "import an export of kode, or what you approve of another agent's memory",
    _FILE,
    _argument("--from", dest="source", metavar="AGENT", help="whose memory it is"),
    _argument(
        "--project",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="a project of the export, and its folder here",
    ),
    _flag("--mine", "it is your own export: all counts"),
    _flag("--dry-run", "only list the entries"),
)
async def _import(memory: Memory, values: argparse.Namespace) -> str:
    return await transfer.import_file(
        memory,
        values.file,
        agent=values.source or "",
        projects=values.project,
        is_mine=values.mine,
        dry_run=values.dry_run,
        confirm=values.confirm,
    )


# ── running one ──────────────────────────────────────────────────────────────────────────────────


def add_commands(
    parser: argparse.ArgumentParser, system: str = ""
) -> list[argparse.ArgumentParser]:
    """Adds the commands of a system to `parser`, those of all for ""; pass the parsed namespace to
    `run_command`. Returns the commands' own parsers, for flags that come after the command."""
    added = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=CommandParser)
    for command in COMMANDS:
        if command.is_of(system):
            subparser = added.add_parser(command.name, help=command.help)
            command.declare(subparser, system)
    for name, about in installed.subcommands("memory", system).items():
        added.add_parser(name, help=about).add_argument("rest", nargs="*")
    return list(added.choices.values())


async def run_command(
    system: MemorySystem, arguments: argparse.Namespace, confirm: Confirm | None = None
) -> Outcome:
    """Runs a command parsed by `add_commands`; `confirm` asks a person, if there is one. Raises:
    ConfigError, MemoryRefused, StorageError, BusyError if it failed."""
    name = arguments.command or "show"
    if name in installed.subcommands("memory"):
        raise MemoryRefused(f"Run `kode memory {name}` in a shell.")
    command = next(command for command in COMMANDS if command.name == name)
    if not command.is_of(inside(system).name):
        raise MemoryRefused(f"The {inside(system).name} memory has no `{name}`.")
    memory = system if name == "search" else statements_of(system, name)
    values = argparse.Namespace(**{"id": "", **vars(arguments)}, confirm=confirm)
    result = await command.run(memory, values)
    return result if isinstance(result, Outcome) else Outcome(text=result)


async def run_line(system: MemorySystem, argv: Sequence[str]) -> Outcome:
    """Runs one command line (`["search", "tabs"]`) on an open memory. Raises as `run_command`, and
    ConfigError for an invalid command line."""
    words = [*argv[1:2], "--help"] if argv[:1] == ["help"] else [*argv] or ["show"]
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            arguments = _parser(inside(system).name).parse_args(words)
    except SystemExit:  # argparse prints help, and would end the process
        return Outcome(text=printed.getvalue())
    return await run_command(system, arguments)


async def memory_command(system: MemorySystem, argv: Sequence[str], *, undo: str = UNDO) -> str:
    """The same, in words: `undo` is the command that undoes a change."""
    return with_undo(await run_line(system, argv), undo)


def with_undo(outcome: Outcome, undo: str = UNDO) -> str:
    """What a command did, with the command that undoes it."""
    change = f"\nundo with: {undo} {outcome.change.id}" if outcome.change else ""
    return f"{outcome.text}{change}"


@functools.cache
def _parser(system: str) -> "CommandParser":
    parser = CommandParser(prog="/memory")
    add_commands(parser, system)
    return parser


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
        """Raises: ConfigError with the usage, or the nearest command."""
        if wrong := _WRONG_COMMAND.fullmatch(message):
            names = re.findall(r"[\w-]+", wrong[2])
            near = difflib.get_close_matches(wrong[1], names, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise ConfigError(
                f"{self.prog}: unknown command {wrong[1]!r}.{hint} "
                f"The commands are: {', '.join(names)}."
            )
        usage = " ".join(self.format_usage().split()).removeprefix("usage: ")
        raise ConfigError(f"{self.prog}: {message}. Usage: {usage}")


_WRONG_COMMAND = re.compile(r"argument COMMAND: invalid choice: '(.*)' \(choose from (.*)\)")
