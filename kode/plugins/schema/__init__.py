"""`kode schema`: the JSON schemas of what kode prints, reads and stores."""

from kode.plugin import Command, Plugin

PLUGIN = Plugin(
    name="schema",
    summary="prints JSON schemas of events, results, sessions and task files",
    commands={
        "schema": Command(
            run="kode.plugins.schema.schemas:main",
            summary="print JSON schemas of events, results, sessions, task files",
        )
    },
)
