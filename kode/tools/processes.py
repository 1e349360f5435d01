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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode.programs import start_program

if TYPE_CHECKING:
    from kode.sandbox.attempt import Attempt

MARK = "KODE_SHELL_ID"
"""The environment variable with a process's marks, separated by `:`, its own last."""

NO_GROUP = -1
"""An unknown group: then only the mark counts."""

GRACE_S = 1.0
"""Between SIGTERM and SIGKILL."""

_STAT_BYTES = 4096  # a line of /proc/PID/stat has about 300
_POLL_S = 0.02  # below what a person notices
_MAX_ROUNDS = 50
"""Give up on processes that fork faster than they are found after this many rounds."""


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    name: str


def new_mark() -> str:
    return secrets.token_hex(12)


def is_mark(text: object) -> bool:
    """Whether a text has the form of a mark: what was read from a file may be anything."""
    return isinstance(text, str) and re.fullmatch("[0-9a-f]{24}", text) is not None


def marked(mark: str) -> dict[str, str]:
    """The variable that marks a command and everything it starts. Inside another kode's command it
    has both marks, so that the outer kode finds it too."""
    outer = os.environ.get(MARK, "")
    return {MARK: f"{outer}:{mark}" if outer else mark}


def now() -> int:
    """The current time for `find`: kernel ticks since boot."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")) - 1


def find(group: int, mark: str, since: int = 0) -> list[Process]:
    """The living processes of a command, by its group (the pid of its shell) and its mark. `since`
    is the value of `now` before the command started; older processes are skipped."""
    if os.path.isdir("/proc/self"):
        return _find_in_proc(group, mark.encode(), since)
    return _find_by_ps(group)


async def end(group: int, mark: str) -> None:
    """Sends SIGTERM to all, waits a short grace, then kills the rest; on cancellation at once."""
    try:
        _signal(find(group, mark), signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        # Nothing signals the end of a process that is not our child, so poll.
        while time.monotonic() < deadline and find(group, mark):
            await asyncio.sleep(_POLL_S)
    finally:
        kill(group, mark)


def kill(group: int, mark: str) -> None:
    """Kills all at once, without SIGTERM."""
    # Repeats until none is found: a process may have started another in between.
    for _ in range(_MAX_ROUNDS):
        processes = find(group, mark)
        if not processes:
            return
        _signal(processes, signal.SIGKILL)


def _signal(processes: list[Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def _find_in_proc(group: int, mark: bytes, since: int) -> list[Process]:
    rows: dict[int, tuple[int, int, str]] = {}
    tree = set[int]()
    name = f"{MARK}=".encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if (row := _row_in_proc(pid, since)) is None:
                continue
            rows[int(pid)] = row
            # Only the variable itself: another may contain the same text, a key say.
            for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                if variable.startswith(name) and mark in variable[len(name) :].split(b":"):
                    tree.add(int(pid))
        except (OSError, ValueError):
            continue  # gone meanwhile, or another user's
    return _with_descendants(rows, tree, group)


def _row_in_proc(pid: str, since: int) -> tuple[int, int, str] | None:
    """Parent, group and name; None if it has ended or is too old. Raises: OSError, ValueError."""
    # No file object: this runs for every process of the machine, after each command.
    file = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        stat, _, rest = os.read(file, _STAT_BYTES).rpartition(b")")
    finally:
        os.close(file)
    fields = rest.split(b" ", 21)
    if fields[1] in b"ZX" or int(fields[20]) < since:
        return None
    name = stat.partition(b"(")[2].decode(errors="replace")
    return int(fields[2]), int(fields[3]), name


def _find_by_ps(group: int) -> list[Process]:
    listed = subprocess.run(
        ["/bin/ps", "-A", "-o", "pid=,ppid=,pgid=,stat=,comm="],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    rows: dict[int, tuple[int, int, str]] = {}
    for line in listed.splitlines():
        fields = line.split(None, 4)
        if len(fields) == 5 and not fields[3].startswith("Z"):
            rows[int(fields[0])] = (int(fields[1]), int(fields[2]), os.path.basename(fields[4]))
    return _with_descendants(rows, set(), group)


def _with_descendants(
    rows: dict[int, tuple[int, int, str]], marked: set[int], group: int
) -> list[Process]:
    tree = {pid for pid, (_parent, group_id, _name) in rows.items() if group_id == group} | marked
    while more := {pid for pid, (parent, _g, _n) in rows.items() if parent in tree} - tree:
        tree |= more
    tree.discard(os.getpid())
    return [Process(pid, rows[pid][2]) for pid in sorted(tree)]


SHELL = "/bin/sh"

_SCRIPT = r"""
trap '' HUP INT QUIT TERM
cd /
open=
while read -r word mark group; do
  rest=
  for one in $open; do
    case $one in "$mark":*) ;; *) rest="$rest $one" ;; esac
  done
  open=$rest
  case $word in runs) open="$open $mark:$group" ;; esac
done
[ -n "$open" ] || exit 0
end() {
  marks=
  for one in $open; do
    marks="$marks -e KODE_SHELL_ID=[0-9a-f:]*${one%%:*}"
    case ${one#*:} in ?*) kill -s "$1" -- "-${one#*:}" ;; esac
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

    pipe: int = -1
    """The write end, open as long as this process lives."""
    open: dict[str, str] = field(default_factory=dict)
    """Mark → group ("" while unknown) of running commands."""

    def begins(self, mark: str) -> None:
        """Registers a command before it starts: by its mark alone, in case kode dies now."""
        self.runs(mark, "")

    def runs(self, mark: str, group: int | str) -> None:
        """Registers the process group once it is known."""
        self.open[mark] = str(group)
        self._write(f"runs {mark} {group}")

    def is_over(self, mark: str) -> None:
        """Unregisters a command with no living process."""
        if self.open.pop(mark, None) is not None:
            self._write(f"over {mark}")

    def _write(self, line: str) -> None:
        # Commands still run on a machine where this is unavailable.
        with contextlib.suppress(OSError):
            try:
                if self.pipe < 0:
                    raise BrokenPipeError
                os.write(self.pipe, f"{line}\n".encode())
            except BrokenPipeError:  # not started yet, or killed by somebody
                self._start()
                lines = [f"runs {mark} {group}\n" for mark, group in self.open.items()]
                os.write(self.pipe, "".join(lines).encode())

    def _start(self) -> None:
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1
        read, written = os.pipe()
        try:
            os.set_blocking(written, False)
            os.posix_spawn(
                SHELL,
                [SHELL, "-c", _SCRIPT],
                # Without a mark: an outer kode must not take it for a leftover command.
                {"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, read, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                # Ctrl-C at the terminal must not reach it.
                setpgroup=0,
            )
        except BaseException:
            os.close(written)
            raise
        finally:
            os.close(read)
        self.pipe = written


WATCH = Watch()
"""The watch of this process."""


class ProcessTree:
    """A program that kode starts beside itself, with everything that it starts: found by a mark,
    also by another kode after this one was killed."""

    def __init__(self, mark: str = "", wrapped: "Attempt | None" = None) -> None:
        """`wrapped` runs the program in the sandbox."""
        self.mark = mark or new_mark()
        self.wrapped = wrapped
        self._since = 0 if mark else now()
        self._group = NO_GROUP
        self._is_gone = False

    async def start(
        self, *argv: str, environment: Mapping[str, str], **options: Any
    ) -> asyncio.subprocess.Process:
        """Starts the program in a session of its own; where this process is killed, all of it ends.
        Raises: OSError."""
        if self.wrapped is not None:
            argv, options["pass_fds"] = self.wrapped.argv, self.wrapped.descriptors
        WATCH.begins(self.mark)
        variables = {**environment, **marked(self.mark)}
        process = await start_program(*argv, env=variables, start_new_session=True, **options)
        self._group = process.pid
        WATCH.runs(self.mark, process.pid)
        return process

    def find(self) -> list[Process]:
        """What is left of it. Once that is nothing, nothing can come any more."""
        left = [] if self._is_gone else find(self._group, self.mark, self._since)
        self._is_gone = not left
        return left

    async def end(self) -> None:
        """Ends what is left of it."""
        if self.find():
            await end(self._group, self.mark)

    def kill(self) -> None:
        """Kills what is left of it, at once."""
        if not self._is_gone:
            kill(self._group, self.mark)

    def forget(self) -> None:
        """Is called once nothing of it is left, or it could not be started."""
        WATCH.is_over(self.mark)
        if self.wrapped is not None:
            self.wrapped.settle()
