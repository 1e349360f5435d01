"""`kode mcp serve`: offers kode to other agents, as an MCP server on standard input and output.

It serves until the client leaves or a signal arrives. stdout carries only messages: the SDK sends
all other output of the process to stderr. After a client closes stdin, conversations get time to
end; after a signal, memory leaves unfinished work for the next start.
"""

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kode.plugin import (
    ConfigError,
    Parser,
    UserError,
    cancelled_by_signals,
    print_either,
    require_extra,
    working_directory,
)
from kode.plugins.stdio import can_wait, open_stdin

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from kode.plugins.serve.sessions import ServedSessions

MAX_LINE_BYTES = 16 * 1024 * 1024  # a task with pictures in base64
_ROOT = "let clients work in and below it (repeatable; default: the working directory)"


def main(argv: Sequence[str]) -> int:
    """Serves until the client hangs up; returns the exit code. Raises: ConfigError."""
    parser = Parser("kode mcp serve", "Serve kode to other agents as an MCP server.")
    parser.add_argument("--root", metavar="DIR", action="append", default=[], help=_ROOT)
    parser.add_argument("--memory-only", action="store_true", help="serve only memory, no sessions")
    arguments = parser.parse(argv)
    require_extra("mcp")
    if sys.stdin is None or not can_wait(0):
        raise UserError("`kode mcp serve` is started by a client, which talks over pipes.")
    cwd, *named = (working_directory(argparse.Namespace(cwd=r)) for r in (None, *arguments.root))
    roots = resolve_roots(named, cwd)
    from kode.plugins.serve.sessions import Bounds, ServedSessions

    bounds = Bounds(roots=roots, depth=int(os.environ.get("KODE_DEPTH", "0")))
    sessions = ServedSessions(bounds)
    from kode.plugins.serve.server import make_memory_server, make_server

    server = make_memory_server(bounds) if arguments.memory_only else make_server(sessions)
    asyncio.run(_serve_client(server, sessions))
    return 0


def resolve_roots(named: Sequence[Path], cwd: Path) -> tuple[Path, ...]:
    """The roots that a person names, or else the working directory.

    Raises: ConfigError if that is `/`, as it may be for a server that another program starts.
    """
    if not named and cwd == Path("/"):
        raise ConfigError(
            "kode mcp serve was started in /, and would let its clients work in all of it. "
            "Name the folders that they may work in: --root DIR."
        )
    return tuple(named or [cwd])


async def _serve_client(server: "MCPServer", sessions: "ServedSessions") -> None:
    """Serves one client, then closes the sessions that it left open."""
    serving = asyncio.ensure_future(_serve_stdio(server))
    with cancelled_by_signals(serving):
        await asyncio.wait([serving])
    closing = asyncio.ensure_future(sessions.close_all())
    with cancelled_by_signals(closing), contextlib.suppress(asyncio.CancelledError):
        await closing
    try:
        with contextlib.suppress(asyncio.CancelledError):
            serving.result()
    except* OSError:
        pass  # the client is gone


async def _serve_stdio(server: "MCPServer") -> None:
    from mcp.server.stdio import stdio_server

    lowlevel = server._lowlevel_server  # `run_stdio_async` does not accept a custom stdin
    # The SDK reads in a thread, which no signal interrupts.
    lines = cast(Any, _read_lines(await open_stdin(MAX_LINE_BYTES)))
    async with stdio_server(stdin=lines) as (read, write):
        await lowlevel.run(read, write, lowlevel.create_initialization_options())


async def _read_lines(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    while True:
        try:
            line = await reader.readline()
        except ValueError:
            print_either(
                faults=[f"a message of more than {MAX_LINE_BYTES >> 20} MB: the server ends."]
            )
            return
        if not line:
            return
        yield line.decode("utf-8", "replace")
