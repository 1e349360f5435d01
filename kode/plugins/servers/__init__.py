"""The MCP servers of a directory: `kode mcp`, with the forms that other agents write them in.

configured  lists, shows and removes them
reached     approves and tests one
add         takes the command lines of other agents
forms       what people paste → entries
others      what other agents have configured on this machine
pick        chooses among those, and adds them
"""

from kode.plugin import Command, Plugin

PLUGIN = Plugin(
    name="servers",
    summary="lists, adds, approves and tests MCP servers",
    commands={
        "mcp list": Command(
            run="kode.plugins.servers.configured:list_servers",
            summary="list all servers, with source and trust",
        ),
        "mcp get": Command(
            run="kode.plugins.servers.configured:get",
            summary="show one server: its entry and approved tools",
        ),
        "mcp remove": Command(
            run="kode.plugins.servers.configured:remove_server",
            summary="remove one from the file it is in",
        ),
        "mcp approve": Command(
            run="kode.plugins.servers.reached:approve",
            summary="approve a project's server, or changed tools",
        ),
        "mcp test": Command(
            run="kode.plugins.servers.reached:test",
            summary="connect to one and list what it offers; log in if needed",
        ),
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
