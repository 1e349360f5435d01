"""Responses: what OpenAI's own host, Azure and Bedrock speak.

The server keeps nothing (`store: false`): each request holds the whole conversation, and what the
model thought goes back encrypted. A reply is a list of items. Each goes back as it came, unknown
fields and all, because an item names others: thinking without the item after it is refused, and so
is an item without its thinking. So the items of a reply go back all or none; what is left of a
reply that lost one, and what another model wrote, goes in a plain form without ids.

The system prompt is sent as `instructions`, which every server of this format reads ahead of the
input, so that its cache compares the same beginning as with a system message that comes first.

Servers that imitate the format leave out indexes, events and items: what a delta did not bring is
taken from the item when it is done, and what no item brought from the end of the response.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, TypeGuard

from kode.errors import ProviderError, TransientError
from kode.events import TextDelta
from kode.messages import (
    Image,
    Message,
    Part,
    ServerItem,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    calls_of,
    images_of,
    results_of,
)
from kode.provider import Request, ToolSpec
from kode.providers.chat import answer_schema
from kode.providers.draft import Draft, DraftPart, Kind, is_whole_object, list_of, mapping_of, pick
from kode.providers.errors import Endpoint, status_error
from kode.providers.provider import EventReader, HttpProvider, WireFormat
from kode.providers.request import Target, encode_json, sendable_arguments, sendable_id
from kode.providers.stream import StreamEvent

LEAST_OUTPUT_TOKENS = 16
"""OpenAI refuses a smaller `max_output_tokens`."""

WEB_SEARCH = encode_json({"type": "web_search"})

CUSTOM_CALL = "custom_tool_call"


def encode_request(
    request: Request, target: Target, messages: Sequence[bytes], tools: bytes
) -> bytes:
    searches = target.searches(request)
    head: dict[str, Any] = {
        "model": target.model,
        "stream": True,
        "store": False,
        # Else the server silently drops the oldest items of a conversation that is too long.
        "truncation": "disabled",
        "max_output_tokens": _answer_limit(request),
        **_thinking_parameters(request, target),
    }
    if request.conversation and not target.omits("cache_key"):
        head["prompt_cache_key"] = request.conversation
    # Older models send the encrypted thinking only when it is asked for; a model that does not
    # think refuses to.
    thinks = bool(target.info.efforts) and not target.omits("thinking_back")
    include = ["reasoning.encrypted_content"] if thinks else []
    include += ["web_search_call.action.sources"] if searches else []
    if include:
        head["include"] = include
    if request.answer_schema is not None:
        schema = answer_schema(request.answer_schema)
        head["text"] = {"format": {"type": "json_schema", **schema}}
        if request.tools or searches:
            head["tool_choice"] = "none"
    if request.system:
        head["instructions"] = request.system
    declared = [each for each in (tools[1:-1], WEB_SEARCH if searches else b"") if each]
    listed = b',"tools":[' + b",".join(declared) + b"]" if declared else b""
    return encode_json(head)[:-1] + listed + b',"input":[' + b",".join(messages) + b"]}"


def _answer_limit(request: Request) -> int:
    """The tokens that an answer may have, thinking included."""
    return max(request.max_output_tokens or 0, LEAST_OUTPUT_TOKENS)


def _thinking_parameters(request: Request, target: Target) -> dict[str, Any]:
    """The parameter that says how much to think, for a model that thinks. A summary is asked for:
    without it a person sees nothing while the model thinks."""
    if not target.info.efforts:
        return {}
    effort = target.effort(request)
    if effort == "none":
        return {"reasoning": {"effort": "none"}}
    reasoning: dict[str, str] = {"effort": effort} if effort else {}
    if not target.omits("summary"):
        reasoning["summary"] = "auto"
    return {"reasoning": reasoning} if reasoning else {}


def _tool_object(tool: ToolSpec, target: Target) -> dict[str, Any]:
    """A tool as a free-text tool or a function; never `strict`, which would require every property
    of every object."""
    about = {"name": tool.name, "description": tool.description}
    if tool.grammar and not target.omits("free_text"):
        grammar = {"type": "grammar", "syntax": "lark", "definition": tool.grammar}
        return {"type": "custom", **about, "format": grammar}
    return {"type": "function", **about, "parameters": dict(tool.parameters), "strict": False}


def message_bytes(message: Message, *, target: Target, custom: set[str]) -> bytes:
    """The items of one message, joined by commas. `custom` holds the ids of calls of custom tools,
    whose results have an item type of their own: encoding a reply updates it for later results."""
    if message.role == "assistant":
        items = reply_items(message, target, custom)
    elif message.role == "tool":
        items = result_items(message, target, custom)
    else:
        items = user_items(message.parts, target) or [_make_message("user", [_text("(no text)")])]
    return b",".join(map(encode_json, items))


def user_items(parts: tuple[Part, ...], target: Target) -> list[Mapping[str, Any]]:
    """What kode says about the session, as an item of its own, and an item with the rest.

    Models from gpt-5.6 on read from the cache up to a mark, and write one by themselves only at the
    end of a request, where no other session's request ends. So the end of the opening is marked:
    from there back, prompt, tools and project instructions are the same in every session and
    subagent of a project. Writing costs no more, since the end of the request is written anyway.
    """
    words = [p for p in parts if isinstance(p, Text) and p.source in ("opening", "news") and p.text]
    # Templates of local models make it a second system message, which they refuse.
    is_vendor = target.row.needs_key or bool(target.row.client)
    words = words if is_vendor and not target.omits("later_system") else []
    content = [_text(part.text) for part in words]
    opening = max((index for index, p in enumerate(words) if p.source == "opening"), default=-1)
    marks = target.info.cache_marks and not target.omits("cache_marks")
    if marks and opening >= 0:
        content[opening]["prompt_cache_breakpoint"] = {"mode": "explicit"}
    items: list[Mapping[str, Any]] = [_make_message("developer", content)] if content else []
    rest = list(_encode_contents([part for part in parts if part not in words], target))
    return [*items, *([_make_message("user", rest)] if rest else [])]


def result_items(message: Message, target: Target, custom: set[str]) -> list[Mapping[str, Any]]:
    """The results with their pictures, followed by whatever else the message holds."""
    items: list[Mapping[str, Any]] = []
    others = [part for part in message.parts if not isinstance(part, ToolResult)]
    for result in results_of(message):
        pictures = [i for i in images_of(message) if i.call_id == result.call_id]
        pictures = [] if target.omits("pictures_in_results") else pictures
        others = [part for part in others if part not in pictures]
        kind = "custom_tool_call_output" if result.call_id in custom else "function_call_output"
        text = {"type": "input_text", "text": result.text}
        shown = [_to_image(image, target) for image in pictures]
        output = [text, *shown] if shown else result.text
        call_id = sendable_id(result.call_id, strict=False)
        items.append({"type": kind, "call_id": call_id, "output": output})
    return [*items, *user_items(tuple(others), target)]


def reply_items(message: Message, target: Target, custom: set[str]) -> list[Mapping[str, Any]]:
    """The items of a reply, as they came or in the plain form. Thinking at the end is dropped: the
    API refuses it without the item that follows."""
    custom.difference_update(call.id for call in calls_of(message))
    if message.origin != target.origin or not is_intact(message, target):
        return plain_items(message)
    custom.update(call.id for call in calls_of(message) if pick(call.own, "type") == CUSTOM_CALL)
    items = [own for part in message.parts if (own := getattr(part, "own", None))]
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items


def is_intact(message: Message, target: Target) -> bool:
    """Whether every part of a reply has the form in which it came and may be sent back in it."""
    has_thinking = any(isinstance(part, Thinking) for part in message.parts)
    if message.moved and has_thinking and target.omits("bound_thinking"):
        return False
    for part in message.parts:
        own = getattr(part, "own", None)
        is_fit = bool(own)
        if own and isinstance(part, Thinking):
            # A summary alone stands for thinking that the server would have had to keep.
            is_fit = bool(own.get("encrypted_content") or own.get("content"))
        elif own and isinstance(part, ToolCall):
            is_whole = pick(part.own, "type") == CUSTOM_CALL or is_whole_object(part.arguments)
            is_fit = sendable_id(part.id, strict=False) == part.id and is_whole
        if not is_fit:
            return False
    return True


def plain_items(message: Message) -> list[Mapping[str, Any]]:
    """The items of a reply without ids and thinking. Texts keep their phase, without which a model
    takes what it said between calls for a final answer."""
    items: list[Mapping[str, Any]] = []
    plain = {"type": "message", "role": "assistant"}
    for part in message.parts:
        if isinstance(part, Text) and part.text:
            phase = pick(part.own, "phase")
            phase_field = {"phase": phase} if isinstance(phase, str) else {}
            items.append({**plain, "content": part.text, **phase_field})
        elif isinstance(part, ToolCall):
            call_id = sendable_id(part.id, strict=False)
            call_fields = {"name": part.name, "arguments": sendable_arguments(part)}
            items.append({"type": "function_call", "call_id": call_id, **call_fields})
    text = "\n\n".join(p.text for p in message.parts if isinstance(p, ServerItem) and p.text)
    return items or ([{**plain, "content": text}] if text else [])


def _encode_contents(parts: list[Part], target: Target) -> Iterator[dict[str, Any]]:
    """The pictures and texts of a message; adjacent texts are joined."""
    for is_picture, group in groupby(parts, lambda part: isinstance(part, Image)):
        if is_picture:
            yield from (_to_image(part, target) for part in group if isinstance(part, Image))
        elif text := "\n\n".join(p.text for p in group if isinstance(p, Text) and p.text):
            yield _text(text)


def _to_image(image: Image, target: Target) -> dict[str, Any]:
    data, note = target.image_data(image)
    if data is None:
        return _text(note)
    url = f"data:{image.media_type};base64,{data}"
    if image.media_type == "application/pdf":
        return {"type": "input_file", "filename": image.name, "file_data": url}
    return {"type": "input_image", "image_url": url, "detail": "auto"}


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _make_message(role: str, content: list[dict[str, Any]]) -> Mapping[str, Any]:
    return {"type": "message", "role": role, "content": content}


def read_event(event: StreamEvent, draft: Draft, endpoint: Endpoint) -> None:
    """Adds one event to the draft.

    Raises: ProviderError for a response that failed, and for an error event.
    """
    data = event.data
    kind = data.get("type")
    kind = kind if isinstance(kind, str) and event.name != "whole" else event.name
    is_response = data.get("object") == "response"
    if "error" in (kind, data.get("object")) or (data.get("error") and not is_response):
        raise failure_error(data.get("error") or data, endpoint)
    item = mapping_of(data.get("item"))
    key = _item_key(data, item)
    match kind.removeprefix("response."):
        case "output_item.added":
            _open_item(key, item, draft)
        case "output_item.done":
            _take_item(key, item, draft)
        case "output_text.delta":
            draft.add("text", key, data.get("delta"))
        case "refusal.delta":
            draft.refuse(key, data.get("delta"))
        case "reasoning_summary_part.added" if (part := draft.find("thinking", key)) and part.text:
            draft.add("thinking", key, "\n\n")
        case "reasoning_summary_text.delta" | "reasoning_text.delta":
            draft.add("thinking", key, data.get("delta"))
        case "function_call_arguments.delta" | "custom_tool_call_input.delta":
            draft.add_arguments(draft.part("call", key), data.get("delta"))
        case "function_call_arguments.done" | "custom_tool_call_input.done":
            whole = data.get("arguments") or data.get("input")
            _set_arguments(draft.part("call", key), whole, draft)
        case "completed" | "incomplete" | "failed" | "cancelled" | "done":
            _take_end(mapping_of(data.get("response")), kind, draft, endpoint)
        case "whole" if is_response:
            _take_end(data, "", draft, endpoint)


def failure_error(error: Any, endpoint: Endpoint) -> ProviderError:
    """The error for an error object, which comes with HTTP 200. One with a code blames the request,
    unless the code is known as transient; one without is taken as transient."""
    words = mapping_of(error)
    fault = status_error(None, {"error": error}, {}, endpoint)
    if isinstance(fault, TransientError) and not fault.status and words.get("code"):
        return status_error(400, {"error": error}, {}, endpoint)
    return fault


def _item_key(data: Mapping[str, Any], item: Mapping[str, Any]) -> int | str:
    """Names an item of the answer: its index, which some servers leave out, else its id."""
    index = data.get("output_index")
    if isinstance(index, int) and not isinstance(index, bool):
        return index
    item_id = data.get("item_id") or item.get("id")
    return item_id if isinstance(item_id, str) else 0


KINDS: Mapping[Any, Kind] = {
    "message": "text",
    "reasoning": "thinking",
    "function_call": "call",
    CUSTOM_CALL: "call",
}
"""Type of an item → its kind in a draft; others are "item"."""


def _open_item(key: int | str, item: Mapping[str, Any], draft: Draft) -> None:
    """Reserves an item's place in the draft, before items that begin while it is still coming."""
    kind = KINDS.get(item.get("type"), "item")
    if kind == "text" and any(p.kind == "text" and p.pieces for p in draft.parts.values()):
        # For display only: each text between two steps of thinking is an item of its own.
        draft.emit(TextDelta(text="\n\n"))
    if kind == "thinking":
        draft.begin_thinking(key)
    part = draft.part(kind, key)
    if kind == "call":
        _name_call(part, item)


def _take_item(key: int | str, item: Mapping[str, Any], draft: Draft) -> None:
    """Completes an item: adds what its deltas lacked, and keeps its own form."""
    kind = KINDS.get(item.get("type"), "item")
    part = draft.part(kind, key)
    is_whole = item != {}
    match kind:
        case "text":
            refusal = "".join(_list_texts(item.get("content"), "refusal"))
            whole = "".join(_list_texts(item.get("content"))) + refusal
            add = draft.refuse if refusal else partial(draft.add, "text")
            add(key, _remainder(whole, part))
        case "thinking":
            # The summary; the thinking itself, where the server shows it.
            texts = _list_texts(item.get("summary")) or _list_texts(item.get("content"))
            draft.add("thinking", key, _remainder("\n\n".join(texts), part))
        case "call":
            is_custom = item.get("type") == CUSTOM_CALL
            _name_call(part, item)
            _set_arguments(part, item.get("input" if is_custom else "arguments"), draft)
            is_whole = is_custom or is_whole_object(part.text)
        case "item":
            part.pieces = [describe_server_work(item)]
    part.own = dict(item) if is_whole else None


def _take_end(response: Mapping[str, Any], kind: str, draft: Draft, endpoint: Endpoint) -> None:
    """Reads the final response: items that no event has brought, the usage, and why it ended."""
    status = response.get("status")
    status = status if isinstance(status, str) else kind.removeprefix("response.")
    for index, item in enumerate(map(mapping_of, list_of(response.get("output")))):
        part_kind, item_id = KINDS.get(item.get("type"), "item"), _item_key({}, item)
        key = item_id if item_id and draft.find(part_kind, item_id) is not None else index
        before = draft.find(part_kind, key)
        if before is None or before.own is None:
            _take_item(key, item, draft)
    usage = mapping_of(response.get("usage"))
    draft.count_usage(
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        cached_tokens=pick(usage, "input_tokens_details", "cached_tokens"),
        cache_write_tokens=pick(usage, "input_tokens_details", "cache_write_tokens"),
        thinking_tokens=pick(usage, "output_tokens_details", "reasoning_tokens"),
    )
    if status == "failed":
        raise failure_error(response.get("error") or {}, endpoint)
    if status == "incomplete":
        reason = pick(response, "incomplete_details", "reason")
        # Whatever ended it, it is not whole, and its calls must not run.
        status = reason if reason == "content_filter" else "max_output_tokens"
    if status not in ("queued", "in_progress"):
        draft.note_stop("completed" if status == "done" else status)
        draft.done = True


def describe_server_work(item: Mapping[str, Any]) -> str:
    """What the vendor's server did by itself, with the addresses of what it read; "" for items that
    bring nothing from outside."""
    if item.get("type") != "web_search_call":
        return ""
    action = mapping_of(item.get("action"))
    queries = action.get("queries")
    searches = queries if isinstance(queries, list) else [action.get("query")]
    pages = filter(None, map(mapping_of, list_of(action.get("sources"))))
    lines = [
        f"Web search: {', '.join(filter(_is_text, searches)) or action.get('type') or 'done'}",
        *filter(_is_text, (action.get("pattern"), action.get("url"))),
        *(" ".join(filter(_is_text, (page.get("title"), page.get("url")))) for page in pages),
    ]
    return "\n".join(filter(None, lines))


def _is_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value)


def _list_texts(parts: Any, name: str = "text") -> list[str]:
    """The texts under a name in the parts of a content."""
    return list(filter(_is_text, (pick(part, name) for part in list_of(parts))))


def _name_call(call: DraftPart, item: Mapping[str, Any]) -> None:
    call_id = item.get("call_id") or item.get("id")
    call.id = call_id if isinstance(call_id, str) else call.id
    call.name = item["name"] if _is_text(item.get("name")) else call.name


def _set_arguments(call: DraftPart, whole: Any, draft: Draft) -> None:
    """Replaces the pieces by the whole text, if that differs."""
    if whole and whole != call.text:
        call.pieces.clear()
        draft.add_arguments(call, whole)


def _remainder(whole: str, part: DraftPart) -> str:
    """The rest of the whole text after the pieces so far; "" if it begins otherwise."""
    return whole.removeprefix(part.text) if whole.startswith(part.text) else ""


def _event_reader(
    draft: Draft, endpoint: Endpoint, target: Target, request: Request
) -> EventReader:
    def finish() -> None:
        # llama.cpp (7e4c0a9) calls an answer completed that its limit cut: half an answer must not
        # pass for a whole one, nor half a call run.
        used = draft.usage.get("output_tokens", 0)
        if not target.is_official and draft.stop == "completed" and used >= _answer_limit(request):
            draft.note_stop("max_output_tokens")

    return partial(read_event, draft=draft, endpoint=endpoint), finish


RESPONSES = WireFormat(
    api="responses",
    path="/responses",
    message_encoder=lambda target: partial(message_bytes, target=target, custom=set()),
    encode_request=encode_request,
    tool_object=_tool_object,
    event_reader=_event_reader,
)

open_responses = partial(HttpProvider, wire_format=RESPONSES)
