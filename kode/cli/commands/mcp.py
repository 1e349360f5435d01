"""`kode mcp`: MCP servers. Plug-ins add every command of it."""

from collections.abc import Mapping, Sequence

from kode import installed
from kode.cli.parser import command_of

COMMANDS: Mapping[str, str] = {}


def main(argv: Sequence[str]) -> int:
    """Runs `kode mcp ...`. Raises: KodeError."""
    argv = argv or ["list"]
    run = installed.subcommand("mcp", argv)
    if run is None:
        command_of("mcp", installed.subcommands("mcp"), argv)
        raise AssertionError(argv)
    return run(argv[1:])
