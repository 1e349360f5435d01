"""Prepares each request for its server, encodes it once, and repairs it after a refusal.

All are functions of the request and of what this server has refused before, which stays away as
long as the provider is open. A refusal is repaired once for each part that can be left out, with
one notice; what it means is in `refusals.toml`.

A request holds every message so far. Each is encoded when it is first sent; later requests of the
session join the same bytes. So a message is byte for byte the same in every request, as a
provider's cache needs, and a request only costs the joining.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kode.errors import RefusedError, ThinkingRefused
from kode.images import LARGE_SIDE, bytes_of
from kode.messages import Image, Message, Part, Text, ToolCall, calls_of, images_of
from kode.provider import EFFORTS, Api, Effort, ModelInfo, Request, ToolSpec
from kode.providers.draft import is_whole_object
from kode.providers.errors import read_table
from kode.providers.schemas import SchemaForm, UnfitSchemaError, fit_schema
from kode.registry import ProviderRow

FEW = 8
"""Lists this short are encoded each time: questions of memory and a summary must not evict the
session's cached bytes."""

MAX_IMAGES, CROWD = 100, 20
"""Pictures in a request of the Messages API for a window of 200,000 tokens, and from how many on
none may be larger than `LARGE_SIDE`. No other vendor that names a limit of its own has a lower one
for its models of today."""

CONTEXT_REPLY = Message(
    role="assistant",
    parts=(Text(text="I know this now. Ask me a question or give me a task."),),
    stop="end",
)
"""Stands between the context of a request and the person's words. A small model repeats words that
could be an answer: asked for a fact in memory, it said "Noted.", or "I have read it. What is the
task?", in four of five cases."""


@dataclass(frozen=True, kw_only=True)
class Omissions:
    """What this server has refused, and is not sent again."""

    parts: frozenset[str] = frozenset()
    """Keys of `RefusalTable.parts`, and `bound_thinking`: it did not take thinking back, and that
    of moved messages stays away."""
    tools: frozenset[str] = frozenset()
    """Tools whose schema it refused."""
    images: frozenset[str] = frozenset()
    """The copies of pictures and PDFs that it refused, as in `Image.kept_in`."""
    output_tokens: int | None = None
    """The most that it said it takes."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """One model at one server, which requests are encoded for."""

    api: Api
    row: ProviderRow
    model: str
    info: ModelInfo
    is_official: bool
    """Whether it is the vendor's own server, or a cloud's."""
    cache: str = "auto"
    """As in `ProviderSettings`."""
    omitted: Omissions = Omissions()

    @property
    def origin(self) -> str:
        """Marks this model's replies: only it gets them back in their own form."""
        return f"{self.api}:{self.row.name}/{self.model}"

    def omits(self, *parts: str) -> bool:
        """Whether one of these parts was refused."""
        return not self.omitted.parts.isdisjoint(parts)

    def effort(self, request: Request) -> Effort | None:
        """How much to think, as a level that this model has; None sends nothing."""
        if self.omits("thinking", "effort"):
            return None
        return nearest_effort(request.effort or self.info.default_effort, self.info.efforts)

    def searches(self, request: Request) -> bool:
        """Whether to offer the vendor's web search."""
        return request.search and self.info.searches and not self.omits("search")

    @property
    def marks_cache(self) -> bool:
        """Whether texts are marked for the cache."""
        return self.cache != "none" and not self.omits("cache")

    def image_data(self, image: Image, *, takes_pdf: bool = True) -> tuple[str | None, str]:
        """An image or a PDF in base64; None for one that the model cannot see or the server
        refused, and if kode's copy is gone. Then the text replaces it."""
        is_pdf = image.media_type == "application/pdf"
        what, cannot = ("A PDF", "read PDFs") if is_pdf else ("An image", "see images")
        is_blind = (self.info.sees_pdf if is_pdf else self.info.sees_images) is False
        if is_blind or (is_pdf and not takes_pdf):
            why = f"this model cannot {cannot}"
        elif image.kept_in in self.omitted.images:
            why = "its server does not take it, or not so many"
        elif (data := bytes_of(image)) is not None:
            return base64.b64encode(data).decode("ascii"), ""
        else:
            why = "kode's copy is gone or damaged"
        return None, f"[{what}, {image.name}, is not shown: {why}. Say so where it matters.]"


def fit_tools(
    tools: Sequence[ToolSpec], form: SchemaForm, omitted: Omissions
) -> tuple[tuple[ToolSpec, ...], tuple[str, ...]]:
    """The tools with schemas that the vendor takes, in order, and a sentence for each that has
    none."""
    fitted, notes = [], []
    for tool in tools:
        if tool.name in omitted.tools:
            continue
        try:
            fitted.append(replace(tool, parameters=fit_schema(tool.parameters, form)))
        except UnfitSchemaError as error:
            notes.append(f"The model does not get the tool {tool.name}: {error}.")
    return tuple(fitted), tuple(notes)


def prepare_request(
    request: Request, tools: tuple[ToolSpec, ...], info: ModelInfo, omitted: Omissions
) -> Request:
    """The request as this server takes it, with its tools and a limit of output."""
    messages = split_context_message(request.messages)
    limit = request.max_output_tokens or default_max_tokens(info)
    if omitted.output_tokens is not None:
        limit = min(limit, omitted.output_tokens)
    return replace(request, messages=messages, tools=tools, max_output_tokens=limit)


def crowd_out(messages: Sequence[Message]) -> frozenset[str]:
    """The copies of the pictures that one request cannot hold: the oldest beyond `MAX_IMAGES`, a
    quarter of that at a time, so that the beginning that a cache knows seldom changes; and large
    ones among many."""
    images = [image for message in messages for image in images_of(message)]
    quarter, excess = MAX_IMAGES // 4, max(0, len(images) - MAX_IMAGES)
    count = -(-excess // quarter) * quarter
    left_out, others = images[:count], images[count:]
    if len(others) > CROWD:
        left_out += [image for image in others if max(image.width, image.height) > LARGE_SIDE]
    return frozenset(image.kept_in for image in left_out)


def repair_request(
    refused: RefusedError, request: Request, target: Target
) -> tuple[Omissions, str] | None:
    """What to leave out from now on after a refusal, and the sentence that says so; None where that
    does not help, or was tried."""
    omitted, name = target.omitted, refused.part
    if tool := _refused_tool(refused, [tool.name for tool in request.tools]):
        note = f"{refused} kode continues without the tool {tool}."
        return replace(omitted, tools=omitted.tools | {tool}), note
    part = read_table().parts.get(name)
    is_of_thinking = isinstance(refused, ThinkingRefused) and target.api != "chat"
    if part is None or not part.then or is_of_thinking:
        return None
    note = f"{refused} {part.then}"
    if name == "attachment":
        images = {image.kept_in for m in request.messages for image in images_of(m)}
        repaired = replace(omitted, images=omitted.images | images)
    elif name == "output_limit":
        rules = (rule for rule in read_table().rules if rule.means == name)
        match = next(filter(None, (rule.search(refused.server_text) for rule in rules)), None)
        tokens = int(match["tokens"]) if match else 0
        if not 0 < tokens < (omitted.output_tokens or request.max_output_tokens or 0):
            return None
        repaired = replace(omitted, output_tokens=tokens)
    else:
        repaired = replace(omitted, parts=omitted.parts | {name})
    return (repaired, note) if repaired != omitted else None


def _refused_tool(refused: RefusedError, names: Sequence[str]) -> str:
    """The tool of a request, of all in order, whose schema a refusal is about; "" for none."""
    is_about_tools = re.search("schema|parameters|declarations", refused.server_text, re.IGNORECASE)
    if refused.status not in (400, 403, 404, 422) or not is_about_tools:
        return ""
    quoted = re.findall(r"['`\"]([\w-]+)['`\"]", refused.server_text)
    if name_of_tool := next((name for name in quoted if name in names), ""):
        return name_of_tool
    places = (r"function_declarations\[(\d+)", r"tools[.\[](\d+)")
    place = next(filter(None, (re.search(place, refused.server_text) for place in places)), None)
    return names[int(place[1])] if place and int(place[1]) < len(names) else ""


def default_max_tokens(info: ModelInfo) -> int:
    """The output limit of a request that sets none: without one, a model that repeats itself never
    ends. Servers refuse a request whose input and limit together exceed the window, so the model's
    maximum is used only if it leaves five sixths of the window to the conversation."""
    return max(1, min(info.max_output_tokens, info.context_window // 6))


def nearest_effort(wanted: Effort | None, accepted: Sequence[Effort]) -> Effort | None:
    """The accepted level next to the wanted one, the lower of two as near; None for none."""
    if wanted is None or not accepted:
        return None
    position = EFFORTS.index(wanted)
    return min(
        accepted, key=lambda level: (abs(EFFORTS.index(level) - position), EFFORTS.index(level))
    )


def split_context_message(messages: Sequence[Message]) -> list[Message]:
    """The messages, with the memory that was recorded for a small model, and other context beside
    it, as an exchange before the person's words; see `Request.small`."""
    split: list[Message] = []
    ahead: tuple[Part, ...] = ()
    for message in messages:
        if message.role == "user" and (ahead or any(map(_is_for_small, message.parts))):
            parts = (*ahead, *message.parts)
            begins = next((n for n, part in enumerate(parts) if not _is_context(part)), len(parts))
            ahead, words = parts[:begins], parts[begins:]
            if not words:
                continue
            if any(map(_is_for_small, ahead)):
                split += [Message(role="user", parts=ahead), CONTEXT_REPLY]
                message = replace(message, parts=words)
        elif ahead:
            split.append(Message(role="user", parts=ahead))
        ahead = ()
        split.append(message)
    return [*split, Message(role="user", parts=ahead)] if ahead else split


def _is_context(part: Part) -> bool:
    return isinstance(part, Text) and part.source in ("opening", "memory")


def _is_for_small(part: Part) -> bool:
    return isinstance(part, Text) and part.source == "memory" and part.section_name != ""


class EncodedMessages:
    """The wire forms of the messages of a session, each created once. Those of messages that a
    compaction dropped go with them.

    With `joins_users` consecutive user messages become one message: templates of many local models
    refuse them, which would break a session in which one answer never came.
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
            if self._joins_users and message.role == "user":
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
