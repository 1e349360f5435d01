"""Records every change to memory in `history.jsonl`: the texts before and after, the author, reason
and source.

A change is recorded with its data, then made, then done (`making`): its line says what stood in its
place before and what stands there after, and a marker in `unfinished/` lies from before the line
until the place carries it. What a killed kode left is judged by `standing.reconcile`. Undoing is a
change like any other, so it can be undone.

`history.jsonl.seal` has the length and checksum of what kode left, to find what was cut off or
changed since. It is written without a sync: an older seal holds for the beginning.

A process reads the file once and then only what is new at its end (`Lines`); what its lines make of
memory's statements is `ledger`'s.
"""

import contextlib
import fcntl
import json
import os
import secrets
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, overload

from kode import credentials, durable
from kode.beneath import TEMPORARY_PREFIX
from kode.errors import KodeError
from kode.memory.change import BY_HAND, Author, Change, Pair, undo_of
from kode.memory.places import Places, State, fingerprint
from kode.memory.stored import read_row
from kode.sealed import is_intact, seal

_CHECKED_BYTES = 4096
"""How much of what was read last must still be there for the rest to count as new."""


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

    def append(self, change: Change, marker: Path | None = None) -> Change:
        """Appends a change durably that makes nothing, or whose place is not followed; returns it
        as written, with credentials masked. `marker` is a file to create with its line.

        Raises: StorageError; then the change must not be made.
        """
        change = _mask(change)
        self._append([_line(change)], marker)
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
        if not as_is:
            self.take_hand_edit(target, was)
        then = places.after(was, change) if stands is None else stands
        change = replace(change, stood=fingerprint(was), stands=fingerprint(then))
        durable.make_folder(self._unfinished)
        try:
            written = self.append(change, marker=self._unfinished / change.id)
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

    def forget_unwritten(self, id: str) -> None:
        """Removes the marker of a change that was not even recorded. A process that has just made
        the marker and not its line yet holds the lock that this takes. Raises: StorageError."""
        with (
            durable.storage_errors(self.path, "read"),
            durable.open_for_append(self.path) as file,
        ):
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                if self.lines().by_id(id) is None:
                    self.forget(id)
            finally:
                durable.unlock(file)

    def forget(self, id: str) -> None:
        """Removes the marker of a change that is finished, or was never written."""
        with contextlib.suppress(OSError):
            (self._unfinished / id).unlink()

    def standing_places(self) -> dict[str, str]:
        """Every place whose changes say what stands there → the last fingerprint."""
        followed = (one for one in self.lines() if one.stands)
        places = ((self._place(one.target), one.stands) for one in followed)
        return {place: stands for place, stands in places if place}

    def take_hand_edit(self, target: str, state: State) -> Change | None:
        """Appends what a person changed in a place since its last change, with its lock held, as
        changes to undo together; returns the last one, None if nothing differs. Raises:
        MemoryRefused, StorageError."""
        places, known = self.places, self.stands(target)
        if places is not None and (edit := places.own_edit(target)) is not None:
            return edit
        if places is None or known == fingerprint(state):
            return None
        before, masked = self.replayed(target)
        edits = list(places.edits(target, before, state))
        author = Author(who="user", batch=secrets.token_hex(6) if edits[1:] else "")
        written = None
        for at, fields in enumerate(edits, 1):  # the last says what stands there
            fields |= {"stands": fingerprint(state) if at == len(edits) else "", "redacted": masked}
            written = self.record(author, places.system, BY_HAND, target, **fields)
        return written

    def stands(self, target: str) -> str:
        """The fingerprint of what stands in a place after its last change; "" if unknown."""
        last = (one for one in reversed(self._of_place(target)) if one.stands)
        return next((one.stands for one in last), "")

    def replayed(self, target: str) -> tuple[State, bool]:
        """What stands in a place by its changes alone, and whether credentials are masked in it."""
        if self.places is None:
            return (), False
        state: State = ()
        made = self.made(target)
        for change in made:
            state = self.places.after(state, change)
        return state, any(change.redacted for change in made)

    def made(self, target: str) -> list[Change]:
        """The changes of a place, oldest first, without those never made."""
        found = self._of_place(target)
        never = {change.undoes for change in found if change.is_mark}
        return [one for one in found if one.id not in never]

    def changed_places(self) -> list[str]:
        """Every place that has a change, in order of first mention."""
        return list(dict.fromkeys(filter(None, (self._place(one.target) for one in self.lines()))))

    def _of_place(self, target: str) -> Sequence[Change]:
        """The changes of a place, oldest first."""
        if self.places is None:
            return ()
        lines, place = self.lines(), self.places.place_of(target)
        return lines.of([one for one in lines.targets() if self._place(one) == place])

    def _place(self, target: str) -> str:
        """ "" for one that is not followed."""
        places = self.places
        return places.place_of(target) if places and places.tracks(target) else ""

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
        return self.path.with_name(self.path.stem.replace("history", "unfinished"))

    def _append(self, lines: Sequence[bytes], marker: Path | None = None) -> None:
        durable.make_folder(self.path.parent)
        with (
            durable.storage_errors(self.path, "append to"),
            durable.open_for_append(self.path) as file,
        ):
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                if marker is not None:
                    marker.touch()
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

    # ── questions ────────────────────────────────────────────────────────────────────────────

    def lines(self) -> "Lines":
        """Every change so far. Raises: StorageError."""
        lines = _lines_of(self.path)
        lines.read_on()
        return lines

    def known(self) -> set[str]:
        """Id and time of every local change, as `ID TIME`. Raises: StorageError."""
        return {f"{one.id} {one.at}" for one in self.lines()}

    def tail(self, count: int) -> Tail:
        """The last `count` changes, newest first. Raises: StorageError."""
        lines, changes = self.lines(), list[Change]()
        damaged = int(lines.is_torn)
        for change in reversed(lines.rows):
            if len(changes) >= count:
                break
            if change is None:
                damaged += 1
            else:
                changes.append(change)
        return Tail(changes=tuple(changes), damaged=damaged)

    def between(self, since: str, until: str) -> Iterator[Change]:
        """The changes between two times, both UTC in ISO 8601 to the second, newest first. Raises:
        StorageError."""
        for change in reversed(self.lines()):
            if change.at[:19] < since[:19]:
                return
            if change.at[:19] <= until[:19]:
                yield change

    def find(self, id: str) -> list[Change]:
        """The changes whose id begins with `id`, newest first. An exact id is the only match."""
        lines = self.lines()
        if (exact := lines.by_id(id)) is not None:
            return [exact]
        return [change for change in reversed(lines) if change.id.startswith(id)]

    def changes(self, system: str) -> Iterator[Change]:
        """Every change of a system, including undone ones and undos, newest first."""
        return (change for change in reversed(self.lines()) if change.system == system)

    def standing(self, system: str) -> Iterator[Change]:
        """The changes of a system that are not undone, without undos, newest first."""
        return (change for change in self.in_effect(system) if not change.undoes)

    def in_effect(self, *systems: str) -> Iterator[Change]:
        """The same with undos, of several systems."""
        lines = self.lines()
        return (one for one in reversed(lines) if one.system in systems and lines.counts(one))

    def is_in_effect(self, id: str) -> bool:
        """Whether a change is there and not undone."""
        lines = self.lines()
        change = lines.by_id(id)
        return change is not None and lines.counts(change)


class Lines(Sequence[Change]):
    """The changes of one file, oldest first, as far as this process has read it. A line that is
    there twice, after a copy, is one change."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self.rows: list[Change | None] = []
        """None for an unreadable line."""
        self.is_torn = False
        """Whether half a line follows, which the next one to be appended takes the place of."""
        self.generation = object()
        """Another one after the file was changed and had to be read from its beginning."""
        self._changes: list[Change] = []
        self._by_id: dict[str, Change] = {}
        self._undos: dict[str, list[str]] = {}
        self._of: dict[str, list[int]] = {}
        self._seen = (0, 0, 0)
        """Of the file as it was read: inode, size, time of its last change."""
        self._read, self._last = 0, b""

    @overload
    def __getitem__(self, at: int) -> Change: ...
    @overload
    def __getitem__(self, at: slice) -> list[Change]: ...
    def __getitem__(self, at: int | slice) -> Change | list[Change]:
        return self._changes[at]

    def __len__(self) -> int:
        return len(self._changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self._changes)

    def __reversed__(self) -> Iterator[Change]:
        return reversed(self._changes)

    def by_id(self, id: str) -> Change | None:
        return self._by_id.get(id)

    def counts(self, change: Change) -> bool:
        """Whether no undo that counts takes a change back."""
        return self.undo_of(change) is None

    def undo_of(self, change: Change) -> Change | None:
        """The undo that counts and takes a change back."""
        undos = (self._by_id[id] for id in self._undos.get(change.id, ()))
        return next(filter(self.counts, undos), None)

    def targets(self) -> Iterable[str]:
        """Every target, in order of first mention."""
        return self._of.keys()

    def of(self, targets: Iterable[str]) -> list[Change]:
        """The changes of these targets, oldest first."""
        return [self._changes[at] for at in sorted(at for one in targets for at in self._of[one])]

    def read_on(self) -> None:
        """Reads what is new at the end of the file. Raises: StorageError."""
        with self._lock, durable.storage_errors(self._path, "read"):
            try:
                found = os.stat(self._path)
            except (FileNotFoundError, NotADirectoryError):
                if self._read:
                    self._begin()
                return
            if (found.st_ino, found.st_size, found.st_mtime_ns) == self._seen:
                return
            with self._path.open("rb") as file:
                if self._read and not self._goes_on(file, found):
                    self._begin()
                file.seek(self._read)
                data = file.read()
            end = data.rfind(b"\n") + 1  # what follows is still being written, or was torn
            self.is_torn = bool(data[end:].strip())
            self._read += end
            self._seen = found.st_ino, found.st_size, found.st_mtime_ns
            self._last = data[:end][-_CHECKED_BYTES:] or self._last
            for line in data[:end].split(b"\n"):
                if line.strip():
                    self._take(_read(line))

    def _goes_on(self, file: BinaryIO, found: os.stat_result) -> bool:
        """Whether the file still begins with what was read of it, and is longer now."""
        inode, size, _ = self._seen
        if found.st_ino != inode or found.st_size <= size:
            return False
        file.seek(self._read - len(self._last))
        return file.read(len(self._last)) == self._last

    def _take(self, change: Change | None) -> None:
        self.rows.append(change)
        if change is None or self._by_id.get(change.id) == change:
            return
        self._of.setdefault(change.target, []).append(len(self._changes))
        self._changes.append(change)
        self._by_id[change.id] = change
        if change.undoes:
            self._undos.setdefault(change.undoes, []).append(change.id)


@lru_cache(maxsize=16)
def _lines_of(path: Path) -> Lines:
    return Lines(path)


def _mask(change: Change) -> Change:
    before = tuple(credentials.redact(text) for text in change.before)
    after = tuple(credentials.redact(text) for text in change.after)
    reason = credentials.redact(change.reason)
    redacted = before != change.before or after != change.after
    values: dict[str, Any] = {**asdict(change), "before": before, "after": after}
    values |= {"reason": reason, "words": credentials.redact(change.words)}
    for name in ("near", "against", "settled"):
        values[name] = tuple(map(_mask_pair, values[name]))
    return Change(**{**values, "redacted": redacted or change.redacted})


def _mask_pair(pair: Pair) -> Pair:
    (first, one), (second, other) = pair
    return (first, credentials.redact(one)), (second, credentials.redact(other))


def _line(change: Change) -> bytes:
    row = {name: value for name, value in asdict(change).items() if value not in (None, "", ())}
    return seal(json.dumps(row, ensure_ascii=False).encode(errors="replace"))


def _read(line: bytes) -> Change | None:
    """One line, or None if it is damaged. Unknown keys of a later version are ignored."""
    change = read_row(Change, line) if is_intact(line) else None
    # A line without them would get new ones with every read.
    usable = change is not None and b'"id"' in line and b'"at"' in line and change.id and change.at
    return change if usable else None
