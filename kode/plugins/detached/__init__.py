"""`kode start`, `ps`, `attach`, `answer`, `stop`: sessions that need no terminal.

    start     checks a task, and starts its holder
    holder    owns a session's terminal: a program of its own, of the standard library alone
    inside    the prompt in that terminal: what it does as values, and answers beside its keys
    places    what is on disk of each session, and whether it lives
    command   lists sessions, answers their questions, stops one, joins this terminal with one

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
            ("ps", "command:ps", "list sessions in the background"),
            ("attach", "command:attach", "open a session in the background here"),
            ("answer", "command:answer", "answer the question of a session in the background"),
            ("stop", "command:stop", "stop a session in the background"),
        )
    },
    subscriber="kode.plugins.detached:subscriber",
)

REPORTERS: "list[Callable[[PluginSession], Callable[[Event], None]]]" = []
"""In the process of a prompt of such a session, what makes its subscriber; else nothing."""


def subscriber(opened: "PluginSession") -> "Callable[[Event], None] | None":
    """What reports the events of such a prompt. Here, since every session asks for it."""
    return REPORTERS[0](opened) if REPORTERS else None
