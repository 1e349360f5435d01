"""The face for other agents: kode as an MCP server, `kode mcp serve`.

    bounds      where clients may have kode work, in which mode, how deep, at what cost
    talk        one conversation that a client drives: its progress, its questions, its turns
    talks       those that are open, and the sessions on disk that a client may take up
    questions   a permission question as a form for the client's person, and as a state
    server      the tools
    memory      the tools of `--memory-only`
    serve       on stdin and stdout, until the client leaves

The SDK is imported in `server`, `memory`, `questions` and `serve`, and with it only here.
"""
