"""Chat Completions, through the official `openai` SDK: OpenAI and the many servers that imitate it.

The SDK opens the connection, signs the request and names the errors. The body is joined from bytes
cached per message, and events are read raw (`stream.py`): the SDK's typed path walks all messages
for every request and hides what a broken server sent.

The SDK is imported on the first request, or by `warm_up`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kode.contracts import Request, ToolSpec
from kode.messages import Message, Text, ToolCall, ToolResult, calls_of, images_of
from kode.providers.boundary import Endpoint, from_status
from kode.providers.draft import Draft, DraftCall, is_whole_object
from kode.providers.exchange import SdkProvider, default_max_tokens
from kode.providers.openai_client import import_sdk, open_client, stream_class, url_of
from kode.providers.stream import Event
from kode.providers.wire import (
    EncodedTools,
    Joined,
    encode_json,
    picture,
    picture_note,
    sendable_arguments,
    sendable_id,
    sendable_name,
)
from kode.registry import ProviderSettings


def warm_up() -> None:
    """Imports the SDK, which takes a while; call it in a thread."""
    import_sdk()


class OpenAIChat(SdkProvider):
    """A `Provider` over Chat Completions. Servers other than OpenAI's own may need no key."""

    api = "chat"

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings, base_url=url_of(settings))
        self._messages = Joined(partial(message_bytes, seen=settings.info.sees_images is not False))
        self._tools = EncodedTools(tool_object)

    async def _exchange(self, body: bytes, draft: Draft) -> None:
        calls = CallSorter(draft)

        def taken(event: Event) -> None:
            take(event, draft, calls, self._endpoint)

        await self._post("/chat/completions", body, stream_class(), draft, taken)

    def _open(self) -> Any:
        base_url = self._settings.base_url
        return open_client(self.row, self._endpoint, base_url, is_official=self.is_official)

    def _body(self, request: Request) -> bytes:
        head: dict[str, Any] = {
            "model": self.model,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        limit = "max_completion_tokens" if self.is_official else "max_tokens"
        head[limit] = request.max_output_tokens or default_max_tokens(self.info)
        if self.takes_likeliest(request):
            head["temperature"] = 0
        if request.answer_schema is not None:
            head |= answer_format(request.answer_schema)
            if request.tools:
                head["tool_choice"] = "none"
        system = (
            [encode_json({"role": "system", "content": request.system})] if request.system else []
        )
        said = self._messages.of(request.messages)
        messages = b",".join((*system, said)) if said else b"".join(system)
        tools = b',"tools":' + self._tools.of(request.tools) if request.tools else b""
        return encode_json(head)[:-1] + tools + b',"messages":[' + messages + b"]}"


# ── out ──────────────────────────────────────────────────────────────────────────────────────


def tool_object(tool: ToolSpec) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def answer_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that make the server enforce a schema. OpenAI enforces one exactly (`strict`) only
    if every property of every object is required, and refuses others."""
    held = {"name": "answer", "schema": dict(schema), "strict": is_strict(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": held}}


def is_strict(schema: Any) -> bool:
    """Whether each object of a schema allows exactly the properties it names."""
    if isinstance(schema, Mapping):
        if schema.get("type") == "object" and (
            schema.get("additionalProperties") is not False
            or {*schema.get("required", ())} != {*schema.get("properties", ())}
        ):
            return False
        return all(map(is_strict, schema.values()))
    return not isinstance(schema, list) or all(map(is_strict, schema))


def message_bytes(message: Message, *, seen: bool = True) -> bytes:
    """The objects of one message, joined by commas: a tool message has one object per result.
    Includes images if the model can see."""
    return b",".join(encode_json(value) for value in message_objects(message, seen=seen))


def message_objects(message: Message, *, seen: bool = True) -> list[dict[str, Any]]:
    """Leaves thinking out: servers of this format do not agree on a way to send it back."""
    text = "\n\n".join(p.text for p in message.parts if isinstance(p, Text) and p.text)
    if message.role == "user" and images_of(message):
        return [{"role": "user", "content": [*_pictures(message, seen), _text(text)]}]
    if message.role == "user":
        return [{"role": "user", "content": text or "(no text)"}]
    if message.role == "tool":
        results = [
            {
                "role": "tool",
                "tool_call_id": sendable_id(part.call_id, strict=False),
                "content": part.text,
            }
            for part in message.parts
            if isinstance(part, ToolResult)
        ]
        # A result cannot hold an image in this format: it follows as a message.
        pictures = list(_pictures(message, seen))
        after = [*pictures, *([_text(text)] if text else [])] if pictures else text
        return [*results, *([{"role": "user", "content": after}] if after else [])]
    calls = [_call_object(call) for call in calls_of(message)]
    if not calls:
        # An empty answer says nothing, and many servers refuse it.
        return [{"role": "assistant", "content": text}] if text else []
    return [{"role": "assistant", "content": text or None, "tool_calls": calls}]


def _pictures(message: Message, seen: bool) -> Iterator[dict[str, Any]]:
    for image in images_of(message):
        data = picture(image, seen=seen)
        if data is None:
            yield _text(picture_note(image, seen=seen))
            continue
        url = f"data:{image.media_type};base64,{data}"
        yield {"type": "image_url", "image_url": {"url": url}}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text or "(no text)"}


def _call_object(call: ToolCall) -> dict[str, Any]:
    function = {"name": sendable_name(call.name), "arguments": sendable_arguments(call)}
    return {"id": sendable_id(call.id, strict=False), "type": "function", "function": function}


# ── in ───────────────────────────────────────────────────────────────────────────────────────


def take(event: Event, draft: Draft, calls: CallSorter, endpoint: Endpoint) -> None:
    """Adds one event to the draft.

    Raises: ProviderError for an error object, which some servers send with HTTP 200.
    """
    data = event.data
    if data.get("error") or event.name == "error":
        raise from_status(None, data, {}, endpoint)
    if data.get("object") == "error" or ("message" in data and "choices" not in data):
        raise from_status(None, data, {}, endpoint)
    choices = data.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if isinstance(choice, Mapping):
        if choice.get("error"):
            raise from_status(None, {"error": choice["error"]}, {}, endpoint)
        _take_choice(choice, draft, calls)
        _take_usage(choice.get("usage"), draft)
    _take_usage(data.get("usage"), draft)


def _take_choice(choice: Mapping[str, Any], draft: Draft, calls: CallSorter) -> None:
    delta = choice.get("delta")
    if not isinstance(delta, Mapping) or not delta:
        delta = choice.get("message")
    if isinstance(delta, Mapping):
        _take_content(delta.get("content"), draft)
        # Some servers send the same thinking under both names.
        draft.add_thinking("thinking", delta.get("reasoning_content") or delta.get("reasoning"))
        draft.refuse("text", delta.get("refusal"))
        fragments = delta.get("tool_calls")
        if isinstance(fragments, list):
            calls.take(fragments)
        if isinstance(delta.get("function_call"), Mapping):
            calls.take([{"index": 0, "function": delta["function_call"]}])
    draft.stopped(choice.get("finish_reason"))


def _take_content(content: Any, draft: Draft) -> None:
    """Adds content: text, or with some servers a list of parts."""
    if isinstance(content, str):
        draft.add_text("text", content)
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, Mapping):
            continue
        if part.get("type") == "thinking":
            inner = part.get("thinking")
            pieces = inner if isinstance(inner, list) else [{"text": inner}]
            for piece in pieces:
                draft.add_thinking("thinking", piece.get("text") if isinstance(piece, dict) else "")
        else:
            draft.add_text("text", part.get("text"))


def _take_usage(usage: Any, draft: Draft) -> None:
    if not isinstance(usage, Mapping):
        return
    details = usage.get("prompt_tokens_details")
    details = details if isinstance(details, Mapping) else {}
    draft.count_usage(
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        cached_tokens=next(
            (
                value
                for value in (
                    details.get("cached_tokens"),
                    usage.get("prompt_cache_hit_tokens"),
                    usage.get("cached_tokens"),
                )
                if value is not None
            ),
            None,
        ),
        cache_write_tokens=details.get("cache_write_tokens"),
    )


class CallSorter:
    """Assigns fragments to calls.

    The format's rule is the index. Servers break it: index 0 for all with different ids, no index,
    no id, the full call in one fragment or its name again in each.
    """

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.at_index: dict[int, DraftCall] = {}
        self.last: DraftCall | None = None

    def take(self, fragments: Sequence[Any]) -> None:
        """Adds the fragments of one chunk, in order."""
        touched: list[DraftCall] = []
        for fragment in fragments:
            if not isinstance(fragment, Mapping):
                continue
            function = fragment.get("function")
            function = function if isinstance(function, Mapping) else fragment
            name = function.get("name")
            name = name if isinstance(name, str) else ""
            arguments = function.get("arguments")
            call = self._call_of(fragment, name, arguments, touched)
            call.add_name(name)
            self.draft.add_arguments(call, arguments)
            touched.append(call)
            self.last = call

    def _call_of(
        self, fragment: Mapping[str, Any], name: str, arguments: Any, touched: list[DraftCall]
    ) -> DraftCall:
        index = fragment.get("index")
        index = index if isinstance(index, int) and not isinstance(index, bool) else None
        given = fragment.get("id")
        given = given if isinstance(given, str) else ""
        call = self.last if index is None else self.at_index.get(index)
        if call is None or self._begins_another(call, given, name, arguments, touched):
            call = self.draft.call(self.draft.calls)
            if index is not None:
                self.at_index[index] = call
        if given and not call.id:
            call.id = given
        return call

    def _begins_another(
        self, call: DraftCall, given: str, name: str, arguments: Any, touched: list[DraftCall]
    ) -> bool:
        if given and call.id and given != call.id:
            return True
        if not name:
            return False
        if any(call is other for other in touched):
            return True
        # A name with the beginning of an object, after a complete object.
        begins = not isinstance(arguments, str) or arguments.lstrip().startswith("{")
        return arguments is not None and begins and is_whole_object(call.text)
