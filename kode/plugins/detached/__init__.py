"""`kode start`, `ps`, `attach`, `logs`, `send`, `answer`, `stop`: sessions that need no terminal;
and `--worktree`, also for runs and chats in a terminal.

    start     checks a task, and starts its holder
    branch    the worktree of a run or a chat
    holder    owns a session's terminal: a separate program that needs only the standard library
    inside    the prompt in that terminal: reports its state, and takes answers without keys
    places    the files of each session, and whether it is alive
    command   lists sessions; sends to one, stops one, attaches this terminal to one

Such a session is the ordinary prompt, run in a pseudo-terminal. See `docs/background.md`.
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
"""Makes the subscriber to the session's events, if this process runs such a session; else empty."""


def make_subscriber(opened: "PluginSession") -> "Callable[[Event], None] | None":
    """The subscriber of `REPORTERS`, if any. Here, because every session of kode asks for it."""
    return REPORTERS[0](opened) if REPORTERS else None
