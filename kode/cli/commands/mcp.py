"""`kode mcp`: the MCP servers of a directory, listed, added, approved and tested."""

from collections.abc import Sequence

from kode import installed
from kode.cli.parser import Parser
from kode.cli.screen.printer import Answered

COMMANDS = {
    "list": "list all servers, with source and trust",
    "get": "show one server: its entry and approved tools",
    "remove": "remove one from the file it is in",
    "approve": "approve a project's server, or changed tools",
    "test": "connect to one and list what it offers; log in if needed",
    "add": "add one: NAME URL, NAME -- COMMAND ARG..., or JSON",
    "add-json": "add one: NAME JSON",
    "import": "list or take what other agents have configured here",
}


def main(argv: Sequence[str]) -> Answered:
    """Runs `kode mcp ...`. Raises: KodeError."""
    argv = argv or ["list"]
    if (of_plugin := installed.subcommand("mcp", argv)) is not None:
        return of_plugin(argv[1:])
    command, _, rest = Parser.of_group("mcp", COMMANDS | installed.subcommands("mcp"), argv)
    if command in ("list", "get", "remove"):
        from kode.cli.commands import mcp_servers

        run = {"list": mcp_servers.list_servers, "get": mcp_servers.get}
        return run.get(command, mcp_servers.remove_server)(rest)
    if command in ("approve", "test"):
        from kode.cli.commands import mcp_reach

        return mcp_reach.approve(rest) if command == "approve" else mcp_reach.test(rest)
    if command == "import":
        from kode.cli.commands import mcp_import

        return mcp_import.main(rest)
    from kode.cli.commands import mcp_add

    return mcp_add.main(rest) if command == "add" else mcp_add.add_json(rest)
