"""`kode start`, `ps`, `attach`, `answer`, `stop`: sessions that need no terminal.

    start     checks a task, and starts its holder
    holder    owns a session's terminal: a program of its own, of the standard library alone
    inside    the prompt in that terminal: what it does as values, and answers beside its keys
    places    what is on disk of each session, and whether it lives
    attach    joins this terminal with a session's
    ps        lists sessions, shows and answers their questions, and stops one
    trees     a worktree and a branch for a session; merges or drops them

The session is the ordinary prompt in a pseudo-terminal. `docs/background.md` says how it is used.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kode.plugin import Command, Plugin

if TYPE_CHECKING:
    from kode.plugin import Event, PluginSession

PLUGIN = Plugin(
    name="detached",
    summary="sessions without a terminal",
    commands={
        name: Command(run=f"kode.plugins.detached.{run}", summary=summary)
        for name, run, summary in (
            ("start", "start:main", "start a task in the background"),
            ("ps", "ps:main", "list sessions in the background"),
            ("attach", "attach:main", "open a session in the background here"),
            ("answer", "ps:answer", "answer the question of a session in the background"),
            ("stop", "ps:stop", "stop a session in the background"),
        )
    },
    subscriber="kode.plugins.detached:subscriber",
)

REPORTERS: "list[Callable[[PluginSession], Callable[[Event], None]]]" = []
"""In the process of a prompt of such a session, what makes its subscriber; else nothing."""


def subscriber(opened: "PluginSession") -> "Callable[[Event], None] | None":
    """What reports the events of such a prompt. Here, since every session asks for it."""
    return REPORTERS[0](opened) if REPORTERS else None
