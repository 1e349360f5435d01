"""Traces where an entry came from, and what was made from it, through the history of changes.

Nothing else is stored for this: the texts before and after each change are enough to follow a text
back through merges and replacements, and forward to everything made from it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from kode.memory.history import Change
from kode.memory.precedence import JUDGED, brings_newer

if TYPE_CHECKING:
    from kode.memory.base import BaseMemory

Place = tuple[str, str]

MIN_ID_CHARS = 4
MAX_LINKS = 60
"""Limit of links shown for one chain; the rest is in the log."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One remembered thing in its place."""

    target: str
    """A file or a table, as named in the history."""
    key: str
    """Its key within the target: its text, a note's id, or "" for an entire file."""
    text: str
    """Its text for display."""
    id: str = ""
    """What a person may call it, besides its text."""

    @property
    def place(self) -> Place:
        return self.target, self.key


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two entries, the older first."""

    first: Entry
    second: Entry
    contradict: bool
    """Whether a model found a contradiction; else nobody has judged them."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """An effective change in terms of entries."""

    change: Change
    lost: tuple[Entry, ...]
    """Entries it removed or transformed."""
    made: Mapping[Place, tuple[Entry, ...]]
    """Entries it created by place, each with the entries it was made of."""
    back: tuple[Place, ...]
    """Entries it left that existed before, and did not create."""

    @property
    def gone(self) -> list[Place]:
        """The places of the lost entries."""
        return [entry.place for entry in self.lost]


@dataclass(frozen=True, kw_only=True)
class Link:
    """An entry, the change that created it (None: not recorded), and what it was made of."""

    entry: Entry
    change: Change | None
    made_of: tuple["Link", ...] = ()


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What became of an entry: the change that removed it, and its replacement."""

    entry: Entry
    change: Change
    into: tuple[Entry, ...]
    """The replacement; empty if it was removed."""
    at: int
    """The index of the step that removed it."""


def fates(system: "BaseMemory", found: Sequence[Step]) -> dict[Place, Fate]:
    """The latest fate of every entry that these steps removed, in order of removal."""
    gone: dict[Place, Fate] = {}
    for at, step in enumerate(found):
        for entry in step.lost:
            places = {place for place, made_of in step.made.items() if entry in made_of}
            after = system.sides(step.change)[1] if places else ()
            into = tuple(one for one in after if one.place in places)
            gone.pop(entry.place, None)
            gone[entry.place] = Fate(entry=entry, change=step.change, into=into, at=at)
    return gone


def superseded(system: "BaseMemory") -> list[Fate]:
    """The entries that were replaced, most recent first."""
    standing = {entry.place for entry in system.entries()}
    latest = fates(system, steps(system)).values()
    gone = [fate for fate in latest if fate.into and fate.entry.place not in standing]
    return gone[::-1]


def steps(system: "BaseMemory") -> list[Step]:
    """All effective changes of a system, oldest first."""
    return _steps(system, list(system.history.standing(system.name)))


def steps_since(system: "BaseMemory", ids: Collection[str]) -> list[Step]:
    """The steps from the oldest of these changes on; does not read the earlier history."""
    left, found = set(ids), list[Change]()
    for change in system.history.standing(system.name):
        found.append(change)
        left.discard(change.id)
        if not left:
            return _steps(system, found)
    return []


def _steps(system: "BaseMemory", newest_first: Sequence[Change]) -> list[Step]:
    return [step_of(system, change) for change in reversed(newest_first)]


def step_of(system: "BaseMemory", change: Change) -> Step:
    """One change in terms of entries."""
    before, after = system.sides(change)
    was = {entry.place: entry for entry in before}
    made = dict(_made(change, was, after))
    left = {entry.place for entry in after}
    lost = tuple(one for place, one in was.items() if place not in left or place in made)
    back = tuple(place for place in left if place not in made)
    return Step(change=change, lost=lost, made=made, back=back)


def trace(system: "BaseMemory", entry: Entry) -> Link:
    """The chain of a current entry, back to where it was first said."""
    return Chain(steps(system)).link(entry) or _said_elsewhere(system, entry)


def find(entries: Sequence[Entry], wanted: str) -> list[Entry]:
    """Finds the entries that a person means: by id, by full text, else by a part of it."""
    wanted = wanted.strip()
    if len(wanted) >= MIN_ID_CHARS:
        named = [entry for entry in entries if entry.id and entry.id.startswith(wanted)]
        if named:
            return [entry for entry in named if entry.id == wanted] or named
    whole = [entry for entry in entries if entry.text == wanted]
    piece = wanted.casefold()
    return whole or [entry for entry in entries if piece and piece in entry.text.casefold()]


def derived_changes(found: Sequence[Step], roots: Mapping[str, Change]) -> list[Change]:
    """The changes that used what `roots` (by id) created, oldest first: they transformed it, or
    summarize the session in which it was said. None of those of which nothing is left."""
    ever: set[Place] = set()
    standing: set[Place] = set()
    seen: list[Change] = []
    used: list[Change] = []
    for step in found:
        is_root = step.change.id in roots
        uses = any(place in ever for place in step.gone)
        if is_root or uses or any(_sums_up(step.change, root) for root in seen):
            ever.update(step.made)
            standing.update(step.made)
            if not is_root:
                used.append(step.change)
        standing.difference_update(place for place in step.gone if place not in step.made)
        standing.update(ever.intersection(step.back))
        if is_root:
            seen.append(step.change)
    return used if standing else []


def _sums_up(change: Change, root: Change) -> bool:
    """Whether a change was made from the conversation in which another was."""
    if change.who != "extraction" or not root.session or change.session != root.session:
        return False
    if root.who not in ("model", "user"):
        return False
    at, said = change.turn or 0, root.turn or 0
    return at >= said if change.kind in OF_A_SESSION else at == said


OF_A_SESSION = frozenset({"episode", "session"})
"""Kinds of changes that summarize an entire session; others cover one turn."""


def _made(
    change: Change, was: Mapping[Place, Entry], after: Sequence[Entry]
) -> Iterator[tuple[Place, tuple[Entry, ...]]]:
    if change.kind == "forget":
        return  # restored texts existed before
    if change.kind in (*JUDGED, "settle") and len(after) == 1:
        yield from ((entry.place, tuple(was.values())) for entry in after)
        return
    if change.kind in ("confirm", "settle"):
        yield from ((entry.place, (entry,)) for entry in after)
        return
    now = {entry.place: entry for entry in after}
    old, new = list(was.values()), list(now.values())
    matcher = SequenceMatcher(None, list(was), list(now), autojunk=False)
    for _, i1, i2, j1, j2 in matcher.get_opcodes():
        replaced = tuple(entry for entry in old[i1:i2] if entry.place not in now)
        for entry in new[j1:j2]:
            same = was.get(entry.place)
            if same is None:
                yield entry.place, replaced
            elif same.text != entry.text:
                yield entry.place, (same,)


class Chain:
    """One look into the past; each change of an entry is followed once."""

    def __init__(self, found: Sequence[Step]) -> None:
        self._makers: dict[Place, list[tuple[int, Step]]] = {}
        for at, step in enumerate(found):
            for place in step.made:
                self._makers.setdefault(place, []).append((at, step))
        self._seen: set[tuple[Place, int]] = set()

    def link(self, entry: Entry, before: int | None = None) -> Link | None:
        """None if no change is known to have created it."""
        makers = self._makers.get(entry.place, [])
        found = [one for one in makers if before is None or one[0] < before][-1:]
        if not found:
            return None
        at, step = found[0]
        if (entry.place, at) in self._seen or len(self._seen) >= MAX_LINKS:
            return Link(entry=entry, change=step.change)
        self._seen.add((entry.place, at))
        made_of = tuple(self._parent(old, at, step.change) for old in step.made[entry.place])
        return Link(entry=entry, change=step.change, made_of=made_of)

    def _parent(self, entry: Entry, at: int, change: Change) -> Link:
        link = self.link(entry, at)
        if link is not None:
            return link
        # A new fact that a merge absorbed was never written by itself: it was said in that turn.
        return Link(entry=entry, change=change if brings_newer(change) else None)


def _said_elsewhere(system: "BaseMemory", entry: Entry) -> Link:
    """For a text restored by an undo: the change that first created it."""
    for change in system.history.changes(system.name):
        if not change.undoes and any(
            one.place == entry.place for side in system.sides(change) for one in side
        ):
            return Link(entry=entry, change=change)
    return Link(entry=entry, change=None)
