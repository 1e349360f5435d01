"""The process of an MCP server: starts it in the sandbox, carries messages to it and back, and ends
it with everything it started. Part of `mcp_client`.

A server's output is limited: an endless line, or a flood of lines, ends the server; of its stderr
only the end is kept.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from kode.errors import ServerError
from kode.extensions.mcp_config import Server
from kode.extensions.mcp_values import SOCKET
from kode.programs import one_deeper
from kode.tools.processes import ProcessTree, open_program

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
_MAX_ERRORS_BYTES = 2_000  # the last lines before it died
LAST_WORDS_S = 0.5
"""How long the reason of an end waits for them."""

INHERITED = (
    "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
    "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE",
)  # fmt: skip
"""The variables every server gets; all others are named by its entry. The last say which
certificates a machine trusts."""

Streams = tuple[Any, Any]
"""What the SDK reads messages from, and writes them to."""


@asynccontextmanager
async def run_process(
    server: Server, wrapped: "Attempt | None", cwd: Path, closed: "asyncio.Future[str]"
) -> AsyncIterator[Streams]:
    """Starts the program of a server, and ends it with everything it started. `wrapped` runs it in
    the sandbox; None: it runs outside. `closed` gets the reason when it ends by itself.

    Raises: ServerError if there is no such program.
    """
    tree, program = ProcessTree(wrapped=wrapped), server.command[0]
    inherited = {key: os.environ[key] for key in INHERITED if key in os.environ}
    variables = {**inherited, **server.environment, **one_deeper(os.environ)}
    async with AsyncExitStack() as stack:
        try:
            process = await stack.enter_async_context(
                open_program(server.command, variables, cwd, tree=tree)
            )
        except (OSError, ValueError) as error:
            raise ServerError(f"{program} could not be started: {error}.") from error
        received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)
        pump = _Pump(process, received, sent, closed)
        tasks = [asyncio.ensure_future(work) for work in (pump.read(), pump.write(), pump.warn())]
        try:
            yield incoming, outgoing
        finally:
            for stream in (incoming, outgoing, received, sent):
                stream.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await pump.end()


@dataclass
class _Pump:
    """Carries messages between a process and the SDK."""

    process: asyncio.subprocess.Process
    received: Any
    sent: Any
    closed: "asyncio.Future[str]"
    errors: bytes = b""
    has_all_errors: asyncio.Event = field(default_factory=asyncio.Event)
    burst_bytes: int = 0
    burst_lines: int = 0

    async def read(self) -> None:
        """Reads messages until the output ends or floods. What is no message is skipped: many
        servers print."""
        fault = ""
        try:
            async for line in self._lines():
                with contextlib.suppress(ValueError):
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    await self.received.send(SessionMessage(message))
            with contextlib.suppress(TimeoutError):  # a child of it may hold its stderr open
                async with asyncio.timeout(LAST_WORDS_S):
                    await self.has_all_errors.wait()
        except ServerError as error:
            fault = str(error)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass
        finally:
            if not self.closed.done():
                self.closed.set_result(fault or f"it ended{self._last_words()}")
            self.received.close()

    async def _lines(self) -> AsyncIterator[bytes]:
        """Raises: ServerError for a flood."""
        assert self.process.stdout is not None
        rest = bytearray()
        while data := await self.process.stdout.read(_READ_BYTES):
            self.burst_bytes += len(data)
            self.burst_lines += data.count(b"\n")
            rest += data
            if len(rest) > MAX_LINE_BYTES:
                raise ServerError(f"it sent a message of more than {MAX_LINE_BYTES >> 20} MB")
            if self.burst_bytes > MAX_BURST_BYTES or self.burst_lines > MAX_BURST_LINES:
                size = f"{self.burst_lines:,} lines, {self.burst_bytes >> 20} MB"
                raise ServerError(f"it sent {size}, since kode last wrote to it")
            if b"\n" in data:
                *lines, rest = rest.split(b"\n")
                for line in filter(bytearray.strip, lines):
                    yield bytes(line)

    async def write(self) -> None:
        assert self.process.stdin is not None
        async for session_message in self.sent:
            line = session_message.message.model_dump_json(by_alias=True, exclude_unset=True)
            self.burst_bytes = self.burst_lines = 0
            with contextlib.suppress(OSError):  # reading detects that it is gone
                self.process.stdin.write(line.encode() + b"\n")
                await self.process.stdin.drain()

    async def warn(self) -> None:
        assert self.process.stderr is not None
        while data := await self.process.stderr.read(_READ_BYTES):
            self.errors = (self.errors + data)[-_MAX_ERRORS_BYTES:]
        self.has_all_errors.set()

    def _last_words(self) -> str:
        """The last line on stderr that names an error or a socket, else the last line."""
        lines = self.errors.decode(errors="replace").strip().splitlines()
        telling = [line for line in lines if "error" in line.lower() or SOCKET in line]
        return f": {[*lines, *telling][-1].strip()[:200]}" if lines else ""

    async def end(self) -> None:
        """Lets it exit by itself for a moment."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                # Not `wait`, which also waits for the pipes, which a child of it may hold open.
                while self.process.returncode is None:
                    await asyncio.sleep(0.01)
