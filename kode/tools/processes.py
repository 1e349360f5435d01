"""Ends everything a command started: its process group, and what left that group.

A child that called `setsid` is in no group of ours, and its parent may be gone, so it is found by
a mark in its environment, which children inherit. Where there is no `/proc` (macOS), `ps` tells
who descends from whom; there a detached orphan that left its group is not found.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

MARK = "KODE_SHELL_ID"
"""The environment variable that holds the mark."""

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
            if mark in Path(f"/proc/{pid}/environ").read_bytes():
                marked.add(int(pid))
        except (OSError, ValueError):
            continue  # gone in the meantime, or another user's
    return _with_descendants(rows, marked, group)


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
