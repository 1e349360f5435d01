"""Derives from the log which statements hold, wait, have ended or contradict each other.

A change that is undone counts as never made.
"""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from fnmatch import fnmatchcase
from typing import NamedTuple

from kode.errors import MemoryRefused
from kode.memory.statement import MemoryChange, Pair, Statement
from kode.messages import shorten
from kode.values import asdict, dataclass, field, replace

DAMAGE = "damage"
"""The kind of a change that only says that the log was damaged before it."""
EDIT = "edit"
"""The kind of a change that a person made in a file."""
RESTORE = "restore"
"""The kind of a change that only wrote files again, or took over what was recovered from them."""
LAYOUT = "layout"
"""The kind of an edit of headings and blank lines alone."""
_LISTED = 8
"""How many entries an error lists."""


class MemoryEntry(NamedTuple):
    """A statement and what became of it."""

    statement: Statement
    """As it stands after all amendments."""
    change: MemoryChange
    """The change that added it."""
    end: MemoryChange | None = None
    """The change that withdrew it; None while it is alive."""
    amendments: tuple[MemoryChange, ...] = ()

    @property
    def is_alive(self) -> bool:
        return self.end is None


class FileRecord(NamedTuple):
    """What the log says about a file."""

    change: str
    """The id of the last change that wrote it."""
    after: str
    """The fingerprint of its text."""
    is_doubtful: bool
    """Whether the log may lack a change of the file: it lost lines, or two logs were joined."""


@dataclass(kw_only=True)
class MemoryView:
    """The state of memory after a sequence of changes."""

    changes: list[MemoryChange] = field(default_factory=list)
    """The changes in effect, oldest first."""
    entries: dict[str, MemoryEntry] = field(default_factory=dict)
    """By the id of the statement, in the order in which they were added."""
    facts: dict[str, MemoryEntry] = field(default_factory=dict)
    """The entries that are not records of past work."""
    places: dict[str, dict[str, Statement]] = field(default_factory=dict)
    """The current and archived statements by place and id."""
    proposals: dict[str, Statement] = field(default_factory=dict)
    """The statements that wait for the person's approval, by id."""
    pairs: list[Pair] = field(default_factory=list)
    """Contradictions as they were recorded; see `conflicts`."""
    distinct: set[frozenset[str]] = field(default_factory=set)
    files: dict[str, FileRecord] = field(default_factory=dict)
    """By name; changes that were undone count here, too."""
    is_damaged: bool = False
    """Whether the log has ever lost lines."""

    def with_topics(self, *topics: str) -> "MemoryView":
        """Returns a view that is complete for these topics (see `Log.topics`); here, this view."""
        return self

    def entry(self, id: str) -> MemoryEntry | None:
        """The statement with this id, also one that was withdrawn."""
        return self.with_topics(f"id/{id}").entries.get(id)

    def file(self, name: str) -> FileRecord:
        """Returns the record of a file; an empty one if the log does not name the file."""
        part = self.with_topics(f"file/{name}", DAMAGE)
        return part.files.get(name) or FileRecord("", "", part.is_damaged)

    def in_place(self, place: str) -> Sequence[Statement]:
        """The current and archived statements of a place."""
        return [*self.with_topics(f"place/{place}").places.get(place, {}).values()]

    def list_places(self, pattern: str, *, is_for_all: bool = True) -> list[str]:
        """Returns the places that match a pattern and have, or had, statements; `is_for_all`:
        whether each of them will be read."""
        return [place for place in self.places if matches(place, pattern)]

    def current(self, place: str = "") -> list[Statement]:
        """Returns the current statements of one place or of all, each text of a place once."""
        places = (place,) if place else self.places
        every = (statement for name in places for statement in self.in_place(name))
        return drop_repeats(statement for statement in every if statement.state == "current")

    def statements(self) -> Iterator[Statement]:
        """Yields the statements that were not withdrawn: current, archived and waiting ones."""
        return (entry.statement for entry in self.entries.values() if entry.is_alive)

    def alive(self, ids: Iterable[str]) -> list[Statement]:
        """Returns the statements with these ids that exist and were not withdrawn."""
        return [entry.statement for entry in map(self.entry, ids) if entry and entry.is_alive]

    def find_waiting(self) -> list[Statement]:
        """The statements that wait for the person's approval, oldest first."""
        return [*self.with_topics("waiting").proposals.values()]

    def conflicts(self) -> list[tuple[Statement, Statement]]:
        """The pairs of current or archived statements that contradict each other; the first one
        counts."""
        pairs, part = dict[frozenset[str], tuple[Statement, Statement]](), self.with_topics("pairs")
        for pair in part.pairs:
            both = [old for old in self.alive(pair) if old.state != "waiting"]
            if len(both) == 2 and frozenset(pair) not in part.distinct:
                pairs[frozenset(pair)] = (both[0], both[1])
        return list(pairs.values())

    def find(self, words: str, places: Iterable[str] | None = None) -> list[MemoryEntry]:
        """Returns the live entries that `words` may mean: by id, or by a unique beginning of one (4
        characters or more), in any place; else in `places`, by all or part of their text."""
        ids = [id for id in self.entries if len(words) >= 4 and id.startswith(words)]
        ids = [words] if words in self.entries else ids
        if len(ids) == 1 and self.entries[ids[0]].is_alive:
            return [self.entries[ids[0]]]
        allowed = None if places is None else set(places)
        wanted = words.replace("\r\n", "\n").strip()
        matches = [
            entry
            for entry in self.entries.values()
            if entry.is_alive and wanted and wanted in entry.statement.text
            if allowed is None or entry.statement.place in allowed
        ]
        return [entry for entry in matches if entry.statement.text == wanted] or matches

    def chain(self, id: str) -> list[MemoryEntry]:
        """Returns the entry and all that it replaced, directly or indirectly, oldest first."""
        chain, left = dict[str, MemoryEntry](), [id]
        while left:
            entry = self.entry(left.pop())
            if entry is not None and entry.statement.id not in chain:
                chain[entry.statement.id] = entry
                left += entry.statement.replaces
        return sorted(chain.values(), key=lambda entry: entry.statement.claimed_at)

    def successors(self, id: str) -> list[MemoryEntry]:
        """The statements that replace this one."""
        return [entry for entry in self.entries.values() if id in entry.statement.replaces]

    def with_more(self, changes: Iterable[MemoryChange]) -> "MemoryView":
        """Returns the view after further changes, none of which is undone or an undo. It shares its
        data with this view, which it replaces: copying would take longer with every statement."""
        for change in changes:
            self.apply_change(change)
        return copy(self)

    def extract(self, places: Iterable[str], changes: Iterable[MemoryChange]) -> "MemoryView":
        """Returns a separate view of these places as they are after such changes."""
        ids = [old.id for place in places for old in self.in_place(place)]
        ids += [id for change in changes for id in (*change.end, *change.set)]
        part = MemoryView()
        for entry in filter(None, map(self.entry, ids)):
            part._set_entry(entry)
        return part.with_more(changes)

    def apply_change(self, change: MemoryChange, *, is_undone: bool = False) -> None:
        """Applies the newest change; if it is undone, only what it did to files."""
        if not is_undone:
            self.changes.append(change)
            for new in change.add:
                if new.id not in self.entries:
                    self._set_entry(MemoryEntry(new, change))
            for id in change.end:
                if (entry := self.entries.get(id)) and entry.is_alive:
                    self._set_entry(entry._replace(end=change))
            for id in change.set:
                if entry := self.entries.get(id):
                    statement, values = entry.statement, asdict(change.set[id])
                    values["details"] = {**statement.details, **(values["details"] or {})}
                    values = {name: new for name, new in values.items() if new is not None}
                    amendments = (*entry.amendments, change)
                    statement = replace(statement, **values)
                    self._set_entry(entry._replace(statement=statement, amendments=amendments))
            self.pairs += change.conflicts
            self.distinct.update(map(frozenset, change.distinct))
        if change.kind == DAMAGE:
            self.is_damaged = True
            self.files = {n: file._replace(is_doubtful=True) for n, file in self.files.items()}
        for name, (before, after) in change.files.items():
            is_doubtful = False
            if old := self.files.get(name):
                is_settled = change.kind in (EDIT, RESTORE, LAYOUT)
                is_doubtful = old.after != before or (old.is_doubtful and not is_settled)
            self.files[name] = FileRecord(change.id, after, is_doubtful)

    def _set_entry(self, entry: MemoryEntry) -> None:
        statement = entry.statement
        self.entries[statement.id] = entry
        if statement.kind in ("fact", "rule", "log"):
            self.facts[statement.id] = entry
        place = self.places.setdefault(statement.place, {})
        for group, is_waiting in ((place, False), (self.proposals, True)):
            if entry.is_alive and (statement.state == "waiting") is is_waiting:
                group[statement.id] = statement
            else:
                group.pop(statement.id, None)
        if not place:
            del self.places[statement.place]


def drop_repeats(statements: Iterable[Statement]) -> list[Statement]:
    """Returns the first statement with each text of a place."""
    texts = dict[tuple[str, str], Statement]()
    for statement in statements:
        texts.setdefault((statement.place, statement.text), statement)
    return list(texts.values())


def fold(changes: Sequence[MemoryChange]) -> MemoryView:
    """The view after these changes."""
    undone, view = set[str](), MemoryView()
    for change in reversed(changes):
        if change.undoes and change.id not in undone:
            undone.add(change.undoes)
    for change in changes:
        view.apply_change(change, is_undone=change.id in undone)
    return view


def matches(name: str, pattern: str) -> bool:
    """Whether a place matches a pattern, whose `*` stands for any characters but `/`."""
    return fnmatchcase(name, pattern) and name.count("/") == pattern.count("/")


def require_single(entries: Sequence[MemoryEntry], words: str, called: str = "") -> MemoryEntry:
    """Returns the only entry found. Raises: MemoryRefused for none or several, listing ids."""
    if len(entries) == 1:
        return entries[0]
    where, short = f" of {called}" if called else "", shorten(words, 60)
    statements = (entry.statement for entry in entries[:_LISTED])
    listed = "; ".join(f'{each.id} "{shorten(each.text, 60)}"' for each in statements)
    fault = f"{len(entries)} entries{where} contain" if entries else f"No entry{where} contains"
    raise MemoryRefused(
        f'{fault} "{short}"{": " if listed else ""}{listed}. Nothing was changed. Give the id, or '
        "more of the text: `kode memory show` lists the entries."
    )
