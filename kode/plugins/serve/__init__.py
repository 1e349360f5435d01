"""kode for other agents: an MCP server, `kode mcp serve`.

    command     the command; on stdin and stdout, until the client leaves
    hello       the answer to the first message, before the SDK is imported
    bounds      limits for clients: folders, mode, nesting, cost
    session     one conversation driven by a client: progress, questions, turns
    sessions    open conversations, and sessions on disk that a client may resume
    questions   a permission question as a form for the client's person, and as state
    server      the tools
    memory      the tools of `--memory-only`

Only `server`, `memory`, `questions` and `command` import the SDK, the last once it serves.
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
