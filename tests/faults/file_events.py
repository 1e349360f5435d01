"""Kills a forked kode at one of its own calls that change files: the n-th after a function of it
was called first, until another returns. Armed by `tests/warm.py`, from the environment.

One hook sees them all: Python's audit events, which come before a call, and in the same way the
calls that have none, `write` and `fsync`. A write that is killed has written half.
"""

import importlib
import inspect
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

ORDER = "KILLED_AT"
"""The variable that holds a `Point`, as JSON."""

_CHANGING = {
    *("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate"),
    *("os.chmod", "os.setxattr", "os.removexattr", "os.utime", "sqlite3.connect"),
}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


@dataclass(frozen=True)
class Point:
    """Where to kill: `module:name` of the functions between which events count, and the number of
    the event; 0 kills nowhere and writes the number of all to `counted`."""

    first: str
    last: str = ""
    """"": until the process ends."""
    number: int = 0
    counted: str = ""

    @property
    def order(self) -> dict[str, str]:
        return {ORDER: json.dumps(asdict(self))}


class _Counter:
    def __init__(self, point: Point) -> None:
        self.point, self.count, self.runs = point, 0, False
        self.lock = threading.RLock()

    def note(self, last_words: Callable[[], object] = lambda: None) -> None:
        with self.lock:
            if not self.runs:
                return
            self.count += 1
            if self.count == self.point.number:
                self.runs = False
                last_words()
                os.kill(os.getpid(), signal.SIGKILL)

    def begin(self) -> None:
        self.runs = True

    def end(self) -> None:
        with self.lock:
            self.runs = False
            if self.point.counted:
                Path(self.point.counted).write_text(str(self.count))


def arm(order: str) -> None:
    """Raises AttributeError for a function that does not exist."""
    counter = _Counter(Point(**json.loads(order)))
    write, fsync = os.write, os.fsync

    def writing(descriptor: int, data: Any) -> int:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            counter.note(lambda: write(descriptor, bytes(data)[: len(data) // 2]))
        return write(descriptor, data)

    def syncing(descriptor: int) -> None:
        counter.note()
        fsync(descriptor)

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _CHANGING or (event == "open" and _is_to_write(arguments)):
            counter.note()

    os.write, os.fsync = writing, syncing
    _wrap(counter.point.first, before=counter.begin)
    if counter.point.last:
        _wrap(counter.point.last, after=counter.end)
    else:
        import atexit

        atexit.register(counter.end)
    sys.addaudithook(hear)


def _is_to_write(arguments: tuple[Any, ...]) -> bool:
    path, _, flags = arguments
    return bool(flags & _WRITES) and str(path) != os.devnull


def _wrap(where: str, *, before: Callable[[], None] = int, after: Callable[[], None] = int) -> None:
    """Wraps a function or a method, wherever it was imported."""
    module, _, name = where.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, name = name.split(".")
    for one in outer:
        owner = getattr(owner, one)
    wrapped = getattr(owner, name)

    def plain(*given: Any, **named: Any) -> Any:
        before()
        try:
            return wrapped(*given, **named)
        finally:
            after()

    async def waiting(*given: Any, **named: Any) -> Any:
        before()
        try:
            return await wrapped(*given, **named)
        finally:
            after()

    wrapper = waiting if inspect.iscoroutinefunction(wrapped) else plain
    setattr(owner, name, wrapper)
    for loaded in list(sys.modules.values()):
        if getattr(loaded, "__dict__", {}).get(name) is wrapped:
            setattr(loaded, name, wrapper)
