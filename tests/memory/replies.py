"""A model for systems that ask for whole replies: it plays them in order and notes the requests."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kode.contracts import Request
from kode.messages import Message, Text, ToolCall

Reply = Message | BaseException | Callable[[Request], Message]


@dataclass
class Replies:
    """Plays `replies`, the last one over and over; raises an exception, calls a function."""

    replies: Sequence[Reply]
    requests: list[Request] = field(default_factory=list)

    async def __call__(self, request: Request) -> Message:
        reply = self.replies[min(len(self.requests), len(self.replies) - 1)]
        self.requests.append(request)
        if isinstance(reply, BaseException):
            raise reply
        return reply if isinstance(reply, Message) else reply(request)


def says(text: str, stop: Any = "end") -> Message:
    return Message(role="assistant", parts=(Text(text=text),), stop=stop)


def calls(*named: tuple[str, Any], stop: Any = "tool_calls") -> Message:
    """Tool calls: (name, arguments or raw text)."""
    parts = tuple(
        ToolCall(
            id=f"call{number}",
            name=name,
            arguments=given if isinstance(given, str) else json.dumps(given),
        )
        for number, (name, given) in enumerate(named)
    )
    return Message(role="assistant", parts=parts, stop=stop)
