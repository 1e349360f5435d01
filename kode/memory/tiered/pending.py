"""Sessions whose episode is still to be made: the raw material, on disk until that is done.

Written before the model is asked, so that a crash, a time limit or Ctrl-C leaves it for the next
start. A lease keeps two processes from working on the same one. Not here: the work itself.
"""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kode import credentials, durable
from kode.memory.stored import read_row
from kode.memory.tiered.episode_files import valid_id

LONGEST_CLAIM_S = 3_600.0


@dataclass(frozen=True, kw_only=True)
class Pending:
    session_id: str
    turns: int
    at: str
    """When the session ended, ISO, UTC."""
    tainted: bool
    transcript: str
    """Bounded, without credentials."""
    project: str = ""
    """The path hash of the project that the session was in."""
    attempts: int = 0
    """How often a model was asked, or was about to be: counted beforehand, so that one which is
    cut off each time is not asked for ever."""
    answer: str = ""
    """What the model answered, without credentials: it is paid for, whatever comes next."""
    claimed_until: float = 0.0
    """Seconds since the epoch; before that it belongs to whoever claimed it."""


class PendingFolder:
    """`episodes/pending/`, one JSON file a session. Who changes it holds the episodes' lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, pending: Pending) -> None:
        """Raises: StorageError."""
        durable.make_folder(self.folder)
        masked = {
            name: credentials.redact(getattr(pending, name)) for name in ("transcript", "answer")
        }
        row = {**asdict(pending), **masked}
        data = json.dumps(row, ensure_ascii=False).encode(errors="replace")
        durable.replace(self._path(pending.session_id), data)

    def read(self, session_id: str) -> Pending | None:
        """None when there is none, or it cannot be read."""
        try:
            pending = read_row(Pending, self._path(session_id).read_bytes())
        except OSError:
            return None
        return pending if pending is not None and pending.session_id == session_id else None

    def set_aside_damaged(self) -> list[Path]:
        """Moves what cannot be read out of the way, and says where. Raises: StorageError."""
        paths = [self._path(id) for id in self.session_ids() if self.read(id) is None]
        return [durable.set_aside(path) for path in paths if path.exists()]

    def claim(self, session_id: str, *, lease_s: float) -> Pending | None:
        """Takes one for `lease_s` and counts the attempt; None when it is gone, damaged or
        another's. Under the lock. Raises: StorageError.
        """
        pending = self.read(session_id)
        now = time.time()
        # A claim for longer than anybody makes one was made when the clock was ahead.
        if pending is None or now < pending.claimed_until < now + LONGEST_CLAIM_S:
            return None
        claimed = replace(pending, claimed_until=now + lease_s, attempts=pending.attempts + 1)
        self.write(claimed)
        return claimed

    def release(self, session_id: str) -> None:
        """Gives a claimed one back as far as it came. Under the lock; raises StorageError."""
        pending = self.read(session_id)
        if pending is not None:
            self.write(replace(pending, claimed_until=0.0))

    def remove(self, session_id: str) -> None:
        """Raises: StorageError."""
        durable.remove(self._path(session_id))

    def session_ids(self) -> Iterator[str]:
        """Of all that wait, oldest session first."""
        with suppress(OSError):
            for path in sorted(self.folder.glob("*.json")):
                if valid_id(path.stem):
                    yield path.stem

    def _path(self, session_id: str) -> Path:
        return self.folder / f"{session_id}.json"
