"""`kode acp`: kode as an agent in an editor, on standard input and output."""

import asyncio
import os
import sys
from collections.abc import Sequence

from kode.plugin import (
    Parser,
    UserError,
    add_setting_flags,
    require_extra,
)
from kode.plugins.stdio import can_wait


def main(argv: Sequence[str]) -> int:
    """Runs `kode acp` with these arguments and returns its exit code. Raises: UserError if standard
    input or output is a file."""
    parser = Parser("kode acp", "Serve an editor by the Agent Client Protocol on stdin and stdout.")
    read_settings = add_setting_flags(parser)
    parser.add_argument("--no-session", action="store_true", help="do not save sessions")
    setup = "set up a key in this terminal, then exit"
    parser.add_argument("--setup", action="store_true", help=setup)
    arguments = parser.parse(argv)
    if arguments.setup:
        os.execv(sys.executable, [sys.executable, "-P", "-m", "kode", "init"])
    require_extra("acp")
    if not all(map(can_wait, (0, 1))):
        raise UserError(
            "`kode acp` talks with an editor over pipes, and standard input or output is none. "
            "Let the editor start it: see docs/editors.md."
        )
    if sys.stdin is not None and sys.stdin.isatty():
        print("kode acp: waiting for an editor to talk on stdin (docs/editors.md)", file=sys.stderr)
    from kode.plugins.acp import schema  # noqa: F401  # before `acp` is imported
    from kode.plugins.acp.server import serve

    flags, trusts = read_settings(arguments), arguments.trust_project
    keeps = not arguments.no_session
    return asyncio.run(serve(flags=flags, trust_project=trusts, keep_sessions=keeps))
