"""The Messages API, through the official `anthropic` SDK, imported on the first request.

Events are read raw (`stream.py`): the SDK's accumulator presents a truncated tool call as a valid
call without arguments. Caching uses two breakpoints: the last block of the system prompt (which
covers the tools too) and of the last user turn. The second moves with the conversation; the server
finds the longest cached prefix, and the marker is not part of what is compared.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kode.contracts import Request, ToolSpec
from kode.errors import RefusedError
from kode.messages import Image, Message, Part, ServerItem, Text, Thinking, ToolCall, ToolResult
from kode.providers.boundary import Endpoint, check_key, from_status, missing_key
from kode.providers.draft import Draft
from kode.providers.exchange import SdkProvider, client_settings, default_max_tokens
from kode.providers.stream import Event
from kode.providers.wire import (
    Encoded,
    EncodedTools,
    encode_json,
    picture,
    picture_note,
    sendable_arguments,
    sendable_id,
    sendable_name,
)
from kode.registry import ProviderSettings

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

BREAKPOINT = b',"cache_control":{"type":"ephemeral"}}'


def warm_up() -> None:
    """Imports the SDK, which takes a while; call it in a thread."""
    import anthropic  # noqa: F401


class AnthropicMessages(SdkProvider):
    """A `Provider` over the Messages API.

    Without a key, the SDK uses another credential: a token, a profile. Other servers than
    Anthropic's may need none. A base URL may end in `/v1` or not.
    """

    api = "messages"

    def __init__(self, settings: ProviderSettings) -> None:
        row = settings.row
        url = settings.base_url or os.environ.get(row.url_variable) or row.own_url
        super().__init__(settings, base_url=url.rstrip("/").removesuffix("/v1"))
        self._messages: Encoded[Blocks] = Encoded(self._blocks_of)
        self._tools = EncodedTools(tool_object)

    async def _exchange(self, body: bytes, draft: Draft) -> None:
        import anthropic

        def taken(event: Event) -> None:
            take(event, draft, self._endpoint)

        await self._post("/v1/messages", body, anthropic.AsyncStream[object], draft, taken)

    def _open(self) -> AsyncAnthropic:
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

        endpoint = self._endpoint
        check_key(endpoint)
        client = AsyncAnthropic(
            base_url=endpoint.base_url,
            api_key=endpoint.api_key or (None if self.is_official else "none"),
            **client_settings(DefaultAsyncHttpxClient, endpoint),
        )
        if not (client.api_key or client.auth_token or client.credentials):
            raise missing_key(endpoint)
        return client

    def _body(self, request: Request) -> bytes:
        head: dict[str, Any] = {
            "model": self.model,
            "max_tokens": request.max_output_tokens or default_max_tokens(self.info),
            "stream": True,
        }
        if self.takes_likeliest(request):
            head["temperature"] = 0
        if request.answer_schema is not None:
            head |= answer_format(request.answer_schema)
            if request.tools:
                head["tool_choice"] = {"type": "none"}
        pieces = [encode_json(head)[:-1]]
        if request.tools:
            pieces.append(b',"tools":' + self._tools.of(request.tools))
        if request.system.strip():
            block = encode_json({"type": "text", "text": request.system})
            pieces.append(b',"system":[' + _mark(block) + b"]")
        turns = wire_turns(self._messages.of(request.messages))
        pieces.append(b',"messages":[' + b",".join(turns) + b"]}")
        return b"".join(pieces)

    def _blocks_of(self, message: Message) -> Blocks:
        return blocks_of(message, self.origin, seen=self.info.sees_images is not False)


# ── out ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Blocks:
    """The content blocks of one message. Results come first in a turn, so they are kept
    separately."""

    role: str
    results: tuple[bytes, ...]
    others: tuple[bytes, ...]

    @cached_property
    def turn(self) -> bytes:
        """The turn consisting of this message alone."""
        return _turn(self.role, [*self.results, *self.others])


def tool_object(tool: ToolSpec) -> dict[str, Any]:
    if tool.api_type:
        return {"type": tool.api_type, "name": tool.name}
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": dict(tool.parameters),
    }


def answer_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that make the server enforce a schema. The SDK keeps what the API supports; other
    constraints become part of a description. Raises: RefusedError for an unsupported schema."""
    from anthropic import transform_schema

    try:
        taken = transform_schema(dict(schema))
    except (ValueError, TypeError, AssertionError) as error:
        raise RefusedError(f"The Messages API cannot hold an answer to it: {error}.") from None
    return {"output_config": {"format": {"type": "json_schema", "schema": taken}}}


def blocks_of(message: Message, origin: str, *, seen: bool = True) -> Blocks:
    """The blocks of a message as the API accepts them: no blank text, thinking only of `origin`,
    and no assistant message with thinking alone. Includes images if the model can see."""
    results = tuple(encode_json(_result(p)) for p in message.parts if isinstance(p, ToolResult))
    objects = [block for p in message.parts if (block := _block(p, origin, seen)) is not None]
    if message.role == "assistant":
        said = any(block["type"] in ("text", "tool_use") for block in objects)
        return Blocks("assistant", (), tuple(map(encode_json, objects)) if said else ())
    if not objects and not results:
        objects = [{"type": "text", "text": "(no text)"}]
    return Blocks("user", results, tuple(map(encode_json, objects)))


def _block(part: Part, origin: str, seen: bool) -> dict[str, Any] | None:
    match part:
        case Text():
            return {"type": "text", "text": part.text} if part.text.strip() else None
        case Thinking() if part.origin != origin:
            return None
        case Thinking(redacted=data) if data:
            return {"type": "redacted_thinking", "data": data}
        case Thinking():
            # The API refuses thinking without its signature; an interrupted reply has none.
            signed = {
                "type": "thinking",
                "thinking": part.text,
                "signature": part.signature,
            }
            return signed if part.signature else None
        case ToolCall():
            return {
                "type": "tool_use",
                "id": sendable_id(part.id, strict=True),
                "name": sendable_name(part.name),
                "input": json.loads(sendable_arguments(part)),
            }
        case Image():
            picture_data = picture(part, seen=seen)
            if picture_data is None:
                return {"type": "text", "text": picture_note(part, seen=seen)}
            source = {"type": "base64", "media_type": part.media_type, "data": picture_data}
            return {"type": "image", "source": source}
        case ToolResult() | ServerItem():
            return None


def _result(result: ToolResult) -> dict[str, Any]:
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": sendable_id(result.call_id, strict=True),
        "content": result.text,
    }
    return {**block, "is_error": True} if result.is_error else block


def wire_turns(messages: list[Blocks]) -> list[bytes]:
    """The messages as turns of alternating roles, results first, the last user turn marked."""
    groups: list[tuple[str, list[Blocks]]] = []
    for message in messages:
        if not message.results and not message.others:
            continue
        if groups and groups[-1][0] == message.role:
            groups[-1][1].append(message)
        else:
            groups.append((message.role, [message]))
    last_user = max((at for at, (role, _) in enumerate(groups) if role == "user"), default=-1)
    turns = []
    for at, (role, members) in enumerate(groups):
        if len(members) == 1 and at != last_user:
            turns.append(members[0].turn)
            continue
        results = [block for member in members for block in member.results]
        blocks = results + [block for member in members for block in member.others]
        if at == last_user:
            blocks[-1] = _mark(blocks[-1])
        turns.append(_turn(role, blocks))
    return turns


def _turn(role: str, blocks: list[bytes]) -> bytes:
    return b'{"role":"%b","content":[%b]}' % (role.encode(), b",".join(blocks))


def _mark(block: bytes) -> bytes:
    return block[:-1] + BREAKPOINT


# ── in ───────────────────────────────────────────────────────────────────────────────────────


def take(event: Event, draft: Draft, endpoint: Endpoint) -> None:
    """Adds one event to the draft.

    Raises: ProviderError for an error event, which comes with HTTP 200.
    """
    data = event.data
    kind = data.get("type")
    if event.name == "error" or kind == "error" or data.get("error"):
        raise from_status(None, data, {}, endpoint)
    if not isinstance(kind, str) or kind == "whole":
        kind = event.name
    match kind:
        case "message_start":
            message = data.get("message")
            _take_usage(message.get("usage") if isinstance(message, Mapping) else None, draft)
        case "content_block_start":
            _take_start(data.get("index"), data.get("content_block"), draft)
        case "content_block_delta":
            _take_delta(data.get("index"), data.get("delta"), draft)
        case "message_delta":
            delta = data.get("delta")
            _take_usage(data.get("usage"), draft)
            draft.stopped(delta.get("stop_reason") if isinstance(delta, Mapping) else None)
        case "message_stop":
            draft.done = True
        case "message":
            _take_message(data, draft)


def _take_message(message: Mapping[str, Any], draft: Draft) -> None:
    """Adds a complete message, from a server that does not stream."""
    content = message.get("content")
    for index, block in enumerate(content if isinstance(content, list) else ()):
        _take_start(index, block, draft)
    _take_usage(message.get("usage"), draft)
    draft.stopped(message.get("stop_reason"))


def _take_start(index: Any, block: Any, draft: Draft) -> None:
    if not isinstance(block, Mapping):
        return
    key = index if isinstance(index, int) else 0
    match block.get("type"):
        case "text":
            draft.add_text(key, block.get("text"))
        case "thinking":
            draft.add_thinking(key, block.get("thinking"))
            draft.sign_thinking(key, signature=block.get("signature"))
        case "redacted_thinking":
            draft.sign_thinking(key, redacted=block.get("data"))
        case "tool_use":
            _start_call(key, block, draft)


def _start_call(key: int, block: Mapping[str, Any], draft: Draft) -> None:
    call = draft.call(key)
    given, name = block.get("id"), block.get("name")
    if call.id and isinstance(given, str) and given != call.id:
        # Two calls under one index.
        call = draft.call(("again", key, draft.calls))
        draft.redirect(key, call)
    call.id = given if isinstance(given, str) else call.id
    call.add_name(name if isinstance(name, str) else "")
    # The format opens a block with an empty object; one with content is the full input.
    if block.get("input"):
        draft.add_arguments(call, block["input"])


def _take_delta(index: Any, delta: Any, draft: Draft) -> None:
    if not isinstance(delta, Mapping):
        return
    key = index if isinstance(index, int) else 0
    match delta.get("type"):
        case "text_delta":
            draft.add_text(key, delta.get("text"))
        case "thinking_delta":
            draft.add_thinking(key, delta.get("thinking"))
        case "signature_delta":
            draft.sign_thinking(key, signature=delta.get("signature"))
        case "input_json_delta":
            draft.add_arguments(draft.call(key), delta.get("partial_json"))


def _take_usage(usage: Any, draft: Draft) -> None:
    """The API counts cached and written tokens separately from the input; `Usage` includes them.
    Fields missing from a later event keep their value."""
    if not isinstance(usage, Mapping):
        return
    draft.count_usage(
        plain_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        cached_tokens=usage.get("cache_read_input_tokens"),
        cache_write_tokens=usage.get("cache_creation_input_tokens"),
    )
    counts = draft.usage
    parts = ("plain_tokens", "cached_tokens", "cache_write_tokens")
    draft.count_usage(input_tokens=sum(counts.get(name, 0) for name in parts))
