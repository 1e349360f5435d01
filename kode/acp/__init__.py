"""`kode acp`: kode as an agent in an editor, by the Agent Client Protocol, version 1.

    server      the life of the process: from the first message to the last session closed
    pipes       messages as lines on stdin and stdout
    agent       the methods that a client calls
    live        one open session: its prompts, its questions, its end
    updates     events → updates of the session
    calls       a call of a tool as a client shows it
    replay      a session on disk → the updates of its whole history
    outbox      updates on their way to the client, in order
    prompts     what a client sends with a prompt → text and attachments
    questions   permission, plans and forms, put to the person by the client
    options     modes, models and commands that a client can offer
    commands    what kode's own slash commands do
    servers     MCP servers that the client names
    faults      what kode raises, as errors of the protocol

The wire's types come from the package `acp` and stay in here.
"""
