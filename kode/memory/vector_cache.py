"""Vectors of a server by the content of their texts, so that none is asked for twice. A cache: it
may be thrown away at any time.
"""

import hashlib
import json
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kode.errors import StorageError
from kode.memory.cache import CacheFile

if TYPE_CHECKING:
    import apsw
    import numpy as np
    from numpy.typing import NDArray


class VectorCache:
    """Vectors by content hash in one SQLite file per space, shared by processes.

    A file that cannot be read is thrown away, a write that fails costs a request the next time.
    """

    def __init__(self, folder: Path, space: str) -> None:
        digest = hashlib.blake2b(space.encode(), digest_size=8).hexdigest()
        self.path = folder / f"vectors-{digest}.sqlite"
        self._file = CacheFile(self.path, _prepare, version=0)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, "NDArray[np.float32]"]:
        """The vectors that are there, by key."""
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
        """Adds vectors; none of them where the disk refuses."""

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
