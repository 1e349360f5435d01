"""Encodes messages as JSON bytes for all wire formats, once each.

A request holds every message so far. Each is encoded when it is first sent; later requests of the
session join the same bytes. So a message is byte for byte the same in every request, as a
provider's cache needs, and a request only costs the joining.
"""

import base64
import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from kode.errors import RefusedError, ThinkingRefused
from kode.images import bytes_of
from kode.messages import Image, Message, Part, Text, ToolCall, calls_of, images_of
from kode.provider import ToolSpec
from kode.providers.draft import is_whole_object

Wire = TypeVar("Wire")


FEW = 8
"""Lists this short are encoded each time: questions of memory and a summary must not evict the
session's cached bytes."""


CONTEXT_REPLY = Message(
    role="assistant",
    parts=(Text(text="I know this now. Ask me a question or give me a task."),),
    stop="end",
)
"""Stands between the context of a request and the person's words. A small model repeats words that
could be an answer: asked for a fact in memory, it said "Noted.", or "I have read it. What is the
task?", in four of five cases."""


class Growing:
    """Follows one growing list: what was added since the last look.

    A session appends to one list and replaces it when the past changes, so the same list with the
    same message at the old end holds the same messages before it.
    """

    def __init__(self) -> None:
        self._messages: Sequence[Message] = ()
        self._count = 0
        self._last: Message | None = None

    def count(self, messages: Sequence[Message]) -> int:
        """How many of these messages were there the last time; 0 for another list."""
        same = (
            messages is self._messages
            and 0 < self._count <= len(messages)
            and messages[self._count - 1] is self._last
        )
        return self._count if same else 0

    def note(self, messages: Sequence[Message]) -> None:
        """Records that all of these have been seen."""
        self._messages, self._count = messages, len(messages)
        self._last = messages[-1] if messages else None


class Encoded(Generic[Wire]):
    """The wire forms of a growing list of messages, each created once. They are dropped with the
    list, so that nothing stays of messages that a compaction dropped."""

    def __init__(self, encode: Callable[[Message], Wire]) -> None:
        self._encode = encode
        self._growing = Growing()
        self._wires: list[Wire] = []

    def of(self, messages: Sequence[Message]) -> list[Wire]:
        """The wire forms of all messages. Treat the list as read-only."""
        if len(messages) < FEW:
            return [self._encode(message) for message in messages]
        count = self._growing.count(messages)
        new = [self._encode(message) for message in messages[count:]]
        if not count:
            self._wires = []
        self._wires += new
        self._growing.note(messages)
        return self._wires


class EncodedTools:
    """The bytes of a request's tools, encoded again only if the tools change."""

    def __init__(self, tool_object: Callable[[ToolSpec], dict[str, Any]]) -> None:
        self._tool_object = tool_object
        self._tools: tuple[ToolSpec, ...] = ()
        self._bytes = b"[]"

    def of(self, tools: tuple[ToolSpec, ...]) -> bytes:
        """A JSON list of them."""
        if self._tools is not tools:
            self._tools, self._bytes = (
                tools,
                encode_json([self._tool_object(tool) for tool in tools]),
            )
        return self._bytes


class Joined:
    """The bytes of a growing list of messages, reusing those of the last request.

    Consecutive user messages become one message: templates of many local models refuse them, which
    would break a session in which one answer never came. A message that memory put before the first
    one stays separate.
    """

    def __init__(self, encode: Callable[[Message], bytes]) -> None:
        self._encode = encode
        self._growing = Growing()
        self._pieces: list[bytes] = []
        """All but the last row of user messages, which may continue."""
        self._row: tuple[Message, ...] = ()

    def of(self, messages: Sequence[Message]) -> bytes:
        """All messages, joined by commas."""
        return b",".join(self.pieces(messages))

    def pieces(self, messages: Sequence[Message]) -> list[bytes]:
        """The messages one by one; those without a wire form are skipped."""
        kept = len(messages) >= FEW
        count = self._growing.count(messages) if kept else 0
        pieces, row = (self._pieces, self._row) if count else ([], ())
        for message in messages[count:]:
            if message.role == "user" and not _is_of_memory(message):
                row = (*row, message)
            elif wire := self._encode(message):
                pieces += [*self._row_wire(row), wire]
                row = ()
        if kept:
            self._pieces, self._row = pieces, row
            self._growing.note(messages)
        return [*pieces, *self._row_wire(row)]

    def _row_wire(self, row: tuple[Message, ...]) -> list[bytes]:
        if len(row) <= 1:
            return [self._encode(message) for message in row]
        parts = tuple(part for message in row for part in message.parts)
        return [self._encode(Message(role="user", parts=parts))]


def split_context_message(messages: Sequence[Message]) -> list[Message]:
    """The messages with the context before a person's words as a separate exchange, if memory is
    part of it; see `Request.small`."""
    found: list[Message] = []
    ahead: tuple[Part, ...] = ()
    for message in messages:
        if message.role == "user":
            parts = (*ahead, *message.parts)
            begins = next(
                (index for index, p in enumerate(parts) if not _is_context(p)), len(parts)
            )
            ahead, rest = parts[:begins], parts[begins:]
            if rest and any(_source(part) == "memory" for part in ahead):
                found += [Message(role="user", parts=ahead), CONTEXT_REPLY]
                ahead = ()
            if not rest:
                continue
            message = replace(message, parts=(*ahead, *rest))
        elif ahead:
            found.append(Message(role="user", parts=ahead))
        ahead = ()
        found.append(message)
    return [*found, Message(role="user", parts=ahead)] if ahead else found


def _is_context(part: Part) -> bool:
    return _source(part) in ("opening", "memory")


def _source(part: Part) -> str:
    return part.source if isinstance(part, Text) else ""


def _is_of_memory(message: Message) -> bool:
    return all(_source(part) == "memory" for part in message.parts)


def encode_json(value: Any) -> bytes:
    """Compact JSON in UTF-8; lone surrogates, which no server accepts, become "?"."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def sendable_arguments(call: ToolCall) -> str:
    """The argument text unchanged if it is a JSON object; free text as the only argument; else
    `{}`.

    Servers decode arguments in the history (many to render a template) and fail permanently on a
    truncated text. The result of such a call tells the model what was wrong with it.
    """
    if call.own and "input" in call.own and isinstance(call.own["input"], str):
        return json.dumps({"input": call.arguments}, ensure_ascii=False)
    return call.arguments if is_whole_object(call.arguments) else "{}"


def sendable_id(call_id: str, *, strict: bool) -> str:
    """A call id that the server accepts: at most 40 characters, and with `strict` only those that
    Anthropic allows. Others, from another server earlier in the session, become a digest, the same
    in the call and in its result."""
    if len(call_id) <= 40 and (not strict or re.fullmatch(r"[A-Za-z0-9_-]+", call_id)):
        return call_id
    return f"call_{hashlib.sha256(call_id.encode('utf-8', 'replace')).hexdigest()[:24]}"


def picture(image: Image, *, seen: bool) -> str | None:
    """An image in base64; None for a model that cannot see, and if kode's copy is gone: then
    `picture_note` replaces it."""
    data = bytes_of(image) if seen else None
    return None if data is None else base64.b64encode(data).decode("ascii")


def picture_note(image: Image, *, seen: bool) -> str:
    """The text that replaces an image or a PDF."""
    is_pdf = image.media_type == "application/pdf"
    what, cannot = ("A PDF", "read PDFs") if is_pdf else ("An image", "see images")
    why = "kode's copy is gone or damaged" if seen else f"this model cannot {cannot}"
    return f"[{what}, {image.name}, is not shown: {why}. Say so where it matters.]"


@contextlib.contextmanager
def pictures_named(messages: Sequence[Message]) -> Iterator[None]:
    """Wraps a request: if the server refuses one with images, the error says that they may be
    the cause, and what to do, because every later request would contain them too. Raises:
    RefusedError."""
    try:
        yield
    except ThinkingRefused:
        raise
    except RefusedError as error:
        names = [image.name for message in messages for image in images_of(message)]
        if error.part or isinstance(error, ThinkingRefused):
            raise
        if not names or error.status not in (400, 404, 415, 422, 500, None):
            raise
        raise RefusedError(
            f"{error} The request shows an image ({names[-1]}). If the model cannot see, "
            "take the message back (Esc Esc), choose another with /model, or set "
            "`context.sees_images` to false in the config.",
            status=error.status,
            said=error.said,
        ) from error


def used_ids(messages: Sequence[Message]) -> set[str]:
    """The call ids of a session so far, which a new call may not reuse."""
    return {call.id for m in messages if m.role == "assistant" for call in calls_of(m)}
