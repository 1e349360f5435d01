"""Everything that an open memory keeps, as values: entries with their source, what was
superseded, what waits for the person."""

from dataclasses import dataclass, replace
from datetime import datetime

from kode.contracts import MemorySystem
from kode.credentials import redact
from kode.memory import stale
from kode.memory.base import BaseMemory
from kode.memory.change import Change
from kode.memory.exchange import carrier_of
from kode.memory.guarded import kept_in
from kode.memory.ledger import Statement
from kode.memory.lineage import Entry
from kode.memory.places import Piece
from kode.memory.precedence import Rank, source_rank
from kode.memory.review import Item, items_of
from kode.memory.stale import Doubt

LOOKED_THROUGH = 20_000
"""The newest changes that are listed."""
MOST_SUPERSEDED = 20


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """One entry, credentials masked."""

    piece: Piece
    origin: Change | None
    """The change that created it; None if the history has none: it was written by hand."""
    rank: Rank
    """The kind of source it comes from."""
    doubt: Doubt | None
    """Why it may not hold any more."""

    @property
    def session(self) -> str:
        """The session it comes from; "" if that is unknown."""
        return self.piece.session or (self.origin.session or "" if self.origin else "")


@dataclass(frozen=True, kw_only=True)
class Superseded:
    """An entry that was replaced and holds no more."""

    entry: Entry
    change: Change
    """The one that replaced it."""
    into: tuple[Entry, ...]


@dataclass(frozen=True, kw_only=True)
class Overview:
    """What the active system keeps, of every project."""

    system: str
    """Its name."""
    entries: tuple[Remembered, ...]
    waiting: tuple[Item, ...]
    """What waits for the person, in the order to decide it, credentials masked."""
    superseded: tuple[Superseded, ...]
    """The newest first, at most `MOST_SUPERSEDED`, credentials masked."""
    changes: int
    """Number in the history of all systems, at most `LOOKED_THROUGH`."""
    damaged: int
    """Number of unreadable lines in the history."""


async def overview(system: MemorySystem) -> Overview:
    """Reads an open memory. Raises: MemoryRefused for a system that keeps nothing that kode knows
    of; StorageError."""
    kept = kept_in(system, "view")
    tail = kept.history.tail(LOOKED_THROUGH)
    return Overview(
        system=kept.name,
        entries=tuple(await _entries(kept)),
        waiting=tuple(
            replace(one, texts=tuple(map(redact, one.texts))) for one in await items_of(kept)
        ),
        superseded=tuple(
            Superseded(entry=_masked(one), change=one.ended, into=tuple(map(_masked, one.into)))
            for one in kept.ledger.superseded()[:MOST_SUPERSEDED]
            if one.ended
        ),
        changes=len(tail.changes),
        damaged=tail.damaged,
    )


def changes(system: MemorySystem) -> tuple[Change, ...]:
    """The newest `LOOKED_THROUGH` changes of all systems, newest first. Raises: MemoryRefused as
    `overview`, StorageError."""
    return tuple(kept_in(system, "view").history.tail(LOOKED_THROUGH).changes)


async def _entries(system: BaseMemory) -> list[Remembered]:
    found = stale.doubts(system.ledger, system.project, datetime.now().astimezone().date())
    doubts = {doubt.change.id: doubt for doubt in found.values()}
    standing = system.ledger.standing().values()
    origins = {_plain(one.text): one.change for one in standing}
    entries = []
    for piece in await carrier_of(system).pieces():
        origin = origins.get(_plain(piece.content))
        entries.append(
            Remembered(
                piece=replace(piece, content=redact(piece.content)),
                origin=origin,
                rank=source_rank(origin, piece.content) if origin else Rank.SAID,
                doubt=doubts.get(origin.id) if origin else None,
            )
        )
    return entries


def _plain(text: str) -> str:
    """An entry without what its file puts before it: a piece has none of that."""
    return text.lstrip("-*+# ").strip()


def _masked(statement: Statement) -> Entry:
    return replace(statement.entry, text=redact(statement.text))
