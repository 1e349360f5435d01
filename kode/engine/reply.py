"""One reply of the model: asked, retried after passing faults, and once more after an overflow.

The provider makes single attempts; the policy of asking again is here and nowhere else.
"""

import asyncio
import random

from kode.contracts import Provider, Request
from kode.errors import ProviderError, TransientError
from kode.events import Emit, Event, RetryScheduled, TextDelta
from kode.messages import Message

FIRST_DELAY_S = 0.5
MAX_DELAY_S = 30.0
MAX_RETRY_AFTER_S = 120.0
"""A server that asks for a longer pause is reported instead of waited for."""


class Partial:
    """The text of a reply as it streams, for the case that it never becomes a whole message."""

    def __init__(self, emit: Emit) -> None:
        self.emit_onward = emit
        self.pieces: list[str] = []

    def emit(self, event: Event) -> None:
        """Notes text and passes every event on."""
        if isinstance(event, TextDelta):
            self.pieces.append(event.text)
        self.emit_onward(event)

    @property
    def text(self) -> str:
        return "".join(self.pieces)


async def ask(provider: Provider, request: Request, partial: Partial, max_attempts: int) -> Message:
    """A whole message, after at most `max_attempts` attempts with backoff and jitter.

    `partial` holds the text of the last attempt when this raises.

    Raises: ProviderError (OverflowError_, RefusedError and AuthenticationError at once,
        TransientError after the last attempt), asyncio.CancelledError.
    """
    for attempt in range(1, max_attempts + 1):
        partial.pieces.clear()
        try:
            return await provider.reply(request, partial.emit)
        except TransientError as error:
            delay_s = _delay_s(attempt, error.retry_after_s)
            if attempt == max_attempts:
                raise ProviderError(
                    f"{error} Tried {attempt} times; send it again, or later `kode continue`.",
                    status=error.status,
                ) from error
            if delay_s > MAX_RETRY_AFTER_S:
                raise ProviderError(
                    f"{error} The server asks to wait {_long(delay_s)} before the next request; "
                    "go on then with `kode continue`.",
                    status=error.status,
                ) from error
            partial.emit_onward(
                RetryScheduled(
                    attempt=attempt,
                    max_attempts=max_attempts,
                    delay_s=round(delay_s, 2),
                    reason=str(error),
                    discards_text=bool(partial.pieces),
                )
            )
            await asyncio.sleep(delay_s)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _long(seconds: float) -> str:
    """A pause in the unit that says most: `150 s`, `40 minutes`, `3 hours`."""
    if seconds < 300:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} minutes"
    if seconds < 2 * 86400:
        return f"{seconds / 3600:.0f} hours"
    days = seconds / 86400
    return f"{days:.0f} days" if days < 1000 else "for years"


def _delay_s(attempt: int, retry_after_s: float | None) -> float:
    """Doubling pauses with ±25% jitter, so that many clients do not come back at once; what the
    server asks for is a lower bound."""
    backoff: float = min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** (attempt - 1)) * random.uniform(
        0.75, 1.25
    )
    return max(backoff, retry_after_s or 0.0)
