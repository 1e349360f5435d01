"""Reads lines without an editor: dumb terminals, pipes, and commands that have no prompt.

Never writes escape sequences. `editor` is the editor of a real terminal.
"""

import asyncio
import os
import stat
import termios
from contextlib import suppress
from typing import TextIO

_waiting: dict[int, bytearray] = {}
"""Bytes read past the requested line, by file descriptor."""


async def read_line(stream: TextIO) -> str | None:
    """The next line without its line feed; None at end of input. Can be cancelled: no thread stays
    behind that would swallow the next line."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return None
    buffer = _waiting.setdefault(descriptor, bytearray())
    while b"\n" not in buffer:
        data = await _read_some(descriptor)
        if not data:
            rest = bytes(buffer)
            buffer.clear()
            return rest.decode("utf-8", "replace") if rest else None
        buffer += data
    line, _, rest = bytes(buffer).partition(b"\n")
    buffer[:] = rest
    return line.decode("utf-8", "replace").rstrip("\r")


def drop_typed(stream: TextIO) -> None:
    """Drops what a person typed before a question appeared; piped input stays."""
    with suppress(OSError, ValueError, termios.error):
        if stream.isatty():
            termios.tcflush(stream.fileno(), termios.TCIFLUSH)
            _waiting.pop(stream.fileno(), None)


async def _read_some(descriptor: int) -> bytes:
    # Regular files are always ready, and some event loops refuse to watch them.
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.read(descriptor, 65536)
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
    with suppress(OSError):
        return os.read(descriptor, 65536)
    return b""
