"""An SQLite file that may be thrown away: opened when first used, shared by processes, and emptied
when it is damaged or of another version. What is true lives elsewhere.

Not here: the notes, whose file holds the truth (`notes.database`).
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kode import durable
from kode.errors import StorageError

if TYPE_CHECKING:
    import apsw

    from kode.memory.index import Values

T = TypeVar("T")

BUSY_MS = 5_000


class CacheFile:
    """One file; one object serves one thread. `prepare` makes its tables; `version` is that of
    their shape, and a file of another is thrown away."""

    def __init__(
        self,
        path: Path,
        prepare: Callable[["apsw.Connection"], None],
        *,
        version: int,
        is_durable: bool = False,
    ) -> None:
        self.path = path
        self._prepare = prepare
        self._version = version
        self._is_durable = is_durable
        self._connection: apsw.Connection | None = None

    def rows(self, sql: str, values: "Values" = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement, within `read` or `change`."""
        return self._open().execute(sql, values).fetchall()

    def read(self, work: Callable[[], T]) -> T | None:
        """What `work` finds; None when the file is locked too long, unreadable, or damaged (then it
        is thrown away)."""
        import apsw

        try:
            return work()
        except (apsw.CorruptError, apsw.NotADBError):
            self.throw_away()
        except _refusals():
            self.close()
        except StorageError:
            pass
        return None

    def change(self, work: Callable[[], None]) -> None:
        """Runs `work` in one transaction; a damaged file is first thrown away.

        Raises: StorageError; then nothing was changed.
        """
        import apsw

        for attempt in (1, 2):
            try:
                with transaction(self._open()):
                    work()
                return
            except (apsw.CorruptError, apsw.NotADBError) as error:
                self.throw_away()
                if attempt == 2:
                    raise StorageError(
                        f"The cache {self.path} stays damaged ({error}). Delete it."
                    ) from error
            except _refusals() as error:
                self.close()
                raise StorageError(
                    f"Could not write the cache {self.path} ({error}). Check the disk and who owns "
                    "the folder; the cache is made again at the next start."
                ) from error

    def close(self) -> None:
        """Gives the file back; it is opened again when used."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def throw_away(self) -> None:
        """Deletes the file and what SQLite keeps beside it."""
        self.close()
        for suffix in ("", "-journal", "-wal", "-shm"):
            with suppress(OSError):
                os.unlink(f"{self.path}{suffix}")

    def _open(self) -> "apsw.Connection":
        if self._connection is None:
            durable.make_folder(self.path.parent)
            self._connection = self._connect() or self._connect()
        if self._connection is None:
            raise StorageError(f"The cache {self.path} is of another version. Delete it.")
        return self._connection

    def _connect(self) -> "apsw.Connection | None":
        """None when the file was of another version: then it has gone."""
        import apsw

        connection = apsw.Connection(str(self.path))
        try:
            connection.set_busy_timeout(BUSY_MS)
            is_new = _is_empty(connection)
            if not is_new and connection.pragma("user_version") != self._version:
                connection.close()
                self.throw_away()
                return None
            os.chmod(self.path, 0o600)
            # Without fsync a power cut damages the file at worst, and it is made again.
            connection.execute(f"PRAGMA journal_mode={'DELETE' if self._is_durable else 'WAL'}")
            connection.execute(f"PRAGMA synchronous={'FULL' if self._is_durable else 'OFF'}")
            # In one transaction: a file without its version would be thrown away by another process.
            with transaction(connection) if is_new else nullcontext():
                self._prepare(connection)
                if is_new:
                    connection.execute(f"PRAGMA user_version={self._version}")
        except BaseException:
            connection.close()
            raise
        return connection


def _refusals() -> tuple[type[Exception], ...]:
    """What SQLite raises where the disk, the system or another process stands in the way."""
    import apsw

    return (
        *(apsw.BusyError, apsw.LockedError, apsw.CantOpenError, apsw.ReadOnlyError),
        *(apsw.FullError, apsw.IOError, apsw.PermissionsError, apsw.NoMemError, OSError),
    )


def _is_empty(connection: "apsw.Connection") -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall() == []


@contextmanager
def transaction(connection: "apsw.Connection") -> Iterator[None]:
    """Everything in the block, or nothing."""
    import apsw

    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(apsw.Error):  # damage has closed it: nothing is left to roll back
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise
