"""kode for other agents: an MCP server, `kode mcp serve`.

    command    the command: serves one client on stdin and stdout until it leaves
    sessions   conversations driven by clients within limits, and sessions that they may resume
    server     the tools, also those of `--memory-only`; shows questions as forms in the client

Only `server` imports the SDK; `command` does so once it serves.
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
