"""Notes and a list of sessions that a team shares through PostgreSQL; each member works on a copy
of their own.

address    where a team is, and what a project is called there
server     the one door to psycopg: what is asked of the server (its tables: schema.sql)
fitting    a line written from what colleagues have changed since: both sides are kept
exchange   what waits is sent, and what colleagues wrote is taken
member     the copy of a session: brought up to date, what arrived
vectors    the vectors of notes: taken over, sent, and searched on the server (tables: vectors.sql)
sessions   the list of sessions that members share: a line each
command    `kode memory team` and `kode session unshare`
checks     what `kode doctor` says of the server
"""

from typing import TYPE_CHECKING

from kode.plugin import Command, Plugin

if TYPE_CHECKING:
    from kode.plugin import Opened
    from kode.plugin.contracts import Subscriber

_MEMBER = "kode.plugins.team.member:open_member"

PLUGIN = Plugin(
    name="team",
    summary="notes and a list of sessions that a team shares",
    commands={
        "memory team": Command(
            run="kode.plugins.team.command:main",
            summary="the members of a team's notes; init, admit, dismiss",
            systems=("notes",),
        ),
        "session unshare": Command(
            run="kode.plugins.team.command:unshare",
            summary="remove this machine's sessions from the team's list",
        ),
    },
    subscriber="kode.plugins.team:sharing",
    sessions={"team": "kode.plugins.team.sessions:SHARED"},
    replicas={"postgresql": _MEMBER, "postgres": _MEMBER},
    checks="kode.plugins.team.checks:checks",
)


def sharing(opened: "Opened") -> "Subscriber | None":
    """What shares the sessions of a conversation; None, and nothing imported, where nobody wants
    that. Raises: ConfigError."""
    if not opened.config.sessions.share:
        return None
    from kode.plugins.team.sessions import hearing

    return hearing(opened)
