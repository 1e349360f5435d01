"""The life of `kode acp`: from the first message to the last session closed.

It ends with the end of its input, with SIGTERM, SIGINT or SIGHUP, or when the client no longer
reads: every turn that runs is stopped and recorded, every session closed.
"""

import asyncio
import signal
import sys
from collections.abc import Mapping
from typing import Any

from acp.agent.connection import AgentSideConnection

from kode.acp.agent import KodeAgent
from kode.acp.pipes import open_pipes
from kode.errors import EXIT_INTERRUPTED, EXIT_OK

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ANSWER_GRACE_S = 2.0
"""For the answers of prompts that were stopped to be written."""


async def serve(flags: Mapping[str, Any], *, trust_project: bool, keep_sessions: bool) -> int:
    """Serves a client until it leaves; returns the exit code. `flags` go by dotted config key.

    Raises: UserError where standard input or output is a file.
    """
    if sys.stdin is not None and sys.stdin.isatty():
        print("kode acp: waiting for an editor to talk on stdin (docs/editors.md)", file=sys.stderr)
    pipes = await open_pipes()
    agent = KodeAgent(flags=flags, trust_project=trust_project, keep_sessions=keep_sessions)
    connection = AgentSideConnection(agent, pipes, listening=False, use_unstable_protocol=True)
    stopped = asyncio.Event()
    ended_by: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        ended_by.append(number)
        stopped.set()

    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    listening = asyncio.ensure_future(connection.listen())
    over = [listening, *(asyncio.ensure_future(one.wait()) for one in (stopped, pipes.lost))]
    try:
        await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
        prompts = [task for live in agent.sessions.values() for task in live.work]
        await agent.close()
        if prompts:
            await asyncio.wait(prompts, timeout=ANSWER_GRACE_S)
        await asyncio.sleep(0)
    finally:
        for one in over:
            one.cancel()
        await connection.close()
    return EXIT_INTERRUPTED if ended_by else EXIT_OK
