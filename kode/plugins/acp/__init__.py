"""`kode acp`: kode as an agent in an editor, by the Agent Client Protocol, version 1. The wire
types come from the package `acp` and stay here."""

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
