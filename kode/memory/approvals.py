"""What waits for a person's approval: what other agents propose or an import brought, in one place
for all systems, and what a system holds back itself. Listing it, approving and dropping it, one by
one or many at once.
"""

from collections.abc import Sequence

from kode.errors import MemoryRefused
from kode.memory import proposals
from kode.memory.base import UNDO_WITH, BaseMemory, Waiting, change_of
from kode.memory.foreign.entries import NAMES
from kode.memory.history import Author
from kode.memory.proposals import Proposals
from kode.memory.undo import Confirm, Following, undo_all

LISTED_FAULTS = 3


async def waiting(system: BaseMemory) -> list[Waiting]:
    """What waits for a person's approval: what other agents propose, then the system's own."""
    return [*_proposals(system).waiting(), *await system.waiting()]


async def approve(system: BaseMemory, id: str) -> str:
    """Lets what waits under an id count, and says what was done. Raises: MemoryRefused,
    StorageError, BusyError."""
    proposed = _proposals(system)
    if not proposed.begins(id):
        return await system.approve(id)
    proposal, addition = proposed.approved(id, system.name, system.project)
    done = await system.add(addition)
    await proposed.settle(proposal, change_of(done))
    return done


async def approve_many(
    system: BaseMemory, whose: str | None, *, confirm: Confirm | None, is_sure: bool
) -> str:
    """Shows what waits and approves it once the person says so, or right away with `is_sure`:
    what `whose` names, an agent or an import, or all of it. What cannot be kept waits on, and is
    named. Raises: MemoryRefused, StorageError, BusyError."""
    found = await waiting(system)
    if whose:
        of_them = _proposals(system).of(whose, NAMES.get(whose, ""), system.project)
        found = [one for one in found if one.id in of_them]
    if not found:
        return "None of this is pending."
    listed = "\n".join(f"{one.id}  {one.line}" for one in found)
    if not is_sure and confirm is None:
        return f"{listed}\nNothing was approved. `--yes` approves all of it."
    if not is_sure and confirm and not confirm(f"{listed}\nKeep these {len(found)}?"):
        return "Nothing was approved."
    faults: list[str] = []
    for one in found:
        try:
            await approve(system, one.id)
        except MemoryRefused as error:
            faults.append(f"{one.id}  {error}")
    return "\n".join([f"approved {len(found) - len(faults)} of {len(found)}", *_listed(faults)])


async def drop(system: BaseMemory, id: str) -> str:
    """Drops what waits under an id, and says what was done. Raises: MemoryRefused, StorageError,
    BusyError."""
    proposed = _proposals(system)
    if not proposed.begins(id):
        return await system.drop(id)
    done = await proposed.drop(id)
    return f"{done.line}\n{UNDO_WITH}{done.change_id}"


async def undo_import(system: BaseMemory, batch: str, following: Following) -> str:
    """Takes back what was approved of an import, and drops what waits of it. Raises: MemoryRefused,
    StorageError, BusyError."""
    kept = [one for one in system.history.standing(system.name) if batch and one.batch == batch]
    waited = sum(one.batch == batch for one in _proposals(system).all())
    lines = []
    if kept:
        lines.append(await undo_all(system, kept, following))
    await _proposals(system).drop_batch(batch, Author(who="user"))  # what was approved, too
    if waited:
        lines.append(f"dropped {waited} pending; import the file again to restore them")
    if not lines:
        raise MemoryRefused(
            f"Nothing is left of an import {batch!r}. `kode memory log` lists changes."
        )
    return "\n".join(lines)


async def undo_proposal(system: BaseMemory, id: str | None) -> str:
    """Takes a proposal of another agent back, where the id is one's; else ""."""
    found = system.history.find(id) if id else []
    if len(found) != 1 or found[0].system != proposals.SYSTEM:
        return ""
    return (await _proposals(system).undo(found[0], Author(who="user"))).line


def count_proposed(system: BaseMemory) -> int:
    """How much of what other agents propose, or an import brought, waits."""
    return len(_proposals(system).ids())


def _proposals(system: BaseMemory) -> Proposals:
    return Proposals(system.history.path.parent)


def _listed(faults: Sequence[str]) -> list[str]:
    if not faults:
        return []
    more = len(faults) - LISTED_FAULTS
    rest = [f"  ... and {more} more"] if more > 0 else []
    head = f"{len(faults)} wait on:"
    return [head, *(f"  {fault}" for fault in faults[:LISTED_FAULTS]), *rest]
