"""How fast a server answers, by the replies that this process has had from it.

A token that is read costs a fraction of one that is written, on graphics cards and on processors
alike; the fraction here only has to be right within a factor of a few, since what is made of it is
a limit of patience.
"""

import statistics
from collections import deque
from dataclasses import dataclass, field

from kode.messages import Usage

READ_SHARE = 0.1
"""What reading a token takes of the time of writing one."""
REPLIES = 5
"""So many of the last replies count; of their paces the middle one, so that a single long wait in
between says nothing."""


@dataclass
class Pace:
    """Of one model in this process."""

    rates: deque[float] = field(default_factory=lambda: deque(maxlen=REPLIES))
    """Written tokens a second, of each reply."""

    def note(self, usage: Usage | None, seconds: float) -> None:
        """A reply has come after so many seconds."""
        if usage is not None and usage.output_tokens and seconds > 0:
            read = usage.input_tokens - usage.cached_tokens
            self.rates.append(_work(read, usage.output_tokens) / seconds)

    def expected_s(self, input_tokens: int, output_tokens: int) -> float:
        """How long a reply of these sizes takes; 0.0 where none has been seen."""
        if not self.rates:
            return 0.0
        return _work(input_tokens, output_tokens) / statistics.median(self.rates)


def _work(read: int, written: int) -> float:
    return written + read * READ_SHARE
