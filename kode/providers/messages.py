"""The Messages API.

The model that wrote a reply gets it back as it came: each block in its own form, in order, in one
turn, with fields of any name. What the API refuses is left out: blank text, thinking with nothing
after it, and a search that never got its result. A reply whose past has changed (`Message.moved`)
loses its thinking, which is bound to that past, and another model's reply loses whatever only that
model can read.

Besides the mark on the system prompt, cache marks stand where the last request to this model ended
and where this one ends. The former finds what that request wrote, however many blocks the reply and
its results have: the server looks back only 20 blocks from a mark. Marks live five minutes, some an
hour if a person pauses; see `place_marks`. The server's comparison ignores marks.

How much a model thinks depends on what is known about it (`ModelInfo`); a model about which nothing
is known gets no parameter:

    adaptive   it decides itself, between its calls too; `output_config.effort` says how much
    enabled    older models think up to a budget of tokens, see `BUDGETS`
    disabled   for effort `none`; a model without it always thinks, and gets its lowest level
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice, zip_longest
from typing import Any, Literal

from kode.errors import RefusedError
from kode.messages import (
    Image,
    Message,
    Part,
    ServerItem,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    results_of,
)
from kode.provider import Effort, Request, ToolSpec
from kode.providers.draft import (
    Draft,
    Kind,
    is_whole_object,
    join_surrogates,
    join_surrogates_in,
    list_of,
    mapping_of,
    pick,
)
from kode.providers.errors import Endpoint, status_error
from kode.providers.provider import HttpProvider, WireFormat, import_sdk
from kode.providers.request import Target, encode_json, place_marks, sendable_arguments, sendable_id
from kode.providers.stream import StreamEvent
from kode.values import dataclass, replace

BUDGETS: Mapping[Effort, int] = {
    "minimal": 1_024,
    "low": 4_000,
    "medium": 10_000,
    "high": 16_000,
    "xhigh": 24_000,
    "max": 32_000,
}
"""Thinking tokens for a model without levels of effort. The least is the API's; the reference
advises 16,000 and more for complex tasks, and sees little gain above 32,000. They depend on the
level alone: another budget makes the server read the conversation again."""

LEAST_ANSWER = 8_192
"""Tokens of the output limit that a budget leaves for the answer, if as many were asked for."""

WEB_SEARCH = {
    "type": "web_search_20260318",
    "name": "web_search",
    # Otherwise newer models search from code that runs in a container, whose id later requests
    # would have to name, and other models refuse the tool.
    "allowed_callers": ["direct"],
}

FIVE_MINUTES = b',"cache_control":{"type":"ephemeral"}}'
AN_HOUR = b',"cache_control":{"type":"ephemeral","ttl":"1h"}}'

KINDS: Mapping[str, Kind] = {
    "text": "text",
    "thinking": "thinking",
    "redacted_thinking": "thinking",
    "tool_use": "call",
}
"""Types of blocks that kode understands; others are items, which go back unread."""

PLAIN_FORMS = {
    ("type", "text"),
    ("type", "thinking", "signature"),
    ("type", "data"),
    ("type", "id", "name", "input"),
}
"""The fields of blocks that say no more than the plain form, so that only that is recorded."""

SIGNS = {"signature": "signature", "data": "redacted"}
"""Fields of a block of thinking → those of `DraftPart`."""


def encode_request(
    request: Request, target: Target, messages: Sequence[Blocks], tools: bytes
) -> bytes:
    # A single question is never asked again: writing it to the cache would only cost.
    caches = target.marks_cache and request.conversation != ""
    turns = group_turns(messages)
    marks = cache_marks(turns, is_long=target.marks_hour) if caches else {}
    pieces = [encode_json(_make_head(request, target, turns))[:-1]]
    if target.searches(request):
        comma = b"," if request.tools else b""
        tools = tools[:-1] + comma + encode_json(WEB_SEARCH) + b"]"
    if tools != b"[]":
        pieces.append(b',"tools":' + tools)
    if request.system.strip():
        block = encode_json({"type": "text", "text": request.system})
        mark = (AN_HOUR if target.marks_hour else FIVE_MINUTES) if caches else b"}"
        pieces.append(b',"system":[' + block[:-1] + mark + b"]")
    wires = wire_turns(turns, marks)
    pieces.append(b',"messages":[' + b",".join(wires) + b"]}")
    return b"".join(pieces)


def _make_head(request: Request, target: Target, turns: Sequence[Blocks]) -> dict[str, Any]:
    """The parameters before tools, system prompt and messages."""
    thinking, effort = _thinking_parameters(request, target, turns)
    limit = request.max_output_tokens or 1
    budget = (thinking or {}).get("budget_tokens", 0)
    if budget:
        limit = max(limit, budget + min(limit, LEAST_ANSWER))
        limit = min(limit, target.info.max_output_tokens)
    head: dict[str, Any] = {"model": target.model, "max_tokens": limit, "stream": True}
    if thinking is not None:
        head["thinking"] = thinking
    output: dict[str, Any] = {} if effort is None else {"effort": effort}
    if request.answer_schema is not None:
        try:  # what the API lacks becomes part of a description
            schema = import_sdk("messages").transform_schema(dict(request.answer_schema))
        except (ValueError, TypeError, AssertionError) as error:
            text = f"The Messages API cannot hold an answer to it: {error}."
            raise RefusedError(text) from None
        output["format"] = {"type": "json_schema", "schema": schema}
        if request.tools:
            head["tool_choice"] = {"type": "none"}
    return {**head, "output_config": output} if output else head


def _thinking_parameters(
    request: Request, target: Target, turns: Sequence[Blocks]
) -> tuple[dict[str, Any] | None, Effort | None]:
    """The `thinking` parameter and the level of effort; None where none is sent."""
    info = target.info
    wanted = request.effort or info.default_effort
    types = () if target.omits("thinking") else info.thinking
    level = target.effort(request)
    if wanted == "none" and "disabled" in types:
        return {"type": "disabled"}, None
    level = None if level == "none" else level
    if "adaptive" in types:
        return {"type": "adaptive", "display": "summarized"}, level
    budget = min(BUDGETS.get(wanted or "high", 0), info.max_output_tokens // 2)
    if "enabled" in types and budget >= BUDGETS["minimal"] and may_think(turns):
        return {"type": "enabled", "budget_tokens": budget}, level
    return None, level


def _tool_object(tool: ToolSpec, target: Target) -> dict[str, Any]:
    if tool.api_type:
        return {"type": tool.api_type, "name": tool.name}
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": dict(tool.parameters),
    }


@dataclass(frozen=True)
class MessageBlock:
    wire: bytes
    kind: Literal["", "result", "thinking"] = ""
    holds_mark: bool = True
    """Whether a cache mark may stand on it."""


@dataclass(frozen=True)
class Blocks:
    """The content blocks of one message."""

    role: str
    blocks: tuple[MessageBlock, ...] = ()
    is_own: bool = False
    """Whether this model wrote it."""
    paused: Blocks | None = None
    """A paused reply in the form that is sent as long as only its continuation may follow."""

    @cached_property
    def turn(self) -> bytes:
        """The bytes of a turn with this message alone, without a mark."""
        return _encode_turn(self.role, [block.wire for block in self.blocks])

    @cached_property
    def kinds(self) -> set[str]:
        return {block.kind for block in self.blocks}


def blocks_of(message: Message, target: Target) -> Blocks:
    """The blocks of a message."""
    if message.role != "assistant":
        return _user_blocks(message, target)
    if message.origin != target.origin:
        return _foreign_reply_blocks(message)
    # Thinking by budget is bound to nothing, and the model needs it back while it makes calls.
    is_bound = "enabled" not in target.info.thinking or target.omits("bound_thinking")
    return _own_reply_blocks(message, drops_thinking=message.moved and is_bound)


def _user_blocks(message: Message, target: Target) -> Blocks:
    images: dict[str, list[Image]] = {result.call_id: [] for result in results_of(message)}
    blocks: list[MessageBlock] = []
    for part in message.parts:
        match part:
            case Image() if part.call_id in images:
                images[part.call_id].append(part)
            case Image():
                blocks.append(_block(_encode_image(part, target)))
            case Text() if part.text.strip():
                blocks.append(_block({"type": "text", "text": part.text}))
    results = [_encode_result(each, images[each.call_id], target) for each in results_of(message)]
    empty = () if results or blocks else (_block({"type": "text", "text": "(no text)"}),)
    return Blocks("user", (*results, *blocks, *empty))


def _own_reply_blocks(message: Message, *, drops_thinking: bool) -> Blocks:
    """The blocks of this model's own reply; a paused one has `Blocks.paused`, too."""
    unfit: tuple[type[Part], ...] = (Thinking,) if drops_thinking else ()
    if any(isinstance(part, ServerItem) and not part.own for part in message.parts):
        unfit += (ServerItem,)  # one was masked on disk: a search and its result go together
    parts = [
        part
        for part in message.parts
        if not isinstance(part, unfit) and _wire_form(part) is not None
    ]
    blocks = _blocks_of_reply(_drop_loose_ends(parts, message.stop))
    if message.stop != "paused":
        return blocks
    return replace(blocks, paused=_blocks_of_reply(parts))


def _blocks_of_reply(parts: Sequence[Part]) -> Blocks:
    blocks = (
        _block(_wire_form(part), "thinking" if isinstance(part, Thinking) else "") for part in parts
    )
    return Blocks("assistant", tuple(blocks), is_own=True)


def _drop_loose_ends(parts: list[Part], stop: str | None) -> list[Part]:
    """The parts of a reply without thinking at its end, which the API refuses, and without a search
    that has no result. Beside calls, the result is still to come, so the search stays."""
    if stop != "tool_calls":
        items = [part.own for part in parts if isinstance(part, ServerItem)]
        begun = {own.get("id") for own in items if own.get("type") == "server_tool_use"}
        begun -= {own.get("tool_use_id") for own in items}
        parts = [p for p in parts if not (isinstance(p, ServerItem) and p.own.get("id") in begun)]
    last = max((index for index, p in enumerate(parts) if not isinstance(p, Thinking)), default=-1)
    return parts[: last + 1]


def _foreign_reply_blocks(message: Message) -> Blocks:
    """The blocks of another model's reply: text and calls, or else what a server's tools said."""
    forms = [_plain_form(p) for p in message.parts if isinstance(p, Text | ToolCall)]
    if not any(forms):
        texts = [part.text for part in message.parts if isinstance(part, ServerItem)]
        forms = [_plain_form(Text(text="\n".join(filter(None, texts))))]
    return Blocks("assistant", tuple(_block(form) for form in forms if form is not None))


def _wire_form(part: Part) -> dict[str, Any] | None:
    """A part of this model's own reply: its own form, or else the plain one; None if it cannot go
    back."""
    own = getattr(part, "own", None)
    if not own:
        return _plain_form(part)
    if isinstance(part, Text) and not part.text.strip():
        return None
    # Else the call and its result would have different ids.
    if isinstance(part, ToolCall) and sendable_id(part.id, strict=True) != part.id:
        return _plain_form(part)
    return dict(own)


def _plain_form(part: Part) -> dict[str, Any] | None:
    """A part of a reply as far as kode understands it; None if that is nothing to send."""
    match part:
        case Text():
            return {"type": "text", "text": part.text} if part.text.strip() else None
        case Thinking(redacted=data) if data:
            return {"type": "redacted_thinking", "data": data}
        case Thinking() if part.signature:
            return {"type": "thinking", "thinking": part.text, "signature": part.signature}
        case ToolCall():
            return {
                "type": "tool_use",
                "id": sendable_id(part.id, strict=True),
                "name": part.name,
                "input": json.loads(sendable_arguments(part)),
            }
    # Thinking without a signature, of an interrupted reply or a local server, is refused.
    return None


def _encode_image(image: Image, target: Target) -> dict[str, Any]:
    data, note = target.image_data(image)
    if data is None:
        return {"type": "text", "text": note}
    source = {"type": "base64", "media_type": image.media_type, "data": data}
    if image.media_type == "application/pdf":
        return {"type": "document", "source": source, "title": image.name}
    return {"type": "image", "source": source}


def _encode_result(result: ToolResult, images: Iterable[Image], target: Target) -> MessageBlock:
    pictures = [_encode_image(image, target) for image in images]
    texts = [{"type": "text", "text": result.text}] if result.text.strip() else []
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": sendable_id(result.call_id, strict=True),
        "content": [*texts, *pictures] if pictures else result.text,
    }
    if result.is_error:
        block["is_error"] = True
    return MessageBlock(encode_json(block), "result", holds_mark=bool(texts or pictures))


def _block(form: dict[str, Any] | None, kind: Literal["", "thinking"] = "") -> MessageBlock:
    return MessageBlock(encode_json(form), kind, holds_mark=kind != "thinking")


def group_turns(messages: Sequence[Blocks]) -> list[Blocks]:
    """Joins messages into turns of alternating roles, without empty ones, results first."""
    turns: list[Blocks] = []
    for message, follower in zip_longest(messages, messages[1:]):
        if message.paused is not None and (follower is None or follower.role == "assistant"):
            message = message.paused
        last = turns[-1] if turns else None
        if last is not None and message.blocks and last.role == message.role:
            blocks = sorted(last.blocks + message.blocks, key=lambda block: block.kind != "result")
            turns[-1] = Blocks(last.role, tuple(blocks), last.is_own or message.is_own)
        elif message.blocks:
            turns.append(message)
    return turns


def may_think(turns: Sequence[Blocks]) -> bool:
    """Whether thinking of type `enabled` may be asked for. While a model is making calls, it may
    only if its first turn since the person's words began with thinking: the API refuses it
    otherwise. A reply to a person's words may always have it."""
    begun: Blocks | None = None
    for turn in reversed(turns):
        if turn.role == "assistant":
            begun = turn
        elif "result" not in turn.kinds:
            break
    if begun is None or turns[-1].role == "assistant":
        return True
    return begun.blocks[0].kind == "thinking"


def wire_turns(turns: Sequence[Blocks], marks: Mapping[int, bytes]) -> list[bytes]:
    """The turns as bytes, with marks at the ends of some."""
    wires = [turn.turn for turn in turns]
    for index, mark in marks.items():
        blocks = [block.wire for block in turns[index].blocks]
        if fit := [place for place, block in enumerate(turns[index].blocks) if block.holds_mark]:
            blocks[fit[-1]] = blocks[fit[-1]][:-1] + mark
            wires[index] = _encode_turn(turns[index].role, blocks)
    return wires


def cache_marks(turns: Sequence[Blocks], *, is_long: bool) -> dict[int, bytes]:
    """The marks at the ends of turns, by their index: see `place_marks`."""
    users = [index for index, turn in enumerate(turns) if turn.role == "user"]
    own = next((index for index in range(len(turns) - 1, 0, -1) if turns[index].is_own), 0)
    ends = {own - 1, *users[-1:]} - {-1}
    asked = (index for index in reversed(users) if is_long and "" in turns[index].kinds)
    places = place_marks(ends, list(islice(asked, 2)))
    return {index: AN_HOUR if lasts else FIVE_MINUTES for index, lasts in places.items()}


def _encode_turn(role: str, blocks: Sequence[bytes]) -> bytes:
    return b'{"role":"%b","content":[%b]}' % (role.encode(), b",".join(blocks))


@dataclass
class OpenBlock:
    """A content block that is still coming."""

    block: dict[str, Any]
    """As it came, with what its deltas have added."""
    kind: Kind
    key: Hashable
    """Its place in the draft."""


def read_event(
    event: StreamEvent, draft: Draft, blocks: dict[int, OpenBlock], endpoint: Endpoint
) -> None:
    """Adds one event to the draft. `blocks` holds the blocks that are still coming.

    Raises: ProviderError for an error event, which comes with HTTP 200.
    """
    data = event.data
    kind = data.get("type")
    if event.name == "error" or kind == "error" or data.get("error"):
        raise status_error(None, data, {}, endpoint)
    if not isinstance(kind, str) or kind == "whole":
        kind = event.name
    match kind:
        case "message_start":
            _take_usage(pick(data, "message", "usage"), draft)
        case "content_block_start":
            _start_block(_block_index(data), data.get("content_block"), draft, blocks)
        case "content_block_delta":
            _apply_delta(_block_index(data), data.get("delta"), draft, blocks)
        case "content_block_stop":
            _complete_block(_block_index(data), draft, blocks)
        case "message_delta":
            _take_usage(data.get("usage"), draft)
            _take_stop(data.get("delta"), draft)
        case "message_stop":
            draft.done = True
        case "message":
            _take_message(data, draft, blocks)


def _block_index(data: Mapping[str, Any]) -> int:
    index = data.get("index")
    return index if isinstance(index, int) else 0


def _take_message(message: Mapping[str, Any], draft: Draft, blocks: dict[int, OpenBlock]) -> None:
    """Adds a complete message, from a server that does not stream."""
    for index, block in enumerate(list_of(message.get("content"))):
        _start_block(index, block, draft, blocks)
        _complete_block(index, draft, blocks)
    _take_usage(message.get("usage"), draft)
    _take_stop(message, draft)


def _start_block(index: int, block: Any, draft: Draft, blocks: dict[int, OpenBlock]) -> None:
    if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
        return
    kind = KINDS.get(block["type"], "item")
    key: Hashable = index
    call_id, call = block.get("id"), draft.find("call", index)
    if kind == "call" and call is not None and call.id and call_id and call_id != call.id:
        key = ("again", index, draft.calls)  # two calls under one index
    blocks[index] = OpenBlock(dict(block), kind, key)
    if kind == "thinking":
        draft.begin_thinking(key)
    part = draft.part(kind, key)
    if kind == "call":
        name = block.get("name")
        part.id = call_id if isinstance(call_id, str) else part.id
        part.add_name(name if isinstance(name, str) else "")
        # The format opens a block with an empty object; one with content is the full input.
        draft.add_arguments(part, block.get("input") or "")
    elif kind != "item":
        _take_fields(key, block, draft)


def _take_fields(key: Hashable, fields: Mapping[str, Any], draft: Draft) -> None:
    """Adds what kode understands of the fields of a block, or of pieces of them."""
    draft.add("text", key, fields.get("text"))
    draft.add("thinking", key, fields.get("thinking"))
    for name, sign in SIGNS.items():
        if isinstance(value := fields.get(name), str) and value:
            draft.grow(len(value), is_content=True)
            setattr(draft.part("thinking", key), sign, value)
    if "partial_json" in fields:
        draft.add_arguments(draft.part("call", key), fields["partial_json"])


def _apply_delta(index: int, delta: Any, draft: Draft, blocks: dict[int, OpenBlock]) -> None:
    """Applies a delta of any type: text is added to the field of the same name, a list extends it,
    anything else replaces it."""
    if not isinstance(delta, Mapping):
        return
    coming = blocks.get(index)
    if coming is None:
        return _take_fields(index, delta, draft)
    if coming.kind != "item":
        _take_fields(coming.key, delta, draft)
    elif "partial_json" in delta:
        draft.add_arguments(draft.part("item", coming.key), delta["partial_json"])
    else:
        sizes = [len(piece) for piece in delta.values() if isinstance(piece, str)]
        draft.grow(sum(sizes), is_content=True)
    for name, value in delta.items():
        if name in ("type", "partial_json"):
            continue
        if name == "citation":
            name, value = "citations", [value]
        before = coming.block.get(name)
        is_piece = isinstance(value, str | list) and type(before) is type(value)
        coming.block[name] = before + value if is_piece and name != "signature" else value


def _complete_block(index: int, draft: Draft, blocks: dict[int, OpenBlock]) -> None:
    """Keeps a block in its own form, unless it is broken or differs from what kode understood."""
    coming = blocks.pop(index, None)
    if coming is None:
        return
    part = draft.part(coming.kind, coming.key)
    part.own = None
    if coming.kind != "item" and tuple(coming.block) in PLAIN_FORMS:
        return
    own = join_surrogates_in(coming.block)
    match coming.kind:
        case "text":
            is_whole = own.get("text") == part.text != ""
        case "thinking":  # without its signature no server takes it back
            signs = {field: getattr(part, name) for field, name in SIGNS.items()}
            is_whole = own.get("thinking", "") == part.text and any(signs.values())
            is_whole = is_whole and all(own.get(name, "") == sign for name, sign in signs.items())
        case _:
            arguments = join_surrogates(part.text)
            is_whole = not arguments or is_whole_object(arguments)
            if is_whole and (arguments or coming.kind == "call"):
                own["input"] = json.loads(arguments or "{}")
            if coming.kind == "call":
                is_whole = is_whole and (own.get("id"), own.get("name")) == (part.id, part.name)
            else:
                part.pieces = [_search_text(own)]
    part.own = own if is_whole else None


def _search_text(block: Mapping[str, Any]) -> str:
    """What a search found, or why it failed, for a person and for another model."""
    if block.get("type") != "web_search_tool_result":
        return ""
    content = block.get("content")
    if isinstance(content, Mapping):
        return f"The web search failed: {content.get('error_code')}"
    pages = [page for page in list_of(content) if pick(page, "url")]
    lines = (f"{page.get('title')}\n{page.get('url')}" for page in pages)
    return "\n".join(("Found on the web:", *lines)) if pages else "Nothing was found on the web."


def _take_stop(end: Any, draft: Draft) -> None:
    """Takes the stop reason, and the vendor's explanation of a refusal as the reply's text."""
    reason, details = pick(end, "stop_reason"), mapping_of(pick(end, "stop_details"))
    if reason == "refusal":
        category = details.get("category")
        fallback = f"The reply was refused ({category})." if category else ""
        draft.refuse("refusal", details.get("explanation") or fallback)
    draft.note_stop(reason)


def _take_usage(usage: Any, draft: Draft) -> None:
    """Records the usage. The API counts cached and written tokens apart from the input; `Usage`
    includes them. Fields that a later event lacks keep their value."""
    usage = mapping_of(usage)
    draft.count_usage(
        plain_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        cached_tokens=usage.get("cache_read_input_tokens"),
        cache_write_tokens=usage.get("cache_creation_input_tokens"),
        hour_write_tokens=pick(usage, "cache_creation", "ephemeral_1h_input_tokens"),
        thinking_tokens=pick(usage, "output_tokens_details", "thinking_tokens"),
    )
    parts = ("plain_tokens", "cached_tokens", "cache_write_tokens")
    if usage:
        draft.count_usage(input_tokens=sum([draft.usage.get(name, 0) for name in parts]))


MESSAGES = WireFormat(
    api="messages",
    path="/v1/messages",
    message_encoder=lambda target: partial(blocks_of, target=target),
    encode_request=encode_request,
    tool_object=_tool_object,
    event_reader=lambda draft, endpoint, *_: (
        partial(read_event, draft=draft, blocks={}, endpoint=endpoint),
        lambda: None,
    ),
)

open_messages = partial(HttpProvider, wire_format=MESSAGES)
