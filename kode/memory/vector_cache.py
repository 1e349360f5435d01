"""Vectors of a server by the content of their texts, so that none is asked for twice. A cache: it
may be thrown away at any time.
"""

import hashlib
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kode import durable
from kode.errors import StorageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_KEYS_AT_ONCE = 500
"""SQLite takes 999 values in a query, or more."""


class VectorCache:
    """Vectors by content hash in one SQLite file per space, shared by processes.

    A file that cannot be read is thrown away, a write that fails costs a request the next time.
    """

    def __init__(self, folder: Path, space: str) -> None:
        digest = hashlib.blake2b(space.encode(), digest_size=8).hexdigest()
        self.path = folder / f"vectors-{digest}.sqlite"

    def get(self, keys: Sequence[bytes]) -> dict[bytes, "NDArray[np.float32]"]:
        """The vectors that are there, by key."""
        import numpy as np

        if not self.path.exists():
            return {}
        try:
            with closing(self._connect()) as database:
                rows = list(_rows(database, list(dict.fromkeys(keys))))
            if any(_checksum(data) != checksum or len(data) % 4 for _, checksum, data in rows):
                raise sqlite3.DatabaseError("a vector is damaged")
        except (sqlite3.OperationalError, OSError):
            return {}
        except (sqlite3.DatabaseError, TypeError):
            self.throw_away()
            return {}
        return {bytes(key): np.frombuffer(data, dtype="<f4") for key, _, data in rows}

    def put(self, vectors: dict[bytes, "NDArray[np.float32]"]) -> None:
        """Adds vectors; when it returns they are on disk, or the disk refused and they are not."""
        rows = []
        for key, vector in vectors.items():
            data = vector.astype("<f4").tobytes()
            rows.append((key, _checksum(data), data))
        for _ in range(2):
            try:
                durable.make_folder(self.path.parent)
                with closing(self._connect()) as database, database:
                    database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
                return
            except (sqlite3.OperationalError, OSError, StorageError):
                return
            except sqlite3.DatabaseError:
                self.throw_away()

    def throw_away(self) -> None:
        """Deletes the file and what SQLite keeps beside it."""
        for suffix in ("", "-journal", "-wal", "-shm"):
            with suppress(OSError):
                os.unlink(f"{self.path}{suffix}")

    def _connect(self) -> sqlite3.Connection:
        created = not self.path.exists()
        database = sqlite3.connect(self.path, timeout=5.0)
        try:
            database.execute("PRAGMA synchronous=FULL")
            database.execute(
                "CREATE TABLE IF NOT EXISTS vectors "
                "(key BLOB PRIMARY KEY, checksum INTEGER NOT NULL, vector BLOB NOT NULL) "
                "WITHOUT ROWID"
            )
            if created:
                os.chmod(self.path, 0o600)
        except BaseException:
            database.close()
            raise
        return database


def _rows(
    database: sqlite3.Connection, keys: Sequence[bytes]
) -> Iterator[tuple[bytes, int, bytes]]:
    """Key, checksum and vector of those that are there."""
    for first in range(0, len(keys), _KEYS_AT_ONCE):
        some = keys[first : first + _KEYS_AT_ONCE]
        marks = ",".join("?" * len(some))
        yield from database.execute(
            f"SELECT key, checksum, vector FROM vectors WHERE key IN ({marks})", some
        )


def _checksum(data: bytes) -> int:
    return zlib.crc32(data)
