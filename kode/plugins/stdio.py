"""Standard input of a server that another program, such as an editor or an agent, starts."""

import asyncio
import gc
import os
import stat


def can_wait(descriptor: int) -> bool:
    """Whether an event loop can wait for a descriptor: it is a pipe, a socket or a terminal."""
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    return kind in (stat.S_IFIFO, stat.S_IFSOCK) or os.isatty(descriptor)


async def open_stdin(max_line_bytes: int) -> asyncio.StreamReader:
    """Starts garbage collection, and takes stdin over: all other readers then find it empty."""
    gc.freeze()  # kode starts without garbage collection
    gc.enable()
    pipe = os.fdopen(os.dup(0), "rb", buffering=0)
    os.dup2(empty := os.open(os.devnull, os.O_RDONLY), 0)
    os.close(empty)
    reader = asyncio.StreamReader(limit=max_line_bytes)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader
