"""Notes that a team shares through PostgreSQL: the server's side of it (its tables: schema.sql)."""

from kode.plugin import Command, Plugin

PLUGIN = Plugin(
    name="team",
    summary="notes that a team shares",
    commands={
        "memory team": Command(
            run="kode.plugins.team.server:main",
            summary="the members of a team's notes; init, admit, dismiss",
            systems=("notes",),
        )
    },
    remote_logs=dict.fromkeys(("postgresql", "postgres"), "kode.plugins.team.server:open_log"),
)
