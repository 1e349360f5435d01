"""In which order the sessions of a home were used: a list of ids, one a line, the last used at the
end. A session is added when it begins and with every task it gets, so that a clock that is wrong,
or set back, changes nothing.

The list decides an order and nothing else: a session that is not in it (of an older kode, or
copied here by hand) has the times in its file.
"""

import contextlib
import fcntl
import os
from pathlib import Path

from kode import durable

NAME = "order"
"""Of the list, in the folder of the sessions."""

LONGEST_BYTES = 262_144
"""About 11,000 tasks, read in a millisecond; a longer list is rewritten with each session once."""


def add(folder: Path, session_id: str) -> None:
    """Notes that a session of this folder is the last used. Never raises, and is not synced: where
    it cannot be noted the times in the files decide."""
    path = folder / NAME
    with contextlib.suppress(OSError), durable.open_for_append(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = os.fstat(file.fileno()).st_size
        # The line feed before it ends a line that a crash has torn.
        os.write(file.fileno(), f"\n{session_id}\n".encode())
        if size > LONGEST_BYTES:
            _shorten(file.fileno(), folder)


def ranks(folder: Path) -> dict[str, int]:
    """Session id → its place in the list: the higher, the later used."""
    try:
        lines = (folder / NAME).read_bytes().split()
    except OSError:
        return {}
    return {line.decode("ascii", "replace"): place for place, line in enumerate(lines)}


def _shorten(descriptor: int, folder: Path) -> None:
    """Leaves the last place of each session that still exists. In place, under the lock: another
    kode may wait to append to this very file. Killed in between, the times in the files decide."""
    known = ranks(folder)
    kept = [
        one for one in sorted(known, key=known.__getitem__) if (folder / f"{one}.jsonl").exists()
    ]
    os.ftruncate(descriptor, 0)
    os.write(descriptor, "".join(f"{one}\n" for one in kept).encode())
