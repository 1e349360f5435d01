"""The events of Responses, taken into a draft; see `openai_responses`.

Servers that imitate the format leave out indexes, events and items: what a delta did not bring is
taken from the item when it is done, and what no item brought from the end of the response.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeGuard

from kode.errors import ProviderError, TransientError
from kode.events import TextDelta
from kode.providers.draft import Draft, DraftCall, DraftText, DraftThinking, is_whole_object
from kode.providers.errors import Endpoint, from_status
from kode.providers.responses_out import CUSTOM_CALL
from kode.providers.stream import Event

_WAIT = re.compile(r"try again in (\d+(?:\.\d+)?) ?(ms|s)\b", re.IGNORECASE)


def take(event: Event, draft: Draft, endpoint: Endpoint) -> None:
    """Adds one event to the draft.

    Raises: ProviderError for a response that failed, and for an error event.
    """
    data = event.data
    kind = data.get("type")
    kind = kind if isinstance(kind, str) and event.name != "whole" else event.name
    is_response = data.get("object") == "response"
    if "error" in (kind, data.get("object")) or (data.get("error") and not is_response):
        raise failure(data.get("error") or data, endpoint)
    item = data.get("item")
    item = item if isinstance(item, Mapping) else {}
    key = _key(data, item)
    match kind.removeprefix("response."):
        case "output_item.added":
            _open_item(key, item, draft)
        case "output_item.done":
            _take_item(key, item, draft)
        case "output_text.delta":
            draft.add_text(key, data.get("delta"))
        case "refusal.delta":
            draft.refuse(key, data.get("delta"))
        case "reasoning_summary_part.added" if draft.block("thinking", key):
            draft.add_thinking(key, _apart(draft, key))
        case "reasoning_summary_text.delta" | "reasoning_text.delta":
            draft.add_thinking(key, data.get("delta"))
        case "function_call_arguments.delta" | "custom_tool_call_input.delta":
            draft.add_arguments(draft.call(key), data.get("delta"))
        case "function_call_arguments.done":
            _set_arguments(draft.call(key), data.get("arguments"), draft)
        case "custom_tool_call_input.done":
            _set_arguments(draft.call(key), data.get("input"), draft)
        case "completed" | "incomplete" | "failed" | "cancelled" | "done":
            response = data.get("response")
            _take_end(response if isinstance(response, Mapping) else {}, kind, draft, endpoint)
        case "whole" if is_response:
            _take_end(data, "", draft, endpoint)


def failure(error: Any, endpoint: Endpoint) -> ProviderError:
    """The error for an error object, which comes with HTTP 200. One that names a code is about the
    request, unless the code says that it may pass; one without mostly passes."""
    said = error if isinstance(error, Mapping) else {}
    found = from_status(None, {"error": error}, _headers(said.get("message")), endpoint)
    passes = isinstance(found, TransientError) and not found.status
    return (
        from_status(400, {"error": error}, {}, endpoint) if passes and said.get("code") else found
    )


def _headers(message: Any) -> dict[str, str]:
    """The pause that a server asks for, which in a stream only its words say."""
    wait = _WAIT.search(message) if isinstance(message, str) else None
    if wait is None:
        return {}
    return {"retry-after-ms": str(float(wait[1]) * (1 if wait[2].lower() == "ms" else 1000))}


def _key(data: Mapping[str, Any], item: Mapping[str, Any]) -> int | str:
    """Names an item of the answer: its index, which some servers leave out, else its id."""
    index = data.get("output_index")
    if isinstance(index, int) and not isinstance(index, bool):
        return index
    given = data.get("item_id") or item.get("id")
    return given if isinstance(given, str) else 0


KINDS: Mapping[Any, str] = {
    "message": "text",
    "reasoning": "thinking",
    "function_call": "call",
    CUSTOM_CALL: "call",
}
"""Type of an item → what `Draft.block` calls it; others are "item"."""


def _open_item(key: int | str, item: Mapping[str, Any], draft: Draft) -> None:
    """Gives an item its place, which is before those that begin while it still comes."""
    match item.get("type"):
        case "message":
            if any(
                isinstance(block, DraftText) and block.pieces for block in draft.blocks.values()
            ):
                # Only shown: what a model says between two steps of thinking is an item each.
                draft.emit(TextDelta(text="\n\n"))
            _text_block(draft, key)
        case "reasoning":
            draft.begin_thinking(key)
        case "function_call" | "custom_tool_call":
            _name_call(draft.call(key), item)
        case str():
            draft.item(key)


def _take_item(key: int | str, item: Mapping[str, Any], draft: Draft) -> None:
    """Takes an item that is complete, with what no delta has brought of it."""
    match item.get("type"):
        case "message":
            text, refusal = _said(item.get("content"))
            block = _text_block(draft, key)
            add = draft.refuse if refusal else draft.add_text
            add(key, _missing("".join((text, refusal)), block.pieces))
            block.own = dict(item)
        case "reasoning":
            thinking = _thinking_block(draft, key)
            draft.add_thinking(key, _missing(_thought(item), thinking.pieces))
            thinking.own = dict(item)
        case "function_call" | "custom_tool_call" as kind:
            call = draft.call(key)
            _name_call(call, item)
            is_custom = kind == CUSTOM_CALL
            _set_arguments(call, item.get("input" if is_custom else "arguments"), draft)
            call.own = dict(item) if is_custom or is_whole_object(call.text) else None
        case str():
            other = draft.item(key)
            other.own, other.text = dict(item), words_of(item)


def _take_end(response: Mapping[str, Any], kind: str, draft: Draft, endpoint: Endpoint) -> None:
    """Takes the response as it ended: items that came in no event of their own, usage, and why."""
    status = response.get("status")
    status = status if isinstance(status, str) else kind.removeprefix("response.")
    output = response.get("output")
    for index, item in enumerate(output if isinstance(output, list) else ()):
        if not isinstance(item, Mapping):
            continue
        block = KINDS.get(item.get("type"), "item")
        given = _key({}, item)
        key = given if given and draft.block(block, given) is not None else index
        have = draft.block(block, key)
        if have is None or have.own is None:
            _take_item(key, item, draft)
    _take_usage(response.get("usage"), draft)
    if status == "failed":
        raise failure(response.get("error") or {}, endpoint)
    if status == "incomplete":
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, Mapping) else None
        # Whatever ended it, it is not whole, and its calls must not run.
        status = reason if reason == "content_filter" else "max_output_tokens"
    if status in ("queued", "in_progress"):
        return
    draft.stopped("completed" if status == "done" else status)
    draft.done = True


def _take_usage(usage: Any, draft: Draft) -> None:
    if not isinstance(usage, Mapping):
        return
    given, said = usage.get("input_tokens_details"), usage.get("output_tokens_details")
    given, said = (one if isinstance(one, Mapping) else {} for one in (given, said))
    draft.count_usage(
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        cached_tokens=given.get("cached_tokens"),
        cache_write_tokens=given.get("cache_write_tokens"),
        thinking_tokens=said.get("reasoning_tokens"),
    )


def words_of(item: Mapping[str, Any]) -> str:
    """What the vendor's server did by itself, with the addresses of what it read; "" for items that
    bring nothing from outside."""
    if item.get("type") != "web_search_call":
        return ""
    action = item.get("action")
    action = action if isinstance(action, Mapping) else {}
    queries = action.get("queries")
    asked = queries if isinstance(queries, list) else [action.get("query")]
    sources = action.get("sources")
    found = [one for one in (sources if isinstance(sources, list) else ()) if isinstance(one, dict)]
    lines = [
        f"Web search: {', '.join(filter(_is_text, asked)) or action.get('type') or 'done'}",
        *filter(_is_text, (action.get("pattern"), action.get("url"))),
        *(" ".join(filter(_is_text, (one.get("title"), one.get("url")))) for one in found),
    ]
    return "\n".join(filter(None, lines))


def _is_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value)


def _name_call(call: DraftCall, item: Mapping[str, Any]) -> None:
    given = item.get("call_id") or item.get("id")
    call.id = given if isinstance(given, str) else call.id
    call.name = item["name"] if _is_text(item.get("name")) else call.name


def _set_arguments(call: DraftCall, whole: Any, draft: Draft) -> None:
    """Replaces the pieces by the whole text, if it says another."""
    if whole and whole != call.text:
        call.arguments.clear()
        draft.add_arguments(call, whole)


def _said(content: Any) -> tuple[str, str]:
    """The text and the refusal in the content of a message."""
    parts = [p for p in (content if isinstance(content, list) else ()) if isinstance(p, Mapping)]
    text = "".join(p["text"] for p in parts if _is_text(p.get("text")))
    return text, "".join(p["refusal"] for p in parts if _is_text(p.get("refusal")))


def _thought(item: Mapping[str, Any]) -> str:
    """The summary of an item of thinking; the thinking itself, where the server shows it."""
    for key in ("summary", "content"):
        parts = item.get(key)
        parts = [p for p in (parts if isinstance(parts, list) else ()) if isinstance(p, Mapping)]
        if texts := [p["text"] for p in parts if _is_text(p.get("text"))]:
            return "\n\n".join(texts)
    return ""


def _apart(draft: Draft, key: int | str) -> str:
    """A blank line between two parts of a summary."""
    return "\n\n" if _thinking_block(draft, key).pieces else ""


def _missing(whole: str, pieces: list[str]) -> str:
    """What the pieces so far lack of the whole text."""
    have = "".join(pieces)
    return whole[len(have) :] if whole.startswith(have) else ""


def _text_block(draft: Draft, key: int | str) -> DraftText:
    block = draft.blocks.setdefault(("text", key), DraftText())
    assert isinstance(block, DraftText)
    return block


def _thinking_block(draft: Draft, key: int | str) -> DraftThinking:
    block = draft.blocks.setdefault(("thinking", key), DraftThinking())
    assert isinstance(block, DraftThinking)
    return block
