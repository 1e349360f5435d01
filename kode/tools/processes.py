"""Kills everything a command started: its process group, and processes that left it, found by a
mark in their environment, which children inherit. Without `/proc` (macOS), `ps` shows parents; a
detached orphan that left its group is not found there.

A killed kode cannot clean up: an `sh` process beside it waits on a pipe, which the system then
closes, and kills the commands it knows of. That costs two short writes per command.
"""

import asyncio
import contextlib
import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kode.programs import start_program

if TYPE_CHECKING:
    from kode.sandbox.attempt import Attempt

MARK = "KODE_SHELL_ID"
"""The environment variable with a process's marks, separated by `:`, its own last."""

GRACE_S = 1.0
"""Between SIGTERM and SIGKILL."""

_POLL_S = 0.02  # below what a person notices
_MAX_ROUNDS = 50
"""Give up on processes that fork faster than they are found after this many rounds."""


class Process(NamedTuple):
    pid: int
    parent: int
    group: int
    name: str
    marks: frozenset[bytes] = frozenset()


def new_mark() -> str:
    return secrets.token_hex(12)


def is_mark(text: object) -> bool:
    """Whether a text has the form of a mark: what was read from a file may be anything."""
    return isinstance(text, str) and re.fullmatch("[0-9a-f]{24}", text) is not None


def mark_environment(mark: str) -> dict[str, str]:
    """The variable that marks a command and everything it starts. Inside another kode's command it
    has both marks, so that the outer kode finds it too."""
    outer = os.environ.get(MARK, "")
    return {MARK: f"{outer}:{mark}" if outer else mark}


def _read_proc(since: int) -> Iterator[Process]:
    variable = f"\0{MARK}=".encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError, IndexError):  # gone meanwhile
            # No buffer: this runs for every process of the machine, after each command.
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                stat, _, rest = file.read(4096).rpartition(b")")
            _, state, parent, group, *fields = rest.split(b" ", 21)
            if state in b"ZX" or int(fields[16]) < since:
                continue
            variables = b""
            with contextlib.suppress(OSError):  # another user's
                variables = b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
            # Only the variable itself: another may contain the same text, a key say.
            marks = variables.partition(variable)[2].partition(b"\0")[0].split(b":")
            name = stat.partition(b"(")[2].decode(errors="replace")
            yield Process(int(pid), int(parent), int(group), name, frozenset(marks))


def _ask_ps() -> Iterator[Process]:
    listed = subprocess.run(
        ["/bin/ps", "-A", "-o", "pid=,ppid=,pgid=,stat=,comm="],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    for line in listed.splitlines():
        pid, parent, group, state, name = [*line.split(None, 4), ""][:5]
        if not state.startswith("Z"):
            yield Process(int(pid), int(parent), int(group), os.path.basename(name))


SHELL = "/bin/sh"

_SCRIPT = r"""
trap '' HUP INT QUIT TERM
cd /
while read -r line; do open=$line; done
[ -n "$open" ] || exit 0
end() {
  marks=
  for command in $open; do
    marks="$marks -e KODE_SHELL_ID=[0-9a-f:]*${command%%:*}"
    case ${command#*:} in ?*) kill -s "$1" -- "-${command#*:}" ;; esac
  done
  for file in $(grep -ls $marks /proc/[0-9]*/environ); do
    file=${file#/proc/}
    kill -s "$1" "${file%/environ}"
  done
}
end TERM
sleep 1
end KILL
end KILL
"""
"""Terminates, waits, kills; then repeats for what was started in between."""


@dataclass
class Watch:
    """The `sh` process of one kode; started on first use."""

    open: dict[str, str] = field(default_factory=dict)
    """Mark → group ("" while unknown) of running commands."""
    _process: "subprocess.Popen[bytes] | None" = None
    """Each line that it reads has all running commands."""

    def add(self, mark: str, group: int | str = "") -> None:
        """Registers a command: before it starts by its mark alone, in case kode dies now, and with
        its process group once that is known."""
        self.open[mark] = str(group)
        self._write()

    def remove(self, mark: str) -> None:
        """Unregisters a command with no living process."""
        if self.open.pop(mark, None) is not None:
            self._write()

    def _write(self) -> None:
        # Commands still run on a machine where this is unavailable.
        with contextlib.suppress(OSError):
            if self._process is None or self._process.poll() is not None:
                self._process = self._start()
            assert self._process.stdin is not None
            commands = " ".join(f"{mark}:{group}" for mark, group in self.open.items())
            self._process.stdin.write(f"{commands}\n".encode())

    def _start(self) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [SHELL, "-c", _SCRIPT],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Without a mark: an outer kode must not take it for a leftover command.
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            process_group=0,  # Ctrl-C at the terminal must not reach it.
        )
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        return process


WATCH = Watch()
"""The watch of this process."""


class ProcessTree:
    """A program that kode starts beside itself, with everything that it starts: found by a mark,
    also by another kode after this one was killed."""

    def __init__(self, mark: str = "", wrapped: "Attempt | None" = None) -> None:
        """`wrapped` runs the program in the sandbox."""
        self.mark = mark or new_mark()
        self.wrapped = wrapped
        self._since = 0
        """Older processes are skipped; in kernel ticks since boot."""
        if not mark and hasattr(time, "CLOCK_BOOTTIME"):
            boot_s = time.clock_gettime(time.CLOCK_BOOTTIME)
            self._since = int(boot_s * os.sysconf("SC_CLK_TCK")) - 1
        self._group = -1
        """The pid of its shell; -1 while unknown: then only the mark counts."""
        self._is_gone = False

    async def start(
        self, *argv: str, environment: Mapping[str, str], **options: Any
    ) -> asyncio.subprocess.Process:
        """Starts the program in a session of its own; where this process is killed, all of it ends.
        Raises: OSError."""
        if self.wrapped is not None:
            argv, options["pass_fds"] = self.wrapped.argv, self.wrapped.descriptors
        WATCH.add(self.mark)
        variables = {**environment, **mark_environment(self.mark)}
        process = await start_program(*argv, env=variables, start_new_session=True, **options)
        self._group = process.pid
        WATCH.add(self.mark, process.pid)
        return process

    def find(self) -> list[Process]:
        """What is left of it. Once that is nothing, nothing can come any more."""
        if self._is_gone:
            return []
        listed = _read_proc(self._since) if os.path.isdir("/proc/self") else _ask_ps()
        processes = {process.pid: process for process in listed}
        tree, mark = set[int](), self.mark.encode()
        while more := {
            pid
            for pid, process in processes.items()
            if pid not in tree
            and (process.group == self._group or mark in process.marks or process.parent in tree)
        }:
            tree |= more
        left = [processes[pid] for pid in sorted(tree - {os.getpid()})]
        self._is_gone = not left
        return left

    async def end(self) -> None:
        """Sends SIGTERM to all, and kills the rest after a short grace; on cancellation at once."""
        try:
            self._signal(signal.SIGTERM)
            deadline = time.monotonic() + GRACE_S
            # Nothing signals the end of a process that is not our child, so poll.
            while self.find() and time.monotonic() < deadline:
                await asyncio.sleep(_POLL_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kills all at once, without SIGTERM."""
        # Repeats until none is found: a process may have started another in between.
        for _ in range(_MAX_ROUNDS):
            if not self._signal(signal.SIGKILL):
                return

    def _signal(self, number: signal.Signals) -> bool:
        """Sends a signal to all; False if there are none."""
        processes = self.find()
        for process in processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, number)
        return bool(processes)

    def forget(self) -> None:
        """Is called once nothing of it is left, or it could not be started."""
        WATCH.remove(self.mark)
        if self.wrapped is not None:
            self.wrapped.settle()
