"""Queues updates to the client, in order. `put` never blocks; for a slow client, only the latest
state of a command's output is kept."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from acp.schema import ToolCallProgress

from kode.plugins.acp.updates import Update

Send = Callable[[Update], Awaitable[None]]
"""Raises: ConnectionError if the client is gone."""


@dataclass
class Outbox:
    """The updates of one session."""

    send: Send
    waiting: "deque[Update]" = field(default_factory=deque)
    held: bool = True
    """While True, nothing is sent: the client does not know the session yet."""
    _sending: "asyncio.Task[None] | None" = None

    def put(self, *updates: Update) -> None:
        """Adds updates to the queue."""
        for update in updates:
            match (self.waiting[-1] if self.waiting else None), update:
                case ToolCallProgress(status=None) as last, ToolCallProgress(status=None):
                    if last.tool_call_id == update.tool_call_id:
                        self.waiting.pop()
            self.waiting.append(update)
        self._begin()

    def release(self) -> None:
        """Starts sending."""
        self.held = False
        self._begin()

    async def sent(self, timeout_s: float | None = None) -> None:
        """Waits until the queue is written; with a limit, because a client may stop reading."""
        self.release()
        if self._sending is not None:
            await asyncio.wait([self._sending], timeout=timeout_s)

    def _begin(self) -> None:
        if not self.held and self.waiting and (self._sending is None or self._sending.done()):
            self._sending = asyncio.ensure_future(self._send_all())

    async def _send_all(self) -> None:
        while self.waiting:
            try:
                await self.send(self.waiting.popleft())
            except ConnectionError:
                self.waiting.clear()
