"""How long a log has been: `NAME.end` beside it, written after each sync of the log. A log that is
shorter now has lost its end, which no line of it can tell where the cut is between two lines.

The note itself is not synced: after a power cut it may be older than the log, or gone, and then
finds less. It never says more than was on disk.
"""

import contextlib
import errno
import os
import re
import stat
import zlib
from pathlib import Path

_NOTE = re.compile(rb"(\d{20}) ([0-9a-f]{8})\n")


def note(log: Path, size_bytes: int) -> None:
    """Notes the length of a log; the caller holds its lock. Never raises."""
    digits = b"%020d" % size_bytes
    with contextlib.suppress(OSError):
        file = _open(log, os.O_RDWR | os.O_CREAT)
        try:
            os.pwrite(file, b"%s %08x\n" % (digits, zlib.crc32(digits)), 0)
        finally:
            os.close(file)


def noted(log: Path) -> int:
    """The length in bytes that a log has had; 0 where that is unknown. Read it before the log, to
    which another kode may append meanwhile."""
    try:
        file = _open(log, os.O_RDONLY)
        try:
            match = _NOTE.fullmatch(os.pread(file, 100, 0))
        finally:
            os.close(file)
    except OSError:
        return 0
    return int(match[1]) if match and zlib.crc32(match[1]) == int(match[2], 16) else 0


def lost(log: Path) -> int:
    """How many bytes of the end of a log are lost."""
    before = noted(log)
    try:
        return max(0, before - os.stat(log).st_size)
    except FileNotFoundError:
        return before
    except OSError:
        return 0


def forget(log: Path) -> None:
    """Removes the note of a log that is removed. Never raises."""
    with contextlib.suppress(OSError):
        os.unlink(f"{log}.end")


def _open(log: Path, flags: int) -> int:
    """The note, where it is a file: a queue from elsewhere may have a link or a pipe of its name.
    Raises: OSError."""
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = os.open(f"{log}.end", flags, 0o600)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "no file")
    return file
