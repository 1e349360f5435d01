"""How long a child may work: its time limit counts what it does, not what it waits for.

The child and its parent each run one, from the same events.
"""

import math
import time
from dataclasses import dataclass, field

LONGEST_REPLY_S = 1_800.0
"""A wait for one reply counts from here on: a child that hangs must end."""


@dataclass
class Clock:
    """The time that is left."""

    left_s: float
    ends_at: float = math.inf
    """When it is over, whatever was waited for, by `time.monotonic`: the end of the parent's
    turn."""
    counted_at: float = field(default_factory=time.monotonic)
    """Until when the time has been counted."""
    asked_at: float | None = None
    """Since when the model is working on a reply; None: it is not."""

    def hear(self, event: str) -> None:
        """Takes the type of one of the child's events."""
        self.is_over()
        if event in ("step_started", "retry_scheduled"):
            self.asked_at = time.monotonic()
        elif event in ("replied", "tool_started"):
            self.asked_at = None

    def is_over(self, *, waits: bool = False) -> bool:
        """Counts the time since the last call, unless it was waited for the model or, with `waits`,
        for the person."""
        now = time.monotonic()
        asks = self.asked_at is not None and now - self.asked_at < LONGEST_REPLY_S
        if not (waits or asks):
            self.left_s -= now - self.counted_at
        self.counted_at = now
        return self.left_s <= 0 or now >= self.ends_at
