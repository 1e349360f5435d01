"""Gets one reply of the model, with retries after transient faults.

The provider makes single attempts; the retry policy is here and nowhere else.
"""

import asyncio
import random
import time
from itertools import count

from kode.errors import LOADING_PAUSE_S, MAX_LOADING_S, TransientError, Unavailable
from kode.events import Emit, Event, RetryScheduled, TextDelta, loading_notice
from kode.messages import Message, ServerItem, plural
from kode.provider import Provider, Request
from kode.session.entries import TaintEntry
from kode.session.log import Session

FIRST_DELAY_S = 0.5  # as the SDKs of OpenAI and Anthropic begin
MAX_DELAY_S = 30.0  # an overloaded server needs half a minute between tries
MAX_RETRY_AFTER_S = 120.0
"""A server that asks for a longer pause is reported, not waited for."""
_UNITS = (("days", 86_400), ("hours", 3_600), ("minutes", 60))


def note_search(session: Session, message: Message) -> None:
    """Marks a session whose reply has what a search of the vendor found. Raises: StorageError."""
    if any(isinstance(part, ServerItem) and part.text for part in message.parts):
        session.append(TaintEntry(source="a web search of the model's vendor"))


async def ask(
    provider: Provider,
    request: Request,
    emit: Emit,
    max_attempts: int,
    streamed: list[str] | None = None,
) -> Message:
    """Returns a complete message after at most `max_attempts` attempts with backoff and jitter.
    `streamed` holds the text that the last one has streamed, also if it fails.

    Raises: ProviderError (Unavailable after the last attempt, with that text; all but transient
        faults at once), asyncio.CancelledError.
    """
    texts: list[str] = [] if streamed is None else streamed

    def hear(event: Event) -> None:
        if isinstance(event, TextDelta):
            texts.append(event.text)
        emit(event)

    for attempt in count(1):
        texts.clear()
        try:
            return await _loaded_reply(provider, request, hear)
        except TransientError as error:
            delay_s = _delay_s(attempt, error.retry_after_s)
            advice = ""
            if attempt == max_attempts:
                advice = f"Tried {plural(attempt, 'time')}. Send it again later."
            elif delay_s > MAX_RETRY_AFTER_S:
                pause = _describe_pause(delay_s)
                advice = f"The server asks to wait {pause} before the next request. Send it again "
                advice += "then."
            if advice:
                fault = _unavailable(error, advice)
                fault.partial = "".join(texts)
                raise fault from error
            emit(
                RetryScheduled(
                    attempt=attempt,
                    max_attempts=max_attempts,
                    delay_s=round(delay_s, 2),
                    reason=str(error),
                    discards_text=bool(texts),
                )
            )
            await asyncio.sleep(delay_s)
    raise AssertionError("unreachable: the last attempt returns or raises")


async def _loaded_reply(provider: Provider, request: Request, emit: Emit) -> Message:
    """Makes one attempt, and more as long as the server says that it is loading its model. Raises:
    as `Provider.reply`; Unavailable if it loads for too long."""
    ends_at, is_announced = time.monotonic() + MAX_LOADING_S, False
    while True:
        try:
            return await provider.reply(request, emit)
        except TransientError as error:
            if not error.loading:
                raise
            if time.monotonic() > ends_at:
                advice = f"It has been loading for {MAX_LOADING_S / 60:g} minutes. Check the "
                advice += "server's log, and send it again when the server is ready."
                raise _unavailable(error, advice) from error
        if not is_announced:
            is_announced = True
            emit(loading_notice(provider.model))
        await asyncio.sleep(LOADING_PAUSE_S)


def _unavailable(error: TransientError, advice: str) -> Unavailable:
    reason = str(error.args[0])
    fault = Unavailable(f"{reason} {advice}", reason=reason, status=error.status)
    return fault.about(error.setting)


def _describe_pause(seconds: float) -> str:
    """A pause in the largest unit of which it has several: `150 s`, `40 minutes`, `3 hours`; no
    figure that means nothing."""
    if seconds > 1000 * 86_400:
        return "for years"
    for unit, size in _UNITS:
        if seconds >= 3 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _delay_s(attempt: int, retry_after_s: float | None) -> float:
    """Doubling pauses with ±25% jitter, so that many clients do not retry at once; at least what
    the server asks for."""
    backoff = min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** (attempt - 1)) * random.uniform(0.75, 1.25)
    return max(float(backoff), retry_after_s or 0.0)
