"""Derives from the log what counts: which statements hold, wait, ended or contradict each other.

A change that is undone counts as never made. A view is a value: new changes make a new one.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

from kode.errors import MemoryRefused
from kode.memory.relations import Pair
from kode.memory.statement import Change, Statement
from kode.messages import shorten

DAMAGE = "damage"
"""The kind of a change that only says that the log was damaged before it."""
EDIT = "edit"
"""The kind of a change that a person made in a file."""
RESTORE = "restore"
"""The kind of one that only wrote files again, or took over what was recovered from them."""
LAYOUT = "layout"
"""The kind of an edit of headings and blank lines alone."""
RECONCILED = (EDIT, RESTORE, LAYOUT)
_LISTED = 8
"""How many entries an error lists."""


class Entry(NamedTuple):
    """A statement and what became of it."""

    statement: Statement
    """As it stands after all amendments."""
    change: Change
    """The change that added it."""
    end: Change | None = None
    """The change that withdrew it."""
    amendments: tuple[Change, ...] = ()

    @property
    def is_alive(self) -> bool:
        return self.end is None


@dataclass(frozen=True, kw_only=True)
class View:
    """What a sequence of changes makes true."""

    changes: Sequence[Change] = ()
    """Those in effect, oldest first."""
    entries: dict[str, Entry] = field(default_factory=dict)
    """By the id of the statement, in the order in which they were added."""
    pairs: tuple[Pair, ...] = ()
    """Contradictions as they were recorded; see `conflicts`."""
    distinct: frozenset[frozenset[str]] = frozenset()
    fingerprints: dict[str, str] = field(default_factory=dict)
    """The name of each file → its fingerprint after the last change that wrote it."""
    before: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The name of each file → the id of that change, and the fingerprint before it."""
    is_damaged: bool = False
    """Whether the log has ever lost lines."""
    doubtful: frozenset[str] = frozenset()
    """The files of which the log does not say how they became what they are: it lost lines, or two
    logs were joined."""

    # ── questions ────────────────────────────────────────────────────────────────────────────

    def is_doubtful(self, name: str) -> bool:
        """Whether nobody can tell which of the unknown texts of a file the person wrote."""
        return name in self.doubtful or (self.is_damaged and name not in self.fingerprints)

    @cached_property
    def places(self) -> Mapping[str, Sequence[Statement]]:
        """The current and archived statements by place."""
        places = defaultdict[str, list[Statement]](list)
        for entry in self.entries.values():
            if entry.is_alive and entry.statement.state != "waiting":
                places[entry.statement.place].append(entry.statement)
        return places

    def in_place(self, place: str) -> Sequence[Statement]:
        """The current and archived statements of a place."""
        return self.places.get(place, ())

    def current(self, place: str = "") -> list[Statement]:
        """The statements that count, of one place or of all, each text of a place once."""
        texts = dict[tuple[str, str], Statement]()
        for name in (place,) if place else self.places:
            for statement in self.in_place(name):
                if statement.state == "current":
                    texts.setdefault((name, statement.text), statement)
        return list(texts.values())

    def statements(self) -> Iterator[Statement]:
        """Those that were not withdrawn: current, archived and waiting ones."""
        return (entry.statement for entry in self.entries.values() if entry.is_alive)

    def waiting(self) -> list[Statement]:
        """The statements that wait for the person's approval, oldest first."""
        return [statement for statement in self.statements() if statement.state == "waiting"]

    def conflicts(self) -> list[tuple[Statement, Statement]]:
        """The pairs of current statements that contradict each other; the first one counts."""
        pairs = dict[frozenset[str], tuple[Statement, Statement]]()
        for pair in self.pairs:
            both = [entry for id in pair if (entry := self.entries.get(id)) and entry.is_alive]
            is_open = len(both) == 2 and frozenset(pair) not in self.distinct
            if is_open and all(entry.statement.state == "current" for entry in both):
                pairs[frozenset(pair)] = (both[0].statement, both[1].statement)
        return list(pairs.values())

    def entry(self, id: str) -> Entry | None:
        """The statement with this id, or the only one whose id begins with it."""
        if id in self.entries:
            return self.entries[id]
        matches = [key for key in self.entries if len(id) >= 4 and key.startswith(id)]
        return self.entries[matches[0]] if len(matches) == 1 else None

    def find(self, words: str, places: Iterable[str] | None = None) -> list[Entry]:
        """The statements that were not withdrawn, in these places, which `words` may mean: the one
        with this id, else those with this text, else those that contain it."""
        if (entry := self.entry(words)) and entry.is_alive:
            return [entry]
        allowed = None if places is None else set(places)
        alive = [
            entry
            for entry in self.entries.values()
            if entry.is_alive and (allowed is None or entry.statement.place in allowed)
        ]
        wanted = words.replace("\r\n", "\n").strip()
        exact = [entry for entry in alive if wanted == entry.statement.text]
        return exact or [entry for entry in alive if wanted and wanted in entry.statement.text]

    def followers(self, change: Change, brought_back: Iterable[str] = ()) -> list[Change]:
        """The later changes in effect that replace, withdraw or amend what a change added or
        brought back, so that it cannot be undone alone."""
        added = {*brought_back, *(new.id for new in change.add)}
        later = self.changes[self.changes.index(change) + 1 :] if change in self.changes else ()
        return [
            other
            for other in later
            if added & {*other.end, *other.set} or any(added & {*new.replaces} for new in other.add)
        ]

    def chain(self, id: str) -> list[Entry]:
        """The statement with all that it replaced, directly or not, oldest first."""
        chain, left = dict[str, Entry](), [id]
        while left:
            entry = self.entries.get(left.pop())
            if entry is not None and entry.statement.id not in chain:
                chain[entry.statement.id] = entry
                left += entry.statement.replaces
        return sorted(chain.values(), key=lambda entry: entry.statement.claimed_at)

    def successors(self, id: str) -> list[Entry]:
        """The statements that replace this one."""
        return [entry for entry in self.entries.values() if id in entry.statement.replaces]

    # ── growing ──────────────────────────────────────────────────────────────────────────────

    def with_changes(self, changes: Iterable[Change]) -> "View":
        """The view after further changes, none of which is undone or an undo."""
        effective, entries = list(self.changes), dict(self.entries)
        pairs, distinct = list(self.pairs), set(self.distinct)
        start = len(effective)
        for change in changes:
            effective.append(change)
            for new in change.add:
                entries.setdefault(new.id, Entry(new, change))
            for id in change.end:
                if id in entries and entries[id].is_alive:
                    entries[id] = entries[id]._replace(end=change)
            for id in change.set:
                if id in entries:
                    entries[id] = _amended(entries[id], change)
            pairs += change.conflicts
            distinct.update(map(frozenset, change.distinct))
        view = replace(
            self,
            changes=effective,
            entries=entries,
            pairs=tuple(pairs),
            distinct=frozenset(distinct),
        )
        return view._with_places(self, effective[start:])

    def with_files(self, changes: Iterable[Change]) -> "View":
        """The view with what changes, undone or not, wrote into files."""
        fingerprints, before = dict(self.fingerprints), dict(self.before)
        is_damaged, doubtful = self.is_damaged, set(self.doubtful)
        for change in changes:
            if change.kind == DAMAGE:
                is_damaged, doubtful = True, set(fingerprints)
            for name, (old, new) in change.files.items():
                if fingerprints.get(name, old) != old:
                    doubtful.add(name)
                elif change.kind in RECONCILED:
                    doubtful.discard(name)
                fingerprints[name], before[name] = new, (change.id, old)
        view = replace(
            self,
            fingerprints=fingerprints,
            before=before,
            is_damaged=is_damaged,
            doubtful=frozenset(doubtful),
        )
        return view._with_places(self, ())

    def _with_places(self, old: "View", changes: Sequence[Change]) -> "View":
        """This view with the places of an older one, as far as these further changes leave them:
        else each addition to a large memory would look through all of it."""
        if "places" not in old.__dict__ or any(change.set for change in changes):
            return self
        added = {new.id: new for change in changes for new in change.add}
        ids = {*added, *(id for change in changes for id in change.end)} & self.entries.keys()
        places = dict(old.places)
        for place in {self.entries[id].statement.place for id in ids}:
            new = (add for id, add in added.items() if add.place == place and id not in old.entries)
            places[place] = [
                statement
                for statement in (*places.get(place, ()), *new)
                if self.entries[statement.id].is_alive and statement.state != "waiting"
            ]
        self.__dict__["places"] = places
        return self


def fold(changes: Sequence[Change]) -> View:
    """The view after these changes."""
    undone, effective = set[str](), list[Change]()
    for change in reversed(changes):
        if change.id in undone:
            continue
        if change.undoes:
            undone.add(change.undoes)
        effective.append(change)
    return View().with_changes(reversed(effective)).with_files(changes)


def the_only(entries: Sequence[Entry], words: str, called: str = "") -> Entry:
    """The one statement that was found. Raises: MemoryRefused for none or several, listing ids."""
    if len(entries) == 1:
        return entries[0]
    where = f" of {called}" if called else ""
    if not entries:
        raise MemoryRefused(
            f'No entry{where} contains "{shorten(words, 60)}". Nothing was changed. '
            "`kode memory show` lists the entries with their ids."
        )
    listed = "; ".join(
        f'{entry.statement.id} "{shorten(entry.statement.text, 60)}"' for entry in entries[:_LISTED]
    )
    raise MemoryRefused(
        f'"{shorten(words, 60)}" occurs in {len(entries)} entries{where}: {listed}. '
        "Give the id, or more of the text. Nothing was changed."
    )


def _amended(entry: Entry, change: Change) -> Entry:
    amendment = change.set[entry.statement.id]
    values: dict[str, Any] = {
        part.name: value
        for part in fields(amendment)
        if (value := getattr(amendment, part.name)) is not None
    }
    if "details" in values:
        values["details"] = {**entry.statement.details, **values["details"]}
    return entry._replace(
        statement=replace(entry.statement, **values),
        amendments=(*entry.amendments, change),
    )
