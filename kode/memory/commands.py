"""`kode memory ...` and `/memory ...`: what a person can do with memory, in every system.

Commands return an outcome, which the shell and the prompt show.
"""

import argparse
import difflib
import functools
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from kode import installed
from kode.contracts import MemorySystem
from kode.errors import ConfigError, MemoryRefused
from kode.memory import report, review, transfer
from kode.memory.files import UNDO
from kode.memory.guarded import inside, statements_of
from kode.memory.learn import relate
from kode.memory.markdown import display
from kode.memory.opened import Addition, day_of
from kode.memory.scan import check
from kode.memory.statement import Amendment, Outcome, Statement
from kode.memory.system import Memory
from kode.memory.why import why
from kode.messages import shorten
from kode.registry import SYSTEMS, system_row

LOG_LINES = 20  # fits on a screen
HIT_CHARS = 200  # two lines of a terminal
CONSOLIDATE_TIMEOUT_S = 60.0  # a person waits, and has asked for it
Confirm = Callable[[str], bool]


@dataclass(frozen=True, kw_only=True)
class Request:
    """One command on an open memory."""

    system: MemorySystem
    arguments: argparse.Namespace
    confirm: Confirm | None
    """Asks the person; None if nobody can be asked."""

    @property
    def memory(self) -> Memory:
        return statements_of(self.system, self.arguments.command or "show")

    def find(self, words: str, target: str = "") -> Statement:
        return self.memory.store.find(words, target)


# ── the command line ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of `kode memory` and `/memory`."""

    name: str
    help: str
    run: Callable[[Request], Awaitable[str | Outcome]]
    arguments: Sequence["Argument"]
    of_all: bool
    """Whether every system has it, and not only those whose row says so."""
    reads: bool
    """Whether it changes nothing, and creates not even an empty file."""

    def is_of(self, system: str) -> bool:
        return self.of_all or any(self.name in SYSTEMS[name].commands for name in _systems(system))


COMMANDS: list[Command] = []
"""What a person can do with memory, at the shell and at the prompt."""
Argument = Callable[[Any, str], object]
"""Adds an argument to a parser, for one system or for all (\"\")."""
Run = Callable[[Request], Awaitable[str | Outcome]]


def _command(
    name: str, help: str, *arguments: Argument, of_all: bool = True, reads: bool = False
) -> Callable[[Run], Run]:
    """Declares what a command does, and its arguments."""

    def declare(run: Run) -> Run:
        COMMANDS.append(
            Command(name=name, help=help, run=run, arguments=arguments, of_all=of_all, reads=reads)
        )
        return run

    return declare


def _argument(*names: str, **options: Any) -> Argument:
    return lambda parser, system: parser.add_argument(*names, **options)


def _one_of(*arguments: Argument) -> Argument:
    """Arguments of which at most one is given."""

    def add(parser: Any, system: str) -> None:
        group = parser.add_mutually_exclusive_group()
        for argument in arguments:
            argument(group, system)

    return add


def _flag(name: str, help: str) -> Argument:
    return _argument(name, action="store_true", help=help)


def _target(parser: argparse.ArgumentParser, system: str) -> None:
    """The place of `add`, and what its help says of the places of a system."""
    lines = [
        f"  {'' if number else name:<9}{target:<12}{what}"
        for name in _systems(system)
        for number, (target, what) in enumerate(SYSTEMS[name].targets.items())
    ]
    parser.description = "Keeps what you write, in the place that TARGET names."
    parser.epilog = "\n".join(("targets:", *lines))
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    words = (word for name in _systems(system) for word in SYSTEMS[name].targets)
    offered = _Offered(dict.fromkeys(word for word in words if word != "NAME"))
    parser.add_argument("target", metavar="TARGET", choices=offered)


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


def _options(parser: argparse.ArgumentParser, system: str) -> None:
    shown = {flag for name in _systems(system) for flag in SYSTEMS[name].options}
    for flag, options in ADD_OPTIONS.items():
        hidden = {} if flag in shown else {"help": argparse.SUPPRESS}
        parser.add_argument(flag, **{**options, **hidden})


_COUNT = _argument("-n", type=int, default=LOG_LINES, metavar="N", help=f"N ({LOG_LINES})")
_ONE_TEXT = _argument("words", nargs="+", metavar="[TARGET] OLD")


# ── what each command does ───────────────────────────────────────────────────────────────────────


@_command(
    "show",
    "the entries, with their ids",
    _argument("id", nargs="?", metavar="ID", help="one entry or session note, whole"),
    _argument("--as-of", metavar="DAY", help="the facts there were: 2026-03-06"),
    reads=True,
)
async def _show(request: Request) -> str:
    memory, id = request.memory, request.arguments.id
    if request.arguments.as_of:
        return report.show_as_of(memory, _day(memory, request.arguments.as_of))
    if not id:
        return report.show(memory)
    notes = [note for note in memory.notes() if note.session.startswith(id) or note.id == id]
    return memory.note_text(notes[-1]) if notes else display(request.find(id).text)


@_command(
    "add",
    "keep something yourself",
    _target,
    _argument("text", nargs="+", metavar="TEXT"),
    _options,
)
async def _add(request: Request) -> Outcome:
    memory, given = request.memory, request.arguments
    row = system_row(request.memory.name)
    targets = row.targets or {"NAME": ""}
    if "NAME" not in targets and given.target not in targets:
        raise ConfigError(
            f"kode memory add: the {request.memory.name} memory has no {given.target!r}. It has: "
            f"{', '.join(targets)}. `kode memory add --help` says what they are."
        )
    for flag in ADD_OPTIONS:
        if getattr(given, flag[2:].replace("-", "_")) and flag not in row.options:
            raise ConfigError(
                f"kode memory add: {request.memory.name} has no {flag}. Leave it out."
            )
    details = {"tags": given.tag, "ttl_days": given.ttl_days, "evidence": given.evidence}
    addition = Addition(
        target=given.target,
        text=" ".join(given.text),
        scope=given.scope or "",
        since=given.since or "",
        until=given.until or "",
        private=given.sensitive,
        details={name: value for name, value in details.items() if value not in (None, [])},
    )
    return await memory.save(request.memory.policy.draft(memory, addition, memory.author("user")))


@_command(
    "edit",
    "change one entry: WHAT is its id or a part of its text",
    _argument("words", nargs="+", metavar="WHAT NEW"),
)
@_command("replace", "as edit", _argument("words", nargs="+", metavar="[TARGET] OLD NEW"))
async def _edit(request: Request) -> Outcome:
    """`edit WHAT NEW` and `replace [TARGET] OLD NEW`."""
    memory = request.memory
    *target, old, new = _words(request, 2)
    remark = check(new, author="user")
    statement = request.find(old, *target)
    outcome = await memory.store.edit(statement.id, new, memory.author("user"))
    return memory.announce(outcome, remark)


@_command(
    "forget",
    "forget one entry",
    _argument("words", nargs="+", metavar="WHAT"),
    _flag("--erase", "also blank it in the history"),
)
@_command("remove", "as forget", _ONE_TEXT)
async def _forget(request: Request) -> Outcome:
    """`forget WHAT` and `remove [TARGET] OLD`."""
    memory = request.memory
    statement = request.find(*reversed(_words(request, 1)))
    erase = getattr(request.arguments, "erase", False)
    outcome = await memory.store.forget(statement.id, memory.author("user"), erase=erase)
    if erase:
        memory.update_indexes(float("inf"))  # the text is in the file of a large one, too
    return memory.announce(outcome)


@_command("archive", "keep one entry out of prompts", _ONE_TEXT, of_all=False)
async def _archive(request: Request) -> Outcome:
    memory = request.memory
    statement = request.find(*reversed(_words(request, 1)))
    amendment = Amendment(state="archived")
    outcome = await memory.store.amend(statement.id, amendment, memory.author("user"), "archive")
    return memory.announce(outcome)


def _words(request: Request, count: int) -> list[str]:
    """The arguments of a command that takes `count` texts, with a target before them or without."""
    words: list[str] = request.arguments.words
    if len(words) in (count, count + 1):
        return words
    raise ConfigError(
        f"kode memory {request.arguments.command}: {len(words)} arguments. Put each text into "
        "quotation marks."
    )


@_command(
    "consolidate",
    "join facts that repeat or outdate others (asks the model)",
    _argument("target", metavar="TARGET"),
    _argument("--scope", choices=("global", "project")),
    of_all=False,
)
async def _consolidate(request: Request) -> Outcome:
    memory = request.memory
    place = memory.layout.place_of(
        request.arguments.target, request.arguments.scope or "", memory.store.project
    )
    facts = memory.store.view().current(place)
    changes = await relate(memory.store, memory.model, facts, timeout_s=CONSOLIDATE_TIMEOUT_S)
    left = len(memory.store.view().current(place))
    said = f"consolidated {memory.layout.label(place)}: {len(facts)} entries → {left}"
    return memory.announce(Outcome(text=said, change=changes[-1] if changes else None))


@_command("episodes", "session notes, the newest first", _COUNT, reads=True)
async def _episodes(request: Request) -> str:
    memory = request.memory
    lines = [
        f"{note.session or note.id}  {note.claimed_at[:10]}  "
        f"{'*' if note.project == memory.store.project.hash else ' '} "
        f"{shorten(display(note.text), HIT_CHARS)}"
        for note in memory.notes()[: -max(1, request.arguments.n) - 1 : -1]
    ]
    return "\n".join(lines) or "There is no note on a session yet."


@_command("review", "decide what waits, one key each", _flag("--list", "only list it"), reads=True)
async def _review(request: Request) -> str:
    return review.list_items(await review.items(request.system))


@_command(
    "approve",
    "approve what waits, without keys",
    _one_of(
        _argument("id", nargs="?", metavar="ID"),
        _argument("--from", dest="source", metavar="SOURCE", help="all of an import or file"),
        _flag("--all", "all that are pending"),
    ),
    _flag("--yes", "without asking"),
)
async def _approve(request: Request) -> str | Outcome:
    given = request.arguments
    if given.id:
        item = await review.find_item(request.system, given.id)
        return await review.decide(request.system, item.id, "approve")
    if given.all or given.source:
        return await review.approve_many(
            request.system, given.source or "", confirm=request.confirm, is_sure=given.yes
        )
    waiting = [item for item in await review.items(request.system) if item.reason == "outside"]
    return review.list_items(waiting)


@_command("drop", "drop what waits, without keys", _argument("id", metavar="ID"))
async def _drop(request: Request) -> Outcome:
    item = await review.find_item(request.system, request.arguments.id)
    return await review.decide(request.system, item.id, "drop")


@_command("log", "history: the last changes", _COUNT, reads=True)
async def _log(request: Request) -> str:
    return report.list_changes(request.memory, max(1, request.arguments.n))


@_command(
    "why",
    "history: who said an entry, and when",
    _argument("entry", nargs="+", metavar="ENTRY"),
    reads=True,
)
async def _why(request: Request) -> str:
    return why(request.memory, " ".join(request.arguments.entry))


@_command(
    "undo",
    "history: undo a change (the last one, or ID)",
    _one_of(
        _argument("id", nargs="?", metavar="ID"),
        _argument("--session", metavar="SESSION", help="all that this session changed"),
        _argument("--import", dest="batch", metavar="ID", help="all of an import"),
    ),
    _flag("--with-derived", "also undo everything derived from it"),
)
async def _undo(request: Request) -> Outcome:
    memory, given = request.memory, request.arguments
    with_derived: bool = given.with_derived
    if given.batch:
        outcome = await memory.store.undo_all(
            lambda change: change.batch == given.batch and not change.undoes,
            f"import {given.batch}",
            with_derived=with_derived,
        )
    elif given.session:
        outcome = await memory.store.undo_all(
            lambda change: change.session == given.session and not change.undoes,
            f"session {given.session}",
            with_derived=with_derived,
        )
    else:
        outcome = await memory.store.undo(given.id or "", with_derived=with_derived)
    return memory.announce(outcome)


@_command(
    "search",
    "facts and session notes",
    _argument("query", nargs="+", metavar="QUERY"),
    _argument("-k", type=int, default=8, metavar="N", help="at most N hits (8)"),
    reads=True,
)
async def _search(request: Request) -> str:
    query = " ".join(request.arguments.query)
    hits = await request.system.search(query, max(1, request.arguments.k))
    lines = [f"{hit.match:5}  [{hit.where}] {shorten(hit.text, HIT_CHARS)}" for hit in hits]
    return "\n".join(lines) or f"No matching memory for: {query}"


@_command("status", "how full it is, and what waits", reads=True)
async def _status(request: Request) -> str:
    return await report.status(request.memory)


@_command(
    "export",
    "all of it as lines of JSON",
    _argument("file", nargs="?", type=Path, metavar="FILE"),
    reads=True,
)
async def _export(request: Request) -> str:
    text = transfer.export_log(request.memory)
    path: Path | None = request.arguments.file
    return transfer.write_export(path, text) if path else text


@_command(
    "import",
    "import an export of kode, or what you approve of another agent's memory",
    _argument("file", nargs="?", type=Path, metavar="FILE"),
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
async def _import(request: Request) -> str:
    given = request.arguments
    return await transfer.import_file(
        request.memory,
        given.file,
        agent=given.source or "",
        projects=given.project,
        is_mine=given.mine,
        dry_run=given.dry_run,
        confirm=request.confirm,
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
            own = added.add_parser(command.name, help=command.help)
            for argument in command.arguments:
                argument(own, system)
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
    result = await command.run(Request(system=system, arguments=arguments, confirm=confirm))
    return result if isinstance(result, Outcome) else Outcome(text=result)


async def run_line(system: MemorySystem, argv: Sequence[str]) -> Outcome:
    """Runs one command line (`["search", "tabs"]`) on an open memory. Raises as `run_command`, and
    ConfigError for an invalid command line."""
    parser = _parser(inside(system).name)
    if list(argv)[:1] == ["help"]:
        return Outcome(text=parser.format_help())
    return await run_command(system, parser.parse_args(list(argv) or ["show"]))


async def memory_command(system: MemorySystem, argv: Sequence[str], *, undo: str = UNDO) -> str:
    """The same, in words: `undo` is the command that undoes a change."""
    return with_undo(await run_line(system, argv), undo)


def with_undo(outcome: Outcome, undo: str = UNDO) -> str:
    """What a command did, with the command that undoes it."""
    change = f"\nundo with: {undo} {outcome.change.id}" if outcome.change else ""
    return f"{outcome.text}{change}"


@functools.cache
def _parser(system: str) -> "CommandParser":
    parser = CommandParser(prog="/memory", add_help=False)
    add_commands(parser, system)
    return parser


def _systems(system: str) -> Sequence[str]:
    return (system,) if system in SYSTEMS else tuple(SYSTEMS)


def _day(memory: Memory, text: str) -> Any:
    days = {"today": 0, "yesterday": 1}
    if text.strip() in days:
        return memory.today() - timedelta(days=days[text.strip()])
    return day_of(text, "--as-of")


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
