"""Encodes messages as JSON bytes for all wire formats, once each.

A request holds every message so far. Each is encoded when it is first sent; later requests of the
session join the same bytes. So a message is byte for byte the same in every request, as a
provider's cache needs, and a request only costs the joining.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kode.images import bytes_of
from kode.messages import Image, Message, Text, ToolCall, calls_of
from kode.providers.draft import is_whole_object
from kode.registry import Dialect

FEW = 8
"""Lists this short are encoded each time: questions of memory and a summary must not evict the
session's cached bytes."""


@dataclass(frozen=True, kw_only=True)
class WireForm:
    """How one model at one server takes messages, as far as what it was sent before depends on it:
    another form encodes them again."""

    origin: str = ""
    """Whose replies go back in their own form; "" is nobody's."""
    sees_images: bool = True
    sees_pdf: bool = True
    omitted_images: frozenset[str] = frozenset()
    """As in `Omissions.images`."""
    drops_moved: bool = False
    """Whether what `Message.moved` marks goes back without its thinking."""
    model: str = ""
    dialect: Dialect = field(default_factory=Dialect)
    """Of Chat Completions; `model` is what its prefixes are compared with."""
    developer: bool = True
    """Of Responses: whether kode's own words go in a message of role `developer`. Templates of
    local models refuse a second system message, which they make of it."""
    marks: bool = False
    """Whether texts can have marks for the cache."""
    images_in_results: bool = True
    """Of Responses; False: they follow in a message of the user."""

    def image_data(self, image: Image) -> tuple[str | None, str]:
        """An image or a PDF in base64; None for one that the model cannot see or the server
        refused, and if kode's copy is gone. Then the text replaces it."""
        is_pdf = image.media_type == "application/pdf"
        what, cannot = ("A PDF", "read PDFs") if is_pdf else ("An image", "see images")
        if not (self.sees_pdf if is_pdf else self.sees_images):
            why = f"this model cannot {cannot}"
        elif image.kept_in in self.omitted_images:
            why = "its server does not take it, or not so many"
        elif (data := bytes_of(image)) is not None:
            return base64.b64encode(data).decode("ascii"), ""
        else:
            why = "kode's copy is gone or damaged"
        return None, f"[{what}, {image.name}, is not shown: {why}. Say so where it matters.]"


class EncodedMessages:
    """The wire forms of the messages of a session, each created once. Those of messages that a
    compaction dropped go with them.

    With `joins_users` consecutive user messages become one message: templates of many local models
    refuse them, which would break a session in which one answer never came. A message that memory
    put before the first one stays separate.
    """

    def __init__(self, encode: Callable[[Message], Any], *, joins_users: bool = False) -> None:
        self._encode = encode
        self._joins_users = joins_users
        self._wires: dict[tuple[int, ...], tuple[tuple[Message, ...], Any]] = {}
        """By the identities of the messages in a row, which are referenced as long as it is."""

    def of(self, messages: Sequence[Message]) -> list[Any]:
        """The wire forms of all messages; empty ones are left out."""
        entries = {}
        wires = []

        def encode(row: tuple[Message, ...]) -> Any:
            key = tuple(map(id, row))
            entries[key] = self._wires.get(key) or (row, self._encode(_join(row)))
            return entries[key][1]

        row: tuple[Message, ...] = ()
        for message in messages:
            if self._joins_users and message.role == "user" and not _is_of_memory(message):
                row = (*row, message)
            elif wire := encode((message,)):
                wires += [encode(row), wire] if row else [wire]
                row = ()
        if row:
            wires.append(encode(row))
        if len(messages) >= FEW:
            self._wires = entries
        return wires


def _join(row: tuple[Message, ...]) -> Message:
    if len(row) == 1:
        return row[0]
    return Message(role="user", parts=tuple(part for message in row for part in message.parts))


def _is_of_memory(message: Message) -> bool:
    return all(isinstance(part, Text) and part.source == "memory" for part in message.parts)


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


def used_ids(messages: Sequence[Message]) -> set[str]:
    """The call ids of a session so far, which a new call may not reuse."""
    return {call.id for m in messages if m.role == "assistant" for call in calls_of(m)}
