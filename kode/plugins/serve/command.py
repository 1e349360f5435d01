"""`kode mcp serve`: kode to other agents, as an MCP server on standard input and output.

It serves from the first message until the client leaves or a signal arrives. stdout carries only
messages: the SDK points it at stderr for everything else in the process. After a client closes
stdin, conversations get time to end; after a signal, memory leaves its work for the next start.
"""

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kode.plugin import (
    EXIT_OK,
    ConfigError,
    Parser,
    UserError,
    cancelled_by_signals,
    complain,
    directory,
    extras,
    finish_startup,
    programs,
    working_directory,
)
from kode.plugins.serve.hello import result
from kode.plugins.stdio import Greeted, can_wait, greet, take_stdin

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

MODULES = ("kode.plugins.serve.server", "mcp.server.stdio")
MAX_LINE_BYTES = 16 * 1024 * 1024  # a task with pictures in base64
_ROOT = "let clients work in and below it (repeatable; default: the working directory)"


def main(argv: Sequence[str]) -> int:
    """Serves until the client hangs up; returns the exit code. Raises: ConfigError."""
    parser = Parser("kode mcp serve", "Serve kode to other agents as an MCP server.")
    parser.add_argument("--root", metavar="DIR", action="append", default=[], help=_ROOT)
    parser.add_argument("--allow-full", action="store_true", help="let clients ask for mode full")
    parser.add_argument("--memory-only", action="store_true", help="serve only memory, no sessions")
    arguments = parser.parse(argv)
    extras.require("mcp")
    if sys.stdin is None:
        raise UserError("Standard input is closed: `kode mcp serve` is started by a client.")
    cwd = working_directory(argparse.Namespace(cwd=None))
    roots = roots_of([directory(root, "--root") for root in arguments.root], cwd)
    # What memory serves depends on the configuration, so its SDK gives the first answer.
    waits = not arguments.memory_only and can_wait(0)
    greeted = greet(result, MODULES) if waits else Greeted()
    from kode.plugins.serve.bounds import Bounds

    finish_startup()
    bounds = Bounds(roots=roots, full=arguments.allow_full, depth=programs.depth(os.environ))
    if arguments.memory_only:
        from kode.plugins.serve.memory import make_memory_server

        asyncio.run(_serve(make_memory_server(bounds), greeted, _close_nothing))
    else:
        from kode.plugins.serve.server import make_server
        from kode.plugins.serve.sessions import ServedSessions

        sessions = ServedSessions(bounds)
        asyncio.run(_serve(make_server(sessions), greeted, sessions.close_all))
    return EXIT_OK


def roots_of(named: Sequence[Path], cwd: Path) -> tuple[Path, ...]:
    """The roots that a person names, else the working directory.

    Raises: ConfigError if that would be everything, as for a server that another program starts.
    """
    if not named and cwd == Path("/"):
        raise ConfigError(
            "kode mcp serve was started in /, and would let its clients work in all of it. "
            "Name the folders that they may work in: --root DIR."
        )
    return tuple(named or [cwd])


async def _close_nothing() -> None:
    pass


async def _serve(
    server: "MCPServer", greeted: Greeted, close: Callable[[], Awaitable[None]]
) -> None:
    """Serves one client, after its first message, then closes what it has left open."""
    serving, closing = asyncio.ensure_future(_serve_stdio(server, greeted)), None
    with cancelled_by_signals(serving):
        await asyncio.wait([serving])
    closing = asyncio.ensure_future(close())
    with cancelled_by_signals(closing), contextlib.suppress(asyncio.CancelledError):
        await closing
    try:
        with contextlib.suppress(asyncio.CancelledError):
            serving.result()
    except* OSError:
        pass  # the client is gone


async def _serve_stdio(server: "MCPServer", greeted: Greeted) -> None:
    from mcp.server.stdio import stdio_server

    lowlevel = server._lowlevel_server  # `run_stdio_async` does not accept a custom stdin
    # The SDK reads in a thread, which no signal interrupts.
    reader = await take_stdin(greeted.unread, MAX_LINE_BYTES) if can_wait(0) else None
    lines = cast(Any, None if reader is None else _lines_of(reader))
    async with stdio_server(stdin=lines) as (read, write):
        if greeted.answered is not None:
            _leave_out_answer(write, greeted.answered)
        await lowlevel.run(read, write, lowlevel.create_initialization_options())


def _leave_out_answer(stream: Any, id: str | int) -> None:
    """Makes the SDK's stream to the client drop its answer to the request with this id."""
    send, waits = stream.send, [id]

    async def send_others(item: Any) -> None:
        if not hasattr(item.message, "method") and getattr(item.message, "id", None) in waits:
            waits.clear()
        else:
            await send(item)

    stream.send = send_others


async def _lines_of(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    while True:
        try:
            line = await reader.readline()
        except ValueError:
            complain([f"a message of more than {MAX_LINE_BYTES >> 20} MB: the server ends."])
            return
        if not line:
            return
        yield line.decode("utf-8", "replace")
