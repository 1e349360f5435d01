"""Messages and tools as Chat Completions carry them, in the dialect of a host.

What came with a reply goes back to the model that sent it: fields beside the text in
`Thinking.own`, a call's in `ToolCall.own`. Others get the plain form.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kode.messages import (
    Image,
    Message,
    Own,
    ServerItem,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    calls_of,
    images_of,
)
from kode.provider import ToolSpec
from kode.providers.encoding import (
    encode_json,
    picture,
    picture_note,
    sendable_arguments,
    sendable_id,
)
from kode.registry import Dialect

Object = dict[str, Any]

MARK = {"type": "ephemeral"}
BRIDGE = encode_json({"role": "assistant", "content": "I have the results."})
"""Stands between a result and a user message where the server wants one there."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """How one model at one host takes messages."""

    dialect: Dialect = field(default_factory=Dialect)
    origin: str = ""
    """Whose replies go back in their own form; "" is nobody's."""
    model: str = ""
    """Without a vendor's prefix where `dialect` names none."""
    sees_images: bool = True
    sees_pdf: bool = False

    @property
    def marks_cache(self) -> bool:
        """Whether texts are lists of parts, one of which a mark can be on."""
        return self.model.startswith(self.dialect.marks_cache_of)

    @property
    def binds_thinking(self) -> bool:
        return self.model.startswith(self.dialect.binds_thinking_of)

    @property
    def is_older(self) -> bool:
        return self.model.startswith(self.dialect.older_models)


PLAIN = Form()
"""For a server of which nothing is known."""


# ── tools and answers ────────────────────────────────────────────────────────────────────────


def tool_object(tool: ToolSpec) -> Object:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def answer_format(schema: Mapping[str, Any]) -> Object:
    """Parameters that make the server enforce a schema."""
    return {"response_format": {"type": "json_schema", "json_schema": held_answer(schema)}}


def held_answer(schema: Mapping[str, Any]) -> Object:
    """A schema for an answer. OpenAI enforces one exactly (`strict`) only if every property of
    every object is required, and refuses others."""
    return {"name": "answer", "schema": dict(schema), "strict": is_strict(schema)}


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


# ── messages ─────────────────────────────────────────────────────────────────────────────────


def system_bytes(text: str, form: Form) -> bytes:
    content: Any = text
    if form.marks_cache:
        content = [{"type": "text", "text": text, "cache_control": MARK}]
    return encode_json({"role": "system", "content": content})


def message_bytes(message: Message, form: Form = PLAIN) -> bytes:
    """The objects of one message, joined by commas: a tool message has one object per result."""
    return b",".join(encode_json(value) for value in message_objects(message, form))


def message_objects(message: Message, form: Form) -> list[Object]:
    """The same for a message in every request: nothing depends on what stands around it."""
    if message.role == "user":
        return [_user(message, _text_of(message) or "(no text)", form)]
    if message.role == "tool":
        return _results(message, form)
    return _assistant(message, form)


def _text_of(message: Message) -> str:
    return "\n\n".join(p.text for p in message.parts if isinstance(p, Text) and p.text)


def _user(message: Message, text: str, form: Form) -> Object:
    """A user message with the images and the text of a message."""
    shown = [_image(image, form) for image in images_of(message)]
    if not shown and not form.marks_cache:
        return {"role": "user", "content": text}
    return {"role": "user", "content": [*shown, *([_part(text)] if text else [])]}


def _results(message: Message, form: Form) -> list[Object]:
    results: list[Object] = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            named = {"name": part.name or "unnamed"} if form.dialect.names_results else {}
            text = part.text or ("(no output)" if form.marks_cache else "")
            content = [_part(text)] if form.marks_cache else text
            answers = {"tool_call_id": wire_id(part.call_id, form.dialect)}
            results.append({"role": "tool", **answers, **named, "content": content})
    text, images = _text_of(message), images_of(message)
    if not text and not images:
        return results
    # A result cannot hold an image in this format: it follows as a message, which is not to be
    # taken for one of the person.
    if any(image.call_id for image in images):
        text = "\n\n".join(["[Shown by the tool results above.]", *([text] if text else [])])
    return [*results, _user(message, text, form)]


def _image(image: Image, form: Form) -> Object:
    is_pdf = image.media_type == "application/pdf"
    seen = form.sees_pdf if is_pdf else form.sees_images
    data = picture(image, seen=seen)
    if data is None:
        return _part(picture_note(image, seen=seen))
    url = f"data:{image.media_type};base64,{data}"
    if is_pdf:
        return {"type": "file", "file": {"filename": image.name, "file_data": url}}
    return {"type": "image_url", "image_url": {"url": url}}


def _part(text: str) -> Object:
    return {"type": "text", "text": text}


# ── replies ──────────────────────────────────────────────────────────────────────────────────


def _assistant(message: Message, form: Form) -> list[Object]:
    is_own = message.origin == form.origin != ""
    content = _content(message, is_own=is_own)
    calls = list(_calls(message, form, is_own=is_own))
    if not content and not calls:
        # An empty answer says nothing, and many servers refuse it.
        return []
    fields = _fields(message, form) if is_own else {}
    stand_in, names = form.dialect.stands_for_thinking, form.dialect.thinks_in
    if stand_in is not None and not any(fields.get(name) for name in names):
        fields[names[0]] = stand_in
    made = {"tool_calls": calls} if calls else {}
    return [{"role": "assistant", "content": content or None, **fields, **made}]


def _content(message: Message, *, is_own: bool) -> str | list[Any]:
    """The text; the parts of a reply whose thinking came as one of them."""
    parts = message.parts
    if is_own and any(isinstance(p, Thinking) and is_content_part(p.own) for p in parts):
        listed = (_content_part(p) for p in parts if isinstance(p, Text | Thinking))
        return [part for part in listed if part is not None]
    found = next((p.text for p in parts if isinstance(p, ServerItem) and p.text), "")
    return _text_of(message) or ("" if calls_of(message) or is_own else found)


def _content_part(part: Text | Thinking) -> Mapping[str, Any] | None:
    if is_content_part(part.own):
        return part.own
    return _part(part.text) if isinstance(part, Text) and part.text else None


def is_content_part(own: Own) -> bool:
    """Whether a part's own form is a part of the content, as Mistral sends what was thought; else
    it holds fields of the message."""
    return own is not None and own.get("type") in ("thinking", "text")


def _fields(message: Message, form: Form) -> Object:
    """What came beside the text of a reply, as it came."""
    fields: Object = {}
    for part in message.parts:
        match part:
            case Thinking() if not is_content_part(part.own):
                fields |= part.own if part.own is not None else thinking_fields(part, form.dialect)
            case ServerItem() if form.dialect.search:
                fields |= part.own
    if message.moved and form.binds_thinking:
        for name in form.dialect.thinks_in:
            fields.pop(name, None)
    return fields


def thinking_fields(part: Thinking, dialect: Dialect) -> Object:
    """How thinking without an own form goes back: as the text that it was."""
    names = [name for name in dialect.thinks_in if name != "reasoning_details"]
    return {names[0]: part.text} if names and part.text else {}


def _calls(message: Message, form: Form, *, is_own: bool) -> Iterator[Object]:
    for number, call in enumerate(calls_of(message)):
        made = plain_call(call, form.dialect)
        if is_own and call.own is not None:
            own = dict(call.own)
            made = {**own, **made, "function": {**_function(own), **made["function"]}}
            made["id"] = wire_id(call.id, form.dialect)
        elif number == 0 and form.dialect.stands_for_signature and not form.is_older:
            signature = {"thought_signature": form.dialect.stands_for_signature}
            made["extra_content"] = {"google": signature}
        yield made


def _function(own: Mapping[str, Any]) -> Mapping[str, Any]:
    function = own.get("function")
    return function if isinstance(function, Mapping) else {}


def plain_call(call: ToolCall, dialect: Dialect) -> Object:
    function = {"name": call.name, "arguments": sendable_arguments(call)}
    return {"id": wire_id(call.id, dialect), "type": "function", "function": function}


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


# ── around messages ──────────────────────────────────────────────────────────────────────────

_USER, _TOOL = b'{"role":"user"', b'{"role":"tool"'


def bridged(pieces: Sequence[bytes]) -> list[bytes]:
    """The messages with `BRIDGE` between a result and a user message."""
    found: list[bytes] = []
    for piece in pieces:
        position = piece.find(_USER) if piece.startswith(_TOOL) else -1
        if position > 0:
            piece = b",".join((piece[: position - 1], BRIDGE, piece[position:]))
        elif piece.startswith(_USER) and found and _ends_in_result(found[-1]):
            found.append(BRIDGE)
        found.append(piece)
    return found


def _ends_in_result(piece: bytes) -> bool:
    # In a string the quotes are escaped, so that this is only found where an object begins.
    return piece.startswith(_TOOL) and piece.rfind(_USER) < 0


def marked(pieces: Sequence[bytes], most: int) -> list[bytes]:
    """The messages with marks on the last that are the user's or a tool's: on the end of this
    request, and on the end of the one before, which the server still has."""
    found = list(pieces)
    mark = b',"cache_control":%b}]}' % encode_json(MARK)
    for index in range(len(found) - 1, -1, -1):
        if most and found[index].startswith((_USER, _TOOL)) and found[index].endswith(b'"}]}'):
            found[index] = found[index][: -len(b"}]}")] + mark
            most -= 1
    return found
