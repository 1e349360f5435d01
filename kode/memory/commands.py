"""`kode memory ...` and `/memory ...`: what a person may do with memory, in any system.

Commands return text; the face displays it.
"""

import argparse
import functools
from collections.abc import Sequence
from datetime import date, datetime

from kode import installed
from kode.contracts import MemorySystem
from kode.errors import ConfigError, MemoryRefused
from kode.memory import exchange, stale
from kode.memory.approvals import (
    approve,
    approve_many,
    count_proposed,
    undo_import,
    undo_proposal,
    waiting,
)
from kode.memory.base import UNDO, Addition, BaseMemory, Outcome
from kode.memory.command_line import TARGETS, CommandParser, add_commands
from kode.memory.foreign import is_own_export
from kode.memory.guarded import inside, kept_in
from kode.memory.history import BY_HAND, Change
from kode.memory.moving_in import move_in
from kode.memory.undo import Confirm, Following, undo_session
from kode.memory.undo import undo as undo_change
from kode.memory.waiting import count_doubted, items, review, superseded_lately
from kode.memory.why import ended, quoted, why
from kode.messages import first_of, plural, shorten

TEXT_CHARS = 100
LINES_SHOWN = 5
"""Of a change's lines in the log."""


async def memory_command(system: MemorySystem, argv: Sequence[str], *, undo: str = UNDO) -> str:
    """One command line (`["search", "tabs"]`) on an open memory; the text to show, in which `undo`
    is the command that undoes a change.

    Raises: ConfigError for an invalid command line; MemoryRefused, StorageError, BusyError if it
        failed.
    """
    return await run_command(system, _parser().parse_args(list(argv) or ["show"]), undo=undo)


@functools.cache
def _parser() -> CommandParser:
    parser = CommandParser(prog="/memory", add_help=False)
    add_commands(parser)
    return parser


async def run_command(
    system: MemorySystem,
    arguments: argparse.Namespace,
    confirm: Confirm | None = None,
    *,
    undo: str = UNDO,
) -> str:
    """Runs a command parsed by `add_commands`; `confirm` asks a person, if there is one. Raises as
    `memory_command`."""
    done = await _run(system, arguments, confirm, undo)
    return done.in_words(undo) if isinstance(done, Outcome) else done


async def _run(
    system: MemorySystem, arguments: argparse.Namespace, confirm: Confirm | None, undo: str
) -> str | Outcome:
    command = arguments.command or "show"
    if command == "search":
        return await _search(inside(system), " ".join(arguments.query), arguments.k)
    if command == "export":
        return await exchange.export(inside(system), arguments.file)
    if command in installed.subcommands("memory"):
        raise MemoryRefused(f"Run `kode memory {command}` in a shell.")
    kept = kept_in(system, command)
    if command == "add":
        return await _add(kept, arguments)
    if command in ("replace", "archive", "remove", "consolidate"):
        return await kept.edit_facts(
            arguments.command,
            arguments.target,
            arguments.scope,
            old=getattr(arguments, "old", ""),
            new=getattr(arguments, "new", ""),
        )
    if command == "approve":
        if arguments.id is not None:
            return await approve(kept, arguments.id)
        if arguments.all or arguments.source:
            return await approve_many(
                kept, arguments.source, confirm=confirm, is_sure=arguments.yes
            )
        lines = [f"{one.id}  {one.line}" for one in await waiting(kept)]
        return "\n".join(lines) or "Nothing is pending."
    if command == "import":
        return await _import(kept, arguments, confirm)
    if command == "show" and getattr(arguments, "as_of", None):
        return _as_of(kept, arguments.as_of)
    if command == "episodes":
        return await kept.list_episodes(max(1, arguments.n))
    if command == "show" and getattr(arguments, "id", None):
        return await kept.show_one(arguments.id)
    if command == "why":
        return why(kept, " ".join(arguments.entry))
    if command == "review":
        found = items(kept, date.today(), await waiting(kept))
        return review(found, superseded_lately(kept, datetime.now().astimezone()), undo)
    if command == "show":
        return await kept.show() or "Nothing is remembered yet."
    if command == "status":
        parts = (await kept.status(), _propose(kept), _doubted(kept))
        return "\n".join(filter(None, parts))
    if command == "log":
        return _log(kept, arguments.n)
    if command == "rebuild":
        return await kept.rebuild()
    following = Following(describe=_change, with_derived=arguments.with_derived, confirm=confirm)
    if arguments.batch:
        return await undo_import(kept, arguments.batch, following)
    if arguments.session:
        return await undo_session(kept, arguments.session, following)
    if done := await undo_proposal(kept, arguments.id):
        return done
    return await undo_change(kept, arguments.id, following)


async def _search(system: MemorySystem, query: str, k: int) -> str:
    hits = await system.search(query, max(1, k))
    unread = system.unread if isinstance(system, BaseMemory) else 0
    lines = [] if hits and hits[0].score else [f"No matching memory for: {query}"]
    if unread:
        notes = plural(unread, "session note")
        lines.append(f"({notes} not looked at yet: search again, or run `kode memory search`)")
    lines += [
        f"{hit.score:5.2f}  [{hit.where}] {shorten(hit.text, 2 * TEXT_CHARS)}"
        + (f"  ({hit.why})" if hit.why else "")
        for hit in hits
    ]
    return "\n".join(lines)


async def _add(system: BaseMemory, arguments: argparse.Namespace) -> Outcome:
    known = TARGETS.get(system.name, ("NAME",))
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


async def _import(
    system: BaseMemory, arguments: argparse.Namespace, confirm: Confirm | None
) -> str:
    """Imports an export of kode's directly, another agent's memory into the review."""
    file = arguments.file
    if file is not None and not arguments.source and is_own_export(file):
        return await exchange.import_(system, file, dry_run=arguments.dry_run)
    return await move_in(system, file, arguments.source, dry_run=arguments.dry_run, confirm=confirm)


def _propose(system: BaseMemory) -> str:
    count = count_proposed(system)
    return f"proposed by other agents: {count} (`kode memory approve` lists them)" if count else ""


def _as_of(system: BaseMemory, text: str) -> str:
    day = stale.day_of(text, "--as-of")
    found = stale.as_of(system, day, datetime.now().astimezone())
    since = {fate.entry.place: fate for fate in system.ledger.superseded()}
    listed = [
        f"[{entry.target}] {quoted(entry)}"
        + (f"\n    ({ended(fate)}, {fate.change.at[:10]})" if fate else "")
        for entry in found
        for fate in [since.get(entry.place)]
    ]
    return "\n".join(listed) or f"Nothing was remembered on {day}."


def _doubted(system: BaseMemory) -> str:
    count = count_doubted(system, date.today())
    return f"may be stale, or expired: {count} (`kode memory review` lists them)" if count else ""


def _log(system: BaseMemory, count: int) -> str:
    tail = system.history.tail(max(1, count))
    never = {change.undoes: change.reason for change in tail.changes if change.is_mark}
    never |= dict.fromkeys(system.history.unfinished(), "never made, or being made")
    lines = [
        f"{_change(change)}  [{never[change.id]}]" if change.id in never else _change(change)
        for change in reversed(tail.changes)
        if not change.is_mark
    ]
    if tail.damaged:
        lines.append(f"(damaged lines skipped in {system.history.path}: {tail.damaged})")
    return "\n".join(lines) or "Nothing has changed yet."


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
    who = f"{change.who}{change.whose}"
    return f"{change.id}  {when}  {who}  {change.kind} {change.target}{what}{reason}"
