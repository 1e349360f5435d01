"""Handles signals so that a task ends in good order, saved and reported.

Before there is a turn to save, a signal ends kode with a message; during a turn, it cancels the
turn.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt_by_signals() -> None:
    """Makes SIGTERM and SIGHUP end kode like Ctrl-C does before a turn: with a message in the
    requested format."""
    for number in SIGNALS[1:]:
        if not _ignored(number):
            signal.signal(number, signal.default_int_handler)


def cancelled_by_signals(
    task: "asyncio.Future[Any]",
) -> "contextlib.AbstractContextManager[None]":
    """Makes SIGINT, SIGTERM and SIGHUP end the turn, which saves its progress; so does a second
    one."""
    return heeding(dict.fromkeys(SIGNALS, task.cancel))


@contextlib.contextmanager
def heeding(actions: Mapping[signal.Signals, Callable[[], object]]) -> Iterator[None]:
    """Installs a handler per signal for the duration of the block."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in actions if not _ignored(number)}
    for number in before:
        loop.add_signal_handler(number, actions[number])
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


def _ignored(number: signal.Signals) -> bool:
    """Whether SIGHUP was set to be ignored by whoever started kode (`nohup`); it stays so."""
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN
