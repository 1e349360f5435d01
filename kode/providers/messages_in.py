"""Events of the Messages API → the draft of a reply.

Beside what kode understands, every content block is collected as it comes, with fields and deltas
of any name, so that it can go back unchanged.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kode.providers.draft import (
    Draft,
    DraftCall,
    DraftItem,
    DraftText,
    DraftThinking,
    is_whole_object,
    join_surrogates,
)
from kode.providers.errors import Endpoint, from_status
from kode.providers.stream import Event

UNDERSTOOD = ("text", "thinking", "redacted_thinking", "tool_use")
"""Types of blocks that kode has words for; others go back unread."""


@dataclass
class Begun:
    """A content block that is still coming."""

    block: dict[str, Any]
    arguments: list[str] = field(default_factory=list)
    """Pieces of the JSON that becomes its `input`."""


def take(event: Event, draft: Draft, begun: dict[int, Begun], endpoint: Endpoint) -> None:
    """Adds one event to the draft. `begun` holds the blocks that are still coming.

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
            _start(_index(data), data.get("content_block"), draft, begun)
        case "content_block_delta":
            _add(_index(data), data.get("delta"), draft, begun)
        case "content_block_stop":
            _complete(_index(data), draft, begun)
        case "message_delta":
            _take_usage(data.get("usage"), draft)
            _take_stop(data.get("delta"), draft)
        case "message_stop":
            draft.done = True
        case "message":
            _take_message(data, draft, begun)


def _index(data: Mapping[str, Any]) -> int:
    index = data.get("index")
    return index if isinstance(index, int) else 0


def _take_message(message: Mapping[str, Any], draft: Draft, begun: dict[int, Begun]) -> None:
    """Adds a complete message, from a server that does not stream."""
    content = message.get("content")
    for index, block in enumerate(content if isinstance(content, list) else ()):
        _start(index, block, draft, begun)
        _complete(index, draft, begun)
    _take_usage(message.get("usage"), draft)
    _take_stop(message, draft)


# ── content blocks ───────────────────────────────────────────────────────────────────────────


def _start(key: int, block: Any, draft: Draft, begun: dict[int, Begun]) -> None:
    if not isinstance(block, Mapping):
        return
    begun[key] = Begun(dict(block))
    match block.get("type"):
        case "text":
            draft.add_text(key, block.get("text"))
        case "thinking":
            draft.begin_thinking(key)
            draft.add_thinking(key, block.get("thinking"))
            draft.sign_thinking(key, signature=block.get("signature"))
        case "redacted_thinking":
            draft.begin_thinking(key)
            draft.sign_thinking(key, redacted=block.get("data"))
        case "tool_use":
            _start_call(key, block, draft)
        case str():
            draft.item(key)


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


def _add(key: int, delta: Any, draft: Draft, begun: dict[int, Begun]) -> None:
    if not isinstance(delta, Mapping):
        return
    coming = begun.get(key)
    if coming is not None:
        _extend(coming, delta)
        if coming.block.get("type") not in UNDERSTOOD:
            draft.count("".join(piece for piece in delta.values() if isinstance(piece, str)))
            return
    match delta.get("type"):
        case "text_delta":
            draft.add_text(key, delta.get("text"))
        case "thinking_delta":
            draft.add_thinking(key, delta.get("thinking"))
        case "signature_delta":
            draft.sign_thinking(key, signature=delta.get("signature"))
        case "input_json_delta":
            draft.add_arguments(draft.call(key), delta.get("partial_json"))


def _extend(coming: Begun, delta: Mapping[str, Any]) -> None:
    """Applies a delta of any type: text is added to the field of the same name, a list extends it,
    anything else replaces it."""
    block = coming.block
    for name, value in delta.items():
        known = block.get(name)
        if name == "type":
            continue
        if name == "partial_json":
            coming.arguments.append(value if isinstance(value, str) else json.dumps(value))
        elif name == "citation":
            citations = block.get("citations")
            block["citations"] = [*(citations if isinstance(citations, list) else ()), value]
        elif name == "signature":
            block[name] = value
        elif (isinstance(value, str) and isinstance(known, str)) or (
            isinstance(value, list) and isinstance(known, list)
        ):
            block[name] = known + value  # type: ignore[operator]
        else:
            block[name] = value


def _complete(key: int, draft: Draft, begun: dict[int, Begun]) -> None:
    """Keeps a block in its own form, unless it is broken or differs from what kode understood."""
    coming = begun.pop(key, None)
    if coming is None:
        return
    own = {
        name: join_surrogates(value) if isinstance(value, str) else value
        for name, value in coming.block.items()
    }
    match own.get("type"):
        case "text":
            text = draft.block("text", key)
            if isinstance(text, DraftText) and own.get("text") == "".join(text.pieces):
                text.own = own
        case "thinking":
            thinking = draft.block("thinking", key)
            signature = own.get("signature")
            if not isinstance(thinking, DraftThinking) or not isinstance(signature, str):
                return
            # Without its signature no server takes it back.
            if signature and own.get("thinking") == "".join(thinking.pieces):
                thinking.own, thinking.signature = own, signature
        case "redacted_thinking":
            thinking = draft.block("thinking", key)
            if isinstance(thinking, DraftThinking) and own.get("data") == thinking.redacted:
                thinking.own = own
        case "tool_use":
            call = draft.block("call", key)
            if not isinstance(call, DraftCall) or own.get("id") != call.id:
                return
            arguments = join_surrogates(call.text) or "{}"
            if own.get("name") == call.name and is_whole_object(arguments):
                call.own = {**own, "input": json.loads(arguments)}
        case str():
            _complete_item(own, "".join(coming.arguments), draft.item(key))


def _complete_item(own: dict[str, Any], arguments: str, item: DraftItem) -> None:
    if arguments and not is_whole_object(arguments):
        return
    item.own = {**own, "input": json.loads(arguments)} if arguments else own
    item.text = _said(own)


def _said(block: Mapping[str, Any]) -> str:
    """What a search found, or why it failed, for a person and for another model."""
    if block.get("type") != "web_search_tool_result":
        return ""
    content = block.get("content")
    if isinstance(content, Mapping):
        return f"The web search failed: {content.get('error_code')}"
    found = [one for one in (content if isinstance(content, list) else ()) if _is_page(one)]
    lines = (f"{one.get('title')}\n{one.get('url')}" for one in found)
    return "\n".join(("Found on the web:", *lines)) if found else "Nothing was found on the web."


def _is_page(result: Any) -> bool:
    return isinstance(result, Mapping) and bool(result.get("url"))


# ── the end, and what it cost ────────────────────────────────────────────────────────────────


def _take_stop(end: Any, draft: Draft) -> None:
    """Takes the stop reason, and the vendor's explanation of a refusal as the reply's text."""
    if not isinstance(end, Mapping):
        return
    details = end.get("stop_details")
    if end.get("stop_reason") == "refusal" and isinstance(details, Mapping):
        category, why = details.get("category"), details.get("explanation")
        fallback = f"The reply was refused ({category})." if category else ""
        draft.refuse("refusal", why if why else fallback)
    draft.stopped(end.get("stop_reason"))


def _take_usage(usage: Any, draft: Draft) -> None:
    """The API counts cached and written tokens separately from the input; `Usage` includes them.
    Fields missing from a later event keep their value."""
    if not isinstance(usage, Mapping):
        return
    details = usage.get("output_tokens_details")
    draft.count_usage(
        plain_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        cached_tokens=usage.get("cache_read_input_tokens"),
        cache_write_tokens=usage.get("cache_creation_input_tokens"),
        thinking_tokens=details.get("thinking_tokens") if isinstance(details, Mapping) else None,
    )
    counts = draft.usage
    parts = ("plain_tokens", "cached_tokens", "cache_write_tokens")
    draft.count_usage(input_tokens=sum(counts.get(name, 0) for name in parts))
