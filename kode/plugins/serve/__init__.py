"""The face for other agents: kode as an MCP server, `kode mcp serve`.

    hello       the answer to the first message, before the SDK is imported
    bounds      limits for clients: folders, mode, nesting, cost
    served      one conversation driven by a client: progress, questions, turns
    sessions    open conversations, and sessions on disk that a client may resume
    questions   a permission question as a form for the client's person, and as state
    server      the tools
    memory      the tools of `--memory-only`
    serve       on stdin and stdout, until the client leaves

Only `server`, `memory`, `questions` and `serve` import the SDK.
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
