"""The log of memory, `history.jsonl`: the only place that says what is true.

Each line is a checksum and the JSON of one change. Lines are only appended, but for `erase` and
`set_damage_aside`, which rewrite the file. These need the lock of the memory folder, which a store
also holds for appending. A line that cannot be read is skipped and counted.

For a long log, an index records which lines concern what, so that opening the log does not read all
of them. The index holds no text, and may be deleted at any time.
"""

import json
import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from kode import durable
from kode.credentials import redact, redact_secrets
from kode.errors import StorageError
from kode.memory.embed import delete_disposable, open_disposable
from kode.memory.fold import DAMAGE, MemoryView, fold, matches
from kode.memory.statement import MemoryChange, Statement, parse_change, to_row
from kode.values import fields, replace

if TYPE_CHECKING:
    import apsw

T = TypeVar("T")
ERASED = "(erased)"
"""Takes the place of a text that a person erased."""
MIN_LINES, BATCH = 2_000, 100
"""How many changes a log has before it gets an index, and how many are then added at once."""
MANY_PLACES = 1_000  # to read more of them, a long log is read as a whole
_TABLES = """
CREATE TABLE lines (topic TEXT, start INTEGER, PRIMARY KEY (topic, start)) WITHOUT ROWID;
CREATE TABLE mark (size INTEGER, time INTEGER, end INTEGER, last INTEGER, checksum INTEGER);
INSERT INTO mark VALUES (0, 0, 0, 0, 0);
"""
"""The mark: size and time of the log as it was last seen, and the part of it that is indexed."""


class Log:
    """The changes of one memory folder, of every system. Reads the file once, then only what is new
    at its end. Methods raise StorageError."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path, self._index = path, _Index(path, read_only)
        self._drop_read()

    def changes(self) -> Sequence[MemoryChange]:
        """Every change so far, oldest first, each once."""
        self.view()
        if self._is_partial:
            self.view(whole=True)
        return self._changes

    def change(self, id: str) -> MemoryChange | None:
        """Returns the change with this id; None if there is none."""
        self.view()
        if self._is_partial and id not in self._by_id:
            lines = self.changes_about(f"change/{id}") or ()
            self._by_id |= {line.id: line for line in lines if line.id == id}
        return self._by_id.get(id)

    def last_id(self) -> str:
        """The id of the newest change; "" for an empty log."""
        self.view()
        if self._is_partial and not self._changes:
            line = _decode_change(self._last_line.rstrip(b"\n"))
            return line.id if line else self.changes()[-1].id
        return self._changes[-1].id if self._changes else ""

    # ── for a view of a part ─────────────────────────────────────────────────────────────────

    def changes_about(self, *topics: str) -> list[MemoryChange] | None:
        """Returns the changes on some topics, oldest first; None if the index was unusable and the
        whole log was read instead."""
        return self._query_index(lambda: self._index.find(topics))

    def list_places(self, prefix: str) -> list[str] | None:
        """Returns the places with this prefix that any change concerns; None as `changes_about`."""
        topics = self._query_index(lambda: self._index.list_topics(f"place/{prefix}"))
        return topics and [topic.partition("/")[2] for topic in topics]

    def _query_index(self, query: Callable[[], list[T]]) -> list[T] | None:
        with suppress(ValueError, OSError):
            return query()
        self._index.delete()
        self.view(whole=True)
        return None

    def topics(self, change: MemoryChange) -> set[str]:
        """Returns the topics of a change: itself, statements, places, files; `waiting`, `pairs` and
        `damage` for those parts of a view. An undo also has the topics of the undone change."""
        topics = {f"change/{change.id}", *(f"file/{name}" for name in change.files)}
        topics |= {change.kind} & {DAMAGE}
        topics |= {"pairs"} if change.conflicts or change.distinct else set()
        for new in change.add:
            topics |= {f"id/{new.id}", f"place/{new.place}"}
            topics |= {"waiting"} if new.state == "waiting" else set()
        for id in (*change.end, *change.set):
            topics.add(f"id/{id}")
            states = {amendment.state for amendment in change.set.values()}
            for earlier in self._index.find([f"id/{id}"]):
                states |= {new.state for new in earlier.add if new.id == id}
                topics |= {f"place/{new.place}" for new in earlier.add if new.id == id}
            topics |= {"waiting"} & states
        for undone in self._index.find([f"change/{change.undoes}"]) if change.undoes else ():
            topics |= self.topics(undone) if undone.id == change.undoes else set()
        return topics

    # ── what changes it ──────────────────────────────────────────────────────────────────────

    def append(self, changes: Sequence[MemoryChange]) -> list[MemoryChange]:
        """Appends changes durably, with one sync, and returns them as written: with credentials
        masked."""
        masked = [
            replace(change, add=tuple(map(_mask_texts, change.add)), reason=redact(change.reason))
            for change in changes
        ]
        durable.make_folder(self.path.parent)
        is_verified = self._index.is_current()
        durable.append_lines(self.path, [_encode_change(change) for change in masked])
        self.view(is_verified=is_verified)
        return masked

    def damage(self) -> str:
        """Says what happened to the file since kode wrote it, as a part of a sentence; "" for
        nothing. A repeated line is no damage: it counts once."""
        cut_bytes = durable.count_lost_bytes(self.path)
        self.view()
        bad = len(self._bad_lines)
        parts = [f"{bad} of its lines cannot be read"] if bad else []
        parts += [f"{cut_bytes:,} bytes are gone from its end"] if cut_bytes else []
        return " and ".join(parts)

    def set_damage_aside(self) -> None:
        """Rewrites the file without its unreadable lines, which stay in a file beside it. The
        caller holds the folder's lock."""
        self.view()
        if self._bad_lines:
            durable.set_aside(self.path, b"\n".join(self._bad_lines) + b"\n")
            with durable.storage_errors(self.path, "read"):
                lines = self.path.read_bytes()[: self._position].split(b"\n")
            self._rewrite([line for line in lines if _decode_change(line)])

    def erase(self, ids: Collection[str]) -> None:
        """Blanks the texts and quotations of these statements wherever the log has them. The caller
        holds the folder's lock."""

        def blank(new: Statement) -> Statement:
            return replace(new, text=ERASED, quote="", details={}) if new.id in ids else new

        changes = (replace(old, add=tuple(map(blank, old.add))) for old in self.changes())
        self._rewrite([*map(_encode_change, changes)])

    def _rewrite(self, lines: Sequence[bytes]) -> None:
        data = b"".join(line + b"\n" for line in lines)
        durable.replace_file(self.path, data)
        durable.write_length(self.path, len(data))
        self._drop_read()

    def _drop_read(self, stamp: object = None) -> None:
        self._changes: list[MemoryChange] = []
        self._by_id: dict[str, MemoryChange] = {}
        self._bad_lines: list[bytes] = []
        self._unnoted: list[tuple[int, MemoryChange]] = []
        """The changes that the index may not have, with the start of their lines."""
        self._view, self._is_partial = MemoryView(), False
        self._inode, self._position, self._last_line = 0, 0, b""
        self._stamp = stamp

    def view(self, *, whole: bool = False, is_verified: bool = False) -> MemoryView:
        """Returns the current view, which is valid until the next change. Reads what is new; if the
        file was replaced or its last line moved, what the index lacks; with `whole`, everything.
        `is_verified`: the lines read before are known to be unchanged."""
        stamp = os.path.exists(self.path) and _file_stamp(self.path)
        if stamp == self._stamp and not whole and not is_verified:
            return self._view
        with durable.storage_errors(self.path, "read"):
            if not self.path.exists():
                self._drop_read(stamp)
                return self._view
            with open(self.path, "rb") as file:
                inode = os.fstat(file.fileno()).st_ino
                file.seek(self._position - len(self._last_line))
                is_same = inode == self._inode
                is_same = is_same and file.read(len(self._last_line)) == self._last_line
                if not is_same:
                    self._index.resume(file)
                if whole or not is_same:
                    self._drop_read()
                    self._inode = inode
                    if self._index.end and not whole:
                        self._position, self._last_line = self._index.end, self._index.last_line
                        self._view, self._is_partial = _PartView(self), True
                file.seek(self._position)
                lines = file.read().split(b"\n")[:-1]
                try:
                    self._take_lines(lines)
                    if is_verified or whole or not is_same:
                        self._index.save(file, self._position, self._last_line)
                    self._stamp = stamp
                    return self._view
                except (ValueError, OSError):
                    self._index.delete()
        return self.view(whole=True)

    def _take_lines(self, lines: Sequence[bytes]) -> None:
        """Adds lines to what was read. Raises: ValueError if the whole log has to be read."""
        new = list[MemoryChange]()
        for line in lines:
            change = _decode_change(line)
            if change is None:
                self._bad_lines += [line] if line.strip() else []
            elif change.id not in self._by_id and not (
                self._is_partial and self._index.find([f"change/{change.id}"])
            ):
                self._by_id[change.id] = change
                new.append(change)
                if self._position >= self._index.end:
                    self._unnoted.append((self._position, change))
            self._last_line = line + b"\n"
            self._position += len(self._last_line)
        if self._bad_lines:
            self._index.delete()
            if self._is_partial:
                raise ValueError("there are lines that cannot be read")
        elif self._is_partial or (
            not self._index.is_off and (self._index.end or len(self._unnoted) >= MIN_LINES)
        ):
            for start, change in self._unnoted:
                self._index.note(start, change, self.topics(change))
            self._unnoted.clear()
        self._changes += new
        if not self._is_partial and any(change.undoes for change in new):
            self._view = fold(self._changes)
        elif new:
            self._view = self._view.with_more(new)


class _PartView(MemoryView):
    """The view of a long log: it reads the lines on a topic when first asked about that topic, and
    the whole log when first asked about everything."""

    def __init__(self, log: Log) -> None:
        self._log, self._parts = log, dict[tuple[str, ...], MemoryView]()

    def __getattr__(self, name: str) -> Any:
        """Returns a field of the whole view, for which the whole log is read."""
        if name not in _FIELDS:
            raise AttributeError(name)
        self._log.changes()  # from here on, the log has the whole view
        vars(self).update(vars(self._log.view()))
        return vars(self)[name]

    def with_topics(self, *topics: str) -> MemoryView:
        if self._is_whole:
            return self
        if topics not in self._parts:
            lines = self._log.changes_about(*topics)
            if lines is None:  # the index was of no use
                return self._log.view()
            self._parts[topics] = fold(lines)
        return self._parts[topics]

    def list_places(self, pattern: str, *, is_for_all: bool = True) -> list[str]:
        names = None if self._is_whole else self._log.list_places(pattern.partition("*")[0])
        if names is None or (is_for_all and len(names) > MANY_PLACES):
            return super().list_places(pattern)
        return [name for name in names if matches(name, pattern)]

    def with_more(self, changes: Iterable[MemoryChange]) -> MemoryView:
        """Returns the view after further changes, including undos."""
        for change in changes:
            topics = self._log.topics(change)
            self._parts = {key: part for key, part in self._parts.items() if topics.isdisjoint(key)}
        return copy(self)

    @property
    def _is_whole(self) -> bool:
        return "entries" in vars(self)


_FIELDS = frozenset(field.name for field in fields(MemoryView))


class _Index:
    """The index of a log: which lines concern which topics."""

    def __init__(self, log: Path, read_only: bool) -> None:
        self._log, self._path = log, log.with_name("index-history.sqlite")
        self.is_off = read_only
        self._close()

    def _close(self) -> None:
        self._connection: apsw.Connection | None = None
        self.recent = defaultdict[str, list[tuple[int, MemoryChange]]](list)
        """Topic → the changes that are not written yet, with the start of their lines."""
        self._count = 0
        self.end, self.last_line, self._checksum, self._seen = 0, b"", 0, (0, 0)

    def delete(self) -> None:
        """Removes the index file, which does not match the log or is damaged."""
        self._close()
        if not self.is_off:
            delete_disposable(self._path)

    def is_current(self) -> bool:
        """Whether the log is as it was when this object saw it last."""
        return self.end > 0 and os.path.exists(self._log) and _file_stamp(self._log) == self._seen

    def resume(self, log: IO[bytes]) -> None:
        """Opens the index file, if there is one; removes it if it does not match the log."""
        self._close()
        if not self._path.exists():
            return
        import apsw

        try:
            self._connection = open_disposable(self._path)
            rows: Any = self._connection.execute("SELECT * FROM mark")
            *seen, end, last, checksum = next(rows)
            if tuple(seen) != _file_stamp(log.fileno()):
                log.seek(0)
                if zlib.crc32(log.read(end)) != checksum:
                    raise ValueError("the log has changed")
            log.seek(last)
            self.last_line, self._seen = log.read(end - last), (seen[0], seen[1])
            self.end, self._checksum = end, checksum
        except (apsw.Error, OSError, StorageError, ValueError, StopIteration):
            self.delete()

    def find(self, topics: Sequence[str]) -> list[MemoryChange]:
        """The changes on some topics, oldest first. Raises: ValueError if the file does not fit the
        log; OSError."""
        lines = {start: new for topic in topics for start, new in self.recent.get(topic, ())}
        sql = f"SELECT start FROM lines WHERE topic IN ({', '.join('?' * len(topics))})"
        if starts := self._query(f"{sql} AND start < ?", *topics, self.end) if self.end else ():
            with open(self._log, "rb") as file:
                for start in starts:
                    file.seek(start)
                    if (change := _decode_change(file.readline().rstrip(b"\n"))) is None:
                        raise ValueError(f"there is no change at {start}")
                    lines[start] = change
        return [lines[start] for start in sorted(lines)]

    def list_topics(self, prefix: str) -> list[str]:
        """Returns the topics with this prefix. Raises as `find`."""
        sql = "SELECT DISTINCT topic FROM lines WHERE topic >= ? AND topic < ?"
        topics = self._query(sql, prefix, f"{prefix}\U0010ffff")
        topics += [topic for topic in self.recent if topic.startswith(prefix)]
        return [*dict.fromkeys(topics)]

    def _query(self, sql: str, *values: object) -> list[Any]:
        """Returns the first column of a result. Raises: ValueError."""
        import apsw

        try:
            rows: Any = self._connection.execute(sql, values) if self._connection else ()
            return [row[0] for row in rows]
        except apsw.Error as error:
            raise ValueError(str(error)) from error

    def note(self, start: int, change: MemoryChange, topics: Collection[str]) -> None:
        """Adds a change, whose line begins at `start`."""
        self._count += 1
        for topic in topics:
            self.recent[topic].append((start, change))

    def save(self, log: IO[bytes], end: int, last_line: bytes) -> None:
        """Records the present state of the log and, if there are enough, the changes noted so far.
        After a failure this object leaves the index alone."""
        stamp, is_full = _file_stamp(log.fileno()), self._count >= BATCH
        if self.is_off or not (is_full or (self.end and stamp != self._seen)):
            return
        import apsw

        rows = sorted((topic, at) for topic, lines in self.recent.items() for at, _ in lines)
        log.seek(self.end)
        mark = end, end - len(last_line), zlib.crc32(log.read(end - self.end), self._checksum)
        try:
            self._connection = self._connection or open_disposable(self._path)
            with self._connection as index:
                if not self.end:
                    index.execute(_TABLES)  # fails if another process has made them
                if [*index.execute("SELECT end FROM mark")] != [(self.end,)]:
                    return  # another process has extended it
                index.execute("UPDATE mark SET size = ?, time = ?", stamp)
                if is_full:
                    index.executemany("INSERT INTO lines VALUES (?, ?)", rows)
                    index.execute("UPDATE mark SET end = ?, last = ?, checksum = ?", mark)
        except (apsw.Error, OSError, StorageError):
            self.is_off = True
            return
        self._seen = stamp
        if is_full:
            self.end, _, self._checksum = mark
            self.recent.clear()
            self._count = 0


def _file_stamp(file: int | Path) -> tuple[int, int]:
    status = os.stat(file)
    return status.st_size, status.st_mtime_ns


def _encode_change(change: MemoryChange) -> bytes:
    row = json.dumps(to_row(change), ensure_ascii=False, separators=(",", ":"))
    data = row.encode(errors="replace")
    return b"%08x %s" % (zlib.crc32(data), data)


def _decode_change(line: bytes) -> MemoryChange | None:
    checksum, _, data = line.rstrip(b"\r").partition(b" ")
    try:
        return parse_change(data) if int(checksum, 16) == zlib.crc32(data) else None
    except ValueError:
        return None


def _mask_texts(new: Statement) -> Statement:
    details = redact_secrets(dict(new.details))
    text, quote, source = map(redact, (new.text, new.quote, new.source))
    return replace(new, text=text, quote=quote, source=source, details=details)
