"""MCP servers as other agents write them: `kode mcp add`, `add-json` and `import`.

add         the command lines
forms       what people paste → entries
others      what other agents have configured on this machine
pick        chooses among those, and adds them
"""

from kode.plugin import Command, Plugin

PLUGIN = Plugin(
    name="servers",
    summary="adds MCP servers as other agents write them",
    commands={
        "mcp add": Command(
            run="kode.plugins.servers.add:main",
            summary="add one: NAME URL, NAME -- COMMAND ARG..., or JSON",
        ),
        "mcp add-json": Command(
            run="kode.plugins.servers.add:add_json", summary="add one: NAME JSON"
        ),
        "mcp import": Command(
            run="kode.plugins.servers.pick:main",
            summary="list or take what other agents have configured here",
        ),
    },
)
