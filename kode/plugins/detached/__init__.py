"""`kode start`, `ps`, `attach`, `answer`, `stop`: sessions that need no terminal.

    flags     the command line of `kode start`
    start     checks a task, and starts its holder
    holder    owns a session's terminal: a program of its own, of the standard library alone
    inside    the prompt in that terminal: what it does as values, and answers beside its keys
    places    what is on disk of each session, and whether it lives
    talk      asks a living session for its question, and answers it
    attach    joins this terminal with a session's
    ps        lists sessions, and stops one
    answer    answers a session's question
    trees     a worktree and a branch for a session; merges or drops them

The session is the ordinary prompt in a pseudo-terminal. `docs/background.md` says how it is used.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kode.plugin import Command, Plugin

if TYPE_CHECKING:
    from kode.plugin import Opened, Subscriber

PLUGIN = Plugin(
    name="detached",
    summary="sessions without a terminal",
    commands={
        "start": Command(
            run="kode.plugins.detached.start:main", summary="start a task in the background"
        ),
        "ps": Command(
            run="kode.plugins.detached.ps:main", summary="list sessions in the background"
        ),
        "attach": Command(
            run="kode.plugins.detached.attach:main", summary="open a session in the background here"
        ),
        "answer": Command(
            run="kode.plugins.detached.answer:main",
            summary="answer the question of a session in the background",
        ),
        "stop": Command(
            run="kode.plugins.detached.ps:stop", summary="stop a session in the background"
        ),
    },
    subscriber="kode.plugins.detached:subscriber",
)

HEARING: "list[Callable[[Opened], Subscriber]]" = []
"""In the process of a held prompt, what makes its subscriber; else nothing."""


def subscriber(opened: "Opened") -> "Subscriber | None":
    """What hears the events of a held prompt. Here, since every session asks for it."""
    return HEARING[0](opened) if HEARING else None
