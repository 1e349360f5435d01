"""kode for other agents: an MCP server, `kode mcp serve`.

    command    the command: on stdin and stdout, until the client leaves
    sessions   conversations driven by clients within limits, and sessions that they may resume
    server     the tools, with questions as forms for the client's person
    memory     the tools of `--memory-only`

Only `server` and `memory` import the SDK, and `command` once it serves.
"""

from kode.plugin import Command, Plugin

NAME = "kode"
INSTRUCTIONS = """\
kode is a coding agent with a session of its own for each task. `kode_start` gives it a task in a \
folder; `kode_wait` follows it. Each call returns a state: `status` is `working` (wait again with \
`cursor`), `asks` (put the question to your person, then `kode_answer`) or `done` (see `result`). \
Sessions stay on disk: the person can resume one with `kode -r SESSION`."""

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
