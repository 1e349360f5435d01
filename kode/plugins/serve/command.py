"""`kode mcp serve`: kode to other agents, as an MCP server on standard input and output."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from kode.plugin import (
    EXIT_OK,
    ConfigError,
    Parser,
    UserError,
    directory,
    extras,
    finish_startup,
    programs,
    working_directory,
)
from kode.plugins.greeting import Greeted, can_wait, greet
from kode.plugins.serve.hello import result

SERVING = ("kode.plugins.serve.server", "kode.plugins.serve.serve")
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
    greeted = greet(result, SERVING) if waits else Greeted()
    from kode.plugins.serve.bounds import Bounds
    from kode.plugins.serve.serve import serve

    finish_startup()
    bounds = Bounds(roots=roots, full=arguments.allow_full, depth=programs.depth(os.environ))
    if arguments.memory_only:
        from kode.plugins.serve.memory import make_memory_server

        asyncio.run(serve(make_memory_server(bounds), greeted))
    else:
        from kode.plugins.serve.server import make_server
        from kode.plugins.serve.sessions import ServedSessions

        sessions = ServedSessions(bounds)
        asyncio.run(serve(make_server(sessions), greeted, sessions.close_all))
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
