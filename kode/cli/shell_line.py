"""`!command` at the prompt: the person's own shell command, outside of permissions and tools.

Its output is printed and goes with the next message, so that the model sees what the person saw.
"""

import asyncio
import codecs
import contextlib
import os
import secrets
import signal
from collections.abc import Callable
from pathlib import Path

from kode.tools.orphans import WATCH

MAX_KEPT_CHARACTERS = 20_000
"""How much of the end of an output goes with the next message."""

KILL_AFTER_S = 2.0


async def run_shell_line(command: str, cwd: Path, show: Callable[[str], None]) -> tuple[int, str]:
    """Runs a command, gives whole lines to `show` as they come, and returns the exit code and the
    end of the output. Cancelled, it stops the command with all it started."""
    process = await asyncio.create_subprocess_shell(
        command,
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    # Nobody would see its output once kode is killed. Only the group: the environment is theirs.
    watched = secrets.token_hex(12)
    WATCH.runs(watched, process.pid)
    try:
        output = await _read(process, show)
        return await process.wait(), output
    finally:
        if process.returncode is None:
            await _stop(process)
        WATCH.is_over(watched)


async def _read(process: asyncio.subprocess.Process, show: Callable[[str], None]) -> str:
    assert process.stdout is not None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    kept, partial = "", ""
    while data := await process.stdout.read(65536):
        text = decoder.decode(data)
        kept = (kept + text)[-MAX_KEPT_CHARACTERS:]
        whole, line_feed, partial = (partial + text).rpartition("\n")
        if line_feed:
            show(whole)
    if partial:
        show(partial)
    return kept


async def _stop(process: asyncio.subprocess.Process) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(process.wait()), KILL_AFTER_S)
            return
