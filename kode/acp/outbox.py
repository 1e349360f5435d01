"""Updates on their way to the client, in order. `put` never waits; a client that reads slowly gets
the pieces of a text joined, and of a command's output the latest state.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from acp.schema import AgentMessageChunk, AgentThoughtChunk, TextContentBlock, ToolCallProgress

from kode.acp.updates import Update

Send = Callable[[Update], Awaitable[None]]
"""Raises: ConnectionError when the client has gone."""


@dataclass
class Outbox:
    """The updates of one session."""

    send: Send
    waiting: "deque[Update]" = field(default_factory=deque)
    held: bool = True
    """While the client does not know the session yet, nothing is sent."""
    _sending: "asyncio.Task[None] | None" = None

    def put(self, *updates: Update) -> None:
        """Adds updates behind those that wait."""
        for update in updates:
            merged = _merge(self.waiting[-1], update) if self.waiting else None
            if merged is not None:
                self.waiting.pop()
            self.waiting.append(merged or update)
        self._begin()

    def release(self) -> None:
        """From now on updates are sent."""
        self.held = False
        self._begin()

    async def sent(self, timeout_s: float | None = None) -> None:
        """Waits until all that waits is written; with a limit, since a client may read no more."""
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
    """One update for two, where that says the same."""
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
