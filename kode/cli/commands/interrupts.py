"""Signals that end a task in good order: what there is of it is saved and reported.

Before there is a turn to save, they end kode with a word about it; while one runs, they cancel it.
"""

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt_by_signals() -> None:
    """Before there is a turn SIGTERM and SIGHUP end kode as Ctrl-C does: with a word about it, in
    the format asked for."""
    for number in _heeded():
        if number != signal.SIGINT:
            signal.signal(number, signal.default_int_handler)


def _heeded() -> list[signal.Signals]:
    """SIGHUP stays ignored where whoever started kode wants that (`nohup`)."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [number for number in SIGNALS if number != signal.SIGHUP or not ignored]


@contextlib.contextmanager
def cancelled_by_signals(task: "asyncio.Future[Any]") -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP end the turn, which saves what there is; so does a second one."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _heeded()}
    for number in before:
        loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
