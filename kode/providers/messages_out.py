"""Messages → turns of the Messages API.

A reply goes back to the model that wrote it as it came: each block in its own form, in order, in
one turn. What the API refuses is left out: blank text, thinking with nothing after it, and a search
that never got its result; of a reply whose past has changed (`Message.moved`) the thinking, which
is bound to that past; of another model's reply whatever only that model can read.

Cache marks stand where the last request to this model ended and where this one ends, beside the
one on the system prompt. The first of them finds what that request wrote, however many blocks the
reply and its results have: the server looks back only 20 blocks from a mark. They live five
minutes: an hour costs 2 instead of 1.25 of the input price to write, for everything that a session
adds in each step and mostly reads once; it would pay only for the system prompt of a person who
pauses. A mark is no part of what the server compares.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from kode.messages import Image, Message, Part, ServerItem, Text, Thinking, ToolCall, ToolResult
from kode.provider import ModelInfo
from kode.providers.encoding import (
    encode_json,
    picture,
    picture_note,
    sendable_arguments,
    sendable_id,
)

BREAKPOINT = b',"cache_control":{"type":"ephemeral"}}'

TOLD = ("opening", "news")
"""Sources of text that is kode's own word; see `Text.source`."""


@dataclass(frozen=True)
class Block:
    wire: bytes
    holds_mark: bool = True
    """Whether a cache mark may stand on it."""


@dataclass(frozen=True)
class Blocks:
    """The content blocks of one message. Results come first in a turn, so they are apart."""

    role: str
    blocks: tuple[Block, ...] = ()
    """All but the results."""
    results: tuple[Block, ...] = ()
    told: tuple[Block, ...] = ()
    """Kode's own words, which are among the blocks too."""
    others: tuple[Block, ...] = ()
    """The blocks without them."""
    is_own: bool = False
    """Whether this model wrote it."""
    thinks_first: bool = False
    paused: Blocks | None = None
    """The form of a paused reply while nothing but its continuation follows."""

    @cached_property
    def turn(self) -> bytes:
        """The turn that this message alone makes, without a mark."""
        return _turn(self.role, [block.wire for block in (*self.results, *self.blocks)])


# ── one message ──────────────────────────────────────────────────────────────────────────────


def blocks_of(message: Message, origin: str, info: ModelInfo, *, binds: bool = True) -> Blocks:
    """The blocks of a message for the model of that origin. `binds` is whether thinking is bound to
    what stands before it: then that of a moved message is left out."""
    if message.role != "assistant":
        return _of_user(message, info)
    if message.origin != origin:
        return _of_another(message)
    return _of_reply(message, drops_thinking=message.moved and binds)


def _of_user(message: Message, info: ModelInfo) -> Blocks:
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    called = {result.call_id for result in results}
    shown: dict[str, list[Image]] = {}
    told: list[Block] = []
    others: list[Block] = []
    blocks: list[Block] = []
    for part in message.parts:
        if isinstance(part, Image) and part.call_id in called:
            shown.setdefault(part.call_id, []).append(part)
        elif isinstance(part, Image):
            others.append(_block(_picture(part, info)))
            blocks.append(others[-1])
        elif isinstance(part, Text) and part.text.strip():
            kind = told if part.source in TOLD else others
            kind.append(_block({"type": "text", "text": part.text}))
            blocks.append(kind[-1])
    if not blocks and not results:
        blocks = others = [_block({"type": "text", "text": "(no text)"})]
    return Blocks(
        "user",
        blocks=tuple(blocks),
        results=tuple(_result(result, shown.get(result.call_id, ()), info) for result in results),
        told=tuple(told),
        others=tuple(others),
    )


def _of_reply(message: Message, *, drops_thinking: bool) -> Blocks:
    """A reply of this model. Paused, it goes back whole; see `Blocks.paused`."""
    unfit: tuple[type[Part], ...] = (Thinking,) if drops_thinking else ()
    if any(isinstance(part, ServerItem) and not part.own for part in message.parts):
        unfit += (ServerItem,)  # one was masked on disk: a search and its result go together
    parts = [
        part
        for part in message.parts
        if not isinstance(part, unfit) and wire_form(part) is not None
    ]
    settled = _blocks_of_reply(_settled(parts, message.stop))
    if message.stop != "paused":
        return settled
    return replace(settled, paused=_blocks_of_reply(parts))


def _blocks_of_reply(parts: Sequence[Part]) -> Blocks:
    return Blocks(
        "assistant",
        blocks=tuple(_block(wire_form(part), not isinstance(part, Thinking)) for part in parts),
        is_own=True,
        thinks_first=bool(parts) and isinstance(parts[0], Thinking),
    )


def _settled(parts: list[Part], stop: str | None) -> list[Part]:
    """The parts of a reply that something else follows: no thinking at its end, which the API
    refuses, and no search without its result. One beside calls is still to come."""
    if stop != "tool_calls":
        answered = {part.own.get("tool_use_id") for part in parts if isinstance(part, ServerItem)}
        parts = [part for part in parts if not _is_pending(part, answered)]
    last = max((index for index, p in enumerate(parts) if not isinstance(p, Thinking)), default=-1)
    return parts[: last + 1]


def _is_pending(part: Part, answered: set[Any]) -> bool:
    is_use = isinstance(part, ServerItem) and part.own.get("type") == "server_tool_use"
    return is_use and part.own.get("id") not in answered  # type: ignore[union-attr]


def _of_another(message: Message) -> Blocks:
    """A reply of another model: text and calls, or else what a server's tools said."""
    plain = [plain_form(p) for p in message.parts if isinstance(p, Text | ToolCall)]
    if not any(plain):
        said = [part.text for part in message.parts if isinstance(part, ServerItem)]
        plain = [plain_form(Text(text="\n".join(filter(None, said))))]
    return Blocks("assistant", blocks=tuple(_block(form) for form in plain if form is not None))


def wire_form(part: Part) -> dict[str, Any] | None:
    """A part of this model's own reply: its own form, or else the plain one; None if it cannot go
    back."""
    own = getattr(part, "own", None)
    if not own:
        return plain_form(part)
    if isinstance(part, Text) and not part.text.strip():
        return None
    # Else the call and its result would have different ids.
    if isinstance(part, ToolCall) and sendable_id(part.id, strict=True) != part.id:
        return plain_form(part)
    return dict(own)


def plain_form(part: Part) -> dict[str, Any] | None:
    """A part of a reply as far as kode understands it; None if that is nothing to send."""
    match part:
        case Text():
            return {"type": "text", "text": part.text} if part.text.strip() else None
        case Thinking(redacted=data) if data:
            return {"type": "redacted_thinking", "data": data}
        case Thinking() if part.signature:
            return {"type": "thinking", "thinking": part.text, "signature": part.signature}
        case ToolCall():
            return {
                "type": "tool_use",
                "id": sendable_id(part.id, strict=True),
                "name": part.name,
                "input": json.loads(sendable_arguments(part)),
            }
    # Thinking without a signature, of an interrupted reply or a local server, is refused.
    return None


def _picture(image: Image, info: ModelInfo) -> dict[str, Any]:
    is_pdf = image.media_type == "application/pdf"
    seen = (info.sees_pdf if is_pdf else info.sees_images) is not False
    data = picture(image, seen=seen)
    if data is None:
        return {"type": "text", "text": picture_note(image, seen=seen)}
    source = {"type": "base64", "media_type": image.media_type, "data": data}
    if is_pdf:
        return {"type": "document", "source": source, "title": image.name}
    return {"type": "image", "source": source}


def _result(result: ToolResult, images: Iterable[Image], info: ModelInfo) -> Block:
    shown = [_picture(image, info) for image in images]
    text = [{"type": "text", "text": result.text}] if result.text.strip() else []
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": sendable_id(result.call_id, strict=True),
        "content": [*text, *shown] if shown else result.text,
    }
    if result.is_error:
        block["is_error"] = True
    return _block(block, bool(text or shown))


def _block(form: dict[str, Any] | None, holds_mark: bool = True) -> Block:
    return Block(encode_json(form), holds_mark)


# ── all of them ──────────────────────────────────────────────────────────────────────────────


Turn = list[Blocks]
"""Neighbouring messages of one role."""


def turns_of(messages: Sequence[Blocks]) -> list[Turn]:
    """The messages as turns of alternating roles, without empty ones."""
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        goes_on = index + 1 == len(messages) or messages[index + 1].role == "assistant"
        if message.paused is not None and goes_on:
            message = message.paused
        if not message.blocks and not message.results:
            continue
        if turns and turns[-1][0].role == message.role:
            turns[-1].append(message)
        else:
            turns.append([message])
    return turns


def may_think(turns: Sequence[Turn]) -> bool:
    """Whether thinking of type `enabled` may be asked for: a model that is in the middle of its
    calls must have begun them with thinking, or the API refuses the request. A reply to a person's
    words may always be thought over."""
    begun: Turn | None = None
    for turn in reversed(turns):
        if turn[0].role == "assistant":
            begun = turn
        elif not any(message.results for message in turn):
            break
    if begun is None or turns[-1][0].role == "assistant":
        return True
    return begun[0].thinks_first


def wire_turns(
    turns: Sequence[Turn], *, later_system: bool = False, marks: bool = True
) -> list[bytes]:
    """The turns as bytes. With `later_system` kode's own words are a message of role `system`
    after the user's, where the API accepts one: not at the beginning, and not beside results."""
    ends = _ends(turns) if marks else set()
    wires = []
    for index, turn in enumerate(turns):
        told = [block for message in turn for block in message.told] if index > 0 else []
        if len(turn) == 1 and index not in ends and not told:
            wires.append(turn[0].turn)
            continue
        rest = [block for message in turn for block in message.others]
        results = [block for message in turn for block in message.results]
        if told and rest and later_system and not results:
            wires.append(_turn("user", [block.wire for block in rest]))
            wires.append(_turn("system", _wires(told, marked=index in ends)))
        else:
            blocks = [*results, *(block for message in turn for block in message.blocks)]
            wires.append(_turn(turn[0].role, _wires(blocks, marked=index in ends)))
    return wires


def _ends(turns: Sequence[Turn]) -> set[int]:
    """The user turns that end this request and the last one that this model answered."""
    last = max((index for index, turn in enumerate(turns) if turn[0].role == "user"), default=-1)
    own = (index for index, turn in enumerate(turns) if any(message.is_own for message in turn))
    answered = max(own, default=0) - 1
    return {position for position in (last, answered) if position >= 0}


def _wires(blocks: Sequence[Block], *, marked: bool) -> list[bytes]:
    wires = [block.wire for block in blocks]
    fit = [index for index, block in enumerate(blocks) if block.holds_mark]
    if marked and fit:
        wires[fit[-1]] = with_mark(wires[fit[-1]])
    return wires


def _turn(role: str, blocks: Sequence[bytes]) -> bytes:
    return b'{"role":"%b","content":[%b]}' % (role.encode(), b",".join(blocks))


def with_mark(block: bytes) -> bytes:
    return block[:-1] + BREAKPOINT
