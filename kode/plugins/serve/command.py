"""`kode mcp serve`: kode to other agents, as an MCP server on standard input and output."""

import argparse
import asyncio
import os
from collections.abc import Sequence

from kode.plugin import Parser, directory, extras, programs, working_directory
from kode.plugin.errors import EXIT_OK

_ROOT = "let clients work in and below it (repeatable; default: the working directory)"


def main(argv: Sequence[str]) -> int:
    """Serves until the client hangs up; returns the exit code. Raises: ConfigError."""
    parser = Parser("kode mcp serve", "Serve kode to other agents as an MCP server.")
    parser.add_argument("--root", metavar="DIR", action="append", default=[], help=_ROOT)
    parser.add_argument("--allow-full", action="store_true", help="let clients ask for mode full")
    parser.add_argument("--memory-only", action="store_true", help="serve only memory, no sessions")
    arguments = parser.parse(argv)
    extras.require("mcp")
    from kode.plugins.serve.bounds import Bounds, roots_of
    from kode.plugins.serve.serve import serve

    cwd = working_directory(argparse.Namespace(cwd=None))
    roots = roots_of([directory(root, "--root") for root in arguments.root], cwd)
    bounds = Bounds(roots=roots, full=arguments.allow_full, depth=programs.depth(os.environ))
    if arguments.memory_only:
        from kode.plugins.serve.memory import make_memory_server

        asyncio.run(serve(make_memory_server(bounds)))
    else:
        from kode.plugins.serve.server import make_server
        from kode.plugins.serve.sessions import ServedSessions

        sessions = ServedSessions(bounds)
        asyncio.run(serve(make_server(sessions), sessions.close_all))
    return EXIT_OK
