"""A file of JSON lines that several processes append to and read.

Each line has a checksum and is unlike every other, and is written under the file's lock. What a
crash, a disk or a person has damaged is counted, so that a loss is never forgotten.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from kode import durable, sealed


class RecordLog:
    """The log in one file, as far as this object has read it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0
        """How many lines cannot be read or are duplicates."""
        self.lost_bytes = 0
        """How many bytes of its end are missing."""
        self._read_to = 0
        self._hashes: set[int] = set()
        self._locked: IO[bytes] | None = None

    def read(self) -> list[bytes]:
        """The whole lines that are new. What follows the last line feed is still being written, or
        was cut off by a crash. Raises: StorageError."""
        noted = durable.noted_length(self.path)
        size, data = 0, b""
        with durable.storage_errors(self.path, "read"), contextlib.suppress(FileNotFoundError):
            with self.path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                data = os.pread(file.fileno(), max(0, size - self._read_to), self._read_to)
        self.lost_bytes = max(0, noted - size)
        whole = data[: data.rfind(b"\n") + 1]
        self._read_to += len(whole)
        lines = []
        for line in whole.splitlines():
            if sealed.is_intact(line) and hash(line) not in self._hashes:
                self._hashes.add(hash(line))
                lines.append(line)
            else:
                self.damaged += 1
        return lines

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the file's lock, under which `append` works; creates the file if it is missing.
        Raises: StorageError."""
        with (
            durable.storage_errors(self.path, "append to"),
            durable.open_for_append(self.path) as file,
        ):
            fcntl.flock(file, fcntl.LOCK_EX)
            self._locked = file
            try:
                yield
            finally:
                self._locked = None
                durable.unlock(file)

    def append(self, line: bytes) -> None:
        """Appends one JSON object, without a line feed, durably. Raises: OSError."""
        assert self._locked is not None
        # Not sealed, and no record to any reader: it counts as damaged from then on.
        loss = [b'{"lost_bytes":%d}' % self.lost_bytes] if self.lost_bytes else []
        lines = b"\n".join([*loss, sealed.seal(line)])
        durable.append_to(self._locked, lines, self.path, note_end=True)
