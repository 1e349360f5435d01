"""In which order the sessions of a home were used: a list of ids, one a line, the last used at the
end. A session is added when it begins and with every task it gets, so that a clock that is wrong,
or set back, changes nothing.

The list decides an order and nothing else: a session that is not in it (copied here by
hand) has the time of its file. So have all of them while the list is damaged.
"""

import contextlib
import fcntl
import os
import re
import zlib
from pathlib import Path

from kode import durable
from kode.errors import StorageError

NAME = "order"
"""Of the list, in the folder of the sessions."""

_LINE = re.compile(rb"([0-9a-f-]{22}) ([0-9a-f]{8})")
"""An id and its CRC-32."""


def add(folder: Path, session_id: str) -> None:
    """Notes that a session of this folder is the last used, unless it was already. Never raises,
    and is not synced: where it cannot be noted the times of the files decide."""
    path = folder / NAME
    if durable.lost_bytes(path):
        set_aside(folder)
    # The line feed before it ends a line that a crash has torn.
    line = b"\n%s %08x\n" % (session_id.encode(), zlib.crc32(session_id.encode()))
    with contextlib.suppress(OSError), durable.open_for_append(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = os.fstat(file.fileno()).st_size
        if os.pread(file.fileno(), len(line), max(0, size - len(line))) != line:
            os.write(file.fileno(), line)
            durable.note_length(path, size + len(line))


def ranks(folder: Path) -> dict[str, int]:
    """Session id → its place in the list: the higher, the later used. Empty for a list that is
    damaged: what was used since the damage would be taken for older than all else in it."""
    return {session_id: place for place, session_id in enumerate(_ids(folder) or ())}


def is_damaged(folder: Path) -> bool:
    """Whether lines of the list are lost or changed."""
    return _ids(folder) is None


def set_aside(folder: Path) -> str:
    """Lets a new list begin; returns the name of what is left of the damaged one, "" if that is
    nothing, or cannot be moved."""
    durable.forget_length(folder / NAME)
    with contextlib.suppress(StorageError):
        return durable.set_aside(folder / NAME).name
    return ""


def _ids(folder: Path) -> list[str] | None:
    """The ids in the list; None if it is damaged."""
    noted, data = durable.noted_length(folder / NAME), b""
    with contextlib.suppress(OSError):
        data = (folder / NAME).read_bytes()
    matches = [_LINE.fullmatch(line) for line in data.splitlines() if line]
    ids = [m[1].decode() for m in matches if m and int(m[2], 16) == zlib.crc32(m[1])]
    return ids if len(ids) == len(matches) and len(data) >= noted else None
