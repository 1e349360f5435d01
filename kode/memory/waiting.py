"""`kode memory review`: what waits for a person's judgment, each with what settles it.

Nothing is decided here.
"""

from collections.abc import Sequence
from datetime import date
from typing import Protocol, runtime_checkable

from kode.memory import stale
from kode.memory.base import Waiting
from kode.memory.lineage import Chain, Entry, Traced, steps
from kode.memory.stale import Doubt
from kode.memory.why import NOT_RECORDED, describe, quoted


@runtime_checkable
class Comparing(Protocol):
    """A system that compares entries with each other."""

    def unjudged(self) -> Sequence[tuple[Entry, Entry]]:
        """Pairs that may say the same or contradict each other, and that no model has judged."""


def review(system: Traced, today: date, waits: Sequence[Waiting]) -> str:
    """All of it as text; `waits` is what waits for approval."""
    chain = Chain(steps(system))
    standing = {entry.place: entry for entry in system.entries()}
    parts: list[str] = []
    if waits:
        listed = "\n".join(f"{one.id}  {one.line}" for one in waits)
        parts.append(f"waiting for approval (`kode memory approve ID`):\n{_indented(listed)}")
    pairs = system.unjudged() if isinstance(system, Comparing) else ()
    near = [pair for pair in pairs if all(one.place in standing for one in pair)]
    if near:
        listed = "\n\n".join(f"{_one(chain, old)}\n{_one(chain, new)}" for old, new in near)
        head = "may say the same, or contradict each other; a model is asked when a session ends"
        parts.append(f"{head} (`kode memory remove`, `replace`):\n{_indented(listed)}")
    found = stale.doubts(system, today)
    doubted = [(standing[place], doubt) for place, doubt in found.items() if place in standing]
    for expired, head in ((False, "may be stale"), (True, "expired, not shown to a model")):
        lines = [_doubted(entry, doubt) for entry, doubt in doubted if doubt.expired == expired]
        if lines:
            parts.append(f"{head}:\n{_indented(chr(10).join(lines))}")
    return "\n\n".join(parts) or "Nothing waits for you."


def count_doubted(system: Traced, today: date) -> int:
    """How many of the entries that stand may not hold any more."""
    found = stale.doubts(system, today)
    return len(found.keys() & {entry.place for entry in system.entries()}) if found else 0


def _one(chain: Chain, entry: Entry) -> str:
    link = chain.link(entry)
    came = describe(link.change) if link and link.change else NOT_RECORDED
    return f"{quoted(entry)}  ·  {entry.target}\n  {came}"


def _doubted(entry: Entry, doubt: Doubt) -> str:
    id = doubt.change.id
    return (
        f"{quoted(entry)}  ·  {entry.target}\n  {doubt.why}: {describe(doubt.change)}\n"
        f"  undo with: kode memory undo {id}"
    )


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.split("\n"))
