"""kode for other agents: an MCP server, `kode mcp serve`.

    command    the command: on stdin and stdout, until the client leaves
    sessions   conversations driven by clients within limits, and sessions that they may resume
    server     the tools, with questions as forms for the client's person; those of `--memory-only`

Only `server` imports the SDK, and `command` once it serves.
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
