"""The lock of a memory folder, waited for without blocking the terminal.

`durable.locked` waits with the whole process; here only the caller waits, and can be cancelled.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

from kode import durable
from kode.errors import BusyError

TIMEOUT_S = 10.0
"""Who holds the lock writes one small file: longer means that it hangs."""


@contextlib.asynccontextmanager
async def locked(folder: Path, *, timeout_s: float = TIMEOUT_S) -> AsyncIterator[None]:
    """Holds the exclusive lock of `folder`, across processes. The body must not await: that
    would keep every other process waiting, and a model is never called while a lock is held.

    Raises: BusyError after `timeout_s`; StorageError; CancelledError while waiting.
    """
    deadline = time.monotonic() + timeout_s
    pause_s = 0.001
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(durable.locked(folder, timeout_s=0.0))
                break
            except BusyError:
                if time.monotonic() > deadline:
                    raise durable.busy(folder, timeout_s) from None
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.02)
        yield
