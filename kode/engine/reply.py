"""Gets one reply of the model, with retries after transient faults.

The provider makes single attempts; the retry policy is here and nowhere else.
"""

import asyncio
import random
import time

from kode.engine.agent import Agent
from kode.errors import LOADING_PAUSE_S, MAX_LOADING_S, TransientError, Unavailable
from kode.events import CallAnnounced, Emit, Event, RetryScheduled, TextDelta, make_loading_notice
from kode.messages import Message, ServerItem, plural
from kode.provider import Request
from kode.session.entries import TaintEntry
from kode.session.log import Session

FIRST_DELAY_S = 0.5  # as the SDKs of OpenAI and Anthropic begin
MAX_DELAY_S = 30.0  # an overloaded server needs half a minute between tries
MAX_RETRY_AFTER_S = 120.0  # a server that asks for a longer pause is reported, not waited for
_UNITS = (("days", 86_400), ("hours", 3_600), ("minutes", 60))


def mark_search(session: Session, message: Message) -> None:
    """Marks a session if a reply has results of the vendor's web search. Raises: StorageError."""
    if any(isinstance(part, ServerItem) and part.text for part in message.parts):
        session.append(TaintEntry(source="a web search of the model's vendor"))


async def ask_model(agent: Agent, request: Request, emit: Emit, streamed: list[str]) -> Message:
    """Returns a complete message after at most `retry.max_attempts` attempts with backoff and
    jitter. Sets `streamed` to the text that the last attempt streamed, even if it fails.

    Raises: ProviderError (Unavailable, with that text, after the last attempt, or if the server
        takes or demands too long a pause; other faults at once), asyncio.CancelledError.
    """

    def hear(event: Event) -> None:
        if isinstance(event, CallAnnounced):
            agent.call_announced.set()
            return
        if isinstance(event, TextDelta):
            streamed.append(event.text)
        emit(event)

    provider, max_attempts = agent.provider, agent.config.retry.max_attempts
    attempt, is_announced, loads_until = 0, False, time.monotonic() + MAX_LOADING_S
    while True:
        streamed.clear()
        try:
            return await provider.reply(request, hear)
        except TransientError as error:
            fault, advice = error, ""
        if fault.loading and time.monotonic() <= loads_until:
            if not is_announced:
                emit(make_loading_notice(provider.model))
            is_announced = True
            await asyncio.sleep(LOADING_PAUSE_S)
            continue
        attempt += 1
        backoff_s = min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** (attempt - 1))
        # Jitter, so that many clients do not retry at once.
        delay_s = max(backoff_s * random.uniform(0.75, 1.25), fault.retry_after_s or 0.0)
        if fault.loading:
            advice = (
                f"It has been loading for {MAX_LOADING_S / 60:g} minutes. Check the server's log, "
                "and send it again when the server is ready."
            )
        elif attempt == max_attempts:
            advice = f"Gave up after {plural(attempt, 'attempt')}. Try again later."
        elif delay_s > MAX_RETRY_AFTER_S:
            advice = (
                f"The server asks to wait {_describe_pause(delay_s)} before the next request. Send "
                "it again then."
            )
        if advice:
            reason, status, partial = str(fault.args[0]), fault.status, "".join(streamed)
            text = f"{reason} {advice}"
            last = Unavailable(text, reason=reason, status=status, partial=partial)
            raise last.about(fault.setting) from fault
        emit(
            RetryScheduled(
                attempt=attempt,
                max_attempts=max_attempts,
                delay_s=round(delay_s, 2),
                reason=str(fault),
                discards_text=bool(streamed),
            )
        )
        await asyncio.sleep(delay_s)


def _describe_pause(seconds: float) -> str:
    """A pause in the largest unit of which it has at least three: `150 s`, `40 minutes`, `3 hours`;
    "for years" if it is longer than 1,000 days."""
    if seconds > 1000 * 86_400:
        return "for years"
    for unit, size in _UNITS:
        if seconds >= 3 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
