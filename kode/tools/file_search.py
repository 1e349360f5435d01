"""Runs what looks through files: ripgrep when it is on the PATH, else kode's own worker.

Both say the same things in the same form; what is made of them is the tools' business. A process
started here never outlives its call: not at a time limit, not when the turn is cancelled.
"""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kode.contracts import ToolContext
from kode.programs import find_program
from kode.tools import workers

TIMEOUT_S = 30.0
MAX_PIECE_BYTES = 8 * 1024 * 1024
"""A longer single message (a hit on an enormous line) is dropped and counted."""

_COMMON = (
    "--no-config",
    "--no-messages",
    "--hidden",
    "--no-require-git",
    "--no-ignore-dot",
    "--no-ignore-global",
    "--no-ignore-exclude",
    "--sort=path",
    "--glob=!.git",
    "--glob=!.hg",
    "--glob=!.svn",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    argv: tuple[str, ...]
    stdin: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    status: int
    stderr: str
    timed_out: bool = False
    dropped: int = 0
    """Messages that were too long."""


def ripgrep(context: ToolContext) -> str | None:
    """The program `rg` on the PATH that tools get, outside the folders of work."""
    path = context.place.environment.get("PATH", "")
    return find_program("rg", (context.place.cwd, *context.place.roots), path=path)


def listing(rg: str | None, root: Path) -> Program:
    """Prints the paths of all files below `root`, each ended by a NUL."""
    if rg:
        return Program(argv=(rg, *_COMMON, "--files", "--null", "--", str(root)))
    return _worker(root, None, ignore_case=False, context=0)


def searching(
    rg: str | None, root: Path, pattern: str, *, ignore_case: bool, context: int
) -> Program:
    """Prints one JSON message a line, as `rg --json` does."""
    if not rg:
        return _worker(root, pattern, ignore_case=ignore_case, context=context)
    options = ("--json", "--crlf", "--no-mmap", f"--context={context}")
    case = "--ignore-case" if ignore_case else "--case-sensitive"
    return Program(argv=(rg, *_COMMON, *options, case, f"--regexp={pattern}", "--", str(root)))


def _worker(root: Path, pattern: str | None, *, ignore_case: bool, context: int) -> Program:
    asked = {
        "root": os.fsencode(root).hex(),
        "pattern": pattern,
        "ignore_case": ignore_case,
        "context": context,
    }
    argv = workers.argv_of("kode.tools.search_worker")
    return Program(argv=argv, stdin=json.dumps(asked).encode())


async def run(program: Program, separator: bytes, take: Callable[[bytes], bool]) -> Ended:
    """Runs a program and gives `take` each piece of its output, until it returns False.

    Raises: OSError when it cannot be started; CancelledError, after the program was killed.
    """
    process = await asyncio.create_subprocess_exec(
        *program.argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        env=workers.environment(),
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    timed_out, dropped, stderr = False, 0, b""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            with contextlib.suppress(ConnectionError):
                process.stdin.write(program.stdin)
                process.stdin.close()
            dropped = await _pieces(process.stdout, separator, take)
            stderr = await process.stderr.read(65536)
    except TimeoutError:
        timed_out = True
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # Reads what is left, so that the pipes close with the process.
        await process.communicate()
    return Ended(
        status=process.returncode or 0,
        stderr=stderr.decode(errors="replace"),
        timed_out=timed_out,
        dropped=dropped,
    )


async def _pieces(
    stream: asyncio.StreamReader, separator: bytes, take: Callable[[bytes], bool]
) -> int:
    """Cuts the output at the separator, in bounded memory; returns how many pieces it dropped."""
    rest, dropped, dropping = b"", 0, False
    while data := await stream.read(262_144):
        *pieces, rest = (rest + data).split(separator)
        if dropping and pieces:
            del pieces[0]
            dropping = False
        if not all(take(piece) for piece in pieces):
            return dropped
        if dropping or len(rest) > MAX_PIECE_BYTES:
            dropped += not dropping
            dropping, rest = True, b""
    return dropped
