"""What a person decides: what waits for approval, entries that contradict each other, and what may
no longer be true. Each decision is one change of the history, with an undo.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Literal

from kode.contracts import MemorySystem
from kode.errors import MemoryRefused
from kode.memory import stale
from kode.memory.base import UNDO, BaseMemory, Outcome, only_one, undo_with
from kode.memory.change import Author
from kode.memory.foreign import agents
from kode.memory.guarded import kept_in
from kode.memory.ledger import Fate
from kode.memory.lineage import Entry, Pair
from kode.memory.stale import Doubt
from kode.memory.undo import Confirm, Following, undo_all
from kode.memory.waiting import SYSTEM, Proposal, Waiting, Why, settle, take_back
from kode.memory.waiting import proposals as all_proposals
from kode.memory.why import NOT_RECORDED, describe, ended, in_words, quoted
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
_SETTLED_BY: Mapping[Why, str] = {
    "outside": " (`kode memory approve ID`, `drop ID`)",
    "conflict": " (`kode memory remove`, `replace`)",
    "no longer true": "",
}
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
    pair: Pair | None = None

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


@dataclass(frozen=True, kw_only=True)
class Decided:
    line: str
    """What was done, for the person."""
    text: str
    """The same in full."""
    change_id: str
    """The change to undo; "" if there is none."""


async def items_of(system: MemorySystem) -> list[Item]:
    """All waiting items, in the order to ask about them. Raises: MemoryRefused, StorageError."""
    kept = kept_in(system, "review")
    found = [Item(why="outside", texts=(one.text,), waits=one) for one in await waiting(kept)]
    standing = {entry.place: entry for entry in kept.entries()}
    return [*found, *_pairs(kept, standing), *_doubted(kept, standing, date.today())]


async def decide(system: MemorySystem, id: str, choice: str) -> Decided:
    """Carries out a choice about the item with this id. Raises: MemoryRefused if it no longer waits
    or does not allow the choice; StorageError, BusyError."""
    found = next((one for one in await items_of(system) if one.id == id), None)
    if found is None:
        raise MemoryRefused("It is no longer pending: it was decided or changed meanwhile.")
    made = next((one for one in found.choices if one == choice), None)
    if made is None:
        raise MemoryRefused(f"{choice!r} is no choice here: {', '.join(found.choices)}.")
    done = await _carry_out(kept_in(system, "review"), found, made)
    return Decided(line=done.line, text=done.in_words(), change_id=done.change_id)


async def _carry_out(system: BaseMemory, item: Item, choice: Choice) -> Outcome:
    if item.waits is not None:
        return await (approve if choice == "approve" else drop)(system, item.waits.id)
    if item.pair is not None:
        return await system.settle(item.pair, choice)
    if choice == "remove":
        return await system.remove_entry(item.entries[0])
    return await system.confirm(item.entries[0], item.doubt)


def chain_of(system: MemorySystem, item: Item) -> str:
    """The origin of a waiting item, back to who said it."""
    kept = kept_in(system, "review")
    if item.waits is not None:
        return item.waits.text
    found = (kept.ledger.statement(entry) for entry in item.entries)
    return "\n\n".join(in_words(one, kept.project) for one in found)


# ── what waits for approval ──────────────────────────────────────────────────────────────────


async def waiting(system: BaseMemory) -> list[Waiting]:
    """What waits for approval: the proposals, then what the system has marked in its place."""
    return [*(one.as_waiting() for one in proposals(system)), *await system.waiting()]


def proposals(system: BaseMemory) -> list[Proposal]:
    """Those that this system can store, oldest first."""
    found = all_proposals(system.history)
    return [one for one in found if one.place in ("", system.place)]


async def approve(system: BaseMemory, id: str) -> Outcome:
    """Approves what waits under an id, or under the only one that begins with it. Raises:
    MemoryRefused, StorageError, BusyError."""
    found = await _find(system, id)
    return await (system.approve(found) if isinstance(found, str) else _accept(system, found))


async def drop(system: BaseMemory, id: str) -> Outcome:
    """Drops what waits under such an id. Raises as `approve`."""
    found = await _find(system, id)
    if isinstance(found, str):
        return await system.drop(found)
    change = system.history.append(settle("drop", found))
    return Outcome(line=f"dropped {found.id}", change_id=change.id)


async def approve_many(
    system: BaseMemory, whose: str | None, *, confirm: Confirm | None, is_sure: bool
) -> str:
    """Approves in bulk, after the person confirms or at once with `is_sure`: what came from
    `whose`, an agent or an import, or everything. What cannot be stored keeps waiting, and is
    named. Raises: MemoryRefused, StorageError, BusyError."""
    found: dict[str, Proposal | None] = {}
    lines: list[str] = []
    for proposal in proposals(system):
        if not whose or _is_of(proposal, whose, system):
            found[proposal.id] = proposal
            lines.append(f"{proposal.id}  {proposal.as_waiting().line}")
    for one in [] if whose else await system.waiting():
        found[one.id] = None
        lines.append(f"{one.id}  {one.line}")
    listed = "\n".join(lines)
    if not found:
        return "None of this is pending."
    if not is_sure and confirm is None:
        return f"{listed}\nNothing was approved. `--yes` approves all of it."
    if not is_sure and confirm and not confirm(f"{listed}\nKeep these {len(found)}?"):
        return "Nothing was approved."
    faults: list[str] = []
    for id, kept in found.items():
        try:
            await (system.approve(id) if kept is None else _accept(system, kept))
        except MemoryRefused as error:
            faults.append(f"{id}  {error}")
    named = [f"  {one}" for one in first_of(faults, LISTED_FAULTS)]
    wait = [f"{len(faults)} wait on:", *named] if faults else []
    return "\n".join([f"approved {len(found) - len(faults)} of {len(found)}", *wait])


async def undo_import(system: BaseMemory, batch: str, following: Following) -> Outcome:
    """Undoes approvals from an import, and drops what still waits of it. Raises: MemoryRefused,
    StorageError, BusyError."""
    history = system.history
    waited = _of_batch(system, batch)
    kept = [one for one in history.standing(system.name) if batch and one.batch == batch]
    undone = await undo_all(system, kept, following) if kept else None
    history.append_all([settle("drop", one) for one in _of_batch(system, batch)])
    dropped = f"dropped {len(waited)} pending; import the file again to restore them"
    if undone is not None:
        return replace(undone, remark=dropped) if waited else undone
    if not waited:
        raise MemoryRefused(
            f"Nothing is left of an import {batch!r}. `kode memory log` lists changes."
        )
    return Outcome(line=dropped)


async def undo_decision(system: BaseMemory, id: str | None) -> Outcome | None:
    """Undoes a line about something that waits, as the person; None if the id is not one's. Raises:
    MemoryRefused, StorageError, BusyError."""
    found = system.history.find(id) if id else []
    if len(found) != 1 or found[0].system != SYSTEM:
        return None
    change = await take_back(system.history, found[0], Author(who="user"))
    for proposal in proposals(system):
        if found[0].kind == "approve" and change.target.endswith(f"/{proposal.id}"):
            await system.reject(proposal)
    return Outcome(line=f"undid {found[0].kind} {found[0].id}", change_id=change.id)


async def _find(system: BaseMemory, id: str) -> Proposal | str:
    """The proposal that is meant, or the id of what the system has marked."""
    system.check_writable()
    known = {one.id: one for one in proposals(system)}
    ids = [*known, *(one.id for one in await system.waiting())]
    lists = "`kode memory approve` without an id"
    found = only_one("entry that waits for approval", ids, id, lists)
    return known.get(found, found)


async def _accept(system: BaseMemory, proposal: Proposal) -> Outcome:
    if proposal.about == "project" and not _is_here(proposal, system):
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


def _is_here(proposal: Proposal, system: BaseMemory) -> bool:
    return bool(proposal.place) or proposal.project == str(system.project)


def _is_of(proposal: Proposal, whose: str, system: BaseMemory) -> bool:
    """Whether it is from the import or the agent `whose`, and may be approved in this project."""
    if proposal.about == "project" and not _is_here(proposal, system):
        return False
    agent = agents().get(whose)
    if agent is not None:  # not by name alone: a client may take any name
        return bool(proposal.batch) and proposal.client == agent.title
    return (proposal.batch or proposal.client.casefold()) == whose.casefold()


def _of_batch(system: BaseMemory, batch: str) -> list[Proposal]:
    return [one for one in all_proposals(system.history) if batch and one.batch == batch]


# ── as text ──────────────────────────────────────────────────────────────────────────────────


def review(found: Sequence[Item], lately: Sequence[Fate] = (), undo: str = UNDO) -> str:
    """All items as text, with the commands that settle them outside a terminal; `lately` are
    recently superseded entries, `undo` is the command that undoes a change."""
    parts: list[str] = []
    for why, head in HEADS.items():
        listed = ["\n".join(_lines(one, undo)) for one in found if one.why == why]
        if listed:
            gap = "\n\n" if why == "conflict" else "\n"
            parts.append(f"{head}{_SETTLED_BY[why]}:\n{_indent(gap.join(listed))}")
    if not parts:
        parts.append(NOTHING_WAITS)
    if lately:
        listed = [
            f"{_named(fate.entry)}\n  {ended(fate)}: {describe(fate.change)}\n"
            f"  {undo_with(fate.change.id, undo)}"
            for fate in lately
        ]
        parts.append(f"superseded lately:\n{_indent(chr(10).join(listed))}")
    return "\n\n".join(parts)


def superseded_lately(system: BaseMemory, now: datetime) -> list[Fate]:
    """Entries superseded in the last `LATELY_DAYS`, newest first."""
    since = now - timedelta(days=LATELY_DAYS)
    gone = system.ledger.superseded()
    return [one for one in gone if datetime.fromisoformat(one.change.at) >= since]


def _lines(item: Item, undo: str) -> Iterator[str]:
    yield from (f"{item.waits.id}  {item.waits.line}",) if item.waits else item.texts
    if item.doubt is not None:
        yield f"  {undo_with(item.doubt.change.id, undo)}"


def count_doubted(system: BaseMemory, today: date) -> int:
    """How many current entries may not hold any more."""
    found = stale.doubts(system.ledger, system.project, today)
    return len(found.keys() & {entry.place for entry in system.entries()}) if found else 0


def _pairs(system: BaseMemory, standing: Mapping[tuple[str, str], Entry]) -> Iterator[Item]:
    pairs = [one for one in system.pairs() if {one.first.place, one.second.place} <= {*standing}]
    for pair in sorted(pairs, key=lambda one: not one.contradict):
        entries = (pair.first, pair.second)
        begun = [system.ledger.statement(entry).change for entry in entries]
        texts = tuple(
            f"{_named(entry)}\n  {describe(change) if change else NOT_RECORDED}"
            for entry, change in zip(entries, begun, strict=True)
        )
        yield Item(why="conflict", texts=texts, entries=entries, pair=pair)


def _doubted(
    system: BaseMemory, standing: Mapping[tuple[str, str], Entry], today: date
) -> Iterator[Item]:
    found = stale.doubts(system.ledger, system.project, today).items()
    for place, doubt in sorted(found, key=lambda one: one[1].expired):
        if place in standing:
            entry = standing[place]
            text = f"{_named(entry)}\n  {doubt.why}: {describe(doubt.change)}"
            yield Item(why="no longer true", texts=(text,), entries=(entry,), doubt=doubt)


def _named(entry: Entry) -> str:
    return f"{quoted(entry)}  ·  {entry.target}"


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.split("\n"))
