"""`kode start`, `ps`, `attach`, `logs`, `send`, `answer`, `stop`: sessions that need no terminal;
and `--worktree`, for one that may have one.

    start     checks a task, and starts its holder
    branch    the worktree of a run or a chat
    holder    owns a session's terminal: a program of its own, of the standard library alone
    inside    the prompt in that terminal: what it does as values, and answers beside its keys
    places    what is on disk of each session, and whether it lives
    command   lists sessions, writes to one, stops one, joins this terminal with one

The session is the ordinary prompt in a pseudo-terminal. `docs/background.md` says how it is used.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kode.plugin import Command, Parser, Plugin

if TYPE_CHECKING:
    from kode.plugin import Event, PluginSession


def add_flags(parser: Parser) -> None:
    """Adds `--worktree`; here, because help lists it without a session."""
    about = "in a git worktree and on a branch of its own"
    parser.add_argument("--worktree", nargs="?", const="", metavar="NAME", help=about)


PLUGIN = Plugin(
    name="detached",
    summary="sessions without a terminal",
    commands={
        name: Command(run=f"kode.plugins.detached.{run}", summary=summary)
        for name, run, summary in (
            ("start", "start:main", "start a task in the background"),
            ("ps", "command:ps", "list sessions in the background"),
            ("attach", "command:attach", "open a session in the background here"),
            ("logs", "command:logs", "print what a session in the background has said and done"),
            ("send", "command:send", "send a message to a session in the background"),
            ("answer", "command:answer", "answer the question of a session in the background"),
            ("stop", "command:stop", "stop a session in the background"),
        )
    },
    flags="kode.plugins.detached:add_flags",
    around_run="kode.plugins.detached.branch:work_in_worktree",
    subscriber="kode.plugins.detached:make_subscriber",
)

REPORTERS: "list[Callable[[PluginSession], Callable[[Event], None] | None]]" = []
"""In the process of a prompt of such a session, what makes its subscriber; else nothing."""


def make_subscriber(opened: "PluginSession") -> "Callable[[Event], None] | None":
    """What reports the events of such a prompt. Here, since every session asks for it."""
    return REPORTERS[0](opened) if REPORTERS else None
