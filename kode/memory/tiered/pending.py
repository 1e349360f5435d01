"""Sessions whose episode is still to be made: the raw material, on disk until that is done.

A lease keeps two processes from working on the same one. Not here: the work itself.
"""

import time
from dataclasses import dataclass, replace

from kode.memory.stored import WaitingFolder

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

    @property
    def id(self) -> str:
        return self.session_id


class PendingFolder(WaitingFolder[Pending]):
    """`episodes/pending/`. Who changes it holds the episodes' lock."""

    kind = Pending

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
