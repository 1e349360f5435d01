"""Lines of JSON that tell when they have been damaged, and a file of them that several processes
append to and read.

The last member of each object, `sum`, is the CRC-32 of the line without it; whoever edits a line by
hand leaves it out. A file that is one object has its `sum` over all its members, in any layout.
"""

import contextlib
import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from kode import durable

_SUM = re.compile(rb',"sum":"([0-9a-f]{8})"}\s*$')
"""Unescaped quotes: no string inside the object can look like it."""


def seal(line: bytes) -> bytes:
    """A line, one JSON object with at least one member, with its checksum."""
    return b'%s,"sum":"%08x"}' % (line[:-1], zlib.crc32(line))


def is_intact(line: bytes) -> bool:
    """Whether a line is as it was sealed; one without a checksum, written by hand, is."""
    match = _SUM.search(line)
    return match is None or zlib.crc32(line[: match.start()] + b"}") == int(match[1], 16)


def seal_object(value: Mapping[str, Any]) -> dict[str, Any]:
    """An object that becomes a file, with its checksum."""
    return {**value, "sum": f"{zlib.crc32(json.dumps(value, sort_keys=True).encode()):08x}"}


def unseal_object(value: Mapping[str, Any]) -> dict[str, Any]:
    """The object without its checksum, if it has one. Raises: ValueError if that is wrong."""
    content = {key: item for key, item in value.items() if key != "sum"}
    if "sum" in value and value != seal_object(content):
        raise ValueError("its checksum does not fit")
    return content


class RecordLog:
    """The log in one file, as far as this object has read it. Each line is unlike every other. What
    was damaged is counted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0
        """How many lines cannot be read."""
        self.duplicates = 0
        """How many lines were there before; they count once."""
        self.lost_bytes = 0
        """How many bytes of its end are missing."""
        self._read_to = 0
        self._hashes: set[int] = set()
        self._locked: IO[bytes] | None = None

    def read(self) -> Iterator[bytes]:
        """The whole lines that are new. What follows the last line feed is still being written, or
        was cut off by a crash. Raises: StorageError."""
        noted = durable.noted_length(self.path)
        size, data = 0, b""
        with durable.storage_errors(self.path, "read"), contextlib.suppress(FileNotFoundError):
            with self.path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                data = os.pread(file.fileno(), max(0, size - self._read_to), self._read_to)
        self.lost_bytes = max(0, noted - size)
        lines_read = data[: data.rfind(b"\n") + 1]
        self._read_to += len(lines_read)
        for line in lines_read.splitlines():
            if not is_intact(line):
                self.damaged += 1
            elif hash(line) in self._hashes:
                self.duplicates += 1
            else:
                self._hashes.add(hash(line))
                yield line

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the file's lock for `append`, creating the file if missing. Raises:
        StorageError."""
        with durable.locked_log(self.path) as self._locked:
            try:
                yield
            finally:
                self._locked = None

    def append(self, line: bytes) -> None:
        """Appends one JSON object, without a line feed, durably. Raises: OSError."""
        assert self._locked is not None
        lost = durable.lost_bytes(self.path)
        # Not sealed, and no record to any reader: it counts as damaged from then on.
        loss = [b'{"lost_bytes":%d}' % lost] if lost else []
        lines = b"\n".join([*loss, seal(line)])
        durable.append_to(self._locked, lines, self.path)
