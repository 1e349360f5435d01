"""Carries messages to a server and back: over the pipes of a process, or by HTTP. Part of
`mcp_client`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

import anyio
import httpx2
import mcp_types as types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from kode.extensions.mcp_config import Server
from kode.extensions.mcp_process import ServerProcess

MAX_BODY_BYTES = 32 * 1024 * 1024
"""Limit of one answer, streamed or not."""
CONNECT_TIMEOUT_S = 30.0  # as a process's start

Streams = tuple[Any, Any]
"""What the SDK reads messages from, and writes them to."""


@asynccontextmanager
async def stdio(process: ServerProcess, closed: "asyncio.Future[str]") -> AsyncIterator[Streams]:
    """The streams of a process. Output that is not a message is skipped: many servers print."""
    received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        try:
            async for line in process.lines():
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    continue
                await received.send(SessionMessage(message))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass
        finally:
            if not closed.done():
                last_words = f": {process.last_words}" if process.last_words else ""
                closed.set_result(process.fault or f"it ended{last_words}")
            received.close()

    async def write() -> None:
        async with sent:
            async for session_message in sent:
                line = session_message.message.model_dump_json(by_alias=True, exclude_unset=True)
                with contextlib.suppress(OSError):  # reading detects that it is gone
                    await process.send(line.encode())

    tasks = [asyncio.ensure_future(read()), asyncio.ensure_future(write())]
    try:
        yield incoming, outgoing
    finally:
        for stream in (incoming, outgoing, received):
            stream.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def http(server: Server, auth: httpx2.Auth | None) -> AsyncIterator[Streams]:
    async with httpx2.AsyncClient(
        headers=dict(server.headers),
        auth=auth,
        timeout=httpx2.Timeout(CONNECT_TIMEOUT_S, read=server.timeout / 1000),
        event_hooks={"response": [_limit_body]},
    ) as client:
        async with streamable_http_client(server.url, http_client=client) as streams:
            yield streams


def sse(server: Server, auth: httpx2.Auth | None) -> AbstractAsyncContextManager[Streams]:
    """The older transport: one stream of events, and a request for each message."""

    def client(
        headers: dict[str, Any] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        hooks = {"response": [_limit_events]}
        return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, event_hooks=hooks)

    return sse_client(
        server.url,
        headers=dict(server.headers),
        timeout=CONNECT_TIMEOUT_S,
        sse_read_timeout=server.timeout / 1000,
        httpx_client_factory=client,
        auth=auth,
    )


async def _limit_body(response: httpx2.Response) -> None:
    response.stream = _Limited(cast(httpx2.AsyncByteStream, response.stream))


async def _limit_events(response: httpx2.Response) -> None:
    response.stream = _Limited(cast(httpx2.AsyncByteStream, response.stream), by_event=True)


class _Limited(httpx2.AsyncByteStream):
    """A body limited to `MAX_BODY_BYTES`, or each event of one that lasts."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, by_event: bool = False) -> None:
        self._stream = stream
        self._by_event = by_event

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._stream:
            ends_event = self._by_event and (b"\n\n" in piece or b"\r\n\r\n" in piece)
            size = len(piece) + (0 if ends_event else size)
            if size > MAX_BODY_BYTES:
                raise httpx2.ReadError(f"an answer of more than {MAX_BODY_BYTES // 2**20} MB")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()
