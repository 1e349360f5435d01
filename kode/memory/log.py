"""The log of memory, `history.jsonl`: the only place that says what is true.

Each line is a checksum and the JSON of one change. Lines are only appended; `set_damage_aside` and
`erase`, which rewrite the file, need the lock of the memory folder, as every append of a store has
it. A line that cannot be read is skipped and counted.
"""

import json
import os
import zlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from kode import durable
from kode.credentials import redact, redact_values
from kode.memory.statement import Change, Statement, change_from, to_row

ERASED = "(erased)"
"""Takes the place of a text that a person erased."""


class Log:
    """The changes of one memory folder, of every system. Reads the file once, then only what is new
    at its end. Methods raise StorageError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._inode = 0
        self._forget()

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
        masked = [
            replace(change, add=tuple(map(_mask, change.add)), reason=redact(change.reason))
            for change in changes
        ]
        durable.make_folder(self.path.parent)
        durable.append_lines(self.path, [_line(change) for change in masked], note_end=True)
        return masked

    def damage(self) -> str:
        """What happened to the file since kode wrote it, as a part of a sentence; "" for nothing.
        Lines that it has twice are no damage: they count once."""
        cut_bytes = durable.lost_bytes(self.path)
        self._read_on()
        bad = len(self._bad_lines)
        parts = [f"{bad} of its lines cannot be read"] if bad else []
        parts += [f"{cut_bytes:,} bytes are gone from its end"] if cut_bytes else []
        return " and ".join(parts)

    def set_damage_aside(self) -> None:
        """Rewrites the file without its unreadable lines, which stay in a file beside it. The
        caller holds the folder's lock."""
        self._read_on()
        if self._bad_lines:
            durable.keep_aside(self.path, b"\n".join(self._bad_lines) + b"\n")
            with durable.storage_errors(self.path, "read"):
                lines = self.path.read_bytes()[: self._position].split(b"\n")
            self._rewrite([line for line in lines if _read(line)])

    def erase(self, ids: Collection[str]) -> None:
        """Blanks the texts and quotations of these statements wherever the log has them. The caller
        holds the folder's lock."""

        def blank(new: Statement) -> Statement:
            return replace(new, text=ERASED, quote="", details={}) if new.id in ids else new

        changes = (replace(old, add=tuple(map(blank, old.add))) for old in self.changes())
        self._rewrite([*map(_line, changes)])

    def _rewrite(self, lines: Sequence[bytes]) -> None:
        data = b"".join(line + b"\n" for line in lines)
        durable.replace(self.path, data)
        durable.note_length(self.path, len(data))
        self._forget()

    def _forget(self) -> None:
        self._changes: list[Change] = []
        self._by_id: dict[str, Change] = {}
        self._bad_lines: list[bytes] = []
        self._position, self._last_line = 0, b""

    def _read_on(self) -> None:
        """Reads what is new; all, if the file is another one, or has not the line that was read
        last where it was."""
        with durable.storage_errors(self.path, "read"):
            if not self.path.exists():
                self._forget()
                return
            with open(self.path, "rb") as file:
                inode, start = os.fstat(file.fileno()).st_ino, self._position - len(self._last_line)
                file.seek(start)
                if inode != self._inode or file.read(len(self._last_line)) != self._last_line:
                    self._forget()
                    file.seek(0)
                self._inode = inode
                lines = file.read().split(b"\n")[:-1]
        for line in lines:
            change = _read(line)
            if change is None:
                self._bad_lines += [line] if line.strip() else []
            elif change.id not in self._by_id:
                self._by_id[change.id] = change
                self._changes.append(change)
            self._last_line = line + b"\n"
            self._position += len(self._last_line)


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


def _mask(new: Statement) -> Statement:
    details = redact_values(dict(new.details))
    text, quote, source = map(redact, (new.text, new.quote, new.source))
    return replace(new, text=text, quote=quote, source=source, details=details)
