"""Records every change to memory in `history.jsonl`: the texts before and after, the author, reason
and source. `lineage.py` derives an entry's past from it.

A change is recorded with its data, then made, then done (`making`): its line says what stood in its
place before and what stands there after, and a marker in `unfinished/` lies from before the line
until the place carries it. What a killed kode left is judged by `standing.reconcile`. Undoing is a
change like any other, so it can be undone.

`history.jsonl.seal` has the length and checksum of what kode left, to find what was cut off or
changed since. It is written without a sync: an older seal holds for the beginning.
"""

import contextlib
import fcntl
import json
import os
import re
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from kode import credentials, durable
from kode.beneath import TEMPORARY_PREFIX
from kode.errors import KodeError, MemoryRefused
from kode.memory.places import Places, State, fingerprint
from kode.memory.stored import read_row
from kode.sealed import is_intact, seal

ORIGINS_LOOKED_THROUGH = 2_000
_TERMS = (
    b'"source_hash": ',
    b'"since": ',
    b'"until": ',
    b'"kind": "confirm"',
)
BY_HAND = "by-hand"
"""The kind of a change that a person made in the file itself."""
REBUILD = "rebuild"
"""The kind of one that put back what the history has."""
_RECORDS = ("---\n", "{")
"""How an episode's file and a note begin."""
_GENERATED = "> Summary:"
_STANDS = b'"stands": "'
_TARGET = re.compile(rb'"target": "([^"]*)"')
_STANDING = re.compile(
    rb'"target": "([^"]*)", (?:"stood": "[0-9a-f]*", )?"stands": "([0-9a-f]{16})"'
)
_ID_AND_TIME = re.compile(rb'"id": "([\w-]+)", "at": "([^"]+)"')
_MISSING = (FileNotFoundError, NotADirectoryError)

Who = Literal["user", "model", "extraction", "consolidation", "merge", "undo", "import", "client"]
"""`user`: typed by the person; `model`: by a tool call; `client`: another agent, through kode's MCP
server; the others: the code that did it."""


class NothingToUndo(MemoryRefused):
    """Nothing of a change is left: kode was stopped before it was made, or it is gone since."""


def new_batch() -> str:
    """The id of an import: `kode memory undo --import ID` undoes all of it."""
    return f"i{secrets.token_hex(3)}"


@dataclass(frozen=True, kw_only=True)
class Author:
    """Who made a change, when in the session, and on what grounds."""

    who: Who
    session: str | None = None
    turn: int | None = None
    words: str = ""
    """The person's prompt in that turn, shortened."""
    source: str = ""
    """Its source outside of memory: lines of code as `path:10-20`, or the file or system it was
    imported from."""
    source_hash: str = ""
    """Hash of those lines at that time; "" if the source is not code."""
    since: str = ""
    """The version or day from which it holds, as given."""
    until: str = ""
    """The last day on which it holds, as 2026-03-06; "" for no end."""
    batch: str = ""
    """Shared by changes that are undone together."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change. `before` and `after` are the old and new texts: entries of a fact file, or one
    full file."""

    kind: str
    """What happened, in one word of the system: add, replace, remove, merge, consolidate, ..."""
    target: str
    """What changed: a path below the memory folder, or a note's id."""
    stood: str = ""
    """The fingerprint of what stood in its place before; "" if it was not followed."""
    stands: str = ""
    """The same for afterwards."""
    system: str
    who: Who
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    reason: str = ""
    session: str | None = None
    turn: int | None = None
    position: int | None = None
    """The index of `before` among the entries; None if it does not matter."""
    undoes: str = ""
    """The id of the change that this one undoes."""
    supersedes: str = ""
    """A previously removed text that this change makes outdated."""
    was_archived: tuple[int, ...] = ()
    """Indices in `before` of texts that were in an archive."""
    archived: tuple[int, ...] = ()
    """Indices in `after` of texts that are in one."""
    words: str = ""
    source: str = ""
    source_hash: str = ""
    since: str = ""
    until: str = ""
    batch: str = ""
    person: str = ""
    """The member of a team, as its server knows them; "" for the local person."""
    host: str = ""
    """Their machine."""
    redacted: bool = False
    """Whether a credential was masked in `before` or `after`; then it cannot be undone
    completely."""
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    """UTC."""

    @property
    def whose(self) -> str:
        """` of bob on bobs-laptop` if a colleague made it; "" for a local change."""
        return whose(self.person, self.host)

    @property
    def differences(self) -> tuple[list[str], list[str]]:
        """The lines that it takes away, and those that it adds: of one text that became another
        those that differ, else all. Nothing of full records, of which its reason says more, nor of
        generated summaries."""
        old, new = (
            [
                line
                for text in side
                if not text.startswith(_RECORDS)
                for line in text.split("\n")
                if line.strip() and not line.startswith(_GENERATED)
            ]
            for side in (self.before, self.after)
        )
        if self.before[1:] or self.after[1:] or set(old) == set(new):
            return old, new
        was, now = set(old), set(new)
        return [line for line in old if line not in now], [line for line in new if line not in was]

    @property
    def is_mark(self) -> bool:
        """Whether it only says that nothing is left of the change it undoes."""
        return bool(self.undoes) and not self.before and not self.after

    @classmethod
    def by(cls, author: Author, system: str, kind: str, target: str, **values: Any) -> "Change":
        """A change by an author; `values` are its other fields."""
        return cls(system=system, kind=kind, target=target, **asdict(author), **values)


def whose(person: str, host: str) -> str:
    """` of bob on bobs-laptop`; "" without a person."""
    return f" of {person} on {host}" if person else ""


@dataclass(frozen=True, kw_only=True)
class Tail:
    changes: tuple[Change, ...]
    """Newest first."""
    damaged: int
    """Number of unreadable lines, which are skipped."""


class History:
    """The history of one memory folder; shared by every system and process."""

    def __init__(self, path: Path, places: Places | None = None) -> None:
        self.path = path
        self.places = places
        """Where the changes are made; None if that is not followed."""

    def record(self, author: Author, system: str, kind: str, target: str, **values: Any) -> Change:
        """Appends a change by an author. Raises: StorageError."""
        return self.append(Change.by(author, system, kind, target, **values))

    def append(self, change: Change) -> Change:
        """Appends a change durably that makes nothing, or whose place is not followed; returns it
        as written, with credentials masked.

        Raises: StorageError; then the change must not be made.
        """
        change = _mask(change)
        self._append([_line(change)])
        return change

    def append_all(self, changes: Sequence[Change]) -> None:
        """Appends changes that were made elsewhere, with one sync for all. Raises: StorageError."""
        if changes:
            self._append([_line(_mask(change)) for change in changes])

    @contextlib.contextmanager
    def making(
        self, change: Change, stands: State | None = None, *, as_is: bool = False
    ) -> Iterator[Change]:
        """Appends a change; the block makes it, with the lock of its place held. `stands` is what
        is there afterwards, where the change itself does not say so. What a person edited there
        before becomes a change of its own, but for `as_is`. A block that fails leaves the change
        marked as never made.

        Raises: StorageError, MemoryRefused; then the block has not begun.
        """
        places, target = self.places, change.target
        if places is None or not places.tracks(target):
            yield self.append(change)
            return
        was = places.read(target)
        if places.watched and not as_is:
            self.take_hand_edit(target, was)
        then = places.after(was, change) if stands is None else stands
        change = replace(change, stood=fingerprint(was), stands=fingerprint(then))
        durable.make_folder(self._unfinished)
        marker = self._unfinished / change.id
        with durable.storage_errors(marker, "write"):
            marker.touch()
        try:
            written = self.append(change)
        except BaseException:
            self.forget(change.id)
            raise
        try:
            yield written
        except BaseException:
            with contextlib.suppress(KodeError):  # then the next opening judges it
                self.conclude(written)
            raise
        self.forget(change.id)

    def conclude(self, change: Change) -> bool:
        """Ends an unfinished change, with the lock of its place held; returns whether it was made.
        If not, it is marked so. Raises: MemoryRefused, StorageError."""
        places = self.places
        state = places.read(change.target) if places else ()
        made = fingerprint(state) != change.stood or change.stood == change.stands
        if places and not made:
            never = Author(who="undo")
            reason = f"{change.kind} {change.id} was never made: kode was stopped before"
            mark = undo_of(change, never, before=(), after=(), reason=reason)
            self.append(replace(mark, stood=change.stood, stands=change.stood))
        if places and made:
            places.finish(change.target, state)
        self.forget(change.id)
        return made

    def unfinished(self) -> list[str]:
        """The ids of the changes that were begun, in this or another process, and not finished."""
        with contextlib.suppress(OSError):
            return sorted(os.listdir(self._unfinished))
        return []

    def forget(self, id: str) -> None:
        """Removes the marker of a change that was not even recorded."""
        with contextlib.suppress(OSError):
            (self._unfinished / id).unlink()

    def standing_places(self) -> dict[str, str]:
        """Every place whose changes say what stands there → the last fingerprint."""
        with durable.storage_errors(self.path, "read"), contextlib.suppress(*_MISSING):
            found = _STANDING.findall(self.path.read_bytes())
            places = {one: self._place(one) for one in {target for target, _ in found}}
            return {place: at.decode() for one, at in found if (place := places[one])}
        return {}

    def take_hand_edit(self, target: str, state: State) -> Change | None:
        """Appends what a person changed in a place since its last change, with its lock held; None
        if nothing differs. Raises: StorageError."""
        places, known = self.places, self.stands(target)
        if places is None or known == fingerprint(state):
            return None
        before, masked = self.replayed(target)
        fields = places.apart(target, before, state)
        if not fields:
            return None
        fields |= {"stands": fingerprint(state), "redacted": masked}
        return self.record(Author(who="user"), places.system, BY_HAND, target, **fields)

    def stands(self, target: str) -> str:
        """The fingerprint of what stands in a place after its last change; "" if unknown."""
        term = self.places.term(target) if self.places else b""
        for line in self._lines_backwards():
            if term in line and _STANDS in line and (change := _read(line)):
                return change.stands
        return ""

    def replayed(self, target: str) -> tuple[State, bool]:
        """What stands in a place by its changes alone, and whether credentials are masked in it."""
        if self.places is None:
            return (), False
        state: State = ()
        made = self.made(self.places.term(target))
        for change in made:
            state = self.places.after(state, change)
        return state, any(change.redacted for change in made)

    def made(self, term: bytes) -> list[Change]:
        """The changes with a term in their lines, oldest first, without those never made."""
        found = {change.id: change for change in map(_read, self._lines_with([term])) if change}
        never = {change.undoes for change in found.values() if change.is_mark}
        return [one for one in reversed(found.values()) if one.id not in never]

    def changed_places(self) -> list[str]:
        """Every place that has a change, in order of first mention."""
        with durable.storage_errors(self.path, "read"), contextlib.suppress(*_MISSING):
            found = dict.fromkeys(_TARGET.findall(self.path.read_bytes()))
            return list(dict.fromkeys(filter(None, map(self._place, found))))
        return []

    def _place(self, target: bytes) -> str:
        """ "" for one that is not followed."""
        places, name = self.places, target.decode(errors="replace")
        return places.place_of(name) if places and places.tracks(name) else ""

    def damage(self, *, mend: bool) -> str:
        """What happened to the file since kode wrote it, in words; "" if nothing did. With `mend`
        the file counts as it is from now on. Raises: StorageError."""
        with durable.storage_errors(self.path, "read"):
            try:
                data = self.path.read_bytes()
            except FileNotFoundError:
                data = b""
        size, crc = self._sealed()
        if len(data) >= size and zlib.crc32(data[:size]) == crc:
            return ""
        lines = [line for line in data.split(b"\n") if line.strip()]
        once = set(lines)
        unreadable = sum(_read(line) is None for line in once)
        parts = (
            f"{size - len(data):,} bytes are gone from its end" if len(data) < size else "",
            f"{unreadable} of its lines cannot be read" if unreadable else "",
            f"{len(lines) - len(once)} of its lines are there twice" if lines[len(once) :] else "",
        )
        said = ", ".join(filter(None, parts))
        if mend:
            end = data.rfind(b"\n") + 1  # the next append cuts off what follows
            self._seal(end, zlib.crc32(data[:end]))
        return said or "it was edited"

    @property
    def _unfinished(self) -> Path:
        return self.path.with_name("unfinished")

    def _append(self, lines: Sequence[bytes]) -> None:
        durable.make_folder(self.path.parent)
        with (
            durable.storage_errors(self.path, "append to"),
            durable.open_for_append(self.path) as file,
        ):
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                durable.append_to(file, b"\n".join(lines), self.path)
                size, crc = self._sealed()
                end = os.fstat(file.fileno()).st_size
                if size < end:  # what lies between was not sealed: kode was killed, or is older
                    new = os.pread(file.fileno(), end - size, size)
                    self._seal(end, zlib.crc32(new, crc))
            finally:
                durable.unlock(file)

    def _sealed(self) -> tuple[int, int]:
        """Length and CRC-32 of what kode left, which the file must begin with."""
        with contextlib.suppress(OSError, ValueError):
            size, crc = self._seal_path.read_text().split()
            return max(0, int(size)), int(crc, 16)
        return 0, 0

    def _seal(self, size: int, crc: int) -> None:
        temporary = self._seal_path.with_name(f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}")
        with contextlib.suppress(OSError):
            temporary.touch(0o600)
            temporary.write_text(f"{size} {crc:08x}\n")
            temporary.replace(self._seal_path)

    @property
    def _seal_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.seal")

    def known(self) -> set[str]:
        """Id and time of every local change, as `ID TIME`. Raises: StorageError."""
        with durable.storage_errors(self.path, "read"), contextlib.suppress(*_MISSING):
            found = _ID_AND_TIME.findall(self.path.read_bytes())
            return {f"{id.decode()} {at.decode()}" for id, at in found}
        return set()

    def tail(self, count: int) -> Tail:
        """The last `count` changes, newest first, without reading the whole file.

        Raises: StorageError.
        """
        changes: list[Change] = []
        damaged = 0
        for line in self._lines_backwards():
            if len(changes) >= count:
                break
            change = _read(line)
            if change is None:
                damaged += 1
            else:
                changes.append(change)
        return Tail(changes=tuple(changes), damaged=damaged)

    def between(self, since: str, until: str) -> Iterator[Change]:
        """The changes between two times, both UTC in ISO 8601 to the second, newest first. Raises:
        StorageError."""
        for change in filter(None, map(_read, self._lines_backwards())):
            if change.at[:19] < since[:19]:
                return
            if change.at[:19] <= until[:19]:
                yield change

    def find(self, id: str) -> list[Change]:
        """The changes whose id begins with `id`, newest first. An exact id is the only match."""
        found: list[Change] = []
        for line in self._lines_backwards():
            change = _read(line) if id.encode() in line else None
            if change is not None and change.id == id:
                return [change]
            if change is not None and change.id.startswith(id):
                found.append(change)
        return found

    def changes(self, system: str) -> Iterator[Change]:
        """Every change of a system, including undone ones and undos, newest first."""
        for line in self._lines_backwards():
            change = _read(line)
            if change is not None and change.system == system:
                yield change

    def standing(self, system: str) -> Iterator[Change]:
        """The changes of a system that are not undone, without undos, newest first."""
        return (change for change in _not_undone(self.changes(system)) if not change.undoes)

    def is_in_effect(self, system: str, id: str) -> bool:
        """Whether a change is there and not undone."""
        return any(change.id == id for change in self._with(system, id.encode()))

    def in_terms(self, system: str) -> Iterator[Change]:
        """The effective changes that rest on code, hold for a time, or confirm an entry, newest
        first. Called whenever memory is shown to a model."""
        return (
            change
            for change in self._with(system, *_TERMS)
            if change.source_hash or change.since or change.until or change.kind == "confirm"
        )

    def naming(self, system: str, text: str) -> Iterator[Change]:
        """The effective changes that replaced, created or superseded exactly this text, newest
        first."""
        wanted = json.dumps(text, ensure_ascii=False).encode(errors="replace")
        standing = (change for change in self._with(system, wanted) if not change.undoes)
        return (one for one in standing if text in (*one.before, *one.after, one.supersedes))

    def removed(self, system: str, target: str) -> Iterator[str]:
        """What a model removed from a file and nothing has superseded, newest first."""
        superseded: set[str] = set()
        for change in self._with(system, b'"kind": "remove"', b'"supersedes": '):
            if change.target != target:
                continue
            superseded.add(change.supersedes)
            if change.kind == "remove" and change.who == "model":
                yield from (text for text in change.before if text not in superseded)

    def last_to_undo(
        self, system: str, fits: Callable[[Change], bool] = lambda change: True
    ) -> Change | None:
        """The newest fitting change of a system that is neither undone nor an undo."""
        return next(filter(fits, self.standing(system)), None)

    def batch(self, system: str, batch: str) -> list[Change]:
        """The effective changes of a batch, newest first."""
        found = self._with(system, f'"batch": {json.dumps(batch)}'.encode())
        return [change for change in found if batch and change.batch == batch]

    def of_session(self, system: str, session: str) -> Iterator[Change]:
        """The effective changes made in a session, newest first."""
        found = self._with(system, f'"session": {json.dumps(session)}'.encode())
        return (change for change in found if change.session == session)

    def origins(self, keys: Callable[[Change], Iterable[str]]) -> dict[str, Change]:
        """The newest change for each key, among the last 2,000."""
        found: dict[str, Change] = {}
        for change in self.tail(ORIGINS_LOOKED_THROUGH).changes:
            for key in keys(change):
                found.setdefault(key, change)
        return found

    def _with(self, system: str, *terms: bytes) -> Iterator[Change]:
        """The effective changes whose lines contain one of these, and undos, newest first. Other
        lines are not parsed."""
        lines = self._lines_with((*terms, b'"undoes": '))
        return _not_undone(one for one in map(_read, lines) if one and one.system == system)

    def _lines_with(self, terms: Iterable[bytes]) -> list[bytes]:
        """The lines that contain one of these, last first."""
        with durable.storage_errors(self.path, "read"), contextlib.suppress(*_MISSING):
            data = self.path.read_bytes()
            starts: set[int] = set()
            for term in terms:
                at = data.find(term)
                while at >= 0:
                    starts.add(data.rfind(b"\n", 0, at) + 1)
                    end = data.find(b"\n", at)
                    at = data.find(term, end) if end >= 0 else -1
            ends = ((start, data.find(b"\n", start)) for start in sorted(starts, reverse=True))
            return [data[start : end if end >= 0 else None] for start, end in ends]
        return []

    def _lines_backwards(self) -> Iterator[bytes]:
        with durable.storage_errors(self.path, "read"), contextlib.suppress(*_MISSING):
            with self.path.open("rb") as file:
                yield from durable.lines_backwards(file)


def _not_undone(changes: Iterable[Change]) -> Iterator[Change]:
    """Filters changes and undos, newest first."""
    undone: set[str] = set()
    for change in changes:
        if change.id in undone:
            continue
        if change.undoes:
            undone.add(change.undoes)
        yield change


def undo_of(change: Change, author: Author, **values: Any) -> Change:
    """The change that undoes another; `values` are fields that are not simply swapped."""
    reason = f"undoes {change.kind} {change.id}"
    swapped: dict[str, Any] = {"before": change.after, "after": change.before, "reason": reason}
    target = values.pop("target", change.target)
    return Change.by(
        author, change.system, "undo", target, undoes=change.id, **{**swapped, **values}
    )


def nothing_left(change: Change, gone: str = "") -> NothingToUndo:
    """The error for a change of which nothing is left; `gone` is a sentence about it."""
    return NothingToUndo(
        f"{gone} There is nothing left to undo of {change.kind} {change.id}: kode was stopped "
        "before it was made, or it was changed since.".lstrip()
    )


def origin_of(change: Change | None, before: str = "") -> str:
    """A text's origin for a person: `add by model, 2026-03-01 12:00 UTC, session ...`, after the
    word `before`."""
    if change is None:
        return "written by hand"
    session = f", session {change.session}" if change.session else ""
    turn = f" turn {change.turn}" if change.turn else ""
    when = change.at[:16].replace("T", " ")
    source = f", from {change.source}" if change.source else ""
    if change.undoes:
        return f"{before + 'undo' if before else 'restored by an undo'}, {when} UTC{session}{turn}"
    return f"{before}{change.kind} by {change.who}{change.whose}{source}, {when} UTC{session}{turn}"


def refuse_redacted(change: Change, instead: str) -> None:
    """Raises: MemoryRefused for a change whose texts were masked, so that it cannot be undone.
    `instead` says what the person can do, a sentence.
    """
    if change.redacted:
        raise MemoryRefused(
            f"{change.id} held a credential, which the history does not keep: it cannot be "
            f"undone. {instead}"
        )


def _mask(change: Change) -> Change:
    before = tuple(credentials.redact(text) for text in change.before)
    after = tuple(credentials.redact(text) for text in change.after)
    reason = credentials.redact(change.reason)
    redacted = before != change.before or after != change.after
    values: dict[str, Any] = {**asdict(change), "before": before, "after": after}
    values |= {"reason": reason, "words": credentials.redact(change.words)}
    return Change(**{**values, "redacted": redacted or change.redacted})


def _line(change: Change) -> bytes:
    row = {name: value for name, value in asdict(change).items() if value not in (None, "", ())}
    return seal(json.dumps(row, ensure_ascii=False).encode(errors="replace"))


def _read(line: bytes) -> Change | None:
    """One line, or None if it is damaged. Unknown keys of a later version are ignored."""
    change = read_row(Change, line) if is_intact(line) else None
    # A line without them would get new ones with every read.
    usable = change is not None and b'"id"' in line and b'"at"' in line and change.id and change.at
    return change if usable else None
