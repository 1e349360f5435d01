"""Starts programs beside kode, and kills everything that they started: their process group, and
processes that left it, found by a mark in their environment, which children inherit. Without
`/proc` (macOS), `ps` shows parents; a detached orphan that left its group is not found there.

A killed kode cannot clean up: an `sh` process beside it waits on a pipe, which the system then
closes, and kills the commands it knows of.
"""

import asyncio
import contextlib
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kode.paths import real_path
from kode.process import start_program
from kode.tool import Blocked
from kode.values import Value, dataclass, field, replace

if TYPE_CHECKING:
    from kode.sandbox.reach import Interest, Opens
    from kode.sandbox.sandbox import Attempt, Sandbox

MARK = "KODE_SHELL_ID"
"""The environment variable with a process's marks, separated by `:`, its own last."""

GRACE_S = 1.0  # between SIGTERM and SIGKILL
_POLL_S = 0.02  # below what a person notices
_MAX_ROUNDS = 50  # then processes that fork faster than they are found are given up


class Process(NamedTuple):
    pid: int
    parent: int
    group: int
    name: str
    marks: frozenset[bytes] = frozenset()


def _read_ticks() -> int:
    """The time in kernel ticks since boot, less one; 0 where processes have no such time."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")) - 1


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


_starts: dict[str, tuple[int, int]] = {}
"""Processes older than a command: pid → the inode of its `/proc` folder, and its start in ticks.
They are the majority, and each is read only once."""


def _read_proc(since: int) -> Iterator[Process]:
    variable = f"\0{MARK}=".encode()
    for entry in os.scandir("/proc"):
        pid, inode = entry.name, entry.inode()
        known_inode, started = _starts.get(pid, (0, since))
        if not pid.isdigit() or (known_inode == inode and started < since):
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):  # gone meanwhile
            # No buffer: this runs for every process of the machine, after each command.
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                stat, _, rest = file.read(4096).rpartition(b")")
            _, state, parent, group, *fields = rest.split(b" ", 21)
            if (started := int(fields[16])) < since:
                _starts[pid] = inode, started
            if state in b"ZX" or started < since:
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
    """Each line of its input lists all running commands."""

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
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", _SCRIPT],
                    bufsize=0,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    # Without a mark: an outer kode must not take it for a leftover command.
                    env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
                    process_group=0,  # Ctrl-C at the terminal must not reach it.
                )
            assert self._process.stdin is not None
            os.set_blocking(self._process.stdin.fileno(), False)
            commands = " ".join(map(":".join, self.open.items()))
            self._process.stdin.write(f"{commands}\n".encode())


WATCH = Watch()
"""The watch of this process."""


def _open_end(program: "subprocess.Popen[bytes]") -> int:
    """Opens a descriptor that can be read from once the program itself has ended."""
    try:
        return os.pidfd_open(program.pid)
    except (AttributeError, OSError):  # macOS and gVisor have none: a thread waits
        end, writer = os.pipe()
        ThreadPoolExecutor(1).submit(program.wait).add_done_callback(lambda _: os.close(writer))
        return end


class ProcessTree:
    """A program that kode starts beside itself, with everything that it starts: found by a mark,
    also by another kode after this one was killed."""

    def __init__(self, mark: str = "", wrapped: "Attempt | None" = None) -> None:
        """`wrapped` runs the program in the sandbox."""
        self.program: subprocess.Popen[bytes] | None = None
        self.mark = mark or new_mark()
        self.wrapped = wrapped
        self._since = 0 if mark else _read_ticks()
        """Older processes are skipped; in kernel ticks since boot."""
        self._group = -1
        """The pid of its shell; -1 while unknown: then only the mark counts."""
        self._is_gone = False

    def start(
        self, *argv: str, environment: Mapping[str, str], **options: Any
    ) -> "subprocess.Popen[bytes]":
        """Starts the program in a session of its own; if kode is killed, the watch ends all of the
        tree. Raises: OSError."""
        argv, options = self._prepare(argv, environment, options)
        self.program = subprocess.Popen(argv, start_new_session=True, **options)
        self._group = self.program.pid
        WATCH.add(self.mark, self._group)
        return self.program

    async def start_with_pipes(
        self, *argv: str, environment: Mapping[str, str], **options: Any
    ) -> asyncio.subprocess.Process:
        """As `start`, with pipes that asyncio reads and writes. Its caller waits for its end."""
        argv, options = self._prepare(argv, environment, options)
        process = await start_program(*argv, start_new_session=True, **options)
        self._group = process.pid
        WATCH.add(self.mark, self._group)
        return process

    def _prepare(
        self, argv: tuple[str, ...], environment: Mapping[str, str], options: dict[str, Any]
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        if self.wrapped is not None:
            argv, options["pass_fds"] = self.wrapped.argv, self.wrapped.descriptors
        WATCH.add(self.mark)
        return argv, {**options, "env": {**environment, **mark_environment(self.mark)}}

    async def wait(
        self, limit_s: float | None = None, wake: asyncio.Event | None = None
    ) -> int | None:
        """Waits until the program itself ends, at the longest until the time is over or the event
        is set; returns its return code, None if it runs on."""
        assert self.program is not None
        if self.program.poll() is None:
            loop, wake = asyncio.get_running_loop(), wake or asyncio.Event()
            loop.add_reader(end := _open_end(self.program), wake.set)
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(limit_s):
                        await wake.wait()
            finally:
                loop.remove_reader(end)
                os.close(end)
        return self.program.poll()

    def find(self) -> list[Process]:
        """The processes that are left. Once there are none, no new ones can appear."""
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
        """Sends SIGTERM to all, and calls `kill` after a short grace, or at once if cancelled."""
        try:
            left, deadline = self._signal(signal.SIGTERM), time.monotonic() + GRACE_S
            # Nothing signals the end of a process that is not our child, so poll.
            while left and time.monotonic() < deadline:
                await asyncio.sleep(_POLL_S)
                left = self.find()
        finally:
            self.kill()

    def kill(self) -> None:
        """Kills all at once, without SIGTERM, and unregisters the tree."""
        # Repeats until none is found: a process may have started another in between.
        for _ in range(_MAX_ROUNDS):
            if not self._signal(signal.SIGKILL):
                break
            time.sleep(0.001)  # on a busy machine a killed process takes a moment to end
        self.forget()

    def _signal(self, number: signal.Signals) -> list[Process]:
        """Sends a signal to all, and returns them."""
        processes = self.find()
        for process in processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, number)
        return processes

    def forget(self) -> None:
        """Unregisters a tree of which no process is left, or that could not be started."""
        WATCH.remove(self.mark)
        if self.wrapped is not None:
            self.wrapped.settle()


MAX_OUTPUT_BYTES = 256 * 1024  # of each stream; the middle of a longer one is dropped
READ_BYTES = 65_536  # the capacity of a pipe on Linux, see pipe(7)


class ProgramRun(Value):
    """How a program ended."""

    exit_code: int | None = None
    """None if it did not start or finish in time: `fault` says why."""
    begun: bool = True
    """False if nothing of it ran."""
    stdout: str = ""
    stderr: str = ""
    fault: str = ""
    """A phrase that completes "it ...": "did not end within 60 s"."""
    opened: "Opens | None" = None
    """See `Attempt.opened`."""
    blocked: tuple[Blocked, ...] = ()
    """What the sandbox blocked."""
    notes: tuple[str, ...] = ()
    """Sentences on what became of the program's changes."""
    dropped: tuple[str, ...] = ()
    """Absolute paths of the project's files whose changes were not kept."""
    duration_ms: int = 0


async def run_program(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    stdin: bytes = b"",
    sandbox: "Sandbox | None" = None,
    interest: "Interest | None" = None,
    keep: 'Callable[["Attempt"], Awaitable[tuple[str, ...]]] | None' = None,
) -> ProgramRun:
    """Runs a program to its end or its time limit, in `sandbox` if there is one. `keep` applies its
    permitted changes and tells what became of them. Raises nothing but CancelledError, after ending
    the program."""
    started = time.monotonic()
    attempt: Attempt | None = None
    try:
        if sandbox is not None:
            attempt = await asyncio.to_thread(sandbox.begin, interest)
            attempt.wrap(tuple(argv))
        out, err, code, fault = bytearray(), bytearray(), None, ""
        tree = ProcessTree(wrapped=attempt)
        async with open_program(argv, environment, cwd, tree=tree) as process:
            try:
                async with asyncio.timeout(timeout_s):
                    await asyncio.gather(
                        _read_stream(process.stdout, out),
                        _read_stream(process.stderr, err),
                        feed_stdin(process.stdin, stdin),
                    )
                    code = await process.wait()
            except TimeoutError:
                fault = f"did not end within {timeout_s:.3g} s"
            opened = attempt.list_opened() if attempt is not None else None
        stdout, stderr = (data.decode("utf-8", "replace") for data in (out, err))
        ran = ProgramRun(exit_code=code, stdout=stdout, stderr=stderr, fault=fault, opened=opened)
        if attempt is not None:
            notes = await keep(attempt) if keep is not None and not fault else ()
            ran = replace(ran, blocked=attempt.find_blocked(stdout + stderr), notes=notes)
    except OSError as error:
        fault = f"could not be started ({error.strerror or error})"
        ran = ProgramRun(begun=False, fault=fault)
    finally:
        if attempt is not None:
            await asyncio.to_thread(attempt.close)
    return replace(ran, duration_ms=int((time.monotonic() - started) * 1000))


@contextlib.asynccontextmanager
async def open_program(
    argv: Sequence[str],
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    *,
    tree: ProcessTree | None = None,
    **options: Any,
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Starts a program with pipes, in this tree; on leaving, ends it and all that it started.
    `options` are those of a subprocess. Without `environment` it is one of kode's own programs,
    which gets none of the person's variables, and of which only the process group is killed.

    Raises: OSError.
    """
    tree, is_worker = tree or ProcessTree(), environment is None
    if environment is None:
        folder = str(Path(real_path(__file__)).parents[2])
        environment = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "PYTHONPATH": folder}
    process: asyncio.subprocess.Process | None = None
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    try:
        process = await tree.start_with_pipes(
            *argv, environment=environment, cwd=cwd, **pipes | options
        )
        yield process
    finally:
        if process is not None and is_worker:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            tree.forget()
        else:
            await tree.end()
        if process is not None:
            # Pipes that another program holds open would be waited for. The transport is closed
            # after the wait: closing it may take the exit status from asyncio.
            transport: asyncio.SubprocessTransport = process._transport  # type: ignore[attr-defined]
            for pipe in filter(None, map(transport.get_pipe_transport, (0, 1, 2))):
                pipe.close()
            await process.wait()
            transport.close()


async def _read_stream(stream: asyncio.StreamReader | None, buffer: bytearray) -> None:
    assert stream is not None
    while data := await stream.read(READ_BYTES):
        buffer += data
        del buffer[MAX_OUTPUT_BYTES // 2 : -MAX_OUTPUT_BYTES // 2]


async def feed_stdin(stream: asyncio.StreamWriter | None, data: bytes) -> None:
    """Writes all of a program's input. Many programs end without reading theirs."""
    assert stream is not None
    with contextlib.suppress(ConnectionError):
        stream.write(data)
        await stream.drain()
    stream.close()
    with contextlib.suppress(ConnectionError):
        await stream.wait_closed()


# -P: without it the working directory could shadow modules of the standard library.
PYTHON = (sys.executable, "-P")
# Hostile input must not fill the machine; not every system can limit that.
_LIMITED = ("/bin/sh", "-c", 'ulimit -t 30; ulimit -v 1048576 2>/dev/null; exec "$@"', "sh")


async def ask_worker(script: str, question: bytes) -> bytes | None:
    """Runs a self-contained file of kode to its end, with `question` on stdin and limits of
    processor time and memory; returns its stdout, or None if it failed. Raises: OSError."""
    async with open_program((*_LIMITED, *PYTHON, script)) as process:
        answer, _ = await process.communicate(question)
    return answer if process.returncode == 0 else None
