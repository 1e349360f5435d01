"""Undoes and redoes changes: one, one with everything made from it, or those of a session or an
import.

Several changes are undone newest first, each as a separate change, all or none. Their undos share a
batch, by which they are redone together.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kode.errors import MemoryRefused
from kode.memory import waiting
from kode.memory.base import BaseMemory, Outcome, joined
from kode.memory.change import Author, Change, NothingToUndo, undo_of
from kode.memory.ledger import PAIRS, Ledger, Statement
from kode.messages import plural

Confirm = Callable[[str], bool]
"""Asks the person; whether the answer was yes."""
OF_A_SESSION = frozenset({"episode", "session"})
"""Kinds of changes that summarize an entire session; others cover one turn."""


@dataclass(frozen=True, kw_only=True)
class Following:
    """How an undo handles later changes made from the undone ones."""

    describe: Callable[[Change], str]
    """A change, for the person."""
    with_derived: bool = False
    """Whether to include them without asking."""
    confirm: Confirm | None = None
    """Asks a person, if there is one."""

    def go_along(self, listed: str) -> bool:
        """Whether to include them; `listed` names them."""
        asked = self.confirm
        return self.with_derived or (asked is not None and asked(f"{listed}\nUndo them too?"))


async def undo(system: BaseMemory, id: str | None, following: Following) -> Outcome:
    """Undoes the change with this id, or the last one; an undo is redone. Changes made from it are
    included if wanted, else named. Raises: MemoryRefused, StorageError, BusyError; then nothing was
    changed."""
    if id is None:
        return await _undo_last(system, following)
    change = _meant(system, id)
    if change.undoes and change.batch:
        return await take_back(system, _batch(system, change.batch))
    return await _undo_one(system, change, following)


async def undo_session(system: BaseMemory, session: str, following: Following) -> Outcome:
    """Undoes all changes of a session together. Raises as `undo`."""
    standing = list(system.history.standing(system.name))
    names = {change.session for change in standing if (change.session or "").startswith(session)}
    if not session or len(names) != 1:
        which = "More than one session" if names else "No session with changes in effect"
        raise MemoryRefused(f"{which} begins with {session!r}. `kode session list` lists them.")
    changes = [change for change in standing if change.session in names]
    return await undo_all(system, changes, following)


async def undo_import(system: BaseMemory, batch: str, following: Following) -> Outcome:
    """Undoes what was approved of an import together with the import: none of it waits any more.
    Raises as `undo`."""
    changes = [change for change in _batch(system, batch) if not change.undoes]
    if not changes:
        raise MemoryRefused(
            f"Nothing is left of an import {batch!r}. `kode memory log` lists changes."
        )
    return await undo_all(system, changes, following)


async def undo_all(system: BaseMemory, changes: Sequence[Change], following: Following) -> Outcome:
    """Undoes changes together, including those made from them if wanted. Raises as `undo`."""
    followers = _followers(system, changes)
    listed = _list("Later changes rest on it", followers, following)
    if followers and not following.go_along(listed):
        raise MemoryRefused(f"{listed}\nNothing was changed. `--with-derived` undoes them too.")
    return await take_back(system, newest_first(system, [*changes, *followers]))


async def take_back(system: BaseMemory, changes: Sequence[Change]) -> Outcome:
    """Undoes changes in this order, all or none, in one batch. Raises: MemoryRefused with the
    obstacle."""
    if not changes:
        raise MemoryRefused("It was redone already: `kode memory log` lists the changes.")
    if not changes[1:]:
        return await _undo(system, changes[0], "")
    batch = secrets.token_hex(6)
    in_no_place = [one for one in changes if one.system == waiting.SYSTEM]
    done: list[Outcome] = []
    try:
        for change in changes:
            if change.system == waiting.SYSTEM:
                continue  # with one sync for all: thousands may be of one import
            try:
                done.append(await _undo(system, change, batch))
            except NothingToUndo as nothing:
                done.append(Outcome(line=str(nothing)))
                _mark(system, change, batch)
        lines = [undo_of(one, Author(who="undo", batch=batch)) for one in in_no_place]
        system.history.append_all(lines)
    except MemoryRefused as error:
        for undone in _batch(system, batch):
            await _undo(system, undone, "")
        raise MemoryRefused(f"Nothing was undone. {error}") from error
    if in_no_place:
        done.append(Outcome(line=f"{plural(len(in_no_place), 'line')} about what waits undone"))
    return replace(joined(done), change_id=_batch(system, batch)[0].id)


async def _undo(system: BaseMemory, change: Change, batch: str) -> Outcome:
    """Undoes one change; a line about pairs, or about what waits, stands in no place."""
    system.check_writable()
    author = Author(who="undo", batch=batch)
    if change.target == PAIRS:
        undone = system.history.append(undo_of(change, author))
    elif change.system == waiting.SYSTEM:
        undone = await waiting.take_back(system.history, change, author)
    else:
        return await system.undo_change(change, batch)
    if (proposal := waiting.waits_again(system.history, change)) is not None:
        await system.reject(proposal)
    return Outcome(line=f"undid {change.kind} {change.id}", change_id=undone.id)


def newest_first(system: BaseMemory, changes: Sequence[Change]) -> list[Change]:
    """The changes in the order in which they can be undone."""
    ids = {change.id for change in changes}
    return [change for change in reversed(system.history.lines()) if change.id in ids]


def _batch(system: BaseMemory, batch: str) -> list[Change]:
    """The effective changes of a batch, newest first."""
    found = system.history.in_effect(system.name, waiting.SYSTEM)
    return [one for one in found if batch and one.batch == batch]


async def _undo_one(system: BaseMemory, change: Change, following: Following) -> Outcome:
    changes = _together(system, change)
    followers = _followers(system, changes)
    if not followers:
        return await take_back(system, changes)
    listed = _list("Made from it", followers, following)
    if following.go_along(listed):
        return await take_back(system, newest_first(system, [*changes, *followers]))
    try:
        done = await take_back(system, changes)
    except MemoryRefused as error:
        again = f"`kode memory undo {change.id} --with-derived` undoes them too."
        raise MemoryRefused(f"{error}\n{listed}\n{again}") from error
    stay = f"{listed}\nThey stay; each is undone by `kode memory undo` and its id."
    return replace(done, remark="\n".join(filter(None, (done.remark, stay))))


def _together(system: BaseMemory, change: Change) -> list[Change]:
    """The changes of its batch, newest first. What a person approved was decided one by one."""
    found = _batch(system, change.batch)
    batch = [one for one in found if one.system == change.system and not one.approves]
    return batch if change in batch else [change]


async def _undo_last(system: BaseMemory, following: Following) -> Outcome:
    """Undoes the last change. One of which nothing is left is marked as undone instead, and the one
    before it stays: a person says of each that it goes."""
    left = system.unfinished  # first: what ends between the two looks has its line by the second
    mine = (one for one in system.history.standing(system.name) if _is_of_mine(system, one))
    change = next(mine, None)
    if change is None and left:
        raise MemoryRefused(
            f"There is nothing to undo yet: memory is not finished with {plural(left, 'session')}, "
            "which may still change it. `kode memory log` lists the changes."
        )
    if change is None:
        raise MemoryRefused("There is nothing to undo. `kode memory log` lists the changes.")
    try:
        return await _undo_one(system, change, following)
    except NothingToUndo as nothing:
        _mark(system, change)
        return Outcome(
            line=f"{nothing} It does not count any more; the change before it was not touched."
        )


def _is_of_mine(system: BaseMemory, change: Change) -> bool:
    """Not what kode did by itself, nor what colleagues did, or what is of another project."""
    by_itself = change.kind in ("job", "prune") or (change.kind, change.who) == ("merge", "merge")
    places = system.history.places
    return not by_itself and not change.person and (places is None or places.concerns(change))


def _meant(system: BaseMemory, id: str) -> Change:
    found = system.history.find(id)
    if not found:
        raise MemoryRefused(f"No change has the id {id!r}. `kode memory log` lists them.")
    if len(found) > 1:
        ids = ", ".join(change.id for change in found[:5])
        raise MemoryRefused(f"Several changes begin with {id!r}: {ids}. Give more of the id.")
    if found[0].system not in (system.name, waiting.SYSTEM):
        raise MemoryRefused(
            f"{found[0].id} was made by the {found[0].system} system. "
            f"Use `kode memory --memory {found[0].system} undo {found[0].id}`."
        )
    return found[0]


def _followers(system: BaseMemory, changes: Sequence[Change]) -> list[Change]:
    """The effective changes made from these, oldest first."""
    return _derived(system.ledger, {change.id: change for change in changes})


def _derived(ledger: Ledger, roots: Mapping[str, Change]) -> list[Change]:
    """The changes that used what `roots` (by id) created, oldest first: they transformed it, or
    summarize the session in which it was said. None if nothing of all that is left."""
    family: dict[Statement, None] = {}
    for one in ledger.statements():
        change = one.change
        is_of = change is not None and (
            change.id in roots or any(_sums_up(change, root) for root in roots.values())
        )
        if is_of or any(parent in family for parent in one.made_of):
            family[one] = None
    if all(one.ended for one in family):
        return []
    used = {change.id for one in family for change in (one.change, one.ended) if change}
    return [step.change for step in ledger.steps() if step.change.id in used - roots.keys()]


def _sums_up(change: Change, root: Change) -> bool:
    """Whether a change was made from the conversation in which another was."""
    if change.who != "extraction" or not root.session or change.session != root.session:
        return False
    if root.who not in ("model", "user"):
        return False
    at, said = change.turn or 0, root.turn or 0
    return at >= said if change.kind in OF_A_SESSION else at == said


def _list(head: str, changes: Sequence[Change], following: Following) -> str:
    return "\n".join([f"{head}:", *(f"  {following.describe(change)}" for change in changes)])


def _mark(system: BaseMemory, change: Change, batch: str = "") -> None:
    """Marks a change of which nothing is left as undone."""
    reason = f"nothing was left of {change.kind} {change.id}"
    author = Author(who="undo", batch=batch)
    system.history.append(undo_of(change, author, before=(), after=(), reason=reason))
