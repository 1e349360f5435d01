"""`kode schema`: the JSON schemas of what kode writes and reads."""

from kode.plugin import Command, Plugin

PLUGIN = Plugin(
    name="schemas",
    summary="prints JSON schemas",
    commands={
        "schema": Command(
            run="kode.plugins.schemas.command:main",
            summary="print JSON schemas of events, results, sessions, task files",
        )
    },
)
