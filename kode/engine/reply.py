"""Gets one reply of the model, with retries after transient faults.

The provider makes single attempts; the retry policy is here and nowhere else.
"""

import asyncio
import random
import time
from collections.abc import Callable

from kode.errors import (
    LOADING_PAUSE_S,
    MAX_LOADING_S,
    ContextOverflow,
    ProviderError,
    TransientError,
    Unavailable,
)
from kode.events import Emit, Event, RetryScheduled, TextDelta, loading_notice
from kode.messages import Message, ServerItem, plural
from kode.provider import Provider, Request
from kode.session.entries import TaintEntry
from kode.session.log import Session

FIRST_DELAY_S = 0.5  # as the SDKs of OpenAI and Anthropic begin
MAX_DELAY_S = 30.0  # an overloaded server needs half a minute between tries
MAX_RETRY_AFTER_S = 120.0
"""A server that asks for a longer pause is reported, not waited for."""


def note_search(session: Session, message: Message) -> None:
    """Marks a session whose reply has what a search of the vendor found. Raises: StorageError."""
    if any(isinstance(part, ServerItem) and part.text for part in message.parts):
        session.append(TaintEntry(source="a web search of the model's vendor"))


async def ask(
    provider: Provider,
    request: Request,
    emit: Emit,
    max_attempts: int,
    broke_off: Callable[[str], object] = str,
) -> Message:
    """Returns a complete message after at most `max_attempts` attempts with backoff and jitter. If
    none completes, `broke_off` gets the streamed text of the last one, unless the request was too
    large.

    Raises: ProviderError (ContextOverflow, RefusedError and AuthenticationError at once,
        Unavailable after the last attempt, with that text), asyncio.CancelledError.
    """
    streamed: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, TextDelta):
            streamed.append(event.text)
        emit(event)

    try:
        for attempt in range(1, max_attempts + 1):
            streamed.clear()
            try:
                return await _loaded_reply(provider, request, hear)
            except TransientError as error:
                delay_s = _delay_s(attempt, error.retry_after_s)
                _give_up(error, attempt, max_attempts, delay_s)
                emit(
                    RetryScheduled(
                        attempt=attempt,
                        max_attempts=max_attempts,
                        delay_s=round(delay_s, 2),
                        reason=str(error),
                        discards_text=bool(streamed),
                    )
                )
                await asyncio.sleep(delay_s)
    except ContextOverflow:
        raise
    except Unavailable as error:
        error.partial = "".join(streamed)
        raise
    except (asyncio.CancelledError, ProviderError):
        broke_off("".join(streamed))
        raise
    raise AssertionError("unreachable: the last attempt returns or raises")


async def _loaded_reply(provider: Provider, request: Request, emit: Emit) -> Message:
    """Makes one attempt, and more as long as the server says that it is loading its model.

    Raises: as `Provider.reply`; Unavailable if it loads for too long.
    """
    ends_at = time.monotonic() + MAX_LOADING_S
    said = False
    while True:
        try:
            return await provider.reply(request, emit)
        except TransientError as error:
            if not error.loading:
                raise
            if time.monotonic() > ends_at:
                raise Unavailable(
                    f"{error} It has been loading for {MAX_LOADING_S / 60:g} minutes. Check the "
                    "server's log, and send it again when the server is ready.",
                    reason=str(error),
                    status=error.status,
                ) from error
        if not said:
            said = True
            emit(loading_notice(provider.model))
        await asyncio.sleep(LOADING_PAUSE_S)


def _give_up(error: TransientError, attempt: int, max_attempts: int, delay_s: float) -> None:
    """Raises: Unavailable if another attempt makes no sense."""
    if attempt == max_attempts:
        advice = f"Tried {plural(attempt, 'time')}. Send it again later."
    elif delay_s > MAX_RETRY_AFTER_S:
        advice = (
            f"The server asks to wait {_long(delay_s)} before the next request. Send it again then."
        )
    else:
        return
    text = f"{error.args[0]} {advice}"
    raise Unavailable(text, reason=str(error.args[0]), status=error.status).about(
        error.setting
    ) from error


def _long(seconds: float) -> str:
    """A pause in the most readable unit: `150 s`, `40 minutes`, `3 hours`."""
    if seconds < 300:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} minutes"
    if seconds < 2 * 86400:
        return f"{seconds / 3600:.0f} hours"
    days = seconds / 86400
    return f"{days:.0f} days" if days < 1000 else "for years"


def _delay_s(attempt: int, retry_after_s: float | None) -> float:
    """Doubling pauses with ±25% jitter, so that many clients do not retry at once; at least what
    the server asks for."""
    backoff: float = min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** (attempt - 1)) * random.uniform(
        0.75, 1.25
    )
    return max(backoff, retry_after_s or 0.0)
