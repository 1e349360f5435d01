"""What the two wire formats demand of a request, as strictly as the strictest servers: the faults
found in a body, none for one that every server takes. It imports nothing of kode.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

Body = dict[str, Any]

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_ID_CHARS = 40
MAX_BREAKPOINTS = 4


def faults_of(path: str, data: bytes) -> list[str]:
    """What is wrong with a request to `.../messages` or `.../chat/completions`."""
    try:
        body = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except ValueError as error:
        return [f"the body: {error}"]
    rules = _messages_faults if path.endswith("/messages") else _chat_faults
    return list(rules(body))


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


# ── Chat Completions ─────────────────────────────────────────────────────────────────────────


def _chat_faults(body: Body) -> Iterator[str]:
    messages = body["messages"]
    waiting: list[str] = []
    seen: set[str] = set()
    before = ""
    for at, message in enumerate(messages):
        where = f"message {at} ({message.get('role')})"
        if message.get("role") == before == "user":
            yield f"{where}: a user after a user, which many templates refuse"
        before = str(message.get("role"))
        role, content = message.get("role"), message.get("content")
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                yield f"{where}: answers {message.get('tool_call_id')!r}, which nobody asked"
            else:
                waiting.remove(message["tool_call_id"])
            if not isinstance(content, str):
                yield f"{where}: content is {content!r}"
            continue
        if waiting:
            yield f"{where}: comes before the results of {waiting}"
            waiting = []
        if role not in ("system", "user", "assistant"):
            yield f"{where}: unknown role"
        if (role == "system") != (at == 0):
            yield f"{where}: the system message is the first"
        calls = message.get("tool_calls", [])
        if "tool_calls" in message and not calls:
            yield f"{where}: an empty list of calls"
        if not calls and not (isinstance(content, str) and content):
            yield f"{where}: no content"
        for call in calls:
            yield from (f"{where}: {fault}" for fault in _chat_call(call, seen))
            waiting.append(call.get("id", ""))
    if waiting:
        yield f"no results of {waiting}"
    if messages[-1].get("role") not in ("user", "tool"):
        yield "the last message is nobody's turn to answer"


def _chat_call(call: Body, seen: set[str]) -> Iterator[str]:
    function = call.get("function", {})
    yield from _id_faults(call.get("id"), seen)
    if call.get("type") != "function" or not NAME.fullmatch(function.get("name", "")):
        yield f"call {call}"
    try:
        given = json.loads(function["arguments"], parse_constant=_no_constant)
    except (ValueError, KeyError, TypeError):
        given = None
    if not isinstance(given, dict):
        yield f"arguments {function.get('arguments')!r} are no object"


def _id_faults(given: Any, seen: set[str]) -> Iterator[str]:
    if not isinstance(given, str) or not given or len(given) > MAX_ID_CHARS:
        yield f"id {given!r}"
        return
    if given in seen:
        yield f"id {given!r} twice"
    seen.add(given)


# ── Messages ─────────────────────────────────────────────────────────────────────────────────


def _messages_faults(body: Body) -> Iterator[str]:
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        yield f"max_tokens is {body.get('max_tokens')!r}"
    if json.dumps(body).count('"cache_control"') > MAX_BREAKPOINTS:
        yield "too many breakpoints"
    waiting: list[str] = []
    seen: set[str] = set()
    role = "assistant"
    for at, message in enumerate(body["messages"]):
        where = f"message {at} ({message.get('role')})"
        if message.get("role") != ("assistant" if role == "user" else "user"):
            yield f"{where}: the roles take turns"
        role = message.get("role")
        blocks = message.get("content")
        if not isinstance(blocks, list) or not blocks:
            yield f"{where}: no content"
            continue
        given = [b.get("tool_use_id") for b in blocks if b.get("type") == "tool_result"]
        if given != waiting:
            yield f"{where}: answers {given}, asked was {waiting}"
        if any(b.get("type") != "tool_result" for b in blocks[: len(given)]):
            yield f"{where}: results come first"
        waiting = []
        for block in blocks:
            yield from (f"{where}: {fault}" for fault in _block_faults(block, role, seen))
            if block.get("type") == "tool_use":
                waiting.append(block.get("id"))
        if role == "assistant" and not any(b.get("type") in ("text", "tool_use") for b in blocks):
            yield f"{where}: thinking alone"
    if waiting:
        yield f"no results of {waiting}"
    if role != "user":
        yield "the last turn is the model's own"


def _block_faults(block: Body, role: str, seen: set[str]) -> Iterator[str]:
    kind = block.get("type")
    allowed = {
        "user": ("text", "tool_result"),
        "assistant": ("text", "thinking", "redacted_thinking", "tool_use"),
    }
    if kind not in allowed[role]:
        yield f"a block {kind!r}"
    if kind == "text" and not str(block.get("text", "")).strip():
        yield "a blank text"
    if kind == "thinking" and not block.get("signature"):
        yield "thinking without its signature"
    if kind == "tool_use":
        yield from _id_faults(block.get("id"), seen)
        if not NAME.fullmatch(block.get("name", "")) or not isinstance(block.get("input"), dict):
            yield f"call {block}"
