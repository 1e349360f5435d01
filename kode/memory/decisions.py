"""What a person decides about what waits: each one change of the history, with an undo."""

from dataclasses import dataclass
from datetime import date

from kode.contracts import MemorySystem
from kode.errors import MemoryRefused
from kode.memory import approvals, uses
from kode.memory.base import UNDO_WITH
from kode.memory.guarded import Guarded
from kode.memory.lineage import Traced, trace
from kode.memory.waiting import CHOICES, Choice, Comparing, Item, Tending, items
from kode.memory.why import in_words


@dataclass(frozen=True, kw_only=True)
class Decided:
    text: str
    """What was done, for the person."""
    change_id: str
    """What undoes it; "" where nothing does."""


async def items_of(system: MemorySystem) -> list[Item]:
    """All that waits, in the order in which it is to be asked about. Raises: MemoryRefused."""
    inside = _traced(system)
    return items(inside, date.today(), await approvals.waiting(_inside(system)))


async def decide(system: MemorySystem, id: str, choice: str) -> Decided:
    """Carries out a choice about the item with this id, as it waits now. Raises: MemoryRefused
    where it does not wait any more, or allows no such choice; StorageError, BusyError."""
    found = next((one for one in await items_of(system) if one.id == id), None)
    if found is None:
        raise MemoryRefused("It does not wait any more: it was decided or changed meanwhile.")
    made = next((one for one in found.choices if one == choice), None)
    if made is None:
        raise MemoryRefused(f"{choice!r} is no choice here: {', '.join(CHOICES[found.group])}.")
    text = await _carry_out(_inside(system), found, made)
    undoes = [line for line in text.split("\n") if line.startswith(UNDO_WITH)]
    change_id = undoes[-1].removeprefix(UNDO_WITH).strip() if undoes else ""
    if made == "keep":
        inside = _traced(system)
        await uses.keep(inside.history.path.parent, inside.name, found.entries[0], change_id)
    return Decided(text=text, change_id=change_id)


def chain_of(system: MemorySystem, item: Item) -> str:
    """Where what waits came from, back to who said it."""
    inside = _traced(system)
    if item.waits is not None:
        return item.waits.text
    return "\n\n".join(in_words(trace(inside, entry), inside.project) for entry in item.entries)


async def _carry_out(system: MemorySystem, item: Item, choice: Choice) -> str:
    if item.waits is not None:
        if choice == "approve":
            return await approvals.approve(system, item.waits.id)
        return await approvals.drop(system, item.waits.id)
    if item.pair is not None and isinstance(system, Comparing):
        return await system.settle(item.pair, choice)
    if not isinstance(system, Tending):
        raise MemoryRefused(
            f"The {system.name} memory has no way to do that here: edit it by hand."
        )
    if choice == "remove":
        return await system.remove_entry(item.entries[0])
    return await system.confirm(item.entries[0], item.doubt)


def _inside(system: MemorySystem) -> MemorySystem:
    return system.system if isinstance(system, Guarded) else system


def _traced(system: MemorySystem) -> Traced:
    inside = _inside(system)
    if not isinstance(inside, Traced):
        raise MemoryRefused("Memory is off. Set memory.enabled to true, or leave out --no-memory.")
    return inside
