"""`kode acp`: kode as an agent in an editor, by the Agent Client Protocol, version 1. Only this
package uses the wire types, which come from the package `acp`."""

from kode.plugin import Command, Plugin

PLUGIN = Plugin(
    name="acp",
    summary="kode as an agent in an editor",
    commands={
        "acp": Command(
            run="kode.plugins.acp.server:main",
            summary="serve an editor by the Agent Client Protocol",
        )
    },
)
