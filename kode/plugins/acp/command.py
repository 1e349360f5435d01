"""`kode acp`: kode as an agent in an editor, on standard input and output."""

import asyncio
import sys
from collections.abc import Sequence

from kode.plugin import Parser, add_setting_flags, config_flags, extras, finish_startup
from kode.plugins.acp.hello import result
from kode.plugins.acp.pipes import check_pipes
from kode.plugins.greeting import greet


def main(argv: Sequence[str]) -> int:
    """Runs `kode acp` with these arguments and returns its exit code."""
    parser = Parser("kode acp", "Serve an editor by the Agent Client Protocol on stdin and stdout.")
    add_setting_flags(parser)
    parser.add_argument("--no-session", action="store_true", help="do not save sessions")
    parser.add_argument(
        "--setup", action="store_true", help="set up a key in this terminal, then exit"
    )
    arguments = parser.parse(argv)
    if arguments.setup:
        from kode.plugin import run_setup

        return run_setup([])
    extras.require("acp")
    check_pipes()
    if sys.stdin is not None and sys.stdin.isatty():
        print("kode acp: waiting for an editor to talk on stdin (docs/editors.md)", file=sys.stderr)
    greeted = greet(result, ("kode.plugins.acp.schema", "kode.plugins.acp.server"))
    from kode.plugins.acp.server import serve

    finish_startup()
    return asyncio.run(
        serve(
            greeted,
            config_flags(arguments),
            trust_project=arguments.trust_project,
            keep_sessions=not arguments.no_session,
        )
    )
