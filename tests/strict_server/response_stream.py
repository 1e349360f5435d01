"""Replies of the Responses API, whole and as events."""

import itertools
from collections.abc import Iterator
from typing import Any

from tests.scripted_server import pieces, sse
from tests.strict_server.cache import Cost
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
from tests.strict_server.responses import SEALED, Body, Item, keep


def make(body: Body, reply: Reply, model: Model, memory: Memory, cost: Cost) -> dict[str, Any]:
    """The whole response. What it holds is kept, to know it again."""
    effort = (body.get("reasoning") or {}).get("effort") or model.default_effort
    thinks = model.reasons and effort != "none"
    parts = [p for p in parts_of(reply) if thinks or p.kind != "thinking"]
    stop = stop_of(reply, parts)
    items = _items(body, parts, stop, model)
    thought = ""
    for item, part in zip(items, parts, strict=True):
        if item["type"] == "reasoning":
            thought = item["id"]
        elif thought:
            memory.needs[item["id"]] = thought
        keep(item | part.extra, dict(item), model.name, memory)
        item.update(part.extra)
    usage = {
        "input_tokens": cost.total,
        "input_tokens_details": {"cached_tokens": cost.cached, "cache_write_tokens": cost.written},
        "output_tokens": tokens_of(parts) + 1,
        "output_tokens_details": {"reasoning_tokens": tokens_of(parts, "thinking")},
    }
    return {
        "id": new_id("resp_", 48),
        "object": "response",
        "status": "incomplete" if stop == "length" else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if stop == "length" else None,
        "error": None,
        "model": model.name,
        "output": items,
        "usage": usage,
    }


def _items(body: Body, parts: list[Part], stop: str, model: Model) -> list[Item]:
    custom = {tool["name"] for tool in body.get("tools", ()) if tool["type"] == "custom"}
    items: list[Item] = []
    results: tuple[Reply, ...] = ()
    for at, part in enumerate(parts):
        is_cut = at == len(parts) - 1 and stop == "length"
        status = {"status": "incomplete" if is_cut else "completed"}
        call = {"call_id": new_id("call_") if part.id is None else part.id, "name": part.name}
        if part.kind == "thinking":
            items.append(_reasoning(part, body, model))
        elif part.kind == "call" and part.name in custom:
            made = {"id": new_id("ctc_", 48), "type": "custom_tool_call", "input": part.text}
            items.append(made | call)
        elif part.kind == "call":
            made = {"id": new_id("fc_", 48), "type": "function_call", "arguments": part.text}
            items.append(made | call | status)
        elif part.kind == "search":
            results = part.results
            sources = [{"type": "url", "url": result["url"]} for result in results]
            action = {"type": "search", "query": part.text, "sources": sources}
            items.append(
                {"id": new_id("ws_", 48), "type": "web_search_call", "action": action} | status
            )
        else:
            items.append(_message(part, stop, results, parts[at + 1 :], model) | status)
            results = ()
    return items


def _reasoning(part: Part, body: Body, model: Model) -> Item:
    name, text = new_id("rs_", 48), part.text
    asked = "reasoning.encrypted_content" in (body.get("include") or ())
    is_sealed = model.breakpoints or asked  # older models give it only to those who ask
    is_shown = part.kind == "thinking" and text
    is_shown = is_shown and (body.get("reasoning") or {}).get("summary")
    sealed = seal(SEALED, at="done", id=name, model=model.name, text=text) if is_sealed else None
    summary = [{"type": "summary_text", "text": text}] if is_shown else []
    return {"id": name, "type": "reasoning", "summary": summary, "encrypted_content": sealed}


def _message(
    part: Part, stop: str, found: tuple[Reply, ...], later: list[Part], model: Model
) -> Item:
    item: Item = {"id": new_id("msg_", 48), "type": "message", "role": "assistant"}
    if model.chat_tools != "any" or model.name == "gpt-5.3-codex":
        item["phase"] = "commentary" if any(p.kind == "call" for p in later) else "final_answer"
    if stop == "refusal":
        return item | {"content": [{"type": "refusal", "refusal": part.text}]}
    place = {"type": "url_citation", "start_index": 0, "end_index": len(part.text)}
    cited = [{"title": result["url"], **place, **result} for result in found]
    return item | {"content": [{"type": "output_text", "text": part.text, "annotations": cited}]}


# ── events ───────────────────────────────────────────────────────────────────────────────────


def events(response: dict[str, Any]) -> Iterator[bytes]:
    """The stream of a response, numbered."""
    opening = {**response, "status": "in_progress", "output": [], "usage": None}
    opening |= {"error": None, "incomplete_details": None}
    for number, (kind, rest) in enumerate(
        itertools.chain(
            [("response.created", {"response": opening})],
            [("response.in_progress", {"response": opening})],
            *(_item_events(item, at) for at, item in enumerate(response["output"])),
            [(f"response.{response['status']}", {"response": response})],
        )
    ):
        yield sse({"type": kind, **rest, "sequence_number": number}, kind)


Event = tuple[str, dict[str, Any]]


def _item_events(item: Item, at: int) -> Iterator[Event]:
    place = {"output_index": at, "item_id": item["id"]}
    kind = item["type"]
    yield "response.output_item.added", {"output_index": at, "item": _begun(item)}
    if kind == "reasoning":
        for number, part in enumerate(item["summary"]):
            here = {**place, "summary_index": number}
            yield from _text_events("reasoning_summary", here, part)
    elif kind == "message":
        for number, part in enumerate(item["content"]):
            here = {**place, "content_index": number}
            yield from _text_events("content", here, part)
    elif kind == "function_call":
        for piece in pieces(item["arguments"]):
            yield "response.function_call_arguments.delta", {**place, "delta": piece}
        done = {**place, "name": item["name"], "arguments": item["arguments"]}
        yield "response.function_call_arguments.done", done
    elif kind == "custom_tool_call":
        for piece in pieces(item["input"]):
            yield "response.custom_tool_call_input.delta", {**place, "delta": piece}
        yield "response.custom_tool_call_input.done", {**place, "input": item["input"]}
    elif kind == "web_search_call":
        for word in ("in_progress", "searching", "completed"):
            yield f"response.web_search_call.{word}", place
    yield "response.output_item.done", {"output_index": at, "item": item}


def _begun(item: Item) -> Item:
    """As it is when its stream begins; its encrypted content is not the one that counts."""
    empty = {"summary": [], "content": [], "arguments": "", "input": "", "status": "in_progress"}
    begun = {name: empty.get(name, value) for name, value in item.items()}
    if item.get("encrypted_content"):
        begun["encrypted_content"] = seal(SEALED, at="added", id=item["id"])
    return begun


def _text_events(kind: str, place: dict[str, Any], part: dict[str, Any]) -> Iterator[Event]:
    name = "refusal" if part["type"] == "refusal" else "text"
    word = f"{kind}_text" if kind != "content" else {"text": "output_text"}.get(name, name)
    empty = {**part, name: ""} | ({"annotations": []} if "annotations" in part else {})
    yield f"response.{kind}_part.added", {**place, "part": empty}
    for piece in pieces(part[name]):
        yield f"response.{word}.delta", {**place, "delta": piece}
    for number, cited in enumerate(part.get("annotations", ())):
        found = {**place, "annotation_index": number, "annotation": cited}
        yield "response.output_text.annotation.added", found
    yield f"response.{word}.done", {**place, name: part[name]}
    yield f"response.{kind}_part.done", {**place, "part": part}
