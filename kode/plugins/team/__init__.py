"""Notes that a team shares through PostgreSQL: the server's side of it.

address    where a team is
server     the one door to psycopg: what is asked of the server (its tables: schema.sql)
command    `kode memory team`, and what `kode doctor` says of the server
"""

from kode.plugin import Command, Plugin

_OPEN = "kode.plugins.team.server:open_log"

PLUGIN = Plugin(
    name="team",
    summary="notes that a team shares",
    commands={
        "memory team": Command(
            run="kode.plugins.team.command:main",
            summary="the members of a team's notes; init, admit, dismiss",
            systems=("notes",),
        ),
    },
    remote_logs={"postgresql": _OPEN, "postgres": _OPEN},
    checks="kode.plugins.team.command:checks",
)
