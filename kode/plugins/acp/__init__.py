"""`kode acp`: kode as an agent in an editor, by the Agent Client Protocol, version 1.

    hello       the answer to the first message, before the package `acp` is imported
    schema      imports the package `acp`
    server      the process: from the first message to the last closed session
    pipes       messages as lines on stdin and stdout
    agent       the methods that a client calls
    live        one open session: its prompts, its questions, its end
    updates     events → updates of the session
    calls       a tool call for display in a client
    replay      a session on disk → the updates of its whole history
    outbox      updates on their way to the client, in order
    prompts     a client's prompt → text and attachments
    questions   permission, plans and forms, asked through the client
    options     modes, models, effort and commands for a client to offer
    commands    what kode's own slash commands do
    servers     MCP servers that the client names
    faults      kode's errors as errors of the protocol

The wire types come from the package `acp` and stay in this room.
"""

from kode.plugin import Command, Plugin

PLUGIN = Plugin(
    name="acp",
    summary="kode as an agent in an editor",
    commands={
        "acp": Command(
            run="kode.plugins.acp.command:main",
            summary="serve an editor by the Agent Client Protocol",
        )
    },
)
