"""A disposable SQLite file: opened on first use, shared by processes, and emptied if damaged or of
another version. The truth is stored elsewhere. Also caches the vectors of a neural model in one."""

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kode import durable
from kode.errors import StorageError

if TYPE_CHECKING:
    import apsw
    import numpy as np
    from numpy.typing import NDArray

    from kode.memory.index import Values

T = TypeVar("T")

BUSY_MS = 5_000


@dataclass
class CacheFile:
    """Use one object per thread. `prepare` creates the tables, `version` is their schema's. With
    `read_only`, the file is left alone, and a copy in memory is changed."""

    path: Path
    _prepare: Callable[["apsw.Connection"], None]
    version: int
    read_only: bool = False
    _connection: "apsw.Connection | None" = None

    def rows(self, sql: str, values: "Values" = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement, within `read` or `change`."""
        return self._open().execute(sql, values).fetchall()

    def read(self, work: Callable[[], T]) -> T | None:
        """What `work` returns; None if the file is unreadable. A damaged one is deleted."""
        import apsw

        try:
            return work()
        except apsw.SQLError:
            raise  # not the file's fault
        except (apsw.Error, StorageError, OSError) as error:
            self._give_up(error)
        return None

    def change(self, work: Callable[[], None]) -> None:
        """Runs `work` in one transaction; a damaged file is first deleted.

        Raises: StorageError; then nothing was changed.
        """
        import apsw

        for attempt in (1, 2):
            try:
                with transaction(self._open()):
                    work()
                return
            except (apsw.Error, OSError) as error:
                if self._give_up(error) and attempt == 1:
                    continue
                raise StorageError(
                    f"Could not write the cache {self.path} ({error}). Check the disk and who owns "
                    "the folder; the next start rebuilds the cache."
                ) from error

    def close(self) -> None:
        """Closes the file; it is reopened on the next use."""
        if self._connection is not None and not self.read_only:
            self._connection.close()
            self._connection = None

    def throw_away(self) -> None:
        """Deletes the file; the next use creates an empty one."""
        self.close()
        if not self.read_only:
            for suffix in ("", "-journal", "-wal", "-shm"):
                with suppress(OSError):
                    os.unlink(f"{self.path}{suffix}")

    def _give_up(self, error: Exception) -> bool:
        """Closes the file; returns whether it was damaged, and is deleted."""
        import apsw

        self.close()
        damaged = isinstance(error, apsw.CorruptError | apsw.NotADBError)
        if damaged:
            self.throw_away()
        return damaged

    def _open(self) -> "apsw.Connection":
        import apsw

        if self._connection is not None:
            return self._connection
        if self.read_only:
            self._connection = self._copy()
            return self._connection
        durable.make_folder(self.path.parent)
        connection = apsw.Connection(str(self.path))
        try:
            connection.set_busy_timeout(BUSY_MS)
            # No fsync: a power cut damages the file at worst, and then it is rebuilt.
            connection.execute("PRAGMA synchronous=OFF")
            if not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall():
                os.chmod(self.path, 0o600)
                # Together with its version: without it another process would delete the file.
                with transaction(connection):
                    self._prepare(connection)
                    connection.execute(f"PRAGMA user_version={self.version}")
            elif connection.pragma("user_version") == self.version:
                self._prepare(connection)
            else:
                raise apsw.NotADBError("another version of kode wrote it")
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _copy(self) -> "apsw.Connection":
        """The whole file in memory; an empty one if it cannot be used."""
        import apsw

        connection = apsw.Connection(":memory:")
        with suppress(apsw.Error):
            with closing(apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)) as file:
                found = file.execute("PRAGMA quick_check(1)").fetchall()
                if found == [("ok",)] and file.pragma("user_version") == self.version:
                    connection.deserialize("main", file.serialize("main"))
        self._prepare(connection)
        return connection


@contextmanager
def transaction(connection: "apsw.Connection") -> Iterator[None]:
    """Runs the block in a transaction."""
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


class VectorCache:
    """Vectors by content hash in one SQLite file per space, shared by processes.

    An unreadable file is deleted; a failed write costs another request later.
    """

    def __init__(self, folder: Path, space: str) -> None:
        digest = hashlib.blake2b(space.encode(), digest_size=8).hexdigest()
        self.path = folder / f"vectors-{digest}.sqlite"
        self._file = CacheFile(self.path, _prepare, version=0)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, "NDArray[np.float32]"]:
        """The cached vectors, by key."""
        import numpy as np

        if not self.path.exists():
            return {}
        sql = (
            "SELECT v.key, v.checksum, v.vector FROM json_each(?) j "
            "CROSS JOIN vectors v ON v.key = unhex(j.value)"
        )
        asked = json.dumps([key.hex() for key in keys])
        rows = self._file.read(lambda: self._file.rows(sql, (asked,))) or []
        self._file.close()
        if any(zlib.crc32(data) != checksum or len(data) % 4 for _, checksum, data in rows):
            self._file.throw_away()
            return {}
        return {key: np.frombuffer(data, dtype="<f4") for key, _, data in rows}

    def put(self, vectors: dict[bytes, "NDArray[np.float32]"]) -> None:
        """Adds vectors; none if the disk fails."""

        def put_all() -> None:
            for key, vector in vectors.items():
                data = vector.astype("<f4").tobytes()
                sql = "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)"
                self._file.rows(sql, (key, zlib.crc32(data), data))

        with suppress(StorageError):
            self._file.change(put_all)
        self._file.close()


def _prepare(connection: "apsw.Connection") -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, checksum INTEGER NOT NULL, "
        "vector BLOB NOT NULL) WITHOUT ROWID"
    )
