"""Serves on stdin and stdout, from the first message until the client leaves or a signal arrives.

stdout carries only messages: the SDK points it at stderr for everything else in the process. After
a client closes stdin, conversations get time to end; after a signal, memory leaves its work for the
next start.
"""

import asyncio
import contextlib
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, cast

from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server

from kode.plugin import cancelled_by_signals
from kode.plugin.errors import UserError

MAX_LINE_BYTES = 16 * 1024 * 1024  # a task with pictures in base64


async def nothing() -> None:
    """Does nothing, for a server that leaves nothing open."""


async def serve(
    server: MCPServer, close: Callable[[], Coroutine[Any, Any, None]] = nothing
) -> None:
    """Serves one client, then closes what it has left open. Raises: UserError without a stdin."""
    if sys.stdin is None:
        raise UserError("Standard input is closed: `kode mcp serve` is started by a client.")
    serving = asyncio.ensure_future(_serve_stdio(server))
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


async def _serve_stdio(server: MCPServer) -> None:
    lowlevel = server._lowlevel_server  # `run_stdio_async` does not accept a custom stdin
    async with contextlib.AsyncExitStack() as stack:
        kind = os.fstat(0).st_mode
        waits = stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or os.isatty(0)
        # The SDK reads in a thread, which no signal interrupts.
        stdin = await _lines_of_stdin(stack) if waits else None
        read, write = await stack.enter_async_context(stdio_server(stdin=cast(Any, stdin)))
        await lowlevel.run(read, write, lowlevel.create_initialization_options())


async def _lines_of_stdin(stack: contextlib.AsyncExitStack) -> AsyncIterator[str]:
    """The lines of stdin; child processes see an empty stdin."""
    private, empty = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
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
