"""Measures how fast a server answers, from its replies to this process.

Reading a token costs a fraction of writing one, on GPUs and CPUs alike. The fraction used here
needs to be right only within a small factor: it sets a limit of patience.
"""

from collections import deque
from dataclasses import dataclass, field

from kode.messages import Usage

READ_SHARE = 0.1
"""Time to read a token, relative to writing one."""
REPLIES = 5
"""How many recent replies count; the median is used, so that one long wait does not matter."""


@dataclass
class Pace:
    """The pace of one model in this process."""

    rates: deque[float] = field(default_factory=lambda: deque(maxlen=REPLIES))
    """Written tokens per second, for each reply."""

    def note(self, usage: Usage | None, seconds: float) -> None:
        """Records a reply that took this many seconds."""
        if usage is not None and usage.output_tokens and seconds > 0:
            read = usage.input_tokens - usage.cached_tokens
            self.rates.append(_work(read, usage.output_tokens) / seconds)

    def expected_s(self, input_tokens: int, output_tokens: int) -> float:
        """How long a reply of these sizes should take; 0.0 before the first measurement."""
        if not self.rates:
            return 0.0
        import statistics

        return _work(input_tokens, output_tokens) / statistics.median(self.rates)


def _work(read: int, written: int) -> float:
    return written + read * READ_SHARE
