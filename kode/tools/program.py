"""Runs a program that kode starts itself, as a hook or a checker: in the sandbox, with a time
limit, bounded output, and nothing left behind.

The caller decides whether it may run; its changes to the copy of the project are dropped, unless
the caller keeps them.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode.paths import real_path
from kode.tool import Blocked
from kode.tools.processes import ProcessTree

if TYPE_CHECKING:
    from kode.sandbox.attempt import Attempt
    from kode.sandbox.reach import Grants, Opens
    from kode.sandbox.sandbox import Sandbox

MAX_OUTPUT_BYTES = 256 * 1024
"""Limit of each stream; the middle is dropped."""
_READ_BYTES = 65_536
"""The capacity of a pipe on Linux, see pipe(7)."""

Keep = Callable[["Attempt"], Awaitable[tuple[str, ...]]]
"""Applies a program's permitted changes; returns sentences about what became of them."""


@dataclass(frozen=True, kw_only=True)
class ProgramRun:
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
    """What became of its changes."""
    dropped: tuple[str, ...] = ()
    """Files of the project that it changed in vain, absolute."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What it sets for the session's commands."""
    variables_inside: Mapping[str, str] = field(default_factory=dict)
    """What it sets for those in the sandbox."""
    duration_ms: int = 0


async def run_program(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    stdin: bytes = b"",
    sandbox: "Sandbox | None" = None,
    records_opens: bool = False,
    grants: "Grants | None" = None,
    keep: Keep | None = None,
    take_first_line: Callable[[bytes], bool] = lambda line: False,
) -> ProgramRun:
    """Runs a program to its end or its time limit, in `sandbox` if there is one. `records_opens`,
    `grants`: see `Sandbox.begin`; `take_first_line` gets the first line that it prints, as soon as
    it has, and says whether to leave it out of the output. Raises nothing but CancelledError, after
    ending the program."""
    started = time.monotonic()
    attempt: Attempt | None = None
    try:
        if sandbox is not None:
            attempt = await asyncio.to_thread(
                sandbox.begin, records_opens=records_opens, grants=grants
            )
            attempt.wrap(tuple(argv))
        out, err, code, fault = bytearray(), bytearray(), None, ""
        tree = ProcessTree(wrapped=attempt)
        async with open_program(argv, environment, cwd, tree=tree) as process:
            try:
                async with asyncio.timeout(timeout_s):
                    await asyncio.gather(
                        _read(process.stdout, out, take_first_line),
                        _read(process.stderr, err),
                        feed(process.stdin, stdin),
                    )
                    code = await process.wait()
            except TimeoutError:
                fault = f"did not end within {timeout_s:.3g} s"
            opened = attempt.opened() if attempt is not None else None
        stdout, stderr = (data.decode("utf-8", "replace") for data in (out, err))
        ran = ProgramRun(exit_code=code, stdout=stdout, stderr=stderr, fault=fault, opened=opened)
        if attempt is not None:
            notes = await keep(attempt) if keep is not None and not fault else ()
            ran = replace(ran, blocked=attempt.blocked(stdout + stderr), notes=notes)
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
    environment: Mapping[str, str],
    cwd: Path | None = None,
    *,
    tree: ProcessTree | None = None,
    is_alone: bool = False,
    **options: Any,
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Starts a program with pipes, as this tree; it has ended with all it started on leaving. One
    that `is_alone` starts no others, so that nobody has to look for them. `options` are those of a
    subprocess.

    Raises: OSError.
    """
    tree = tree or ProcessTree()
    process: asyncio.subprocess.Process | None = None
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    try:
        process = await tree.start(*argv, environment=environment, cwd=cwd, **pipes | options)
        yield process
    finally:
        if process is not None and is_alone:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        else:
            await tree.end()
        if process is not None:
            # What another program holds open of its pipes would stay open here, and be waited for:
            # asyncio has no public way to release it.
            process._transport.close()  # type: ignore[attr-defined]
            await process.wait()
        tree.forget()


async def _read(
    stream: asyncio.StreamReader | None,
    buffer: bytearray,
    take_first_line: Callable[[bytes], bool] | None = None,
) -> None:
    assert stream is not None
    while data := await stream.read(_READ_BYTES):
        buffer += data
        if take_first_line is not None and b"\n" in buffer:
            line, _, rest = bytes(buffer).partition(b"\n")
            buffer[:] = rest if take_first_line(line) else buffer
            take_first_line = None
        del buffer[MAX_OUTPUT_BYTES // 2 : -MAX_OUTPUT_BYTES // 2]


async def feed(stream: asyncio.StreamWriter | None, data: bytes) -> None:
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


def worker_environment() -> dict[str, str]:
    """The variables of a program of kode's own: none of the person's."""
    package_parent = str(Path(real_path(__file__)).parents[2])
    return {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "PYTHONPATH": package_parent}


async def ask_worker(script: str, question: bytes) -> bytes | None:
    """Runs a self-contained file of kode with `question` on stdin, with limits of processor time
    and memory; returns its stdout, or None if it failed. The process has always ended when this
    returns or raises.

    Raises: OSError if it cannot be started.
    """
    argv = (*_LIMITED, *PYTHON, script)
    async with open_program(argv, worker_environment(), is_alone=True) as process:
        answer, _ = await process.communicate(question)
    return answer if process.returncode == 0 else None
