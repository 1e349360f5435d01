"""Signals that end a task in good order: what there is of it is saved and reported.

Before there is a turn to save, they end kode with a word about it; while one runs, they cancel it.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt_by_signals() -> None:
    """Before there is a turn SIGTERM and SIGHUP end kode as Ctrl-C does: with a word about it, in
    the format asked for."""
    for number in SIGNALS[1:]:
        if not _ignored(number):
            signal.signal(number, signal.default_int_handler)


def cancelled_by_signals(
    task: "asyncio.Future[Any]",
) -> "contextlib.AbstractContextManager[None]":
    """SIGINT, SIGTERM and SIGHUP end the turn, which saves what there is; so does a second one."""
    return heeding(dict.fromkeys(SIGNALS, task.cancel))


@contextlib.contextmanager
def heeding(actions: Mapping[signal.Signals, Callable[[], object]]) -> Iterator[None]:
    """What each signal does in the meantime, instead of tearing something out of its course."""
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
    """SIGHUP stays ignored where whoever started kode wants that (`nohup`)."""
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN
