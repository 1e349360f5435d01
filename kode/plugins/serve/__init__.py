"""kode for other agents: an MCP server, `kode mcp serve`.

    command    the command: on stdin and stdout, until the client leaves
    bounds     limits for clients: folders, mode, nesting, cost
    sessions   conversations driven by clients, and sessions on disk that they may resume
    server     the tools, with questions as forms for the client's person
    memory     the tools of `--memory-only`

Only `server` and `memory` import the SDK, and `command` once it serves.
"""

from kode.plugin import Command, Plugin

PLUGIN = Plugin(
    name="serve",
    summary="kode as an MCP server",
    commands={
        "mcp serve": Command(
            run="kode.plugins.serve.command:main",
            summary="serve kode to other agents as an MCP server on stdin and stdout",
        )
    },
)
