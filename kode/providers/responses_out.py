"""Messages as the input items of Responses; see `openai_responses`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

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
from kode.provider import ToolSpec
from kode.providers.chat_out import held_answer
from kode.providers.draft import is_whole_object
from kode.providers.encoding import (
    encode_json,
    picture,
    picture_note,
    sendable_arguments,
    sendable_id,
)

CUSTOM_CALL = "custom_tool_call"


@dataclass(frozen=True, kw_only=True)
class Form:
    """What the server and the model take of the format, as far as a message depends on it."""

    origin: str
    """Whose replies go back as they came."""
    developer: bool = True
    """Whether kode's own words go in a message of role `developer`. Templates of local models
    refuse a second system message, which they make of it."""
    marks: bool = False
    sees_images: bool = True
    sees_pdf: bool = True
    pictures_in_results: bool = True
    """False: they follow in a message of the user."""
    drops_moved: bool = False
    """Whether what `Message.moved` marks goes back without its thinking."""


def tool_object(tool: ToolSpec) -> dict[str, Any]:
    """A tool: one of free text, or a function."""
    if not tool.grammar:
        return function_object(tool)
    held = {"type": "grammar", "syntax": "lark", "definition": tool.grammar}
    about = {"name": tool.name, "description": tool.description}
    return {"type": "custom", **about, "format": held}


def function_object(tool: ToolSpec) -> dict[str, Any]:
    """A tool as a function. Not `strict`, which demands every property of every object."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
        "strict": False,
    }


def answer_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that make the server enforce a schema."""
    return {"text": {"format": {"type": "json_schema", **held_answer(schema)}}}


def message_bytes(message: Message, *, form: Form, custom: set[str]) -> bytes:
    """The items of one message, joined by commas; see `message_items`."""
    return b",".join(map(encode_json, message_items(message, form, custom)))


def message_items(message: Message, form: Form, custom: set[str]) -> list[Mapping[str, Any]]:
    """The items of one message. `custom` holds the ids of calls of custom tools, whose results are
    items of another type: a reply adds to it, its results look there."""
    if message.role == "assistant":
        return reply_items(message, form, custom)
    if message.role == "tool":
        return result_items(message, form, custom)
    return user_items(message.parts, form) or [_user([_text("(no text)")])]


def user_items(parts: tuple[Part, ...], form: Form) -> list[Mapping[str, Any]]:
    """What kode says of the session, as an item of its own, and the rest.

    Models from gpt-5.6 on read from the cache up to a mark, and write one by themselves only at the
    end of a request, where no other session's request ends. So the end of the opening is marked:
    from there back, prompt, tools and project instructions are the same in every session and
    subagent of a project. Writing costs no more, since the end of the request is written anyway.
    """
    told = [p for p in parts if isinstance(p, Text) and p.source in ("opening", "news") and p.text]
    told = told if form.developer else []
    content = [_text(part.text) for part in told]
    opening = max((index for index, p in enumerate(told) if p.source == "opening"), default=-1)
    if form.marks and opening >= 0:
        content[opening]["prompt_cache_breakpoint"] = {"mode": "explicit"}
    items: list[Mapping[str, Any]] = [_message("developer", content)] if content else []
    rest = list(_contents([part for part in parts if part not in told], form))
    return [*items, *([_user(rest)] if rest else [])]


def result_items(message: Message, form: Form, custom: set[str]) -> list[Mapping[str, Any]]:
    """Results with their pictures, and what else is in the message after them."""
    results, images = results_of(message), images_of(message)
    answered = {result.call_id for result in results} if form.pictures_in_results else set()
    items: list[Mapping[str, Any]] = []
    for result in results:
        shown = [image for image in images if image.call_id == result.call_id and answered]
        kind = "custom_tool_call_output" if result.call_id in custom else "function_call_output"
        text = {"type": "input_text", "text": result.text}
        output = [text, *(_picture(image, form) for image in shown)] if shown else result.text
        call_id = sendable_id(result.call_id, strict=False)
        items.append({"type": kind, "call_id": call_id, "output": output})
    others = tuple(
        part
        for part in message.parts
        if not isinstance(part, ToolResult)
        and not (isinstance(part, Image) and part.call_id in answered)
    )
    return [*items, *user_items(others, form)]


def reply_items(message: Message, form: Form, custom: set[str]) -> list[Mapping[str, Any]]:
    """A reply, as it came or in the plain form. Thinking at its end goes: nothing came of it, and
    the API refuses it without the item that follows."""
    custom.difference_update(call.id for call in calls_of(message))
    if message.origin != form.origin or not is_intact(message, form):
        return plain_items(message)
    custom.update(call.id for call in calls_of(message) if _type_of(call) == CUSTOM_CALL)
    items = [own for part in message.parts if (own := getattr(part, "own", None))]
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items


def is_intact(message: Message, form: Form) -> bool:
    """Whether every part of a reply has its own form, and one that will be taken back."""
    if message.moved and form.drops_moved and any(isinstance(p, Thinking) for p in message.parts):
        return False
    return all(_is_intact(part) for part in message.parts)


def _is_intact(part: Part) -> bool:
    match part:
        case Text(own=own) | ServerItem(own=own):
            return bool(own)
        case Thinking(own=own):
            # A summary alone stands for thinking that the server would have had to keep.
            return bool(own and (own.get("encrypted_content") or own.get("content")))
        case ToolCall(own=own):
            plain = (sendable_id(part.id, strict=False), part.name)
            sendable = _type_of(part) == CUSTOM_CALL or is_whole_object(part.arguments)
            return bool(own) and plain == (part.id, part.name) and sendable
        case _:
            return False


def _type_of(call: ToolCall) -> Any:
    return call.own.get("type") if call.own else None


def plain_items(message: Message) -> list[Mapping[str, Any]]:
    """A reply without ids and thinking. Its text keeps its phase: without it a model takes what it
    said between calls for a final answer."""
    items: list[Mapping[str, Any]] = []
    for part in message.parts:
        if isinstance(part, Text) and part.text:
            phase = part.own.get("phase") if part.own else None
            said = {"type": "message", "role": "assistant", "content": part.text}
            items.append({**said, "phase": phase} if isinstance(phase, str) else said)
        elif isinstance(part, ToolCall):
            call_id = sendable_id(part.id, strict=False)
            named = {"name": part.name, "arguments": sendable_arguments(part)}
            items.append({"type": "function_call", "call_id": call_id, **named})
    if items:
        return items
    found = [p.text for p in message.parts if isinstance(p, ServerItem) and p.text]
    said = {"type": "message", "role": "assistant", "content": "\n\n".join(found)}
    return [said] if found else []


def _contents(parts: list[Part], form: Form) -> Iterator[dict[str, Any]]:
    """Pictures, and texts joined where one follows another."""
    texts: list[str] = []
    for part in parts:
        if isinstance(part, Text) and part.text:
            texts.append(part.text)
        elif isinstance(part, Image):
            if texts:
                yield _text("\n\n".join(texts))
            texts = []
            yield _picture(part, form)
    if texts:
        yield _text("\n\n".join(texts))


def _picture(image: Image, form: Form) -> dict[str, Any]:
    is_pdf = image.media_type == "application/pdf"
    seen = form.sees_pdf if is_pdf else form.sees_images
    data = picture(image, seen=seen)
    if data is None:
        return _text(picture_note(image, seen=seen))
    url = f"data:{image.media_type};base64,{data}"
    if is_pdf:
        return {"type": "input_file", "filename": image.name, "file_data": url}
    return {"type": "input_image", "image_url": url, "detail": "auto"}


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _user(content: list[dict[str, Any]]) -> Mapping[str, Any]:
    return _message("user", content)


def _message(role: str, content: list[dict[str, Any]]) -> Mapping[str, Any]:
    return {"type": "message", "role": role, "content": content}
