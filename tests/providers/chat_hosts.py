"""Chat Completions of one row without a server: what it sends, and what it makes of a stream."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kode.events import Emit, silent
from kode.messages import Message, ToolResult, calls_of
from kode.provider import Request
from kode.providers.chat import open_chat
from kode.providers.chat_stream import ReplyStream
from kode.providers.draft import Draft
from kode.providers.provider import HttpProvider
from kode.providers.stream import Event
from tests.providers.opened import settings_of

Object = dict[str, Any]


def host(name: str, model: str, **facts: Any) -> HttpProvider:
    """The provider of a row for a model of which `facts` are known."""
    settings = settings_of(name, model, api_key="k")
    return open_chat(replace(settings, info=replace(settings.info, **facts)))


def sent_by(provider: HttpProvider, messages: Sequence[Message], **more: Any) -> Object:
    """The body of a request."""
    given = {"system": "", **more}
    body: Object = json.loads(provider.encode(Request(messages=list(messages), **given)))
    return body


def streamed(provider: HttpProvider, deltas: Sequence[Object], emit: Emit = silent) -> Message:
    """The message that a stream of these deltas becomes."""
    draft = Draft(provider.target.origin, emit)
    incoming = ReplyStream(draft, provider.row.dialect, provider._endpoint)
    for delta in deltas:
        data = delta if "choices" in delta else {"choices": [{"index": 0, "delta": delta}]}
        incoming.read_event(Event("", data))
    if not draft.stop:
        calls = any("tool_calls" in delta for delta in deltas)
        draft.stopped("tool_calls" if calls else "stop")
    incoming.finish()
    message = draft.finish(provider.model, ())
    return replace(
        message, parts=tuple(provider.drop_redundant_form(part) for part in message.parts)
    )


def answered(message: Message, text: str = "hi") -> Message:
    """The results of a message's calls."""
    made = (ToolResult(call_id=c.id, name=c.name, text=text) for c in calls_of(message))
    return Message(role="tool", parts=tuple(made))


def call(number: int = 1, **extra: Any) -> Object:
    """A call as it goes back."""
    function = {"name": "read_file", "arguments": '{"path": "a"}'}
    return {"id": f"call_{number}", "type": "function", "function": function, **extra}


def fragments(made: Object, index: int = 0) -> list[Object]:
    """The deltas of a call: its arguments come in two pieces."""
    arguments = made["function"]["arguments"]
    first = {**made, "index": index, "function": {**made["function"], "arguments": ""}}
    rest = [arguments[:4], arguments[4:]]
    pieces = [{"index": index, "function": {"arguments": piece}} for piece in rest]
    return [{"tool_calls": [piece]} for piece in (first, *pieces)]
