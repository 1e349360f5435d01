"""The process of `kode acp`: from the first message to the last closed session.

It ends at the end of input, on SIGTERM, SIGINT or SIGHUP, or when the client no longer reads:
running turns are stopped and recorded, and sessions closed.
"""

import asyncio
import logging
import signal
import sys
from typing import Any

from acp.agent.connection import AgentSideConnection

from kode.plugins.acp.agent import KodeAgent
from kode.plugins.acp.pipes import open_pipes
from kode.plugins.stdio import Greeted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def serve(greeted: Greeted, **settings: Any) -> int:
    """Serves a client from its first message until it leaves; returns the exit code. `settings` are
    those of a `KodeAgent`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_drop_traceback)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, format="kode acp: %(message)s")
    pipes = await open_pipes(greeted)
    agent: Any = KodeAgent(**settings)
    connection = AgentSideConnection(agent, pipes, listening=False, use_unstable_protocol=True)
    stopped = asyncio.Event()
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    listening = asyncio.ensure_future(connection.listen())
    over = [listening, *(asyncio.ensure_future(event.wait()) for event in (stopped, pipes.lost))]
    try:
        await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
        for fault in await agent.close():
            print(f"kode acp: {fault}", file=sys.stderr)
    finally:
        for task in over:
            task.cancel()
        await connection.close()
    return 128 + signal.SIGINT if stopped.is_set() else 0


def _drop_traceback(record: logging.LogRecord) -> bool:
    """The package logs clients' mistakes with one, which helps nobody."""
    record.exc_info = None
    return True
