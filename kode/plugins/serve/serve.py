"""Serves on stdin and stdout, from the first message until the client leaves or a signal arrives.

stdout carries only messages: the SDK points it at stderr for everything else in the process. After
a client closes stdin, conversations get time to end; after a signal, memory leaves its work for the
next start.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, cast

from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server

from kode.plugin import cancelled_by_signals
from kode.plugins.greeting import Greeted, can_wait

MAX_LINE_BYTES = 16 * 1024 * 1024  # a task with pictures in base64


async def nothing() -> None:
    """Does nothing, for a server that leaves nothing open."""


async def serve(
    server: MCPServer, greeted: Greeted, close: Callable[[], Coroutine[Any, Any, None]] = nothing
) -> None:
    """Serves one client, after its first message, then closes what it has left open."""
    serving = asyncio.ensure_future(_serve_stdio(server, greeted))
    with cancelled_by_signals(serving):
        await asyncio.wait([serving])
    closing = asyncio.ensure_future(close())
    with cancelled_by_signals(closing), contextlib.suppress(asyncio.CancelledError):
        await closing
    with contextlib.suppress(asyncio.CancelledError):
        _raise_own_fault(serving)


def _raise_own_fault(serving: "asyncio.Future[None]") -> None:
    """A client that is gone is not a fault."""
    try:
        serving.result()
    except* OSError:
        pass


async def _serve_stdio(server: MCPServer, greeted: Greeted) -> None:
    lowlevel = server._lowlevel_server  # `run_stdio_async` does not accept a custom stdin
    async with contextlib.AsyncExitStack() as stack:
        # The SDK reads in a thread, which no signal interrupts.
        stdin = await _lines_of_stdin(stack, greeted.unread) if can_wait(0) else None
        read, write = await stack.enter_async_context(stdio_server(stdin=cast(Any, stdin)))
        if greeted.answered is not None:
            write = cast(Any, _Unrepeated(write, greeted.answered))
        await lowlevel.run(read, write, lowlevel.create_initialization_options())


class _Unrepeated:
    """The SDK's stream of messages to the client, without its answer to a request that has one."""

    def __init__(self, stream: Any, answered: str | int) -> None:
        self._stream = stream
        self._answered: str | int | None = answered

    async def send(self, item: Any) -> None:
        answers = self._answered is not None and not hasattr(item.message, "method")
        if answers and getattr(item.message, "id", None) == self._answered:
            self._answered = None
            return
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> "_Unrepeated":
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *fault: Any) -> Any:
        return await self._stream.__aexit__(*fault)


async def _lines_of_stdin(stack: contextlib.AsyncExitStack, unread: bytes) -> AsyncIterator[str]:
    """The lines of stdin, `unread` before the rest; child processes see an empty stdin."""
    private, empty = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    reader.feed_data(unread)
    pipe = stack.enter_context(os.fdopen(private, "rb", buffering=0))
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    stack.callback(transport.close)
    return _decode(reader)


async def _decode(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    while True:
        try:
            line = await reader.readline()
        except ValueError:
            sys.stderr.write(f"kode: a message of more than {MAX_LINE_BYTES >> 20} MB: it ends.\n")
            return
        if not line:
            return
        yield line.decode("utf-8", "replace")
