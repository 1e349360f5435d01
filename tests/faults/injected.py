"""Injects one fault into a kode at the n-th of its own calls that change a file: the process is
killed, or the disk refuses the call.

One hook sees them all: Python's audit events, which come before a call, and in the same way the
calls that have none, `write` and `fsync`. A write that is killed has written half.

`tests/warm.py` arms what it forks, by the variable `INJECTED_FAULT`.
"""

import atexit
import errno
import json
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

VARIABLE = "INJECTED_FAULT"
"""Of the environment; holds an `Injection` as JSON."""

CHANGING = {
    *("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate"),
    *("os.chmod", "os.setxattr", "os.removexattr", "os.utime", "sqlite3.connect"),
}
TO_DISK = ("write", "fsync")
"""The events that the disk can refuse."""
LOST = "lost"
"""Stands for the error of a disk that takes all data and keeps none, and does not say so."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


@dataclass(frozen=True)
class Injection:
    number: int = 0
    """Of the event that fails, from 1; with 0 none does."""
    error: str = ""
    """The name of the error that the disk gives, as `EIO`, or `LOST`; without one the process is
    killed."""
    lasts: bool = False
    """Whether the disk gives the error to all later writes and syncs too."""
    listed_in: str = ""
    """A file that gets the names of all events, a line each."""

    @property
    def environ(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(asdict(self))}


class _Injector:
    def __init__(self, injection: Injection) -> None:
        self.injection = injection
        self.names: list[str] = []
        self.is_over = False
        self.lock = threading.RLock()

    def note(self, name: str, last_words: Callable[[], object] = lambda: None) -> None:
        """Counts an event. Raises: OSError where the disk is to refuse it."""
        with self.lock:
            if self.is_over:
                return
            self.names.append(name)
            reached = len(self.names) - self.injection.number
            if not self.injection.number or reached < 0:
                return
            if not self.injection.error:
                self.is_over = True
                last_words()
                os.kill(os.getpid(), signal.SIGKILL)
                return
            code = getattr(errno, self.injection.error, 0)
            if code and name in TO_DISK and (reached == 0 or self.injection.lasts):
                raise OSError(code, os.strerror(code))

    def end(self) -> None:
        with self.lock:
            self.is_over = True
            if self.injection.listed_in:
                Path(self.injection.listed_in).write_text("\n".join(self.names))


def arm() -> None:
    """Arms this process as the environment says, which its children do not get."""
    injector = _Injector(Injection(**json.loads(os.environ.pop(VARIABLE, "{}"))))
    real_write, real_fsync = os.write, os.fsync

    def write(descriptor: int, data: Any) -> int:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            half = bytes(data)[: len(data) // 2]
            injector.note("write", lambda: real_write(descriptor, half))
            if injector.injection.error == LOST:
                return len(data)
        return real_write(descriptor, data)

    def fsync(descriptor: int) -> None:
        injector.note("fsync")
        real_fsync(descriptor)

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event in CHANGING or (event == "open" and _is_to_write(*arguments)):
            injector.note(event)

    os.write, os.fsync = write, fsync
    sys.addaudithook(hear)
    atexit.register(injector.end)


def _is_to_write(path: object, _: object, flags: int) -> bool:
    return bool(flags & _WRITES) and str(path) != os.devnull
