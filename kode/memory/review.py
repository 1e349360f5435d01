"""What waits for a person, and what they decide: what came from outside, entries that contradict
each other, and what may no longer be true. Each decision is one change of the history, with an
undo.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Literal

from kode.contracts import MemorySystem
from kode.errors import MemoryRefused
from kode.memory import stale, standing
from kode.memory.base import UNDO, BaseMemory, Outcome, only_one, undo_with
from kode.memory.foreign import agents
from kode.memory.guarded import kept_in
from kode.memory.ledger import PAIRS, Dispute, Statement
from kode.memory.lineage import Entry, Place
from kode.memory.stale import Doubt
from kode.memory.undo import Confirm
from kode.memory.waiting import Waiting, Why, proposals, settle
from kode.memory.why import described, ended, in_words, named, quoted
from kode.messages import first_of

Choice = Literal["approve", "drop", "first", "second", "both", "confirm", "remove"]

HEADS: Mapping[Why, str] = {
    "outside": "waiting for approval",
    "conflict": "contradict each other, or may say the same",
    "no longer true": "may no longer be true",
}
"""The reasons to wait, in the order to ask about them."""
CHOICES: Mapping[Why, Mapping[Choice, str]] = {
    "outside": {"approve": "approve", "drop": "drop"},
    "conflict": {"first": "keep the first", "second": "keep the second", "both": "keep both"},
    "no longer true": {"confirm": "still true", "remove": "remove"},
}
"""The choices for each reason, worded for a person."""
LATELY_DAYS = 30
LISTED_FAULTS = 3
NOTHING_WAITS = "Nothing is pending."


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing that waits."""

    why: Why
    texts: tuple[str, ...]
    """The full texts, each with its origin: one, or two to compare."""
    entries: tuple[Entry, ...] = ()
    doubt: Doubt | None = None
    waits: Waiting | None = None
    pair: Dispute | None = None

    @property
    def id(self) -> str:
        """Its identity while it waits with this text: a decision is about what was read, not about
        what replaced it."""
        waits = [self.waits.id, self.waits.text] if self.waits else []
        of = waits or [part for one in self.entries for part in (*one.place, one.text)]
        data = "\0".join((self.why, *of)).encode(errors="replace")
        return hashlib.sha256(data).hexdigest()[:12]

    @property
    def head(self) -> str:
        return HEADS[self.why]

    @property
    def choices(self) -> Mapping[Choice, str]:
        return CHOICES[self.why]

    def lines(self, undo: str) -> Iterator[str]:
        """It in a list, with the command that undoes what it rests on."""
        yield from (f"{self.waits.id}  {self.waits.line}",) if self.waits else self.texts
        if self.doubt is not None:
            yield f"  {undo_with(self.doubt.change.id, undo)}"


async def items_of(system: MemorySystem) -> list[Item]:
    """All waiting items, in the order to ask about them. Raises: MemoryRefused, StorageError."""
    kept = kept_in(system, "review")
    standing = {entry.place: entry for entry in kept.entries()}
    outside = [Item(why="outside", texts=(one.text,), waits=one) for one in await waiting(kept)]
    return [*outside, *_disputed(kept, standing), *_doubted(kept, standing)]


async def waiting(system: BaseMemory) -> list[Waiting]:
    """What waits for approval: the proposals, then what the system has marked in its place."""
    places = system.history.places
    here = ("", places.home if places else system.name)
    found = (one for one in proposals(system.history) if one.place in here)
    return [*(one.as_waiting() for one in found), *await system.waiting()]


async def decide(system: MemorySystem, id: str, choice: str) -> Outcome:
    """Carries out a choice about the item with this id. Raises: MemoryRefused if it no longer waits
    or does not allow the choice; StorageError, BusyError."""
    found = next((one for one in await items_of(system) if one.id == id), None)
    if found is None:
        raise MemoryRefused("It is no longer pending: it was decided or changed meanwhile.")
    made = next((one for one in found.choices if one == choice), None)
    if made is None:
        raise MemoryRefused(f"{choice!r} is no choice here: {', '.join(found.choices)}.")
    return await _carry_out(kept_in(system, "review"), found, made)


async def _carry_out(system: BaseMemory, item: Item, choice: Choice) -> Outcome:
    if item.waits is not None:
        return await (approve if choice == "approve" else drop)(system, item.waits)
    if item.pair is not None:
        return await settle_pair(system, item.pair, choice)
    if choice == "remove":
        return await system.remove_entry(item.entries[0])
    return await system.confirm(item.entries[0], item.doubt)


def pairs(system: BaseMemory, standing: Collection[Place] | None = None) -> list[Dispute]:
    """Current entries that wait for a model's word, or where they contradict, for the person's."""
    places = {one.place for one in system.entries()} if standing is None else {*standing}
    return [one for one in system.ledger.disputes() if one.places <= places]


async def settle_pair(system: BaseMemory, pair: Dispute, choice: str) -> Outcome:
    """Keeps the `first` of a pair, the `second` or `both`. Raises: MemoryRefused, StorageError,
    BusyError."""
    system.check_writable()
    sides = {"first": pair.first.entry, "second": pair.second.entry}
    first, second = sides.values()
    kept = [one for name, one in sides.items() if choice in (name, "both")]
    gone = next((one for one in (first, second) if one not in kept), None)
    history, places = system.history, system.history.places
    author = system._author("user")
    if places and first.target == second.target and places.is_of_entries(first.target):
        change = await standing.settle(history, (first, second), kept, author)
    elif gone is None:
        settled = ((first.place, second.place),)
        change = history.record(author, system.name, "settle", PAIRS, settled=settled)
    else:
        return await system.remove_entry(gone, f"{quoted(kept[0])} counts instead")
    line = f"kept {' and '.join(map(quoted, kept))}{f' instead of {quoted(gone)}' if gone else ''}"
    return system._report(Outcome(line=line, change_id=change.id))


async def _decide(waits: Waiting, choice: Literal["approve", "drop"]) -> Outcome:
    """About what its system has marked in its place."""
    assert waits.decide is not None
    done: Outcome = await waits.decide(choice)
    return done


async def named_by(system: BaseMemory, id: str) -> Waiting:
    """What waits for approval under an id, or under the only one that begins with it. Raises:
    MemoryRefused, StorageError."""
    system.check_writable()
    found = {one.id: one for one in await waiting(system)}
    lists = "`kode memory approve` without an id"
    return found[only_one("entry that waits for approval", found, id, lists)]


async def approve(system: BaseMemory, waits: Waiting) -> Outcome:
    """Raises: MemoryRefused, StorageError, BusyError."""
    proposal = waits.proposal
    if proposal is None:
        return await _decide(waits, "approve")
    if not proposal.is_here(system.project):
        raise MemoryRefused(
            f"{proposal.id} is about {proposal.project}: "
            f"`kode memory --cwd {proposal.project} approve {proposal.id}`."
        )
    done = await system.accept(proposal)
    if done.change_id:
        return done
    # It stands already, or is stored later: then the approval is a line of its own.
    change = system.history.append(settle("approve", proposal))
    return replace(done, change_id=change.id)


async def drop(system: BaseMemory, waits: Waiting) -> Outcome:
    """Raises as `approve`."""
    if waits.proposal is None:
        return await _decide(waits, "drop")
    change = system.history.append(settle("drop", waits.proposal))
    return Outcome(line=f"dropped {waits.id}", change_id=change.id)


async def approve_many(
    system: BaseMemory, whose: str | None, *, confirm: Confirm | None, is_sure: bool
) -> str:
    """Approves in bulk, after the person confirms or at once with `is_sure`: what came from
    `whose`, an agent or an import, or everything. What cannot be stored keeps waiting, and is
    named. Raises: MemoryRefused, StorageError, BusyError."""
    found = [one for one in await waiting(system) if not whose or _is_of(one, whose, system)]
    listed = "\n".join(f"{one.id}  {one.line}" for one in found)
    if not found:
        return "None of this is pending."
    if not is_sure and confirm is None:
        return f"{listed}\nNothing was approved. `--yes` approves all of it."
    if not is_sure and confirm and not confirm(f"{listed}\nKeep these {len(found)}?"):
        return "Nothing was approved."
    faults: list[str] = []
    for one in found:
        try:
            await approve(system, one)
        except MemoryRefused as error:
            faults.append(f"{one.id}  {error}")
    named_faults = [f"  {one}" for one in first_of(faults, LISTED_FAULTS)]
    wait = [f"{len(faults)} wait on:", *named_faults] if faults else []
    return "\n".join([f"approved {len(found) - len(faults)} of {len(found)}", *wait])


def chain_of(system: MemorySystem, item: Item) -> str:
    """The origin of a waiting item, back to who said it."""
    kept = kept_in(system, "review")
    if item.waits is not None:
        return item.waits.text
    found = (kept.ledger.statement(entry) for entry in item.entries)
    return "\n\n".join(in_words(one, kept.project) for one in found)


def _is_of(waits: Waiting, whose: str, system: BaseMemory) -> bool:
    """Whether it is from the import or the agent `whose`, and may be approved in this project."""
    proposal = waits.proposal
    if proposal is None or not proposal.is_here(system.project):
        return False
    agent = agents().get(whose)
    if agent is not None:  # not by name alone: a client may take any name
        return bool(proposal.batch) and proposal.client == agent.title
    return (proposal.batch or proposal.client.casefold()) == whose.casefold()


# ── as text ──────────────────────────────────────────────────────────────────────────────────


def review(found: Sequence[Item], lately: Sequence[Statement] = (), undo: str = UNDO) -> str:
    """All items as text, with the commands that settle them outside a terminal; `lately` are
    recently superseded statements, `undo` is the command that undoes a change."""
    parts: list[str] = []
    for why, head in HEADS.items():
        listed = ["\n".join(one.lines(undo)) for one in found if one.why == why]
        if listed:
            gap = "\n\n" if why == "conflict" else "\n"
            how = " (`kode memory approve ID`, `drop ID`)" if why == "outside" else ""
            parts.append(f"{head}{how}:\n{_indent(gap.join(listed))}")
    if not parts:
        parts.append(NOTHING_WAITS)
    if lately:
        superseded = (
            f"{named(one.entry)}\n  {ended(one)}\n  {undo_with(one.ended.id, undo)}"
            for one in lately
            if one.ended
        )
        parts.append(f"superseded lately:\n{_indent(chr(10).join(superseded))}")
    return "\n\n".join(parts)


def superseded_lately(system: BaseMemory, now: datetime) -> list[Statement]:
    """Those superseded in the last `LATELY_DAYS`, newest first."""
    since, gone = now - timedelta(days=LATELY_DAYS), system.ledger.superseded()
    return [one for one in gone if one.ended and datetime.fromisoformat(one.ended.at) >= since]


def _disputed(system: BaseMemory, standing: Mapping[tuple[str, str], Entry]) -> Iterator[Item]:
    for pair in sorted(pairs(system, standing), key=lambda one: not one.contradict):
        sides = (pair.first, pair.second)
        yield Item(
            why="conflict",
            texts=tuple(f"{named(one.entry)}\n  {described(one.change)}" for one in sides),
            entries=tuple(one.entry for one in sides),
            pair=pair,
        )


def _doubted(system: BaseMemory, standing: Mapping[tuple[str, str], Entry]) -> Iterator[Item]:
    found = stale.doubts(system.ledger, system.project, date.today()).items()
    for place, doubt in sorted(found, key=lambda one: one[1].expired):
        if place in standing:
            entry = standing[place]
            text = f"{named(entry)}\n  {doubt.why}: {described(doubt.change)}"
            yield Item(why="no longer true", texts=(text,), entries=(entry,), doubt=doubt)


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.split("\n"))
