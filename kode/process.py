"""kode's processes: the programs that it starts itself (git, ripgrep), how deep it is
nested, and how it ends before its time: by a signal, which during a turn cancels the turn, or by a
fault of its own, described in `$KODE_HOME/logs` with credentials masked. Commands of a model or a
person are started elsewhere, unchanged and with the full PATH.
"""

import contextlib
import os
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode import durable, paths
from kode.errors import KodeError
from kode.workplace import is_below

if TYPE_CHECKING:
    import asyncio

DEPTH = "KODE_DEPTH"
"""The variable that counts how many kodes a process is nested in."""


def nesting_depth(environ: Mapping[str, str]) -> int:
    """How many kodes this process is nested in, from its environment; 0 for none."""
    value = environ.get(DEPTH, "")
    return int(value) if value.isdecimal() and len(value) < 4 else 0


def nested_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variable to set for child processes."""
    return {DEPTH: str(nesting_depth(environ) + 1)}


def find_program(name: str, work: Iterable[Path] = (), *, path: str | None = None) -> str | None:
    """The absolute path of a program on PATH (or `path`); None if there is none. A name with a
    slash is used unchanged: a person chose it.

    Programs inside the working directory, its repository or the folders in `work` are skipped: a
    repository's author, a model or a sandboxed command may have put a fake `git` there.
    """
    if os.sep in name:
        return shutil.which(name)
    folders = os.environ.get("PATH", os.defpath) if path is None else path
    distrusted = [paths.real_path(folder) for folder in work]
    with contextlib.suppress(OSError):  # the working directory is gone
        cwd = Path.cwd()
        distrusted += map(paths.real_path, (cwd, paths.repository_root(cwd) or cwd))
    for folder in folders.split(os.pathsep):
        program = shutil.which(name, path=folder) if os.path.isabs(folder) else None
        if program and not any(
            is_below(paths.real_path(place), other)
            for place in (folder, program)
            for other in distrusted
            if other != "/"  # the root contains every program
        ):
            return program
    return None


async def start_program(*argv: str | Path, **options: Any) -> "asyncio.subprocess.Process":
    """Like `asyncio.create_subprocess_exec`, which hangs if it is cancelled before the pipes are
    connected (CPython up to 3.12). Here a cancellation kills the program and waits for its end.

    Raises: OSError, ValueError.
    """
    import asyncio  # not for `--help`

    starting = asyncio.ensure_future(asyncio.create_subprocess_exec(*argv, **options))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting])
        if starting.exception() is None:
            process = starting.result()
            # Kills it, and closes the pipes, which programs of its own may hold.
            process._transport.close()  # type: ignore[attr-defined]
            await process.wait()
        raise


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def cancelled_by_signals(task: "asyncio.Future[Any]") -> contextlib.AbstractContextManager[None]:
    """Makes SIGINT, SIGTERM and SIGHUP cancel the turn, with its progress saved; repeats, too."""
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
        folder = paths.logs_folder(paths.kode_home())
        path = folder / f"fault-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.txt"
        durable.make_folder(folder)
        durable.replace_file(path, f"kode {__version__}\n{text}".encode("utf-8", "replace"))
    except (KodeError, OSError):
        return "The error report could not be written to the log folder."
    return f"The report is in {path}; please attach it when you report this."
