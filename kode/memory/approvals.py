"""Entries that wait for a person's approval: proposals of other agents and imports, shared by all
systems, and what a system holds back itself. Lists, approves and drops them, singly or in bulk."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from kode.errors import MemoryRefused
from kode.memory import proposals
from kode.memory.base import BaseMemory, Outcome, Waiting
from kode.memory.foreign import agents
from kode.memory.history import Author
from kode.memory.proposals import Proposals
from kode.memory.undo import Confirm, Following, undo_all
from kode.messages import first_of

LISTED_FAULTS = 3


async def waiting(system: BaseMemory) -> list[Waiting]:
    """What waits for approval: other agents' proposals, then the system's own."""
    return [*_proposals(system).waiting(), *await system.waiting()]


async def approve(system: BaseMemory, id: str) -> Outcome:
    """Approves what waits under an id. Raises: MemoryRefused, StorageError,
    BusyError."""
    proposed = _proposals(system)
    if not proposed.begins(id):
        return await system.approve(id)
    proposal, addition = proposed.approved(id, system.name, system.project)
    proposed.begin(proposal, system.name)
    try:
        done = await system.add(addition)
        await proposed.settle(proposal, done.change_id)
    finally:
        proposed.end(proposal.id)
    return done


async def finish(system: BaseMemory) -> list[str]:
    """Completes approvals that a crash has cut short, for the system and the project they were made
    in; returns what was approved. Nothing is stored twice. Raises: StorageError, BusyError."""
    proposed, finished = _proposals(system), []
    for id in proposed.begun(system.name):
        proposal = proposed.read(id)
        if proposal is None:
            proposed.end(id)
            continue
        with suppress(MemoryRefused):
            await approve(system, id)
            finished.append(proposal.text)
    return finished


async def approve_many(
    system: BaseMemory, whose: str | None, *, confirm: Confirm | None, is_sure: bool
) -> str:
    """Approves in bulk, after the person confirms or at once with `is_sure`: what came from
    `whose`, an agent or an import, or everything. What cannot be stored keeps waiting, and is
    named. Raises: MemoryRefused, StorageError, BusyError."""
    found = await waiting(system)
    if whose:
        agent = agents().get(whose)
        title = agent.title if agent is not None else ""
        of_them = _proposals(system).of(whose, title, system.project)
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
    return "\n".join([f"approved {len(found) - len(faults)} of {len(found)}", *_list(faults)])


async def drop(system: BaseMemory, id: str) -> Outcome:
    """Drops what waits under an id. Raises: MemoryRefused, StorageError,
    BusyError."""
    proposed = _proposals(system)
    if not proposed.begins(id):
        return await system.drop(id)
    return await proposed.drop(id)


async def undo_import(system: BaseMemory, batch: str, following: Following) -> Outcome:
    """Undoes approvals from an import, and drops what still waits of it. Raises: MemoryRefused,
    StorageError, BusyError."""
    kept = [one for one in system.history.standing(system.name) if batch and one.batch == batch]
    waited = sum(one.batch == batch for one in _proposals(system).all())
    undone = await undo_all(system, kept, following) if kept else None
    await _proposals(system).drop_batch(batch, Author(who="user"))  # approved ones too
    dropped = f"dropped {waited} pending; import the file again to restore them"
    if undone is not None:
        return replace(undone, remark=dropped) if waited else undone
    if not waited:
        raise MemoryRefused(
            f"Nothing is left of an import {batch!r}. `kode memory log` lists changes."
        )
    return Outcome(line=dropped)


async def undo_proposal(system: BaseMemory, id: str | None) -> str:
    """Withdraws another agent's proposal; returns "" if the id is not one's."""
    found = system.history.find(id) if id else []
    if len(found) != 1 or found[0].system != proposals.SYSTEM:
        return ""
    return (await _proposals(system).undo(found[0], Author(who="user"))).line


def count_proposed(system: BaseMemory) -> int:
    """The number of waiting proposals of agents and imports."""
    return len(_proposals(system).ids())


def _proposals(system: BaseMemory) -> Proposals:
    return Proposals(system.history.path.parent)


def _list(faults: Sequence[str]) -> list[str]:
    if not faults:
        return []
    return [f"{len(faults)} wait on:", *(f"  {one}" for one in first_of(faults, LISTED_FAULTS))]
