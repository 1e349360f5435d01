"""Queues updates to the client, in order. `put` never blocks; for a slow client, pieces of a text
are joined, and only the latest state of a command's output is kept."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from acp.schema import AgentMessageChunk, AgentThoughtChunk, TextContentBlock, ToolCallProgress

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
            merged = _merge(self.waiting[-1], update) if self.waiting else None
            if merged is not None:
                self.waiting.pop()
            self.waiting.append(merged or update)
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


def _merge(last: Update, new: Update) -> Update | None:
    """One update in place of two, if that says the same."""
    match last, new:
        case (
            AgentMessageChunk(content=TextContentBlock(text=begun)),
            AgentMessageChunk(content=TextContentBlock(text=more)),
        ) | (
            AgentThoughtChunk(content=TextContentBlock(text=begun)),
            AgentThoughtChunk(content=TextContentBlock(text=more)),
        ) if last.message_id == new.message_id:
            content = TextContentBlock(type="text", text=begun + more)
            return new.model_copy(update={"content": content})
        case ToolCallProgress(status=None), ToolCallProgress(status=None) if (
            last.tool_call_id == new.tool_call_id
        ):
            return new
    return None
