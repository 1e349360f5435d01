"""A person's decisions about waiting items: each is one change of the history, with an undo."""

from dataclasses import dataclass
from datetime import date

from kode.contracts import MemorySystem
from kode.errors import MemoryRefused
from kode.memory import approvals
from kode.memory.base import BaseMemory, Outcome
from kode.memory.guarded import kept_in
from kode.memory.waiting import CHOICES, Choice, Item, items
from kode.memory.why import in_words


@dataclass(frozen=True, kw_only=True)
class Decided:
    line: str
    """What was done, for the person."""
    text: str
    """The same in full."""
    change_id: str
    """The change to undo; "" if there is none."""


async def items_of(system: MemorySystem) -> list[Item]:
    """All waiting items, in the order to ask about them. Raises: MemoryRefused."""
    kept = kept_in(system, "review")
    return items(kept, date.today(), await approvals.waiting(kept))


async def decide(system: MemorySystem, id: str, choice: str) -> Decided:
    """Carries out a choice about the item with this id. Raises: MemoryRefused if it no longer waits
    or does not allow the choice; StorageError, BusyError."""
    found = next((one for one in await items_of(system) if one.id == id), None)
    if found is None:
        raise MemoryRefused("It is no longer pending: it was decided or changed meanwhile.")
    made = next((one for one in found.choices if one == choice), None)
    if made is None:
        raise MemoryRefused(f"{choice!r} is no choice here: {', '.join(CHOICES[found.group])}.")
    kept = kept_in(system, "review")
    done = await _carry_out(kept, found, made)
    return Decided(line=done.line, text=done.in_words(), change_id=done.change_id)


def chain_of(system: MemorySystem, item: Item) -> str:
    """The origin of a waiting item, back to who said it."""
    kept = kept_in(system, "review")
    if item.waits is not None:
        return item.waits.text
    found = (kept.ledger.statement(entry) for entry in item.entries)
    return "\n\n".join(in_words(one, kept.project) for one in found)


async def _carry_out(system: BaseMemory, item: Item, choice: Choice) -> Outcome:
    if item.waits is not None:
        if choice == "approve":
            return await approvals.approve(system, item.waits.id)
        return await approvals.drop(system, item.waits.id)
    if item.pair is not None:
        return await system.settle(item.pair, choice)
    if choice == "remove":
        return await system.remove_entry(item.entries[0])
    return await system.confirm(item.entries[0], item.doubt)
