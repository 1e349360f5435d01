"""The process of an MCP server: starts it in the sandbox, splits its output into lines, and kills
it with everything it started. `mcp_client` interprets the lines.

A server's output is limited: an endless line, or a flood of lines, ends the server; of its stderr
only the end is kept.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kode.errors import ServerError
from kode.extensions.mcp_values import SOCKET
from kode.programs import one_deeper
from kode.tools.processes import ProcessTree

if TYPE_CHECKING:
    from kode.sandbox.attempt import Attempt

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Limit of one message."""
MAX_BURST_BYTES = 32 * 1024 * 1024  # a result with pictures in base64
MAX_BURST_LINES = 10_000
"""Limit of what a server sends between two messages to it, asked for or not."""
GRACE_S = 0.5
"""Time to exit by itself once its standard input is closed."""

_READ_BYTES = 65_536
"""The capacity of a pipe on Linux, see pipe(7)."""
_KEPT_ERRORS_BYTES = 2_000  # the last lines before it died

INHERITED = (
    "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
    "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE",
)  # fmt: skip
"""The variables every server gets; all others are named by its entry. The last say which
certificates a machine trusts."""


@dataclass
class ServerProcess:
    """A running server, created by `start`. The caller must call `end`."""

    name: str
    process: asyncio.subprocess.Process
    tree: ProcessTree
    fault: str = ""
    """Why its output was given up on; "" otherwise."""
    _errors: bytes = b""
    _burst_bytes: int = 0
    _burst_lines: int = 0
    _reading_errors: "asyncio.Task[None] | None" = field(default=None)

    async def lines(self) -> AsyncIterator[bytes]:
        """Yields its output line by line, until it ends or floods."""
        assert self.process.stdout is not None
        rest = bytearray()
        while data := await self.process.stdout.read(_READ_BYTES):
            self._burst_bytes += len(data)
            self._burst_lines += data.count(b"\n")
            rest += data
            if len(rest) > MAX_LINE_BYTES:
                self.fault = f"it sent a message of more than {MAX_LINE_BYTES >> 20} MB"
                return
            if self._burst_bytes > MAX_BURST_BYTES:
                self.fault = f"it sent {self._burst_bytes >> 20} MB since kode last wrote to it"
                return
            if self._burst_lines > MAX_BURST_LINES:
                self.fault = f"it sent {self._burst_lines:,} messages since kode last wrote to it"
                return
            if b"\n" not in data:
                continue
            *lines, rest = rest.split(b"\n")
            for line in filter(bytearray.strip, lines):
                yield bytes(line)

    async def send(self, line: bytes) -> None:
        """Writes a line. Raises: OSError when the process is gone."""
        assert self.process.stdin is not None
        self._burst_bytes = self._burst_lines = 0
        self.process.stdin.write(line + b"\n")
        await self.process.stdin.drain()

    @property
    def last_words(self) -> str:
        """The last line on stderr that names an error or a socket, else the last line; "" for
        none."""
        lines = self._errors.decode(errors="replace").strip().splitlines()
        named = [line for line in lines if "error" in line.lower() or SOCKET in line]
        return [*lines, *named][-1].strip()[:200] if lines else ""

    async def end(self) -> None:
        """Ends it with everything it started: terminates, then kills."""
        try:
            if self.process.stdin is not None:
                self.process.stdin.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended_quietly(), GRACE_S)
            await self.tree.end()
            with contextlib.suppress(TimeoutError):
                # Unread data in the pipe keeps it open.
                await asyncio.wait_for(self._drop_output(), GRACE_S)
            await self.process.wait()
        finally:
            self.tree.kill()
            if self._reading_errors is not None:
                self._reading_errors.cancel()

    async def _ended_quietly(self) -> None:
        # Not `wait`, which also waits for the pipes, which a child of it may hold open.
        while self.process.returncode is None:
            await asyncio.sleep(0.01)

    async def _drop_output(self) -> None:
        assert self.process.stdout is not None
        while await self.process.stdout.read(_READ_BYTES):
            pass

    async def _read_errors(self) -> None:
        assert self.process.stderr is not None
        while data := await self.process.stderr.read(_READ_BYTES):
            self._errors = (self._errors + data)[-_KEPT_ERRORS_BYTES:]


async def start(
    name: str,
    argv: tuple[str, ...],
    *,
    wrapped: "Attempt | None",
    environment: Mapping[str, str],
    cwd: Path,
) -> ServerProcess:
    """Starts a server. `wrapped` runs `argv` in the sandbox; None: it runs outside.

    Raises: ServerError if there is no such program.
    """
    tree = ProcessTree(wrapped=wrapped)
    inherited = {key: os.environ[key] for key in INHERITED if key in os.environ}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    variables = {**inherited, **environment, **one_deeper(os.environ)}
    try:
        process = await tree.start(*argv, environment=variables, cwd=cwd, **pipes)
    except BaseException as error:
        # After a cancellation during start there may be a process that is not known here.
        tree.kill()
        if isinstance(error, OSError | ValueError):
            raise ServerError(f"{argv[0]} could not be started: {error}.") from error
        raise
    started = ServerProcess(name=name, process=process, tree=tree)
    started._reading_errors = asyncio.ensure_future(started._read_errors())
    return started
