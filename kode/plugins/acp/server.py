"""`kode acp`: the command, and its process from the first message to the last closed session.

The process ends at the end of input, on SIGTERM, SIGINT or SIGHUP, or when the client no longer
reads; it first stops and records running turns, and closes all sessions. Only the protocol uses the
pipes to the client: other code, and programs that kode starts, find standard input empty, and their
standard output goes to standard error.
"""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from kode.plugin import Parser, UserError, add_setting_flags, cancelled_by_signals, require_extra
from kode.plugins.stdio import can_wait, open_stdin

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Limit of one line: images travel inside messages."""
PARSE_ERROR = -32700  # JSON-RPC 2.0, section 5.1
_REFUSAL = {"code": PARSE_ERROR, "message": "Send one JSON object of at most 64 MB in each line."}


def main(argv: Sequence[str]) -> int:
    """Runs `kode acp` with these arguments and returns its exit code. Raises: UserError if standard
    input or output is a file."""
    parser = Parser("kode acp", "Serve an editor by the Agent Client Protocol on stdin and stdout.")
    read_settings = add_setting_flags(parser)
    arguments = parser.parse(argv)
    require_extra("acp")
    if not all(map(can_wait, (0, 1))):
        raise UserError(
            "`kode acp` talks with an editor over pipes, and standard input or output is none. "
            "Let the editor start it: see docs/editors.md."
        )
    if sys.stdin is not None and sys.stdin.isatty():
        print("kode acp: waiting for an editor to talk on stdin (docs/editors.md)", file=sys.stderr)
    _import_protocol()
    flags, trusts = read_settings(arguments), arguments.trust_project
    return asyncio.run(serve(flags=flags, trust_project=trusts))


def _import_protocol() -> None:
    """Imports the package `acp` so that its 400 models are built on first use: a session needs a
    tenth of them, and building all takes a quarter of a second of processor time."""
    from pydantic import BaseModel

    BaseModel.model_config["defer_build"] = True
    try:
        import acp.schema  # noqa: F401
    finally:
        del BaseModel.model_config["defer_build"]


async def serve(**settings: Any) -> int:
    """Serves a client until it leaves, and returns the exit code. `settings` go to `KodeAgent`."""
    from acp.agent.connection import AgentSideConnection

    from kode.plugins.acp.agent import KodeAgent

    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_drop_traceback)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, format="kode acp: %(message)s")
    pipes = await open_pipes()
    agent: Any = KodeAgent(**settings)
    connection = AgentSideConnection(agent, pipes, listening=False, use_unstable_protocol=True)
    listening = asyncio.ensure_future(connection.listen())
    leaving = asyncio.ensure_future(pipes.lost.wait())
    with cancelled_by_signals(leaving):
        try:
            await asyncio.wait((listening, leaving), return_when=asyncio.FIRST_COMPLETED)
            is_stopped = leaving.cancelled()
            for fault in await agent.close():
                print(f"kode acp: {fault}", file=sys.stderr)
        finally:
            listening.cancel()
            leaving.cancel()
            await connection.close()
    return 128 + signal.SIGINT if is_stopped else 0


def _drop_traceback(record: logging.LogRecord) -> bool:
    """A log filter: the package logs a client's mistake with a traceback, which helps nobody."""
    record.exc_info = None
    return True


class Pipes:
    """JSON messages to and from the client, one per line; what `acp` calls a transport."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.lost = asyncio.Event()
        """Set when the client no longer reads."""

    async def receive(self) -> dict[str, Any] | None:
        """Returns the next message; None at the end of input. Answers invalid messages with an
        error, and skips them."""
        line = b"-"
        while line:
            try:
                line = await self._reader.readline()
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if isinstance(message, dict):
                return message
            if line.strip():
                await self.send({"jsonrpc": "2.0", "id": None, "error": _REFUSAL})
        return None

    async def send(self, message: dict[str, Any]) -> None:
        """Writes a message. If the client no longer reads, drops it silently and sets `lost`."""
        if self.lost.is_set():
            return
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), default=str)
        # Lone surrogates, which no JSON reader accepts, become "?".
        self._writer.write(text.encode("utf-8", "replace") + b"\n")
        try:
            await self._writer.drain()
        except OSError:
            self.lost.set()

    async def close(self) -> None:
        """Flushes and closes the writing side."""
        self._writer.close()


async def open_pipes() -> Pipes:
    """Takes over standard input and output; from then on, other output goes to stderr."""
    reader = await open_stdin(MAX_MESSAGE_BYTES)
    sys.stdout.flush()
    outgoing = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    loop = asyncio.get_running_loop()
    # The writer needs a separate protocol for its flow control.
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: protocol, outgoing)
    return Pipes(reader, asyncio.StreamWriter(transport, protocol, None, loop))
