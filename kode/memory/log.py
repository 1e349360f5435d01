"""The log of memory, `history.jsonl`: the only place that says what is true.

Each line is a checksum and the JSON of one change. Lines are only appended; `erase` and `mend`,
which rewrite the file, need the lock of the memory folder, as every append of a store has it. A
line that cannot be read is skipped and counted.
"""

import json
import os
import zlib
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kode import durable
from kode.credentials import redact, redact_values
from kode.memory.statement import Change, Statement, change_from, to_row

ERASED = "(erased)"
"""Takes the place of a text that a person erased."""


@dataclass(frozen=True, kw_only=True)
class Damage:
    """What happened to the log since kode wrote it."""

    unreadable: int = 0
    """The number of lines that cannot be read."""
    cut_bytes: int = 0
    """How many bytes are gone from its end."""

    def __bool__(self) -> bool:
        return bool(self.unreadable or self.cut_bytes)

    def __str__(self) -> str:
        parts = [f"{self.unreadable} of its lines cannot be read"] if self.unreadable else []
        parts += [f"{self.cut_bytes:,} bytes are gone from its end"] if self.cut_bytes else []
        return " and ".join(parts)


class Log:
    """The changes of one memory folder, of every system. Reads the file once, then only what is new
    at its end. Methods raise StorageError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._changes: list[Change] = []
        self._by_id: dict[str, Change] = {}
        self._bad_lines: list[bytes] = []
        self._position = 0
        self._inode = 0
        self._last_line = b""

    def changes(self) -> Sequence[Change]:
        """Every change so far, oldest first, each once."""
        self._read_on()
        return self._changes

    def change(self, id: str) -> Change | None:
        """The change with this id."""
        self._read_on()
        return self._by_id.get(id)

    def append(self, changes: Sequence[Change]) -> list[Change]:
        """Appends changes durably, with one sync, and returns them as written: with credentials
        masked."""
        masked = [_mask(change) for change in changes]
        durable.make_folder(self.path.parent)
        durable.append_lines(self.path, [_line(change) for change in masked], note_end=True)
        return masked

    def damage(self) -> Damage:
        """What is damaged; false for nothing. Lines that the file has twice are no damage: they
        count once."""
        cut_bytes = durable.lost_bytes(self.path)
        self._read_on()
        return Damage(unreadable=len(self._bad_lines), cut_bytes=cut_bytes)

    def mend(self) -> Path | None:
        """Rewrites the file without its unreadable lines, which stay in a file beside it; returns
        that. The caller holds the folder's lock."""
        self._read_on()
        if not self._bad_lines:
            return None
        aside = durable.keep_aside(self.path, b"\n".join(self._bad_lines) + b"\n")
        with durable.storage_errors(self.path, "read"):
            lines = self.path.read_bytes()[: self._position].split(b"\n")
        self._rewrite([line for line in lines if _read(line)])
        return aside

    def erase(self, ids: Collection[str]) -> None:
        """Blanks the texts and quotations of these statements wherever the log has them. The caller
        holds the folder's lock."""
        self._rewrite([_line(_without_texts(change, ids)) for change in self.changes()])

    def _rewrite(self, lines: Sequence[bytes]) -> None:
        data = b"".join(line + b"\n" for line in lines)
        durable.replace(self.path, data)
        durable.note_length(self.path, len(data))
        self._forget()

    def _forget(self) -> None:
        self._changes, self._by_id, self._bad_lines = [], {}, []
        self._position, self._last_line = 0, b""

    def _read_on(self) -> None:
        with durable.storage_errors(self.path, "read"), suppress(FileNotFoundError):
            with open(self.path, "rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._inode or not self._continues(file.fileno()):
                    self._forget()
                self._inode = status.st_ino
                if status.st_size <= self._position:
                    return
                file.seek(self._position)
                data = file.read()
            self._take(data[: data.rfind(b"\n") + 1])  # a line that is being written comes later
            return
        self._forget()

    def _continues(self, descriptor: int) -> bool:
        """Whether the file still has the line that was read last where it was."""
        start = self._position - len(self._last_line)
        return os.pread(descriptor, len(self._last_line), start) == self._last_line

    def _take(self, data: bytes) -> None:
        for line in data.split(b"\n"):
            if not line.strip():
                continue
            change = _read(line)
            if change is None:
                self._bad_lines.append(line)
            elif change.id not in self._by_id:
                self._by_id[change.id] = change
                self._changes.append(change)
        self._position += len(data)
        if data:
            self._last_line = data[data.rfind(b"\n", 0, len(data) - 1) + 1 :]


def _line(change: Change) -> bytes:
    row = json.dumps(to_row(change), ensure_ascii=False, separators=(",", ":"))
    data = row.encode(errors="replace")
    return b"%08x %s" % (zlib.crc32(data), data)


def _read(line: bytes) -> Change | None:
    checksum, _, data = line.rstrip(b"\r").partition(b" ")
    try:
        return change_from(data) if int(checksum, 16) == zlib.crc32(data) else None
    except ValueError:
        return None


def _mask(change: Change) -> Change:
    masked = tuple(
        replace(
            new,
            text=redact(new.text),
            quote=redact(new.quote),
            source=redact(new.source),
            details=redact_values(dict(new.details)),
        )
        for new in change.add
    )
    is_redacted = change.redacted or masked != change.add
    return replace(change, add=masked, reason=redact(change.reason), redacted=is_redacted)


def _without_texts(change: Change, ids: Collection[str]) -> Change:
    def erased(statement: Statement) -> Statement:
        if statement.id not in ids:
            return statement
        return replace(statement, text=ERASED, quote="", details={})

    add = tuple(map(erased, change.add))
    return change if add == change.add else replace(change, add=add, redacted=True)
