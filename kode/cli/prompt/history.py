"""The input history: one file for all sessions, also of several kodes at the same time.

An entry is appended in full, under a lock. Entries that begin with a space are not stored, those
that look like a credential are masked, and a file that grows too long loses its oldest half. The
format is prompt_toolkit's.
"""

import contextlib
import fcntl
import os
import time
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from kode import durable
from kode.errors import StorageError

MAX_BYTES = 2_000_000  # years of prompts


class SharedHistory(FileHistory):
    """Typed messages, newest last. Other processes append to the same file."""

    def append_string(self, string: str) -> None:
        """Stores one message, unless it begins with a space or repeats the last one."""
        if string.startswith((" ", "\t")) or string == next(iter(self._loaded_strings), None):
            return
        super().append_string(string)

    def store_string(self, string: str) -> None:
        """Appends one message; if the file cannot be written, the message is not lost."""
        from kode.credentials import redact

        lines = "".join(f"+{line}\n" for line in redact(string).split("\n"))
        entry = f"\n# {time.strftime('%Y-%m-%d %H:%M:%S')}\n{lines}"
        with contextlib.suppress(OSError):
            _append(Path(os.fsdecode(self.filename)), entry.encode("utf-8", "replace"))


def open_history(path: Path) -> History:
    """The history shared by all sessions, readable by its owner alone; in memory only if the file
    cannot be written."""
    try:
        durable.make_folder(path.parent)
        descriptor = _open(path)
        try:
            os.fchmod(descriptor, 0o600)
            if os.fstat(descriptor).st_size > MAX_BYTES:
                _shorten(path, descriptor)
        finally:
            os.close(descriptor)
    except (OSError, StorageError):
        return InMemoryHistory()
    return SharedHistory(str(path))


def _open(path: Path) -> int:
    """Opens the file for appending and locks it; closing releases it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # By identity, not by name: links may lead to the home.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        # Another kode has shortened the file while this one waited for the lock.
        os.close(descriptor)


def _append(path: Path, entry: bytes) -> None:
    descriptor = _open(path)
    try:
        data = memoryview(entry)
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)


def _shorten(path: Path, descriptor: int) -> None:
    """Keeps the newest half, from the beginning of an entry on. The caller holds the lock."""
    size = os.fstat(descriptor).st_size
    newest = os.pread(descriptor, MAX_BYTES // 2, size - MAX_BYTES // 2)
    durable.replace(path, newest[max(newest.find(b"\n# "), 0) :])
