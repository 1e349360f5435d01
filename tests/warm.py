"""`kode` without the start of an interpreter: each case is a fork of one process that has already
imported everything. For tests of what kode does, not of how it starts.

As a script this file is that process, one for each pytest process. What it forks has the arguments,
environment, folder and streams that it was sent, and is otherwise what `kode` is right after its
imports.
"""

import atexit
import contextlib
import importlib
import inspect
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
KODE = str(Path(sys.executable).parent / "kode")
LOCALE = {"LANG": "C.UTF-8"}
LATER = (
    *("kode.conversation", "kode.memory.tiered", "kode.sandbox.trial"),
    *("kode.subagents.tool", "kode.providers.chat", "openai"),
)
"""What commands import when they need it, most of the time that they take."""
ENDS = ("p2cread", "c2pwrite", "errwrite")
CLOSED = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
OPTIONS = {"cwd", "stdin", "stdout", "stderr", "text", "bufsize", "start_new_session"}


def can_start(environ: dict[str, str], options: Iterable[str]) -> bool:
    """Whether a fork can have these options of `Popen`, and nothing in the environment is read by
    the interpreter or by libraries when they are imported."""
    said = {name: value for name, value in environ.items() if name.startswith(("LANG", "LC_"))}
    early = ("PYTHON", "OPENAI_LOG", "ANTHROPIC_LOG", "COVERAGE")
    return (
        said == LOCALE
        and OPTIONS.issuperset(options)
        and not any(name.startswith(early) for name in environ)
    )


class Warm(subprocess.Popen[str]):
    """`Popen` of `kode` with these arguments, started by the warm process.

    Raises `RuntimeError` when that process is gone.
    """

    def _execute_child(self, *given: Any) -> None:
        asked = inspect.signature(super()._execute_child).bind(*given).arguments  # type: ignore[misc]
        ends = [asked[name] for name in ENDS]
        streams = [end if end >= 0 else number for number, end in enumerate(ends[:3])]
        case = {
            "argv": [os.fsdecode(word) for word in asked["args"]],
            "cwd": os.fsdecode(asked["cwd"]),
            "environ": asked["env"],
            "own_session": asked["start_new_session"],
        }
        written = json.dumps(case).encode()  # a fault here must not reach the other side
        self._report, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(_line(), [b"."], [*streams, theirs.fileno()])
        self._report.sendall(written)
        self._report.shutdown(socket.SHUT_WR)
        self.pid = self._next_told()
        self._child_created = True
        self._close_pipe_fds(*(asked[name] for name in CLOSED))  # type: ignore[attr-defined]

    def _next_told(self) -> int:
        told = self._report.recv(8)
        if not told:
            raise RuntimeError("The process that tests/warm.py keeps is gone.")
        return int.from_bytes(told, "big")

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._report], [], [], 0)[0]:
            self.returncode = os.waitstatus_to_exitcode(self._next_told())
            self._report.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            select.select([self._report], [], [], timeout)
        if self.poll() is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return self.returncode


@cache
def _line() -> socket.socket:
    """The way to the warm process, which ends when it is closed."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], **LOCALE},
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def _import_everything() -> None:
    commands = importlib.import_module("kode.cli.commands")
    for module in pkgutil.iter_modules(commands.__path__):
        importlib.import_module(f"kode.cli.commands.{module.name}")
    for name in LATER:
        importlib.import_module(name)
    assert threading.active_count() == 1, "a thread would be missing in every fork"


def _next_case(line: socket.socket) -> None:
    """Forks a process for each case that comes, and tells of its end. Returns in the forks only."""
    reports: dict[int, socket.socket] = {}
    woken, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([line, woken], [], [])
        if woken in ready:
            woken.recv(4096)
            for pid in list(reports):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    _tell(reports.pop(pid), status)
        if line in ready:
            data, descriptors, *_ = socket.recv_fds(line, 1, 4)
            if not data:
                os._exit(0)
            report = socket.socket(fileno=descriptors.pop())
            case = json.loads(_whole(report))
            if "ANTHROPIC_API_KEY" in case["environ"]:  # a second that most cases do without
                importlib.import_module("anthropic")
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                for one in (line, woken, wakes, report, *reports.values()):
                    one.close()
                return _become(case, descriptors)
            reports[pid] = report
            _tell(report, pid)
            for descriptor in descriptors:
                os.close(descriptor)


def _whole(report: socket.socket) -> bytes:
    return b"".join(iter(lambda: report.recv(65536), b""))


def _tell(report: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # whoever started it is gone
        report.send(number.to_bytes(8, "big"))


def _become(case: dict[str, Any], descriptors: list[int]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if case["own_session"]:
        os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(case["cwd"])
    os.environ.clear()
    os.environ.update(case["environ"])
    time.tzset()
    if "INJECTED_FAULT" in os.environ:
        importlib.import_module("tests.faults.injected").arm()
    sys.argv = [KODE, *case["argv"]]
    sys.path[0] = os.path.dirname(KODE)
    # As the interpreter opens them in this locale.
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115


if __name__ == "__main__":
    # In place of this file's folder, where `import needs` would find what is not kode's.
    sys.path[0] = str(ROOT)
    _import_everything()
    _next_case(socket.socket(fileno=int(sys.argv[1])))
    from kode.__main__ import main

    sys.exit(main())
