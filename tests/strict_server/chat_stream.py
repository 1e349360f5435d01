"""Replies of Chat Completions, whole and as chunks, as each vendor sends them."""

from collections.abc import Iterator
from typing import Any

from tests.scripted_server import pieces, sse
from tests.strict_server.cache import Cost
from tests.strict_server.chat import Body, Message, keep, signs_calls, thinks
from tests.strict_server.models import Model
from tests.strict_server.replies import (
    Memory,
    Part,
    Reply,
    new_id,
    parts_of,
    seal,
    stop_of,
    tokens_of,
)

STOPS = {"end": "stop", "refusal": "content_filter", "failed": "error", "pause_turn": "stop"}
REASONING = {"openrouter": "reasoning", "groq": "reasoning", "cerebras": "reasoning"}
"""The field that holds what was thought; elsewhere `reasoning_content`."""
HIDDEN = ("openai", "gemini", "mistral")
"""They do not show it here."""
ALWAYS_USAGE = ("openrouter", "mistral")
"""They report usage without being asked."""
WHOLE_CALLS = ("gemini", "mistral")
"""They send a call in one chunk."""


def make(
    body: Body, reply: Reply, vendor: str, model: Model, memory: Memory, cost: Cost
) -> dict[str, Any]:
    """The whole completion. Its message is kept, to know it again."""
    parts = parts_of(reply)
    effort = body.get("reasoning_effort") or model.default_effort
    on = thinks(body, vendor, model) or (vendor == "openai" and model.reasons and effort != "none")
    parts = [part for part in parts if on or part.kind != "thinking"]
    stop = stop_of(reply, parts)
    text = "".join(part.text for part in parts if part.kind == "text")
    calls = [part for part in parts if part.kind == "call"]
    message: Message = {"role": "assistant", "content": text or (None if calls else "")}
    if vendor == "openai":
        refused = text if stop == "refusal" else None
        message |= {"refusal": refused, "content": None if refused else message["content"]}
        message["annotations"] = []
    thought = vendor != "scripted" or any(part.kind == "thinking" for part in parts)
    message |= _reasoning(parts, vendor, model) if on and thought and vendor not in HIDDEN else {}
    if calls:
        signs = signs_calls(vendor, model)
        message["tool_calls"] = [
            _call(call, vendor, signs and at == 0) | call.extra for at, call in enumerate(calls)
        ]
    added = {key: value for part in parts for key, value in part.extra.items()}
    shared = reply.get("extra", {})
    keep(message | shared, set(added) | set(shared), model, memory)
    finish = "stop" if vendor == "openai" and stop == "refusal" else STOPS.get(stop, stop)
    return {
        "id": new_id("chatcmpl-", 29),
        "object": "chat.completion",
        "model": model.name,
        "choices": [{"index": 0, "message": message | shared, "finish_reason": finish}],
        "usage": _usage(parts, cost, vendor, model),
    }


def _call(part: Part, vendor: str, signed: bool) -> dict[str, Any]:
    name = new_id("", 9) if vendor == "mistral" else new_id("call_")
    name = name if part.id is None else part.id
    call = {"id": name, "type": "function"}
    call |= {"function": {"name": part.name, "arguments": part.text}}
    if signed:
        call["extra_content"] = {"google": {"thought_signature": seal(kind="thought", id=name)}}
    return call


def _reasoning(parts: list[Part], vendor: str, model: Model) -> dict[str, Any]:
    """What was thought; the field is there without a thought too."""
    text = "".join(part.text for part in parts if part.kind == "thinking")
    field = REASONING.get(vendor, "reasoning_content")
    shown: dict[str, Any] = {field: text} if text or field == "reasoning_content" else {}
    if vendor != "openrouter":
        return shown
    style = "anthropic-claude-v1" if model.name.startswith("anthropic/") else "openai-responses-v1"
    details: list[dict[str, Any]] = []
    for part in parts:
        if part.kind == "thinking":
            signed = {"text": part.text, "signature": seal(kind="thinking", text=part.text)}
            detail = {"type": "reasoning.text", **signed, "format": style, "index": len(details)}
            details.append(detail)
    return shown | ({"reasoning_details": details} if details else {})


def _usage(parts: list[Part], cost: Cost, vendor: str, model: Model) -> dict[str, Any]:
    said = tokens_of(parts) + 1
    usage: dict[str, Any] = {
        "prompt_tokens": cost.total,
        "completion_tokens": said,
        "total_tokens": cost.total + said,
        "prompt_tokens_details": {"cached_tokens": cost.cached},
        "completion_tokens_details": {"reasoning_tokens": tokens_of(parts, "thinking")},
    }
    if model.breakpoints or vendor == "openrouter":
        usage["prompt_tokens_details"]["cache_write_tokens"] = cost.written
    if vendor == "deepseek":
        usage["prompt_cache_hit_tokens"] = cost.cached
        usage["prompt_cache_miss_tokens"] = cost.total - cost.cached
    if vendor == "moonshot":
        usage["cached_tokens"] = cost.cached
    if vendor == "openrouter":
        usage["cost"] = round((cost.new * 3 + cost.cached * 0.3 + said * 15) / 1e6, 6)
    return usage


# ── chunks ───────────────────────────────────────────────────────────────────────────────────


def events(body: Body, whole: dict[str, Any], vendor: str) -> Iterator[bytes]:
    """The stream of a completion."""
    base = {key: whole[key] for key in ("id", "model")}
    base["object"] = "chat.completion.chunk"
    choice = whole["choices"][0]
    message = dict(choice["message"])

    def chunk(delta: dict[str, Any], **rest: Any) -> bytes:
        only = {"index": 0, "delta": delta, "finish_reason": None, **rest}
        return sse({**base, "choices": [only]})

    if vendor == "openrouter":
        yield b": OPENROUTER PROCESSING\n\n"
    texts = ("reasoning_content", "reasoning", "content", "refusal")
    opening = {"role": "assistant", "content": ""}
    opening |= {"reasoning_content": ""} if "reasoning_content" in message else {}
    lists = ("tool_calls", "reasoning_details", "annotations")
    opening |= {k: v for k, v in message.items() if k not in (*texts, *lists, "role")}
    yield chunk(opening)
    for detail in message.get("reasoning_details", ()):
        for part in _detail_deltas(detail):
            more = {"reasoning": part["text"]} if part.get("text") else {}
            yield chunk({**more, "reasoning_details": [part]})
    for name in texts:
        if name == "reasoning" and "reasoning_details" in message:
            continue
        for piece in pieces(message.get(name) or ""):
            yield chunk({name: piece})
    for index, call in enumerate(message.get("tool_calls", ())):
        if vendor in WHOLE_CALLS:
            yield chunk({"tool_calls": [{"index": index, **call}]})
            continue
        arguments = call["function"]["arguments"]
        function = {**call["function"], "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, **call, "function": function}]})
        for piece in pieces(arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    usage = whole["usage"]
    asked = (body.get("stream_options") or {}).get("include_usage")
    in_choice = {"usage": usage} if vendor == "moonshot" else {}
    last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"], **in_choice}
    beside = {"usage": usage} if vendor == "mistral" else {}
    yield sse({**base, "choices": [last], **beside})
    if vendor != "mistral" and (asked or vendor in ALWAYS_USAGE):
        yield sse({**base, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def _detail_deltas(detail: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Text in pieces, each with the rest of the detail but the signature, which comes last."""
    rest = {key: value for key, value in detail.items() if key not in ("text", "signature")}
    for piece in pieces(detail["text"]):
        yield {**rest, "text": piece}
    if "signature" in detail:
        yield {**rest, "signature": detail["signature"]}
