"""The content of the memory page: entries, the history as linked changes, and what waits for
approval.

The only module here that opens memory: for each request, read-only unless something is decided.
"""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from kode import paths
from kode.config import Config
from kode.conversation.memory import open_configured, outside_context
from kode.credentials import redact
from kode.events import Event, Notice
from kode.memory import commands, decisions, lineage, stale, uses
from kode.memory.base import BaseMemory
from kode.memory.decisions import Decided
from kode.memory.exchange import Piece, carrier_of
from kode.memory.guarded import kept_in
from kode.memory.history import Change
from kode.memory.precedence import Rank, source_rank
from kode.memory.stale import Doubt
from kode.memory.waiting import Choice, Item
from kode.memory.why import why

KINDS = {
    "fact": "Facts",
    "rule": "Rules",
    "soul": "Soul",
    "episode": "Episodes",
    "event": "Log",
}
"""The kinds of entries in display order."""
Use = Literal["used", "unused", "uncounted"]
USES: Mapping[Use, str] = {
    "used": f"used in the last {uses.SESSIONS} sessions",
    "unused": f"not used in {uses.SESSIONS} sessions",
    "uncounted": "not counted",
}
MOST_SUPERSEDED = 20
LINKED = 5
"""How many earlier or later changes are named."""
LOOKED_THROUGH = 20_000
"""How many of the newest changes are searched."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    text: str
    kind: str
    where: str
    """The system's name for its place."""
    project: str
    """"everywhere", "this project", or the hash of another project's path."""
    about: str
    session: str
    origin: Change | None
    """The change that created it; None if the history has none: it was written by hand."""
    note: str = ""
    """A remark: it waits for approval, it is never shown to a model."""
    rank: Rank
    """The kind of source it comes from."""
    use: Use


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Something that waits for the person, as the page asks about it."""

    id: str
    head: str
    texts: tuple[str, ...]
    choices: Mapping[Choice, str]


@dataclass(frozen=True, kw_only=True)
class Gone:
    """A superseded entry."""

    text: str
    by: tuple[str, ...]
    change: Change


@dataclass(frozen=True, kw_only=True)
class Linked:
    """A change with its connections."""

    change: Change
    undone_by: Change | None
    """The undo of it that is in effect."""
    made_from: tuple[Change, ...]
    """Changes that created the texts it replaced, and the one it undoes, newest first."""
    led_to: tuple[Change, ...]
    """Changes that replaced the texts it created, oldest first."""


@dataclass(frozen=True, kw_only=True)
class Remembered:
    system: str
    entries: tuple[Entry, ...]
    sources: tuple[tuple[str, int], ...]
    """(who, number of their entries), the most first; "" if no change is recorded."""
    asked: tuple[Asked, ...]
    """What waits, in the order to decide it."""
    superseded: tuple[Gone, ...]
    """The newest first."""
    changes: int
    """Number in the history of all systems."""
    damaged: int
    """Number of unreadable lines in the history."""
    notices: tuple[str, ...]
    """The system's notices on opening."""


async def remembered(config: Config, cwd: Path) -> Remembered:
    """Everything remembered, of every project. Raises: MemoryRefused, StorageError."""
    async with _opened(config, cwd) as (system, notices):
        tail = system.history.tail(LOOKED_THROUGH)
        here = paths.path_hash(paths.project_root(cwd))
        pieces = await carrier_of(system).pieces()
        places = Counter(piece.origin for piece in pieces)
        origins = _origins(change for change in tail.changes if change.system == system.name)
        today = datetime.now().astimezone().date()
        found = stale.doubts(system, today)
        doubts = {doubt.change.id: doubt for doubt in found.values()}
        facts = {entry.place: entry.text.strip() for entry in system.facts()}
        counted = uses.missed_by(system.history, system.name, system.facts())
        missed = {facts[place]: count for place, count in counted.items()}
        entries = [
            _entry(
                piece, here, origins, alone=places[piece.origin] == 1, doubts=doubts, missed=missed
            )
            for piece in pieces
        ]
        sources = Counter(entry.origin.who if entry.origin else "" for entry in entries)
        return Remembered(
            system=system.name,
            entries=tuple(entries),
            sources=tuple(sources.most_common()),
            asked=tuple(_question(one) for one in await decisions.items_of(system)),
            superseded=_superseded(system),
            changes=len(tail.changes),
            damaged=tail.damaged,
            notices=tuple(notices),
        )


async def history(config: Config, cwd: Path) -> list[Linked]:
    """Every change of every system, newest first, with its connections. Raises: MemoryRefused,
    StorageError."""
    async with _opened(config, cwd) as (system, _):
        return linked(system.history.tail(LOOKED_THROUGH).changes)


async def chain(config: Config, cwd: Path, change: Change) -> str:
    """The origin of what a change created, back to who said it; "" for a change of another system,
    for an undo, and if the history does not say. Raises: MemoryRefused, StorageError."""
    async with _opened(config, cwd) as (system, _):
        if change.undoes or change.system != system.name:
            return ""
        return why(system, change.id)


async def decide(config: Config, cwd: Path, id: str, choice: str) -> Decided:
    """Carries out a choice about the waiting item with this id. Raises: MemoryRefused,
    StorageError, BusyError."""
    async with _opened(config, cwd, read_only=False) as (system, _):
        return await decisions.decide(system, id, choice)


async def undo(config: Config, cwd: Path, change_id: str) -> str:
    """Undoes one change; returns a message about it. Raises: MemoryRefused, StorageError,
    BusyError."""
    async with _opened(config, cwd, read_only=False) as (system, _):
        return await commands.memory_command(system, ["undo", change_id])


def linked(changes: Sequence[Change]) -> list[Linked]:
    """Changes, newest first, each with those that it shares texts with."""
    made: dict[tuple[str, str, str], list[Change]] = {}
    replaced: dict[tuple[str, str, str], list[Change]] = {}
    undone: dict[str, Change] = {}
    ineffective: set[str] = set()
    for change in changes:
        for text in change.after:
            made.setdefault((change.system, change.target, text), []).append(change)
        for text in change.before:
            replaced.setdefault((change.system, change.target, text), []).append(change)
        if change.undoes and change.id not in ineffective:
            ineffective.add(change.undoes)
            undone[change.undoes] = change
    place = {change.id: at for at, change in enumerate(changes)}

    def others(
        of: Change, texts: Iterable[str], known: Mapping[tuple[str, str, str], list[Change]]
    ) -> dict[str, Change]:
        keys = ((of.system, of.target, text) for text in texts)
        return {one.id: one for key in keys for one in known.get(key, ())}

    found = []
    for change in changes:
        at = place[change.id]
        known = others(change, change.before, made)
        if change.undoes in place:
            known[change.undoes] = changes[place[change.undoes]]
        older = [c for c in known.values() if place[c.id] > at]
        newer = [c for c in others(change, change.after, replaced).values() if place[c.id] < at]
        found.append(
            Linked(
                change=change,
                undone_by=undone.get(change.id),
                made_from=tuple(sorted(older, key=lambda c: place[c.id])[:LINKED]),
                led_to=tuple(sorted(newer, key=lambda c: -place[c.id])[:LINKED]),
            )
        )
    return found


@contextlib.asynccontextmanager
async def _opened(
    config: Config, cwd: Path, *, read_only: bool = True
) -> AsyncIterator[tuple[BaseMemory, list[str]]]:
    """Opens the configured system; also yields its notices. Raises: MemoryRefused if memory is
    off."""
    notices: list[str] = []

    def take(event: Event) -> None:
        if isinstance(event, Notice):
            notices.append(event.text)

    context = outside_context(config, cwd, emit=take, read_only=read_only)
    async with open_configured(config.memory, context) as system:
        yield kept_in(system, "view"), notices


def _question(item: Item) -> Asked:
    texts = tuple(map(redact, item.texts))
    return Asked(id=item.id, head=item.head, texts=texts, choices=item.choices)


def _superseded(system: BaseMemory) -> tuple[Gone, ...]:
    found = lineage.superseded(system)[:MOST_SUPERSEDED]
    return tuple(
        Gone(
            text=redact(fate.entry.text),
            by=tuple(redact(one.text) for one in fate.into),
            change=fate.change,
        )
        for fate in found
    )


def _origins(changes: Iterable[Change]) -> dict[str, Change]:
    """The newest change that created a text, or wrote a place in full."""
    found: dict[str, Change] = {}
    for change in changes:
        for key in (*change.after, change.target):
            found.setdefault(key.strip(), change)
    return found


def _entry(
    piece: Piece,
    here: str,
    origins: Mapping[str, Change],
    *,
    alone: bool,
    doubts: Mapping[str, Doubt],
    missed: Mapping[str, int],
) -> Entry:
    """`alone`: whether its place holds nothing else, so that a change of the place is one of it.
    `missed`: the number of recent consecutive sessions that did not use it, by its text."""
    project = "this project" if piece.project == here else piece.project or "everywhere"
    origin = origins.get(piece.content.strip())
    if origin is None and alone:
        origin = origins.get(piece.origin)
    doubt = doubts.get(origin.id) if origin else None
    count = missed.get(piece.content.strip())
    stale_or_over = "expired" if doubt and doubt.expired else "may be stale"
    notes = {
        f"{stale_or_over}: {doubt.why if doubt else ''}": doubt is not None,
        "waits for approval": piece.untrusted,
        "never shown to a model": piece.private,
        f"expires {piece.expires_at[:10]}": bool(piece.expires_at),
    }
    return Entry(
        text=redact(piece.content),
        kind=KINDS[piece.kind],
        where=piece.origin,
        project=project,
        about=piece.about,
        session=piece.session or (origin.session or "" if origin else ""),
        origin=origin,
        note=", ".join(note for note, holds in notes.items() if holds),
        rank=source_rank(origin, piece.content) if origin else Rank.SAID,
        use="uncounted" if count is None else "unused" if count >= uses.SESSIONS else "used",
    )
