"""`kode memory ...` and `/memory ...`: what a person can do with memory, in every system; and how
memory is opened outside a session.
"""

import argparse
import contextlib
import functools
import inspect
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from kode import installed, paths
from kode.errors import ConfigError, MemoryRefused
from kode.events import Emit, Event, Notice
from kode.memory import frame, review, transfer
from kode.memory.contract import MemoryContext, MemorySystem
from kode.memory.files import UNDO
from kode.memory.policy import About, Addition
from kode.memory.question import consolidate
from kode.memory.rendering import strip_bullet
from kode.memory.scan import check_text
from kode.memory.statement import Amendment, Outcome, Statement
from kode.memory.system import Memory, make_system, statements_of
from kode.messages import shorten
from kode.provider import AskReply
from kode.registry import SYSTEMS

if TYPE_CHECKING:
    from kode.config.model import Config

LOG_LINES = 20  # fits on a screen


class MemoryCommand(NamedTuple):
    """A command of `kode memory` and `/memory`."""

    name: str
    help: str
    run: Callable[..., Any]
    """Gets the open `Memory` (`search`: any system), and by name the arguments that it declares."""
    arguments: Sequence[str] = ()
    """Names in `_ARGUMENTS`."""
    one_of: Sequence[str] = ()
    """Arguments of which at most one may be given."""

    def is_of(self, system: str) -> bool:
        """Whether a system ("" for any) has it; a command in rows of `SYSTEMS` is theirs only."""
        systems = {name for name, row in SYSTEMS.items() if self.name in row.commands}
        return not systems or not systems.isdisjoint(_list_systems(system))


def _list_systems(system: str) -> Sequence[str]:
    return (system,) if system in SYSTEMS else tuple(SYSTEMS)


# ── what each command does ───────────────────────────────────────────────────────────────────────


def _show(memory: Memory, id: str = "") -> str:
    if not id:
        return review.show_entries(memory)
    notes = [note for note in memory.notes() if note.session.startswith(id) or note.id == id]
    return memory.note_text(notes[-1]) if notes else strip_bullet(memory.store.find(id).text)


async def _add_entry(memory: Memory, target: str, text: Sequence[str], **options: Any) -> Outcome:
    names = ("scope", "since", "until", "private")
    addition = Addition(
        target=target,
        text=" ".join(text),
        details={k: options[k] for k in ("tags", "ttl_days", "evidence") if k in options},
        **{name: options[name] for name in names if name in options},
    )
    return await memory.save(memory.policy.draft(memory, addition, memory.author("user")))


async def _edit(memory: Memory, words: Sequence[str], scope: str = "") -> Outcome:
    remark = check_text(words[-1], author="user")
    statement = _find_entry(memory, words[:-1], scope)
    outcome = await memory.store.edit(statement.id, words[-1], memory.author("user"))
    return memory.announce(outcome, remark)


async def _forget_entry(
    memory: Memory, words: Sequence[str], scope: str = "", erase: bool = False
) -> Outcome:
    statement = _find_entry(memory, words, scope)
    outcome = await memory.store.forget(statement.id, memory.author("user"), erase=erase)
    if erase:
        memory.update_indexes(float("inf"))  # the text is in the file of a large one, too
    return memory.announce(outcome)


async def _archive_entry(memory: Memory, words: Sequence[str], scope: str = "") -> Outcome:
    statement, archived = _find_entry(memory, words, scope), Amendment(state="archived")
    outcome = await memory.store.amend(statement.id, archived, memory.author("user"), "archive")
    return memory.announce(outcome)


def _find_entry(memory: Memory, words: Sequence[str], scope: str) -> Statement:
    """Returns the entry that the words of `[TARGET] OLD` identify."""
    if len(words) not in (1, 2):
        raise ConfigError("Put each text into quotation marks, and WHAT before what it becomes.")
    *target, old = words
    return memory.store.find(old, *target, scope=scope)


async def _consolidate(memory: Memory, target: str, scope: str = "") -> Outcome:
    place = memory.layout.place_of(target, scope, memory.store.project)
    return memory.announce(await consolidate(memory, place, memory.store.view().current(place)))


async def _approve(memory: Memory, id: str = "", source: str = "") -> str | Outcome:
    if id:
        return await review.decide_item(memory, id, "approve")
    if source:
        return await review.approve_all_of(memory, source)
    return await review.describe_waiting(memory, "outside")


async def _undo_change(
    memory: Memory, id: str = "", group: str = "", with_derived: bool = False
) -> Outcome:
    return memory.announce(await memory.store.undo(id, group=group, with_derived=with_derived))


async def _search_memory(system: MemorySystem, query: Sequence[str], count: int) -> str:
    hits = await system.search(" ".join(query), max(1, count))
    lines = [f"{hit.match:5}  [{hit.where}] {shorten(hit.text, 200)}" for hit in hits]
    return "\n".join(lines) or f"No matching memory for: {' '.join(query)}"


# ── their arguments ──────────────────────────────────────────────────────────────────────────────

_FLAG: Mapping[str, Any] = {"action": "store_true"}
_ADD_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--scope": {"choices": ("global", "project"), "help": "where it holds"},
    "--since WHEN": {"help": "from when it holds, as 3.2 or a day"},
    "--until DAY": {"help": "its last day, as 2026-03-06"},
    "--tag TAG": {"action": "append", "dest": "tags", "help": "repeat it for several"},
    "--ttl-days N": {"type": int, "help": "it expires after N days"},
    "--evidence EVIDENCE": {"action": "append", "help": "for a rule"},
    "--sensitive": {**_FLAG, "dest": "private", "help": "never shown to a model"},
}
"""The options of `add`; a system's row says which of them it supports."""
_ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "--scope": _ADD_OPTIONS["--scope"],
    "--dry-run": {**_FLAG, "help": "only list the entries"},
    "--erase": {**_FLAG, "help": "also blank it in the history"},
    "--from AGENT": {"dest": "agent", "help": "whose memory it is"},
    "--from SOURCE": {"dest": "source", "help": "all of an import, by its id, or of a file"},
    "--import ID": {"dest": "group", "help": "all of an import"},
    "--mine": {**_FLAG, "dest": "is_mine", "help": "it is your own export: all counts"},
    "--project OLD=NEW": {
        "dest": "projects",
        "action": "append",
        "help": "a project of the export, and where it is",
    },
    "--session SESSION": {"dest": "group", "help": "all that this session changed"},
    "--with-derived": {**_FLAG, "help": "also undo everything derived from it"},
    "-k N": {"dest": "count", "type": int, "default": 8, "help": "at most N hits (8)"},
    "-n N": {"dest": "count", "type": int, "default": LOG_LINES, "help": f"N ({LOG_LINES})"},
    "FILE": {"dest": "path", "nargs": "?", "type": Path},
    "ID": {"nargs": "?"},
    "QUERY": {"nargs": "+"},
    "TARGET": {},
    "TEXT": {"nargs": "+"},
    "WHAT": {"dest": "words", "nargs": "+"},
    "[TARGET] OLD": {"dest": "words", "nargs": "+"},
}
"""A flag with its metavar, or the metavar of a positional argument → what `add_argument` takes."""
COMMANDS = (
    MemoryCommand(
        "show", "the entries, with their ids; or one, or a session note, whole", _show, ["ID"]
    ),
    MemoryCommand("add", "keep something yourself", _add_entry),
    MemoryCommand("edit", "change one entry: WHAT (its id or a part of it), NEW", _edit, ["WHAT"]),
    MemoryCommand("replace", "as edit: [TARGET] OLD NEW", _edit, ["[TARGET] OLD", "--scope"]),
    MemoryCommand("forget", "forget one entry", _forget_entry, ["WHAT", "--erase"]),
    MemoryCommand("remove", "as forget", _forget_entry, ["[TARGET] OLD", "--scope"]),
    MemoryCommand(
        "archive", "keep one entry out of prompts", _archive_entry, ["[TARGET] OLD", "--scope"]
    ),
    MemoryCommand("consolidate", "have the model join facts", _consolidate, ["TARGET", "--scope"]),
    MemoryCommand("episodes", "session notes, the newest first", Memory.list_notes, ["-n N"]),
    MemoryCommand("review", "what waits for you to approve or drop it", review.describe_waiting),
    MemoryCommand("approve", "approve what waits", _approve, one_of=["ID", "--from SOURCE"]),
    MemoryCommand(
        "drop", "drop what waits", functools.partial(review.decide_item, choice="drop"), ["ID"]
    ),
    MemoryCommand("log", "history: the last changes", review.list_changes, ["-n N"]),
    MemoryCommand("why", "history: who said an entry, and when", review.explain_entry, ["WHAT"]),
    MemoryCommand(
        "undo",
        "history: undo a change (the last one, or ID)",
        _undo_change,
        ["--with-derived"],
        one_of=["ID", "--session SESSION", "--import ID"],
    ),
    MemoryCommand("search", "facts and session notes", _search_memory, ["QUERY", "-k N"]),
    MemoryCommand("status", "how full it is, and what waits", review.describe_status),
    MemoryCommand("export", "all of it as lines of JSON", transfer.export_log, ["FILE"]),
    MemoryCommand(
        "import",
        "import an export of kode, or what you approve of another agent's memory",
        transfer.import_file,
        ["FILE", "--from AGENT", "--project OLD=NEW", "--mine", "--dry-run"],
    ),
)
"""What a person can do with memory, at the shell and at the prompt."""


def add_commands(parser: argparse.ArgumentParser, argv: Sequence[str], system: str = "") -> None:
    """Adds to `parser` the command that `argv` begins with; if that is none of kode's own, all
    commands of a system ("" for any), with those of plug-ins."""
    group = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands = [command for command in COMMANDS if command.is_of(system)]
    matching = [command for command in commands if command.name in argv[:1]]
    for command in matching or commands:
        subparser = group.add_parser(command.name, help=command.help)
        if command.name == "add":
            _add_target_arguments(subparser, system)
        _add_arguments(subparser, command.arguments)
        if command.one_of:  # an empty group has no help
            _add_arguments(subparser.add_mutually_exclusive_group(), command.one_of)
    for name, about in installed.subcommands("memory", system).items() if not matching else ():
        group.add_parser(name, help=about).add_argument("rest", nargs="*")


def _add_arguments(parser: argparse._ActionsContainer, names: Iterable[str]) -> None:
    for name in names:
        flags, options = name.split()[: name.startswith("-")], {**_ARGUMENTS, **_ADD_OPTIONS}[name]
        if metavar := name.partition(" ")[2] if flags else name:
            options = {**options, "metavar": metavar}
        parser.add_argument(*flags, **options if flags else {"dest": name.lower(), **options})


def _add_target_arguments(parser: argparse.ArgumentParser, system: str) -> None:
    """Adds the arguments of `add`, and help on the places of a system."""
    rows = [SYSTEMS[name] for name in _list_systems(system)]
    targets = {target: what for row in rows for target, what in row.targets.items()}
    parser.description = "Keeps what you write, in the place that TARGET names."
    lines = (f"  {target:<12}{what}" for target, what in targets.items())
    parser.epilog = "\n".join(("targets:", *lines))
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    choices = None if "NAME" in targets else targets  # NAME stands for any word
    parser.add_argument("target", metavar="TARGET", choices=choices)
    options = {option for row in rows for option in row.options}
    _add_arguments(parser, ["TEXT", *(name for name in _ADD_OPTIONS if name.split()[0] in options)])


# ── running one ──────────────────────────────────────────────────────────────────────────────────


async def run_command(
    system: MemorySystem, arguments: argparse.Namespace, confirm: review.Confirm | None = None
) -> Outcome:
    """Runs a command parsed by `add_commands`; `confirm` asks a person, if there is one. Raises:
    ConfigError, MemoryRefused, StorageError, BusyError if it failed."""
    name = arguments.command or "show"
    command = next((command for command in COMMANDS if command.name == name), None)
    if command is None:  # of a plug-in
        raise MemoryRefused(f"Run `kode memory {name}` in a shell.")
    memory = system if name == "search" else statements_of(system, name)
    _, *names = inspect.signature(command.run).parameters
    values = {
        name: value
        for name, value in {**vars(arguments), "confirm": confirm}.items()
        if value is not None and (name in names or "options" in names)
    }
    result = command.run(memory, **values)
    if inspect.isawaitable(result):
        result = await result
    return result if isinstance(result, Outcome) else Outcome(text=result)


async def run_line(system: MemorySystem, argv: Sequence[str]) -> Outcome:
    """Runs one command line (`["search", "tabs"]`) on an open memory. Raises as `run_command`, and
    ConfigError for an invalid command line."""
    parser = _LineParser(prog="/memory")
    words = [*argv[1:2], "--help"] if argv[:1] == ["help"] else [*argv] or ["show"]
    add_commands(parser, words, system.name)
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            arguments = parser.parse_args(words)
    except SystemExit:  # argparse prints help, and would end the process
        return Outcome(text=printed.getvalue())
    return await run_command(system, arguments)


async def memory_command(system: MemorySystem, argv: Sequence[str]) -> str:
    """Runs one command line; returns its text, with the command that undoes the change."""
    return with_undo(await run_line(system, argv))


def with_undo(outcome: Outcome, undo: str = UNDO) -> str:
    """Returns what a command did, with the command that undoes it."""
    undoes = f"\nundo: {undo} {outcome.change.id}" if outcome.change else ""
    return outcome.text + undoes


class _LineParser(argparse.ArgumentParser):
    """An argparse parser that raises instead of ending the process, for the REPL's sake."""

    def error(self, message: str) -> NoReturn:
        """Raises: ConfigError with the usage."""
        usage = " ".join(self.format_usage().split()).removeprefix("usage: ")
        raise ConfigError(f"{self.prog}: {message}. Usage: {usage}")


# ── outside a session ────────────────────────────────────────────────────────────────────────────


class OutsideMemory(NamedTuple):
    """Memory opened outside a session. Its calls raise MemoryRefused, StorageError, BusyError."""

    system: MemorySystem
    notices: list[str]
    """The notices since it was opened; none if `open_memory` was given `emit`."""
    frame: Callable[[str, str], str]
    """`frame(about, text)` frames a text of memory for a model, headed by `about`; "" for ""."""
    overview: Callable[[], Awaitable[review.Overview]]
    """Returns an overview of all that it holds for this project."""
    propose: Callable[[str, About, str], Awaitable[Outcome]]
    """`propose(text, about, client)` adds what an outsider says, which waits for the person."""
    decide: Callable[..., Awaitable[Outcome]]
    """`decide(id, choice, who="user")` carries out a choice about what waits."""
    command: Callable[[Sequence[str]], Awaitable[str]]
    """Runs `kode memory ...`. Raises: KodeError."""


@contextlib.asynccontextmanager
async def open_memory(
    config: "Config",
    cwd: Path,
    *,
    emit: Emit | None = None,
    ask_reply: AskReply | None = None,
    read_only: bool = False,
) -> AsyncIterator[OutsideMemory]:
    """Opens the configured memory for the project of `cwd`. Without `emit`, its notices are
    collected. Raises: ConfigError, StorageError."""
    system, notices = make_system(config.memory), list[str]()

    def collect(event: Event) -> None:
        if isinstance(event, Notice):
            notices.append(event.text)

    context = MemoryContext(
        root=paths.memory_folder(paths.kode_home(), config.memory.data_dir),
        cwd=cwd,
        project_root=paths.repository_root(cwd),
        session_id=None,
        emit=emit or collect,
        ask_reply=ask_reply,
        now=lambda: datetime.now().astimezone(),
        read_only=read_only,
    )
    await system.open(context, {})
    try:
        yield OutsideMemory(
            system,
            notices,
            frame.wrap,
            functools.partial(review.read_overview, system),
            functools.partial(review.propose_fact, system),
            functools.partial(review.decide_item, system),
            functools.partial(memory_command, system),
        )
    finally:
        await system.close(1.0)
