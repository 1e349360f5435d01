"""Replies of the Messages API, whole and as events."""

import json
from collections.abc import Iterator
from typing import Any

from tests.scripted_server import pieces, sse
from tests.strict_server.cache import Cost
from tests.strict_server.messages import Block, Body, Checked, bound_to, key_of, outline
from tests.strict_server.models import Model
from tests.strict_server.replies import (
    Memory,
    Part,
    Reply,
    compact,
    digest,
    new_id,
    parts_of,
    seal,
    stop_of,
    tokens_of,
)

STOPS = {"end": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
STARTED: dict[str, Any] = {"text": "", "thinking": "", "signature": "", "citations": []}
"""What a block's fields hold when its stream begins."""


def make(
    body: Body, reply: Reply, checked: Checked, model: Model, memory: Memory, cost: Cost
) -> dict[str, Any]:
    """The whole message. What it holds is kept, to know it again."""
    parts = [p for p in parts_of(reply) if checked.thinks or p.kind != "thinking"]
    manual = body.get("thinking", {}).get("type") == "enabled"
    if manual and not any(p.kind == "thinking" for p in parts):
        parts = [Part("thinking", "Let me see."), *parts]  # with a budget it always thinks
    made = [(part, block) for part in parts for block in _blocks(part, checked.shows)]
    plain = [block for _, block in made]
    blocks: list[Block] = []
    for at, (part, block) in enumerate(made):
        if part.kind == "thinking":
            prefix = bound_to(body, checked.turns, blocks) if model.binds else ""
            plain[at] = block = _sealed(block, at, plain, model, prefix)
        blocks.append(block | part.extra)
        memory.keep(key_of(block), blocks[at], block)
    stop = stop_of(reply, parts)
    if stop == "pause_turn":
        memory.paused.update(key_of(block) for block in blocks)
    usage = {
        "input_tokens": cost.new,
        "cache_creation_input_tokens": cost.written,
        "cache_read_input_tokens": cost.cached,
        "cache_creation": {"ephemeral_1h_input_tokens": cost.long},
        "output_tokens": tokens_of(parts) + 1,
        "output_tokens_details": {"thinking_tokens": tokens_of(parts, "thinking")},
    }
    return {
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": model.name,
        "content": blocks,
        "stop_reason": STOPS.get(stop, stop),
        "usage": usage,
        **reply.get("extra", {}),
    }


def _blocks(part: Part, shows: bool) -> list[Block]:
    """Without the seals. A search is two blocks."""
    if part.kind == "thinking":
        text = part.text if shows else ""
        return [{"type": "thinking", "thinking": text, "signature": ""}]
    if part.kind == "text":
        return [{"type": "text", "text": part.text}]
    if part.kind == "call":
        name = new_id("toolu_", 30) if part.id is None else part.id
        return [{"type": "tool_use", "id": name, "name": part.name, "input": _arguments(part)}]
    name = new_id("srvtoolu_", 33)
    asked = {"type": "server_tool_use", "id": name, "name": "web_search"}
    found = [
        {"type": "web_search_result", "encrypted_content": seal(kind="search"), **result}
        for result in part.results
    ]
    result = {"type": "web_search_tool_result", "tool_use_id": name, "content": found}
    return [asked | {"input": {"query": part.text}}, result]


def _arguments(part: Part) -> Any:
    """The arguments as an object; none where the script's text is no JSON object."""
    try:
        given = json.loads(part.text or "{}")
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}


def _sealed(block: Block, at: int, reply: list[Block], model: Model, prefix: str) -> Block:
    """A thinking block signed for its model, its place in the reply and what is before it."""
    said = {
        "kind": block["type"],
        "model": model.name,
        "own": digest(block.get("thinking")),
        "index": at,
        "of": len(reply),
        "reply": digest(*(outline(other) for other in reply)),
        "prefix": prefix,
    }
    return block | {"signature": seal(**said)}


def events(message: dict[str, Any], parts: list[Part]) -> Iterator[bytes]:
    """The stream of a message. A call's arguments come as the script has them, raw too."""
    raw = iter([part.text or "{}" for part in parts if part.kind == "call"])
    usage = message["usage"]
    opening = {**usage, "output_tokens": 1, "output_tokens_details": None}
    yield _event("message_start", message={**message, "content": [], "usage": opening})
    yield _event("ping")
    for index, block in enumerate(message["content"]):
        begun = {key: STARTED.get(key, value) for key, value in block.items()}
        if "input" in block:
            begun["input"] = {}
        yield _event("content_block_start", index=index, content_block=begun)
        for delta in _deltas(block, raw):
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    yield _event("message_delta", delta={"stop_reason": message["stop_reason"]}, usage=usage)
    yield _event("message_stop")


def _deltas(block: Block, raw: Iterator[str]) -> Iterator[dict[str, Any]]:
    kind = block["type"]
    if kind == "thinking":
        for piece in pieces(block["thinking"]):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": block["signature"]}
    elif kind == "text":
        for piece in pieces(block["text"]):
            yield {"type": "text_delta", "text": piece}
        for citation in block.get("citations", ()):
            yield {"type": "citations_delta", "citation": citation}
    elif kind == "tool_use":
        yield {"type": "input_json_delta", "partial_json": ""}
        for piece in pieces(next(raw)):
            yield {"type": "input_json_delta", "partial_json": piece}
    elif "input" in block:
        for piece in pieces(compact(block["input"])):
            yield {"type": "input_json_delta", "partial_json": piece}


def _event(kind: str, **rest: Any) -> bytes:
    return sse({"type": kind, **rest}, kind)
