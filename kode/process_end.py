"""How a process of kode ends before its time: stopped by a signal, which during a turn cancels the
turn, or by a fault of its own, described in `$KODE_HOME/logs` with credentials masked.
"""

import contextlib
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kode import durable, paths
from kode.errors import KodeError

if TYPE_CHECKING:
    import asyncio

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt_by_signals() -> None:
    """Makes SIGTERM and SIGHUP end kode as Ctrl-C does before a turn."""
    for number in SIGNALS[1:]:
        if not _is_ignored(number):
            signal.signal(number, signal.default_int_handler)


def cancelled_by_signals(task: "asyncio.Future[Any]") -> contextlib.AbstractContextManager[None]:
    """Makes SIGINT, SIGTERM and SIGHUP, also a second one, end the turn with its progress saved."""
    return handle_signals(dict.fromkeys(SIGNALS, task.cancel))


@contextlib.contextmanager
def handle_signals(actions: Mapping[signal.Signals, Callable[[], object]]) -> Iterator[None]:
    """Installs a handler per signal for the duration of the block."""
    import asyncio

    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in actions if not _is_ignored(number)}
    for number in before:
        loop.add_signal_handler(number, actions[number])
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


def _is_ignored(number: signal.Signals) -> bool:
    """Whether SIGHUP was set to be ignored by whoever started kode (`nohup`); it stays so."""
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN


def describe_fault(error: BaseException) -> str:
    """Writes a report; returns what happened and where the report is. Never raises."""
    return f"An internal error in kode ({type(error).__name__}). {write_report(error)}"


def write_report(error: BaseException) -> str:
    """Writes the traceback; returns a sentence that says where it is. Never raises."""
    from kode import __version__
    from kode.credentials import redact

    text = redact("".join(traceback.format_exception(error)))
    try:
        folder = paths.logs_folder(paths.home())
        path = folder / f"fault-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.txt"
        durable.make_folder(folder)
        durable.replace(path, f"kode {__version__}\n{text}".encode("utf-8", "replace"))
    except (KodeError, OSError):
        return "The error report could not be written to the log folder."
    return f"The report is in {path}; please attach it when you report this."
