"""The SQLite file of the notes: opened, kept whole, and what it can do on this machine.

A transaction that has returned survives a power cut: a rollback journal with `synchronous=EXTRA`
keeps that with one file at rest, which a write-ahead log cannot say. A damaged file is set aside
and reported, never overwritten.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode import durable
from kode.errors import BusyError, MemoryRefused, StorageError
from kode.memory.cache import transaction
from kode.memory.index import TextIndex, Values, prepare

if TYPE_CHECKING:
    import apsw

VERSION = 3
"""Of the schema, in `user_version`."""
_ROWS = """CREATE INDEX IF NOT EXISTS notes_of_session ON memory_notes (
    iif(kind = 'log' OR instr(job_id, '#') > 0, session, '')
)"""
_WATCH = """
CREATE TABLE IF NOT EXISTS edited (place INTEGER, id TEXT, PRIMARY KEY (place, id)) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS note_added AFTER INSERT ON memory_notes BEGIN
    INSERT OR REPLACE INTO edited VALUES (NEW.place, NEW.id);
END;
CREATE TRIGGER IF NOT EXISTS note_changed AFTER UPDATE ON memory_notes BEGIN
    INSERT OR REPLACE INTO edited VALUES (OLD.place, OLD.id), (NEW.place, NEW.id);
END;
CREATE TRIGGER IF NOT EXISTS note_removed AFTER DELETE ON memory_notes BEGIN
    INSERT OR REPLACE INTO edited VALUES (OLD.place, OLD.id);
END;
"""
"""Whoever writes a note leaves its id there; kode takes its own away in the same transaction. So
what is left was edited by hand, and finding it takes no look at the others."""
INDEX = "note"
"""How the names of the index's tables begin."""
CHANGE = "change"
"""The name in the table `meta` of the id of the last change."""
LAST_MAINTENANCE = "last_maintenance"
"""The name in the table `meta` of when maintenance was last finished."""
BUSY_MS = 2_000
"""kode's own processes wait for the folder's lock instead, without blocking; this is for others."""
HEADER_BYTES = 100
"""Of every database; SQLite itself takes a shorter file for an empty one."""
WHOLE_CHECK_BYTES = 8_000_000
"""A file up to this size is checked whole when it is opened; a larger one by maintenance."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS memory_notes (
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    user TEXT NOT NULL,
    scope TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('log', 'summary', 'rule', 'soul')),
    content TEXT NOT NULL,
    tags TEXT NOT NULL DEFAULT '[]',
    confidence REAL NOT NULL DEFAULT 1.0,
    stability TEXT NOT NULL CHECK (stability IN ('volatile', 'stable', 'permanent')),
    sensitivity TEXT NOT NULL CHECK (sensitivity IN ('normal', 'sensitive')),
    evidence TEXT NOT NULL DEFAULT '[]',
    job_id TEXT,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    superseded_by TEXT,
    untrusted TEXT NOT NULL DEFAULT '',
    degraded INTEGER NOT NULL DEFAULT 0,
    who TEXT NOT NULL,
    session TEXT,
    turn INTEGER,
    person TEXT NOT NULL DEFAULT '',
    host TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS notes_newest ON memory_notes (user, kind, created_at DESC, id DESC)
    WHERE superseded_by IS NULL;
CREATE INDEX IF NOT EXISTS notes_latest ON memory_notes (user, created_at DESC, id DESC)
    WHERE superseded_by IS NULL;
CREATE INDEX IF NOT EXISTS notes_same ON memory_notes (user, substr(content, 1, 32))
    WHERE superseded_by IS NULL;
CREATE INDEX IF NOT EXISTS notes_expiry ON memory_notes (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS notes_session ON memory_notes (session) WHERE session IS NOT NULL;
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""

_GIVEN = "SELECT value FROM json_each(?)"
_said: set[str] = set()
"""What was said already: once a process is enough."""


class Database:
    """One connection, of one thread. Opens its file when first used.

    With `read_only` nothing is written; a file that is not there is an empty one.
    """

    def __init__(self, path: Path, *, read_only: bool, notice: Callable[[str], None]) -> None:
        self.path = path
        self.read_only = read_only
        self.index = TextIndex(self.rows, INDEX)
        """The words and vectors of the notes, by their places."""
        self._notice = notice
        self._connection: apsw.Connection | None = None

    def close(self) -> None:
        """Gives the file back; it is opened again when used."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def rows(self, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """All rows of a query. Raises: MemoryRefused, StorageError, BusyError."""
        with self._faults():
            return self._open().execute(sql, values).fetchall()

    def value(self, sql: str, values: Values = ()) -> Any:
        """The first value of the first row, or None. Raises as `rows`."""
        found = self.rows(sql, values)
        return found[0][0] if found else None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything in the block, or nothing. The caller holds the folder's lock.

        Raises as `rows`, and whatever the block raises.
        """
        if self.read_only:
            raise MemoryRefused("This memory was opened for reading only.")
        with self._faults(), transaction(self._open()):
            yield

    def meta(self, name: str) -> str:
        """A value kept beside the notes; "" when there is none."""
        return str(self.value("SELECT value FROM meta WHERE name = ?", (name,)) or "")

    def set_meta(self, name: str, value: str) -> None:
        """Inside a transaction."""
        self.rows("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    @property
    def is_writing(self) -> bool:
        """Whether a transaction is open."""
        return self._connection is not None and self._connection.in_transaction

    def edited(self) -> list[tuple[int, str]]:
        """Place and id of the notes that somebody else than kode has written."""
        return [(place, id) for place, id in self.rows("SELECT place, id FROM edited")]

    def forget_edited(self, ids: Collection[str]) -> None:
        """Inside a transaction: what was written of these notes is in the history."""
        self.rows(f"DELETE FROM edited WHERE id IN ({_GIVEN})", (json.dumps([*ids]),))

    def take_in(self, edited: Iterable[tuple[int, str]], ids: Collection[str]) -> None:
        """Inside a transaction: reads the words of these of the edited notes again."""
        for place, id in edited:
            if id in ids:
                self.index.remove(place)
        sql = f"SELECT place, content, tags FROM memory_notes WHERE id IN ({_GIVEN})"
        for place, content, tags in self.rows(sql, (json.dumps([*ids]),)):
            self.index.remove(place)
            self.index.add(place, searched(content, tags))
        self.forget_edited(ids)

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _open(self) -> "apsw.Connection":
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> "apsw.Connection":
        import apsw

        is_empty = self.path.exists() and self.path.stat().st_size == 0
        if is_empty:
            self._say_once(
                f"{self.path} is empty (0 bytes), as after a crash or a failed copy. A new one "
                "is started; `kode memory rebuild` puts back what the history has."
            )
        if self.read_only:
            return self._prepared(self._copy(is_empty=is_empty or not self.path.exists()))
        try:
            return self._connect_file()
        except (apsw.CorruptError, apsw.NotADBError):
            self.set_aside()
        return self._connect_file()

    def _connect_file(self) -> "apsw.Connection":
        durable.make_folder(self.path.parent)
        made = _make_private(self.path)
        try:
            return self._prepared(_opened(self.path))
        except BaseException:
            if made and self.path.stat().st_size == 0:
                self.path.unlink()  # or it would look like one that has lost its notes
            raise

    def _copy(self, *, is_empty: bool) -> "apsw.Connection":
        """The notes in memory, for who may not write: without a transaction that a killed process
        left half done, which they cannot roll back in the file."""
        import apsw

        connection = apsw.Connection(":memory:")
        if is_empty:
            return connection
        try:
            data = _serialized(_opened(self.path, read_only=True))
        except apsw.ReadOnlyError:
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder) / self.path.name
                shutil.copyfile(self.path, copy)
                shutil.copyfile(f"{self.path}-journal", f"{copy}-journal")
                data = _serialized(_opened(copy))
        connection.deserialize("main", data)
        return connection

    def _prepared(self, connection: "apsw.Connection") -> "apsw.Connection":
        """The same connection; closed if it cannot be used."""
        try:
            connection.execute("PRAGMA synchronous=EXTRA")
            connection.execute("PRAGMA secure_delete=ON")
            if self._is_to_be_filled(connection):
                with transaction(connection):
                    self._fill(connection)
            connection.execute(_ROWS)
            connection.execute(_WATCH)
            self.index.measures = prepare(connection, INDEX)
        except BaseException:
            connection.close()
            raise
        if not self.index.measures:
            self._say_once(
                "sqlite-vec cannot be loaded here, so notes are found by their words alone. "
                "Reinstall it: `pip install --force-reinstall sqlite-vec`."
            )
        return connection

    def _is_to_be_filled(self, connection: "apsw.Connection") -> bool:
        """Whether the file is new, or its words were read otherwise."""
        version = connection.pragma("user_version")
        if version not in (0, VERSION):
            raise MemoryRefused(
                f"{self.path} was made by another kode (its version is {version}, this one knows "
                f"{VERSION}). It was not changed: update kode, or export it with the one that "
                "made it."
            )
        return version != VERSION or not _index_on(connection).is_current()

    def _fill(self, connection: "apsw.Connection") -> None:
        """Inside a transaction: makes what is missing, and reads the words of all notes again."""
        connection.execute(_SCHEMA)
        prepare(connection, INDEX)
        index = _index_on(connection)
        notes = index.rows("SELECT place, content, tags FROM memory_notes", ())
        index.refill((place, searched(content, tags)) for place, content, tags in notes)
        connection.execute(f"PRAGMA user_version={VERSION}")

    def set_aside(self) -> None:
        """Moves a damaged file and its journal away; the next use begins with an empty one."""
        self.close()
        aside = durable.set_aside(self.path)
        journal = Path(f"{self.path}-journal")
        if journal.exists():
            # A journal left here would be played back into the new file.
            os.rename(journal, f"{aside}-journal")
        self._notice(
            f"{self.path.name} was damaged. It was set aside as {aside} and notes start empty; "
            "`kode memory rebuild` puts back what the history has."
        )

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        """SQLite's errors as those of the house, with what to do."""
        try:
            import apsw
        except ImportError as error:
            raise MemoryRefused(
                f"The notes memory needs apsw, which cannot be imported ({error}). "
                "Reinstall kode, or choose another memory.system."
            ) from error
        try:
            yield
        except (apsw.BusyError, apsw.LockedError) as error:
            raise BusyError(
                f"Another program holds {self.path}. Wait for it to finish and try again."
            ) from error
        except (apsw.CorruptError, apsw.NotADBError) as error:
            self._damaged()
            raise MemoryRefused(
                f"{self.path} is damaged ({error}). Nothing was changed."
                + (
                    ""
                    if self.read_only
                    else " Try again: notes start empty, and `kode memory rebuild` puts them back."
                )
            ) from error
        except (apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError) as error:
            raise StorageError(
                f"Could not use {self.path}: {error}. Check the disk and who owns the file."
            ) from error

    def _damaged(self) -> None:
        with contextlib.suppress(StorageError, OSError):
            if not self.read_only and self.path.exists():
                self.set_aside()

    def _say_once(self, text: str) -> None:
        if text not in _said:
            _said.add(text)
            self._notice(text)


def searched(content: str, tags: str) -> str:
    """What a search looks at in a note; `tags` as they are in its column."""
    return f"{content} {' '.join(texts_of(tags))}"


def texts_of(column: str) -> tuple[str, ...]:
    """A list of texts from its column; a spoiled one is empty."""
    try:
        found = json.loads(column)
    except (ValueError, TypeError, RecursionError):
        return ()
    return tuple(text for text in found if isinstance(text, str)) if isinstance(found, list) else ()


def _index_on(connection: "apsw.Connection") -> TextIndex:
    return TextIndex(lambda sql, values: connection.execute(sql, values).fetchall(), INDEX)


def _make_private(path: Path) -> bool:
    """Makes the file, mode 0600 before anything is in it; its journal takes the mode from it. False
    when it was there."""
    with durable.storage_errors(path, "open"):
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return False
        durable.sync_folder(path.parent)
    return True


def _opened(path: Path, *, read_only: bool = False) -> "apsw.Connection":
    """A whole file. Raises: apsw.CorruptError, apsw.NotADBError for another."""
    import apsw

    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
    connection = apsw.Connection(str(path), flags=flags)
    try:
        connection.set_busy_timeout(BUSY_MS)
        size = path.stat().st_size
        if 0 < size < HEADER_BYTES:
            raise apsw.NotADBError("it is too short for a database")
        found: list[tuple[object, ...]] = [("ok",)]
        if size <= WHOLE_CHECK_BYTES:
            try:
                found = connection.execute("PRAGMA quick_check(1)").fetchall()
            except apsw.SQLError as error:  # a spoiled index says so
                raise apsw.CorruptError(str(error)) from error
        if found != [("ok",)]:
            raise apsw.CorruptError(str(found[0][0]) if found else "no answer")
    except BaseException:
        connection.close()
        raise
    return connection


def _serialized(source: "apsw.Connection") -> bytes:
    """What is in a database, which is closed."""
    try:
        return source.serialize("main")
    finally:
        source.close()
