"""Reads the bytes of a streamed answer as JSON events, within limits of time and size.

The SDKs' decoders do not bound a line, drop events without a name, accept a truncated stream as
complete, and only time out per read.
"""

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

from kode.config.model import Retry
from kode.errors import ProviderError, RefusedError, TransientError
from kode.providers.draft import Draft
from kode.providers.errors import Endpoint, status_error, web_page_error
from kode.values import dataclass

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Limit of an event, or of an answer that is not streamed."""

MAX_ERROR_BYTES = 65_536
"""How much of an error's body is read."""

LAST_WORDS_S = 3.0
"""How long to wait after the stop reason for the usage and the end of the stream."""

DRAIN_S = 0.1
"""How long to wait after the end mark for the end of the body, so that the connection can be
reused."""


@dataclass(frozen=True)
class StreamEvent:
    """One event: the name from its `event:` line, or "", and the decoded object."""

    name: str
    data: dict[str, Any]


class Deadline:
    """An idle limit and a total limit around an exchange, as `async with`.

    Each `touch()`, called for arriving bytes, restarts the idle limit. If it `is_patient`, a server
    that has sent nothing yet has until the total limit, because a slow one reads a long request in
    silence.

    After `soften()` (the reply may be complete) the limit is short, and reaching it raises nothing:
    it only ends the waiting.
    """

    def __init__(self, limits: Retry, endpoint: Endpoint, *, is_patient: bool = False) -> None:
        self.idle_s, self.total_s = limits.idle_timeout_s, limits.total_timeout_s
        self.endpoint = endpoint
        self.is_patient = is_patient
        self._is_silent = True
        self._timeout = asyncio.timeout(None)
        self._end = 0.0
        self._soft_end = math.inf
        """When to stop waiting for last words; infinite while the reply goes on."""
        self._soft_mark = -1

    async def __aenter__(self) -> None:
        self._end = asyncio.get_running_loop().time() + self.total_s
        await self._timeout.__aenter__()
        if self.is_patient:
            self._timeout.reschedule(self._end)
        else:
            self.touch()  # a server that stays silent too long is asked again

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> bool:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            if self._soft_end < math.inf:
                return True
            raise self._raise_timeout() from None
        return False

    def touch(self) -> None:
        """Restarts the idle limit: something arrived."""
        self._is_silent = False
        if not self._timeout.expired():
            idle_end = asyncio.get_running_loop().time() + self.idle_s
            self._timeout.reschedule(min(idle_end, self._end, self._soft_end))

    def soften(self, seconds: float, mark: int) -> None:
        """The reply may be complete: waits for its last words, `seconds` from when `mark` (how much
        has arrived) last changed. Infinite `seconds` lift the limit, since the reply continues."""
        if mark != self._soft_mark:
            self._soft_mark = mark
            self._soft_end = asyncio.get_running_loop().time() + seconds
            self.touch()

    def _raise_timeout(self) -> ProviderError:
        url = self.endpoint.shown_url
        if not self._is_silent and asyncio.get_running_loop().time() >= self._end:
            # Do not retry: it would take as long, and cost as much, once more.
            return RefusedError(
                f"The reply of {url} was not complete after {self.total_s:g} s and was cut off. "
                "Ask for less at a time, or raise `retry.total_timeout_s` in the config."
            )
        kind = RefusedError if self._is_silent else TransientError
        limit, seconds = ("total", self.total_s) if self._is_silent else ("idle", self.idle_s)
        return kind(
            f"No data from {url} for {seconds:g} s. Is the server up? For a slow one raise "
            f"`retry.{limit}_timeout_s` in the config."
        )


async def check_response(response: Any, endpoint: Endpoint) -> None:
    """Raises a ProviderError for an error or a redirect. The SDK would first read the whole body,
    however large."""
    if response.status_code < 300:
        return
    body = b""
    # If the body breaks off, the status says enough.
    with contextlib.suppress(Exception):
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_ERROR_BYTES:
                break
    text = body[:MAX_ERROR_BYTES].decode("utf-8", "replace")
    answer: Any = text
    with contextlib.suppress(ValueError, RecursionError):
        answer = json.loads(text)
    raise status_error(response.status_code, answer, response.headers, endpoint)


async def read_reply(
    response: Any, draft: Draft, take: Callable[[StreamEvent], None], deadline: Deadline
) -> None:
    """Feeds the events of an answer to `take`, which fills the draft; closes the response.

    A failure after the reply is complete (in the usage, the end mark, the end of the connection) is
    not a fault.

    Raises: ProviderError; the HTTP client's errors pass through.
    """
    try:
        async with contextlib.aclosing(read_events(response, deadline)) as stream:
            async for event in stream:
                if event.name == "[DONE]":
                    draft.done = True
                elif not draft.done:
                    take(event)
                if draft.done:
                    deadline.soften(DRAIN_S, -2)
                elif draft.complete:
                    deadline.soften(LAST_WORDS_S, draft.chars)
                else:
                    deadline.soften(math.inf, -1)
    except ProviderError:
        raise
    except Exception:
        if not draft.complete:
            raise
    finally:
        await response.aclose()


async def read_events(response: Any, deadline: Deadline) -> AsyncGenerator[StreamEvent, None]:
    """Yields the events of an answer, until its end.

    An answer that is one JSON object (a server that ignores `stream`) is one event named "whole".
    `[DONE]` itself is an event of that name, without data.

    Raises: TransientError, RefusedError; the HTTP client's errors pass through.
    """
    endpoint = deadline.endpoint
    kind = str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()
    decoder, body, start = Decoder(endpoint), bytearray(), b""
    async for chunk in response.aiter_bytes():
        deadline.touch()
        if not start:
            chunk = chunk.lstrip(b"\xef\xbb\xbf \t\r\n")
            start = chunk[:1]
            if start == b"<" or (start and kind in ("text/html", "application/xhtml+xml")):
                raise web_page_error(endpoint, kind)
        if start not in (b"{", b"["):
            for event in decoder.feed(chunk):
                yield event
            continue
        body += chunk
        if len(body) > MAX_EVENT_BYTES:
            raise too_large_error(endpoint)
    if body:
        value = json.loads(body.decode("utf-8-sig", "replace"))
        value = value[0] if isinstance(value, list) and value else value
        if not isinstance(value, dict):
            raise status_error(None, value, {}, endpoint)
        yield StreamEvent("whole", value)
        return
    for event in decoder.end():
        yield event
    if not decoder.has_begun:
        raise TransientError(
            f"{endpoint.shown_url} answered without a reply"
            f"{f' ({kind})' if kind else ''}. If it keeps happening, check the base URL."
        )


class Decoder:
    """Splits bytes into events."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.has_begun = False
        """Whether there was an event."""
        self._pieces: list[bytes] = []
        """The pieces of an incomplete line."""
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0
        """Bytes that have come since the last event."""

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        """The events that another piece of the stream completes. Raises: RefusedError for an event
        without an end."""
        self._pieces.append(chunk)
        self._size += len(chunk)
        if b"\n" in chunk or b"\r" in chunk:
            text = b"".join(self._pieces)
            # A \r at the end may be the first half of \r\n: its line is not complete yet.
            end = len(text) - text.endswith(b"\r")
            lines = text[:end].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            self._pieces = [lines.pop() + text[end:]]
            yield from filter(None, map(self._read_line, lines))
        if self._size > MAX_EVENT_BYTES:
            raise too_large_error(self.endpoint)

    def end(self) -> Iterator[StreamEvent]:
        """The event that the end of the stream completes, if any."""
        lines = b"".join(self._pieces).rstrip(b"\r"), b""
        yield from filter(None, map(self._read_line, lines))

    def _read_line(self, line: bytes) -> StreamEvent | None:
        """The event that a line ends, if it ends one."""
        name, _, value = line.removeprefix(b"\xef\xbb\xbf").partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            return self._take_event()
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        return None

    def _take_event(self) -> StreamEvent | None:
        data, name = b"\n".join(self._data).strip(), self._name
        self._data, self._name, self._size = [], "", sum(map(len, self._pieces))
        if not data:
            return None
        self.has_begun = True
        if data.startswith(b"[DONE]"):
            return StreamEvent("[DONE]", {})
        text = data.decode("utf-8", "replace")
        try:
            value = json.loads(text)
        except ValueError:
            if name == "error":
                raise status_error(None, text, {}, self.endpoint) from None
            raise
        return StreamEvent(name, value) if isinstance(value, dict) else None


def too_large_error(endpoint: Endpoint) -> RefusedError:
    return RefusedError(
        f"{endpoint.shown_url} sent more than a reply can be and was cut off. "
        "Ask for less at a time; if it keeps happening, check the server."
    )
