"""`kode memory ...` and `/memory ...`: what a person may do with memory, in any system.

Commands return text; the face displays it.
"""

import argparse
import functools
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time

from kode import installed
from kode.contracts import MemorySystem
from kode.errors import ConfigError, MemoryRefused
from kode.memory import exchange, report, stale
from kode.memory.base import UNDO, Addition, BaseMemory, Outcome, Verb, lacking
from kode.memory.change import BY_HAND, Change, by
from kode.memory.command_line import CommandParser, add_commands
from kode.memory.foreign import is_own_export
from kode.memory.guarded import inside, kept_in
from kode.memory.moving_in import move_in
from kode.memory.review import (
    HEADS,
    NOTHING_WAITS,
    approve,
    approve_many,
    drop,
    items_of,
    named_by,
    review,
    superseded_lately,
    waiting,
)
from kode.memory.undo import Confirm, Following, undo_import, undo_session
from kode.memory.undo import undo as undo_change
from kode.memory.why import ended, quoted, why
from kode.memory.withdrawn import unsettled
from kode.messages import first_of, plural, shorten
from kode.registry import system_row

TEXT_CHARS = 100
LINES_SHOWN = 5
"""Of a change's lines in the log."""


async def memory_command(system: MemorySystem, argv: Sequence[str], *, undo: str = UNDO) -> str:
    """As `memory_done`, in words: `undo` is the command that undoes a change."""
    return (await memory_done(system, argv, undo=undo)).in_words(undo)


async def memory_done(system: MemorySystem, argv: Sequence[str], *, undo: str = UNDO) -> Outcome:
    """One command line (`["search", "tabs"]`) on an open memory. Raises as `run_command`, and
    ConfigError for an invalid command line."""
    parser = _parser(inside(system).name)
    return await run_command(system, parser.parse_args(list(argv) or ["show"]), undo=undo)


@functools.cache
def _parser(system: str) -> CommandParser:
    parser = CommandParser(prog="/memory", add_help=False)
    add_commands(parser, system)
    return parser


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One command on an open memory."""

    system: BaseMemory
    arguments: argparse.Namespace
    confirm: Confirm | None
    undo: str
    """The command that undoes a change."""


async def run_command(
    system: MemorySystem,
    arguments: argparse.Namespace,
    confirm: Confirm | None = None,
    *,
    undo: str = UNDO,
) -> Outcome:
    """Runs a command parsed by `add_commands`; `confirm` asks a person, if there is one, and `undo`
    is the command that lists name for undoing. Raises: ConfigError, MemoryRefused, StorageError,
    BusyError if it failed."""
    name = arguments.command or "show"
    if name in installed.subcommands("memory"):
        raise MemoryRefused(f"Run `kode memory {name}` in a shell.")
    if name in _ANY:
        done: str | Outcome = await _ANY[name](inside(system), arguments)
    else:
        kept = kept_in(system, name)
        asked = Asked(system=kept, arguments=arguments, confirm=confirm, undo=undo)
        run = _RUN.get(name)
        done = await (run(asked) if run else _verb(kept, name)(arguments))
    return done if isinstance(done, Outcome) else Outcome(line=done)


async def _show(asked: Asked) -> str:
    as_of, id = getattr(asked.arguments, "as_of", None), getattr(asked.arguments, "id", None)
    if as_of:
        return _as_of(asked.system, as_of)
    if id:
        return str(await _verb(asked.system, "show ID")(asked.arguments))
    return shown(asked.system) or "Nothing is remembered yet."


def shown(system: BaseMemory) -> str:
    """What is remembered here, each entry with its origin and what speaks against it."""
    found = stale.doubts(system.ledger, system.project, datetime.now().astimezone().date())
    doubts = {
        at: f"{one.why}{': not shown to a model' if one.expired else ''}"
        for at, one in found.items()
    }
    open_ = unsettled(system.ledger, system.project)
    return report.show(system.parts(), system.ledger, doubts, open_)


def _verb(system: BaseMemory, name: str) -> Verb:
    """What a command does that not every system has. Raises: MemoryRefused if this one has none."""
    verbs = system.verbs()
    if name not in verbs:
        raise lacking(system.name, name)
    return verbs[name]


async def _approve(asked: Asked) -> str | Outcome:
    system, given = asked.system, asked.arguments
    if given.id is not None:
        return await approve(system, await named_by(system, given.id))
    if given.all or given.source:
        return await approve_many(system, given.source, confirm=asked.confirm, is_sure=given.yes)
    return "\n".join(f"{one.id}  {one.line}" for one in await waiting(system)) or NOTHING_WAITS


async def _drop(asked: Asked) -> Outcome:
    return await drop(asked.system, await named_by(asked.system, asked.arguments.id))


async def _review(asked: Asked) -> str:
    found = await items_of(asked.system)
    return review(found, superseded_lately(asked.system, datetime.now().astimezone()), asked.undo)


async def _status(asked: Asked) -> str:
    waits = Counter(one.why for one in await items_of(asked.system))
    counted = [f"{head}: {waits[why]}" for why, head in HEADS.items() if waits[why]]
    pending = [f"{', '.join(counted)} (`kode memory review`)"] if counted else []
    system = asked.system
    left = plural(system.unfinished, "session")
    wait = {"not finished with": f"{left} (done at the next start)"} if system.unfinished else {}
    figures = {**await system.figures(), **wait}
    folder = str(system.history.path.parent)
    said = report.status(system.name, folder, system.parts(), figures)
    return "\n".join([said, *pending])


async def _undo(asked: Asked) -> str | Outcome:
    system, given = asked.system, asked.arguments
    following = Following(describe=_change, with_derived=given.with_derived, confirm=asked.confirm)
    if given.batch:
        return await undo_import(system, given.batch, following)
    if given.session:
        return await undo_session(system, given.session, following)
    return await undo_change(system, given.id, following)


async def _why(asked: Asked) -> str:
    return why(asked.system, " ".join(asked.arguments.entry))


async def _rebuild(asked: Asked) -> str:
    return await asked.system.rebuild()


async def _export(system: MemorySystem, given: argparse.Namespace) -> str:
    return await exchange.export(system, given.file)


async def _search(system: MemorySystem, given: argparse.Namespace) -> str:
    query = " ".join(given.query)
    hits = await system.search(query, max(1, given.k))
    lines = [] if hits and hits[0].score else [f"No matching memory for: {query}"]
    lines += [
        f"{hit.score:5.2f}  [{hit.where}] {shorten(hit.text, 2 * TEXT_CHARS)}"
        + (f"  ({hit.why})" if hit.why else "")
        for hit in hits
    ]
    return "\n".join(lines)


async def _add(asked: Asked) -> Outcome:
    system, arguments = asked.system, asked.arguments
    known = system_row(system.name).targets or ("NAME",)
    if "NAME" not in known and arguments.target not in known:
        raise ConfigError(
            f"kode memory add: the {system.name} memory has no {arguments.target!r}. It has: "
            f"{', '.join(known)}. `kode memory add --help` says what they are."
        )
    return await system.add(
        Addition(
            target=arguments.target,
            text=" ".join(arguments.text),
            scope=arguments.scope,
            tags=tuple(arguments.tag),
            ttl_days=arguments.ttl_days,
            evidence=tuple(arguments.evidence),
            sensitive=arguments.sensitive,
            since=arguments.since or "",
            until=arguments.until or "",
        )
    )


async def _import(asked: Asked) -> str:
    """Imports an export of kode's directly, another agent's memory into the review."""
    system, arguments, confirm = asked.system, asked.arguments, asked.confirm
    file = arguments.file
    if file is not None and not arguments.source and is_own_export(file):
        return await exchange.import_(system, file, dry_run=arguments.dry_run)
    return await move_in(system, file, arguments.source, dry_run=arguments.dry_run, confirm=confirm)


def _as_of(system: BaseMemory, text: str) -> str:
    now = datetime.now().astimezone()
    day = stale.day_of(text, "--as-of", now)
    found = system.ledger.as_of(system.entries(), datetime.combine(day, time.max, now.tzinfo))
    gone = {one.place: one for one in system.ledger.superseded()}
    listed = [
        f"[{entry.target}] {quoted(entry)}"
        + (f"\n    ({ended(gone[entry.place])})" if entry.place in gone else "")
        for entry in found
    ]
    return "\n".join(listed) or f"Nothing was remembered on {day}."


async def _log(asked: Asked) -> str:
    system = asked.system
    tail, lines = system.history.tail(max(1, asked.arguments.n)), system.history.lines()
    unfinished = system.history.unfinished()
    listed = [
        _change(change) + _fate(lines.undo_of(change), change.id in unfinished)
        for change in reversed(tail.changes)
        if not change.is_mark
    ]
    if tail.damaged:
        listed.append(f"(damaged lines skipped in {system.history.path}: {tail.damaged})")
    return "\n".join(listed) or "Nothing has changed yet."


def _fate(undone: Change | None, is_unfinished: bool) -> str:
    if is_unfinished:
        return "  [never made, or being made]"
    if undone is None:
        return ""
    return f"  [{undone.reason}]" if undone.is_mark else f"  [undone by {undone.id}]"


def _change(change: Change) -> str:
    sides = (
        "; ".join(first_of([shorten(line, TEXT_CHARS) for line in side], LINES_SHOWN))
        for side in change.differences
    )
    gone, new = sides
    if gone and not new and (change.after or change.kind == BY_HAND):
        new = "(nothing)"
    what = ": " + " → ".join(filter(None, (gone, new))) if gone or new else ""
    reason = f"  [{change.reason}]" if change.reason else ""
    when = change.at[:16].replace("T", " ")
    return f"{change.id}  {when}  {by(change)}  {change.kind} {change.target}{what}{reason}"


_ANY: Mapping[str, Callable[[MemorySystem, argparse.Namespace], Awaitable[str]]] = {
    "search": _search,
    "export": _export,
}
"""Commands on any memory, a program's own too."""
_RUN: Mapping[str, Callable[[Asked], Awaitable[str | Outcome]]] = {
    "show": _show,
    "add": _add,
    "review": _review,
    "approve": _approve,
    "drop": _drop,
    "log": _log,
    "why": _why,
    "undo": _undo,
    "rebuild": _rebuild,
    "status": _status,
    "import": _import,
}
"""What each of the other `command_line.COMMANDS` does that all systems have."""
