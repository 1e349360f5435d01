"""Items that wait for a person's decision (`kode memory review`), each with its choices.

`decisions` carries them out.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal

from kode.memory import stale
from kode.memory.base import UNDO, BaseMemory, Waiting, undo_with
from kode.memory.ledger import Fate
from kode.memory.lineage import Entry
from kode.memory.stale import Doubt
from kode.memory.why import NOT_RECORDED, describe, ended, quoted

Group = Literal["approval", "contradiction", "near", "stale", "expired"]
Choice = Literal["approve", "drop", "first", "second", "both", "confirm", "remove"]

HEADS: Mapping[Group, str] = {
    "approval": "waiting for approval",
    "contradiction": "contradict each other",
    "near": "may say the same, or contradict each other",
    "stale": "may be stale",
    "expired": "expired, not shown to a model",
}
"""The groups, in the order to ask about them."""

LATELY_DAYS = 30
NOTHING_WAITS = "Nothing is pending."
_PAIR: Mapping[Choice, str] = {
    "first": "keep the first",
    "second": "keep the second",
    "both": "keep both",
}
CHOICES: Mapping[Group, Mapping[Choice, str]] = {
    "approval": {"approve": "approve", "drop": "drop"},
    "contradiction": _PAIR,
    "near": _PAIR,
    "stale": {"confirm": "still true", "remove": "remove"},
    "expired": {"confirm": "still true, without expiry", "remove": "remove"},
}
"""The choices of each group, worded for a person."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two entries, the older first."""

    first: Entry
    second: Entry
    contradict: bool
    """Whether a model found a contradiction; else nobody has judged them."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing that waits."""

    group: Group
    texts: tuple[str, ...]
    """The full texts, each with its origin: one, or two to compare."""
    entries: tuple[Entry, ...] = ()
    doubt: Doubt | None = None
    waits: Waiting | None = None
    pair: Pair | None = None

    @property
    def id(self) -> str:
        """Its identity while it waits with this text: a decision is about what was read, not about
        what replaced it."""
        waits = [self.waits.id, self.waits.text] if self.waits else []
        of = waits or [part for one in self.entries for part in (*one.place, one.text)]
        return hashlib.sha256("\0".join((self.group, *of)).encode(errors="replace")).hexdigest()[
            :12
        ]

    @property
    def head(self) -> str:
        return HEADS[self.group]

    @property
    def choices(self) -> Mapping[Choice, str]:
        return CHOICES[self.group]


def items(system: BaseMemory, today: date, waits: Sequence[Waiting]) -> list[Item]:
    """All items, in the order of `HEADS`; `waits` are those that wait for approval."""
    found = [Item(group="approval", texts=(one.text,), waits=one) for one in waits]
    standing = {entry.place: entry for entry in system.entries()}
    pairs = list(_pairs(system, standing))
    doubted = list(_doubted(system, standing, today))
    found += [one for group in HEADS for one in (*pairs, *doubted) if one.group == group]
    return found


def review(found: Sequence[Item], lately: Sequence[Fate] = (), undo: str = UNDO) -> str:
    """All items as text, with the commands that settle them outside a terminal; `lately` are
    recently superseded entries, `undo` is the command that undoes a change."""
    parts: list[str] = []
    for group, head in HEADS.items():
        listed = ["\n".join(_lines(one, undo)) for one in found if one.group == group]
        if listed:
            gap = "\n\n" if group in ("contradiction", "near") else "\n"
            parts.append(f"{head}{_SETTLED_BY.get(group, '')}:\n{_indent(gap.join(listed))}")
    if not parts:
        parts.append(NOTHING_WAITS)
    if lately:
        listed = [_superseded(fate, undo) for fate in lately]
        parts.append(f"superseded lately:\n{_indent(chr(10).join(listed))}")
    return "\n\n".join(parts)


def superseded_lately(system: BaseMemory, now: datetime) -> list[Fate]:
    """Entries superseded in the last `LATELY_DAYS`, newest first."""
    since = now - timedelta(days=LATELY_DAYS)
    gone = system.ledger.superseded()
    return [one for one in gone if datetime.fromisoformat(one.change.at) >= since]


def _superseded(fate: Fate, undo: str) -> str:
    return (
        f"{_named(fate.entry)}\n  {ended(fate)}: {describe(fate.change)}\n"
        f"  {undo_with(fate.change.id, undo)}"
    )


def _lines(item: Item, undo: str) -> Iterator[str]:
    yield from (f"{item.waits.id}  {item.waits.line}",) if item.waits else item.texts
    if item.doubt is not None:
        yield f"  {undo_with(item.doubt.change.id, undo)}"


_SETTLED_BY: Mapping[Group, str] = {
    "approval": " (`kode memory approve ID`)",
    "contradiction": " (`kode memory remove`, `replace`)",
    "near": "; a model is asked when a session ends (`kode memory remove`, `replace`)",
}


def count_doubted(system: BaseMemory, today: date) -> int:
    """How many current entries may not hold any more."""
    found = stale.doubts(system, today)
    return len(found.keys() & {entry.place for entry in system.entries()}) if found else 0


def _pairs(system: BaseMemory, standing: Mapping[tuple[str, str], Entry]) -> Iterator[Item]:
    for pair in system.pairs():
        entries = (pair.first, pair.second)
        if all(one.place in standing for one in entries):
            yield Item(
                group="contradiction" if pair.contradict else "near",
                texts=tuple(f"{_named(one)}\n  {_came(system, one)}" for one in entries),
                entries=entries,
                pair=pair,
            )


def _doubted(
    system: BaseMemory, standing: Mapping[tuple[str, str], Entry], today: date
) -> Iterator[Item]:
    for place, doubt in stale.doubts(system, today).items():
        if place in standing:
            change, entry = doubt.change, standing[place]
            text = f"{_named(entry)}\n  {doubt.why}: {describe(change)}"
            group: Group = "expired" if doubt.expired else "stale"
            yield Item(group=group, texts=(text,), entries=(entry,), doubt=doubt)


def _named(entry: Entry) -> str:
    return f"{quoted(entry)}  ·  {entry.target}"


def _came(system: BaseMemory, entry: Entry) -> str:
    change = system.ledger.statement(entry).change
    return describe(change) if change else NOT_RECORDED


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.split("\n"))
