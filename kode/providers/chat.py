"""Chat Completions: OpenAI and the many servers that imitate it, in the dialect of a host.

A model gets its replies back as it sent them: fields beside the text are kept in `Thinking.own`,
those of a call in `ToolCall.own`. Other models get the plain form. `Dialect` in `kode.registry`
says how hosts differ; `chat_stream.py` reads the replies.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kode.messages import (
    Image,
    Message,
    Own,
    ServerItem,
    Text,
    Thinking,
    calls_of,
    images_of,
    results_of,
)
from kode.provider import Effort, Request, ToolSpec
from kode.providers.chat_stream import ReplyStream, thinking_fields
from kode.providers.draft import Draft, mapping_of
from kode.providers.errors import Endpoint
from kode.providers.provider import EventReader, HttpProvider, WireFormat
from kode.providers.request import Target, encode_json, place_marks, sendable_arguments, sendable_id
from kode.registry import Dialect
from kode.values import Value, replace

Object = dict[str, Any]

SIGNATURE = "skip_thought_signature_validator"
"""The signature that Google documents for a call that another model made."""
MARK = {"type": "ephemeral"}
AN_HOUR = {**MARK, "ttl": "1h"}
BRIDGE = {"role": "assistant", "content": "I have the results."}
"""Stands between a result and a user message if the server requires a reply between them."""


class ChatForm(Value):
    """How one model at one server takes messages."""

    target: Target
    dialect: Dialect
    origin: str
    """The origin of the replies that go back in their own form; "" for none."""
    signs: bool
    """Whether a reply that came from elsewhere needs a signature on its first call."""
    marks: bool
    """Whether texts get cache marks: Claude caches nothing without them, on any host."""


def form_of(target: Target) -> ChatForm:
    """The form for a target, from what is known about its model and what its server has refused."""
    dialect = target.row.dialect
    if target.omits("thoughts"):
        dialect = replace(dialect, thinks_in=("reasoning_content",), empty_thinking=" ")
    signs = dialect.switch == "google" and not _is_older(target, dialect)
    return ChatForm(
        target=target,
        dialect=dialect,
        origin="" if target.omits("own_fields", "signatures") else target.origin,
        signs=signs or target.omits("signatures"),
        marks="claude" in target.model.lower() and target.marks_cache,
    )


def _is_older(target: Target, dialect: Dialect) -> bool:
    return target.model.removeprefix("models/").startswith(dialect.older_models)


def encode_request(
    request: Request, target: Target, messages: Sequence[bytes], tools: bytes
) -> bytes:
    dialect, form = target.row.dialect, form_of(target)
    pieces = list(messages) if dialect.takes_plain_results else bridge_results(messages)
    # A single question is never asked again: writing it to the cache would only cost.
    marks = form.marks and request.conversation != ""
    if marks:
        pieces = mark_messages(pieces, is_long=target.marks_hour)
    if request.system:
        content: Any = request.system
        if marks:
            mark = AN_HOUR if target.marks_hour else MARK
            content = [{**_text_part(content), "cache_control": mark}]
        pieces.insert(0, encode_json({"role": "system", "content": content}))
    has_tools = tools != b"[]"
    head = encode_json(_make_head(request, target, has_tools=has_tools))
    listed = b',"tools":' + tools if has_tools else b""
    return head[:-1] + listed + b',"messages":[' + b",".join(pieces) + b"]}"


def _make_head(request: Request, target: Target, *, has_tools: bool) -> Object:
    dialect = target.row.dialect
    head: Object = {"model": target.model, "stream": True}
    if dialect.counts_usage and not target.omits("usage"):
        head["stream_options"] = {"include_usage": True}
    other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
    name = other[dialect.limit] if target.omits("limit") else dialect.limit
    head[name] = request.max_output_tokens
    # A small model misspells rare names unless it takes the likeliest token each time.
    if request.small and not target.is_official and not target.omits("temperature"):
        head["temperature"] = 0
    if not target.omits("thinking"):
        head |= _thinking_parameters(request, target)
    if dialect.remembers_by and request.conversation:
        head[dialect.remembers_by] = request.conversation
    if has_tools and dialect.switch == "zai":
        head["tool_stream"] = True
    if request.answer_schema is not None:
        schema = answer_schema(request.answer_schema)
        head["response_format"] = {"type": "json_schema", "json_schema": schema}
        if has_tools:
            head["tool_choice"] = "none"
    return head


def _thinking_parameters(request: Request, target: Target) -> Object:
    """The parameters that ask for a level of thinking, in the form of the host's switch. A level
    that the person set is sent even if the model's levels are unknown, and "none" is sent to every
    model: the server decides."""
    dialect, info, level = target.row.dialect, target.info, request.effort
    if info.efforts and level != "none":
        level = target.effort(request) if level or dialect.thinks_by_default else None
    if dialect.switch == "google":
        # Gemini shows its thinking only on request; the level then goes into the same object.
        if _is_older(target, dialect) or level == "none" or not info.efforts:
            return {"reasoning_effort": level} if level else {}
        config = {"include_thoughts": True} | ({"thinking_level": level} if level else {})
        return {"extra_body": {"google": {"thinking_config": config}}}
    if dialect.switch == "reasoning" and level is None:
        thinks = any(kind != "disabled" for kind in info.thinking)
        return {"reasoning": {"enabled": True}} if thinks else {}
    return thinking_settings(dialect.switch, level, has_levels=bool(info.efforts))


def thinking_settings(switch: str, level: Effort | None, *, has_levels: bool = True) -> Object:
    """The parameters that ask for a level; `has_levels` says whether the model's are known."""
    is_on = level != "none"
    kind = "enabled" if is_on else "disabled"
    leveled: Object = {"reasoning_effort": level} if level and is_on else {}
    match switch:
        case "zai":
            # Without it the server drops the thinking of earlier turns that it gets back.
            keeps: Object = {"clear_thinking": False} if is_on else {}
            return {"thinking": {"type": kind, **keeps}, **leveled}
        case "kimi" if not has_levels or not is_on:
            # Without it, this server drops earlier thinking too.
            keeps = {"keep": "all"} if is_on else {}
            return {"thinking": {"type": kind, **keeps}}
        case _ if level is None:
            return {}
        case "reasoning_effort" | "kimi":
            return {"reasoning_effort": level}
        case "reasoning":
            return {"reasoning": {"effort": level}}
        case "together":
            return {"reasoning": {"enabled": is_on}, **leveled}
        case "thinking":
            return {"thinking": {"type": kind}, **leveled}
        case "template":
            return {"chat_template_kwargs": {"enable_thinking": is_on}}
    return {}


def _tool_object(tool: ToolSpec, target: Target) -> Object:
    about = {"name": tool.name, "description": tool.description}
    return {"type": "function", "function": {**about, "parameters": dict(tool.parameters)}}


def answer_schema(schema: Mapping[str, Any]) -> Object:
    """The wire object for an answer's schema. OpenAI accepts `strict` only if every object of the
    schema requires all its properties and allows no others."""
    return {"name": "answer", "schema": dict(schema), "strict": _is_strict(schema)}


def _is_strict(schema: Any) -> bool:
    """Whether each object of a schema requires all of its properties and allows no others."""
    if isinstance(schema, Mapping):
        if schema.get("type") == "object" and (
            schema.get("additionalProperties") is not False
            or {*schema.get("required", ())} != {*schema.get("properties", ())}
        ):
            return False
        return all(map(_is_strict, schema.values()))
    return not isinstance(schema, list) or all(map(_is_strict, schema))


def message_bytes(message: Message, form: ChatForm) -> bytes:
    """The JSON objects of one message, joined by commas: a tool message has one object per result.
    They depend on nothing around the message, so that they are the same in every request."""
    if message.role == "user":
        values = [_encode_user(message, _text_of(message) or "(no text)", form)]
    else:
        values = (_encode_results if message.role == "tool" else _encode_reply)(message, form)
    return b",".join(map(encode_json, values))


def _text_of(message: Message) -> str:
    return "\n\n".join(p.text for p in message.parts if isinstance(p, Text) and p.text)


def _encode_user(message: Message, text: str, form: ChatForm) -> Object:
    """A user message with the images and the text of a message."""
    images = [_encode_image(image, form) for image in images_of(message)]
    if not images and not form.marks:
        return {"role": "user", "content": text}
    return {"role": "user", "content": [*images, *([_text_part(text)] if text else [])]}


def _encode_results(message: Message, form: ChatForm) -> list[Object]:
    results: list[Object] = []
    for part in results_of(message):
        name = {} if form.dialect.takes_plain_results else {"name": part.name or "unnamed"}
        text = part.text or ("(no output)" if form.marks else "")
        content = [_text_part(text)] if form.marks else text
        answers = {"tool_call_id": wire_id(part.call_id, form.dialect)}
        results.append({"role": "tool", **answers, **name, "content": content})
    text, images = _text_of(message), images_of(message)
    if not text and not images:
        return results
    # In this format a result cannot hold an image. Its images follow in a user message, which
    # the model must not take for the person's.
    if any(image.call_id for image in images):
        text = "\n\n".join(["[Shown by the tool results above.]", *([text] if text else [])])
    bridge = [] if form.dialect.takes_plain_results else [BRIDGE]
    return [*results, *bridge, _encode_user(message, text, form)]


def _encode_image(image: Image, form: ChatForm) -> Object:
    data, note = form.target.image_data(image, takes_pdf=form.dialect.takes_pdf)
    if data is None:
        return _text_part(note)
    url = f"data:{image.media_type};base64,{data}"
    if image.media_type == "application/pdf":
        return {"type": "file", "file": {"filename": image.name, "file_data": url}}
    return {"type": "image_url", "image_url": {"url": url}}


def _text_part(text: str) -> Object:
    return {"type": "text", "text": text}


def _encode_reply(message: Message, form: ChatForm) -> list[Object]:
    is_own = message.origin == form.origin != ""
    content = _reply_content(message, is_own=is_own)
    calls = list(_encode_calls(message, form, is_own=is_own))
    if not content and not calls:
        return []  # an empty reply says nothing, and many servers refuse it
    fields = _extra_fields(message, form) if is_own else {}
    stand_in, names = form.dialect.empty_thinking, form.dialect.thinks_in
    if stand_in is not None and not any(fields.get(name) for name in names):
        fields[names[0]] = stand_in
    fields |= {"tool_calls": calls} if calls else {}
    return [{"role": "assistant", "content": content or None, **fields}]


def _reply_content(message: Message, *, is_own: bool) -> str | list[Any]:
    """The text of a reply, or its parts if its thinking came as one of them."""
    parts = message.parts
    if is_own and any(isinstance(p, Thinking) and is_content_part(p.own) for p in parts):
        listed = (_content_part(p) for p in parts if isinstance(p, Text | Thinking))
        return [part for part in listed if part is not None]
    server_text = next((p.text for p in parts if isinstance(p, ServerItem) and p.text), "")
    return _text_of(message) or ("" if calls_of(message) or is_own else server_text)


def _content_part(part: Text | Thinking) -> Mapping[str, Any] | None:
    if is_content_part(part.own):
        return part.own
    return _text_part(part.text) if isinstance(part, Text) and part.text else None


def is_content_part(own: Own) -> bool:
    """Whether a part's own form is an entry of the content, as Mistral sends thinking; otherwise it
    holds fields of the message."""
    return own is not None and own.get("type") in ("thinking", "text")


def _extra_fields(message: Message, form: ChatForm) -> Object:
    """The fields that came beside the text; no thinking if the past that it is bound to changed."""
    fields: Object = {}
    for part in message.parts:
        if isinstance(part, Thinking) and not is_content_part(part.own):
            plain = thinking_fields(part.text, form.dialect)
            fields |= plain if part.own is None else part.own
    binds = form.target.model.startswith(form.dialect.binds_thinking_of)
    if message.moved and (binds or form.target.omits("bound_thinking")):
        for name in form.dialect.thinks_in:
            fields.pop(name, None)
    return fields


def _encode_calls(message: Message, form: ChatForm, *, is_own: bool) -> Iterator[Object]:
    for number, call in enumerate(calls_of(message)):
        own = dict(call.own or {}) if is_own else {}
        if number == 0 and form.signs and not own:
            own = {"extra_content": {"google": {"thought_signature": SIGNATURE}}}
        named_call = {"name": call.name, "arguments": sendable_arguments(call)}
        function = {**mapping_of(own.get("function")), **named_call}
        call_id = wire_id(call.id, form.dialect)
        yield {**own, "id": call_id, "type": "function", "function": function}


def wire_id(call_id: str, dialect: Dialect) -> str:
    """A call's id as the host takes it, the same in the call and in its result."""
    match dialect.ids:
        case "any":
            return call_id or "call"
        case "nine":
            if re.fullmatch("[A-Za-z0-9]{9}", call_id):
                return call_id
            return hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:9]
        case "short":
            return sendable_id(call_id, strict=False)


_USER, _TOOL = b'{"role":"user"', b'{"role":"tool"'


def bridge_results(pieces: Sequence[bytes]) -> list[bytes]:
    """The messages with `BRIDGE` inserted between a result and a user message."""
    bridged: list[bytes] = []
    for piece in pieces:
        last = bridged[-1] if bridged else b""
        # In a string the quotes are escaped, so that this is only found where an object begins.
        if piece.startswith(_USER) and last.startswith(_TOOL) and _USER not in last:
            bridged.append(encode_json(BRIDGE))
        bridged.append(piece)
    return bridged


def mark_messages(pieces: Sequence[bytes], *, is_long: bool) -> list[bytes]:
    """The messages with cache marks on the last two that are the user's or a tool's: the end of
    this request, and that of the one before, which the server still has; see `place_marks`. The
    mark on the system prompt, which covers the tools, is set by `encode_request`."""
    markable = ((at, piece) for at, piece in enumerate(pieces) if piece.endswith(b'"}]}'))
    ends = [at for at, piece in markable if piece.startswith((_USER, _TOOL))]
    asked = [at for at in reversed(ends) if pieces[at].startswith(_USER)]
    marked = list(pieces)
    for at, lasts in place_marks(ends[-2:], asked[:2] if is_long else ()).items():
        mark = b',"cache_control":%b}]}' % encode_json(AN_HOUR if lasts else MARK)
        marked[at] = pieces[at][:-3] + mark
    return marked


def _event_reader(
    draft: Draft, endpoint: Endpoint, target: Target, request: Request
) -> EventReader:
    stream = ReplyStream(draft, target.row.dialect, endpoint)
    return stream.read_event, stream.finish


CHAT = WireFormat(
    api="chat",
    path="/chat/completions",
    message_encoder=lambda target: partial(message_bytes, form=form_of(target)),
    encode_request=encode_request,
    tool_object=_tool_object,
    event_reader=_event_reader,
)

open_chat = partial(HttpProvider, wire_format=CHAT)
