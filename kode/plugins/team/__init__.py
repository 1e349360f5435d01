"""Notes that a team shares through PostgreSQL; each member works on a copy of their own.

address    where a team is, and what a project is called there
server     the one door to psycopg: what is asked of the server (its tables: schema.sql)
fitting    a line written from what colleagues have changed since: both sides are kept
exchange   what waits is sent, and what colleagues wrote is taken
member     the copy of a session: brought up to date, what arrived
command    `kode memory team`
checks     what `kode doctor` says of the server
"""

from kode.plugin import Command, Plugin

_MEMBER = "kode.plugins.team.member:open_member"

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
    replicas={"postgresql": _MEMBER, "postgres": _MEMBER},
    checks="kode.plugins.team.checks:checks",
)
