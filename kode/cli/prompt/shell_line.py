"""`!command` at the prompt: the person's own shell command, outside of permissions and tools.

Its output is printed and attached to the next message, so that the model sees what the person saw.
Like a model's command it can move to the background, to be read and killed the same way.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kode.errors import UserError
from kode.programs import start_program
from kode.tools.background import BackgroundCommands
from kode.tools.output import Capture
from kode.tools.processes import WATCH, new_mark

KILL_AFTER_S = 2.0  # a program may tidy up after SIGTERM
_READ_BYTES = 65_536  # a full pipe on Linux

Show = Callable[[str, str], None]
"""Gets whole lines as they arrive ("" for none), and the unfinished line."""


@dataclass(frozen=True)
class Ran:
    """The result of a command."""

    output: str
    """So far; both ends of a long one."""
    exit_code: int | None = None
    """None if it was moved to the background."""
    name: str = ""
    """Its name in the background."""
    output_path: Path | None = None


async def run_shell_line(
    command: str,
    cwd: Path,
    show: Show,
    background: BackgroundCommands,
    *,
    session_id: str | None,
    output_dir: Path,
) -> Ran:
    """Runs a command to its end, or until the person moves it to the background, showing its
    output. If cancelled, kills the command with everything it started. A long output is saved in
    full in `output_dir`.

    Raises: UserError if no shell can be started.
    """
    running = _Running(command, show, Capture(output_dir, "shell-line"))
    try:
        with background.offer() as request:
            await running.start(cwd)
            is_moved = await running.wait(request)
        if is_moved:
            return running.moved_to(background, session_id)
        return Ran(running.output(), exit_code=await running.exit_code())
    finally:
        if not running.moved:
            await running.end()


class _Running:
    """A running command and its output; implements `RunningCommand`."""

    def __init__(self, command: str, show: Show, capture: Capture) -> None:
        self.command = command
        self.since = time.monotonic()
        self.moved = False
        self._show = show
        self.capture = capture
        self._mark = new_mark()
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self, cwd: Path) -> None:
        try:
            process = await start_program(
                *("/bin/sh", "-c", self.command),
                cwd=cwd,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise UserError(f"The command could not be started in {cwd}: {error}.") from None
        # Nobody would see its output once kode is killed. Only the group: its environment is the
        # person's own.
        WATCH.add(self._mark, process.pid)
        self._process = process
        self._reading = asyncio.ensure_future(self._read(process))

    async def wait(self, wish: asyncio.Event) -> bool:
        """Waits until its output ends, or the person moves it; returns whether they did."""
        assert self._reading is not None
        wished = asyncio.ensure_future(wish.wait())
        try:
            await asyncio.wait((self._reading, wished), return_when=asyncio.FIRST_COMPLETED)
        finally:
            wished.cancel()
        return not self._reading.done()

    def moved_to(self, background: BackgroundCommands, session_id: str | None) -> Ran:
        self.moved = True
        self.capture.keep_whole()
        name = background.take(self, session_id)
        return Ran(self.output(), name=name, output_path=self.capture.path)

    def output(self) -> str:
        return self.capture.text() + self.capture.partial

    @property
    def untrusted(self) -> str:
        return ""

    async def exit_code(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    async def ended(self) -> str:
        assert self._reading is not None
        await asyncio.wait([self._reading])
        code = await self.exit_code()
        await self.end()
        return f"exit status {code}"

    async def end(self) -> None:
        """Kills it with everything it started, and reads the last output."""
        try:
            for number in (signal.SIGTERM, signal.SIGKILL):
                if await self._is_over(number):
                    break
        finally:
            WATCH.remove(self._mark)
            if self._reading is not None:
                self._reading.cancel()
            self.capture.close()

    async def _is_over(self, number: signal.Signals) -> bool:
        """Whether it and everything that could write have ended, after asking or killing. A command
        may close its output long before it ends."""
        if self._process is None or self._reading is None:
            return True
        if self._reading.done() and self._process.returncode is not None:
            return True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
        ended = asyncio.ensure_future(self._process.wait())
        _, waited_for = await asyncio.wait([self._reading, ended], timeout=KILL_AFTER_S)
        ended.cancel()
        return not waited_for

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while data := await process.stdout.read(_READ_BYTES):
            self._take(data)
        self._take(b"", final=True)

    def _take(self, data: bytes, *, final: bool = False) -> None:
        text = self.capture.take(data, final=final)
        if not self.moved:
            self._show(text.removesuffix("\n"), self.capture.partial)
