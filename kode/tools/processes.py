"""Ends everything a command started: its process group, and what left that group, found by a mark
in its environment, which children inherit. Where there is no `/proc` (macOS), `ps` tells who
descends from whom; there a detached orphan that left its group is not found.

A kode that is killed has no time for it: one `sh` beside it waits on a pipe, which the system
closes then, and ends what it knows of. Of each command that costs two short writes.
"""

import asyncio
import contextlib
import os
import re
import secrets
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

MARK = "KODE_SHELL_ID"
"""The environment variable that holds the marks of a process, with `:` between: its own last."""

NO_GROUP = -1
"""Where the group is not known: then the mark alone tells."""

GRACE_S = 1.0
"""Between SIGTERM and SIGKILL."""

_STAT_BYTES = 4096
_POLL_S = 0.02
_MAX_ROUNDS = 50
"""A process that forks faster than it is found is given up on after so many rounds."""


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    name: str


def new_mark() -> str:
    return secrets.token_hex(12)


def is_mark(text: object) -> bool:
    """Whether it has the form of a mark: what was read from a file may be anything."""
    return isinstance(text, str) and re.fullmatch("[0-9a-f]{24}", text) is not None


def marked(mark: str) -> dict[str, str]:
    """The variable that marks a command and all it starts. One inside another kode's command has
    both marks, so that the outer one finds it too."""
    outer = os.environ.get(MARK, "")
    return {MARK: f"{outer}:{mark}" if outer else mark}


def now() -> int:
    """The present, as `found` takes it: kernel ticks since the machine was started."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")) - 1


def found(group: int, mark: str, since: int = 0) -> list[Process]:
    """The living processes of a command, by its group (the pid of its shell) and its mark. It was
    started after `since`, the `now` of then, so what is older need not be looked into."""
    if os.path.isdir("/proc/self"):
        return _found_in_proc(group, mark.encode(), since)
    return _found_by_ps(group)


async def end(group: int, mark: str) -> None:
    """Asks all to end, waits a short grace, then kills what is left; on cancellation at once."""
    try:
        _signal(found(group, mark), signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        # Nothing tells when a process that is not our child has ended, so it is asked for.
        while time.monotonic() < deadline and found(group, mark):
            await asyncio.sleep(_POLL_S)
    finally:
        kill(group, mark)


def kill(group: int, mark: str) -> None:
    """Kills all at once, without asking."""
    # Until none is found: one may have started another in between.
    for _ in range(_MAX_ROUNDS):
        processes = found(group, mark)
        if not processes:
            return
        _signal(processes, signal.SIGKILL)


def _signal(processes: list[Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def _found_in_proc(group: int, mark: bytes, since: int) -> list[Process]:
    rows: dict[int, tuple[int, int, str]] = {}
    marked: set[int] = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            row = _row_in_proc(pid, since)
            if row is None:
                continue
            rows[int(pid)] = row
            if mark in _marks_of(Path(f"/proc/{pid}/environ").read_bytes()):
                marked.add(int(pid))
        except (OSError, ValueError):
            continue  # gone in the meantime, or another user's
    return _with_descendants(rows, marked, group)


def _marks_of(environment: bytes) -> list[bytes]:
    """Only of the variable itself: another may hold the same text, a key say."""
    name = f"{MARK}=".encode()
    for variable in environment.split(b"\0"):
        if variable.startswith(name):
            return variable.removeprefix(name).split(b":")
    return []


def _row_in_proc(pid: str, since: int) -> tuple[int, int, str] | None:
    """Parent, group and name; None for one that has ended or is too old. Raises: OSError,
    ValueError."""
    # Not by a file object: it is done for every process of the machine, after each command.
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


def _found_by_ps(group: int) -> list[Process]:
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
    own = {pid for pid, (_parent, group_id, _name) in rows.items() if group_id == group} | marked
    while more := {pid for pid, (parent, _g, _n) in rows.items() if parent in own} - own:
        own |= more
    own.discard(os.getpid())
    return [Process(pid, rows[pid][2]) for pid in sorted(own)]


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
"""Asks, waits, kills; once more for what one has started in between."""


@dataclass
class Watch:
    """The `sh` of one process; started when there is something to tell it."""

    pipe: int = -1
    """The end that is written to; it is open as long as this process lives."""
    open: dict[str, str] = field(default_factory=dict)
    """Mark → group ("" while it is not known) of the commands that run."""

    def begins(self, mark: str) -> None:
        """Before a command is started: it is found by its mark alone, should kode end now."""
        self._runs(mark, "")

    def runs(self, mark: str, group: int) -> None:
        """Once its process group is known."""
        self._runs(mark, str(group))

    def is_over(self, mark: str) -> None:
        """Nothing of it lives any more."""
        if self.open.pop(mark, None) is not None:
            self._say(f"over {mark}")

    def _runs(self, mark: str, group: str) -> None:
        self.open[mark] = group
        self._say(f"runs {mark} {group}")

    def _say(self, line: str) -> None:
        # A machine where this is not to be had still runs its commands.
        with contextlib.suppress(OSError):
            try:
                if self.pipe < 0:
                    raise BrokenPipeError
                os.write(self.pipe, f"{line}\n".encode())
            except BrokenPipeError:  # none yet, or somebody has ended it
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
                # Without a mark: an outer kode must not take it for a command that was left.
                {"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, read, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                # A Ctrl-C at the terminal is not for it.
                setpgroup=0,
            )
        except BaseException:
            os.close(written)
            raise
        finally:
            os.close(read)
        self.pipe = written


WATCH = Watch()
"""Of this process."""
