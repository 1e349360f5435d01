"""Assembles and repairs a streaming reply from pieces of text, thinking and calls.

Shared by all formats, which feed it their events. It trusts nothing: pieces may come in any order
and of any shape, ids may be empty or duplicate, names may come in parts or repeatedly. `finish`
returns a message only if the server said why it stopped.
"""

import json
import math
import re
import secrets
from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import Any, Literal

from kode.errors import LARGER_WINDOW, ContextOverflow, RefusedError, TransientError
from kode.events import CallAnnounced, Emit, TextDelta, ThinkingDelta
from kode.messages import Message, Part, ServerItem, StopReason, Text, Thinking, ToolCall, Usage
from kode.values import dataclass, field

MAX_CALLS = 128
"""Calls in one reply. A model that asks for more runs in circles."""

MAX_CHARS = 10_000_000
"""Total length of a reply's text, thinking and arguments."""

STOP_REASONS: Mapping[str, StopReason] = {
    "pause_turn": "paused",
    **dict.fromkeys("stop end_turn stop_sequence eos eos_token complete completed".split(), "end"),
    **dict.fromkeys(("tool_calls", "tool_use", "function_call"), "tool_calls"),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_length"), "length"),
    **dict.fromkeys(
        "content_filter refusal safety recitation prohibited_content blocklist".split(), "refusal"
    ),
}
"""A server's stop reason → kode's, for all wire formats and the servers that imitate them."""

BROKEN_OFF = {"error", "abort", "aborted", "cancelled", "canceled", "insufficient_system_resource"}
"""Stop reasons of a server for an incomplete reply."""


Kind = Literal["text", "thinking", "call", "item"]


@dataclass
class DraftPart:
    """One part as far as it has arrived; an `item` is of a type that only the provider knows."""

    kind: Kind
    pieces: list[str] = field(default_factory=list)
    """The pieces of its text, or of a call's arguments."""
    id: str = ""
    name: str = ""
    signature: str = ""
    redacted: str = ""
    own: dict[str, Any] | None = None
    """The part in the provider's own form, once it is complete; see `messages.Own`. Dropped if kode
    has to repair a call's id, as `ToolCall` drops it on repairing the name."""

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def add_name(self, piece: str) -> None:
        """Adds to the name, which comes in full, in pieces, growing, or again with every chunk."""
        if not self.name or piece.startswith(self.name):
            self.name = piece or self.name
        elif not self.pieces:
            self.name += piece


class Draft:
    """A reply as far as it has arrived. `origin` is that of its message; `emit` gets every piece.
    `splits_thoughts`: whether its text may begin with thoughts that the server did not parse."""

    def __init__(self, origin: str, emit: Emit, *, splits_thoughts: bool = False) -> None:
        self.origin = origin
        self.emit = emit
        self.splits_thoughts = splits_thoughts
        self.parts: dict[tuple[Kind, Hashable], DraftPart] = {}
        self.stop = ""
        """The server's stop reason; "" before it sends one."""
        self.continues_after_stop = False
        self.done = False
        """Whether the stream's own end mark arrived."""
        self.refused = False
        self.chars = 0
        self.calls = 0
        self.usage: dict[str, int] = {}
        self._splitters: dict[Hashable, ThoughtSplitter] = {}
        self._half_pairs: dict[tuple[Kind, Hashable], str] = {}

    def find(self, kind: Kind, key: Hashable) -> DraftPart | None:
        """The part of this kind under this key; None if nothing of it has arrived."""
        return self.parts.get((kind, key))

    def part(self, kind: Kind, key: Hashable) -> DraftPart:
        """As `find`, but creates a missing part. Raises: RefusedError beyond `MAX_CALLS` calls."""
        if (part := self.parts.get((kind, key))) is None:
            self.calls += kind == "call"
            if self.calls > MAX_CALLS:
                raise RefusedError(
                    f"The model asked for more than {MAX_CALLS} tool calls in one reply, and none "
                    "was run. Try again in other words, or with another model."
                )
            part = self.parts[kind, key] = DraftPart(kind)
            if kind == "call":
                self.emit(CallAnnounced())
        return part

    def add(self, kind: Kind, key: Hashable, piece: Any) -> None:
        """Adds a piece of text or thinking, without lone surrogates: the first half of a pair that
        is split between two chunks waits for the second; a half that stays alone is replaced."""
        if not isinstance(piece, str) or not piece:
            return
        piece = self._half_pairs.pop((kind, key), "") + piece
        if "\ud800" <= piece[-1] <= "\udbff":
            self._half_pairs[kind, key] = piece[-1]
            piece = piece[:-1]
        text = piece if piece.isascii() else join_surrogates(piece)
        self.grow(len(text), is_content=True)
        if kind == "thinking" or not self.splits_thoughts:
            return self._append(kind, key, text)
        for kind, split in self._splitters.setdefault(key, ThoughtSplitter()).split(text):
            self._append(kind, key, split)

    def refuse(self, key: Hashable, piece: Any) -> None:
        """Handles a refusal in words: they become the text, and the reply stops as a refusal."""
        self.refused = self.refused or bool(piece and isinstance(piece, str))
        self.add("text", key, piece)

    def begin_thinking(self, key: Hashable) -> None:
        """Notes that the model is thinking, so that a person knows even if none of it is shown."""
        if self.find("thinking", key) is None:
            self.part("thinking", key)
            self.emit(ThinkingDelta(text=""))

    def add_arguments(self, call: DraftPart, piece: Any) -> None:
        """Adds a piece of argument text; some servers send the object instead."""
        if piece is None or piece == "":
            return
        if not isinstance(piece, str):
            call.pieces.clear()
            piece = json.dumps(piece, ensure_ascii=False)
        call.pieces.append(piece)
        self.grow(len(piece), is_content=True)

    def note_stop(self, reason: Any) -> None:
        """Records the server's stop reason; the last one counts."""
        if isinstance(reason, str) and reason:
            self.stop = reason
            self.continues_after_stop = False

    def count_usage(self, **counts: Any) -> None:
        """Sets token counts by the names of `Usage`. Later figures replace earlier ones, field by
        field; invalid ones are ignored."""
        for name, value in counts.items():
            if type(value) in (int, float) and 0 <= value < math.inf:
                self.usage[name] = int(value)

    def grow(self, chars: int, *, is_content: bool = False) -> None:
        """Counts what is kept of the reply; with `is_content` the model has written more.

        Raises: RefusedError beyond `MAX_CHARS`.
        """
        self.continues_after_stop = self.continues_after_stop or (is_content and chars > 0)
        self.chars += chars
        if self.chars > MAX_CHARS:
            raise RefusedError(
                f"The reply grew beyond {MAX_CHARS // 1_000_000} million characters and was ended. "
                "Ask for less at a time, or use another model."
            )

    def _append(self, kind: Kind, key: Hashable, text: str) -> None:
        if text:
            part = self.parts.get((kind, key)) or self.part(kind, key)
            part.pieces.append(text)
            self.emit(ThinkingDelta(text=text) if kind == "thinking" else TextDelta(text=text))

    @property
    def complete(self) -> bool:
        """Whether the reply may end here: a stop reason with nothing after it."""
        return bool(self.stop) and not self.continues_after_stop

    def finish(self, model: str, used_ids: Collection[str]) -> Message:
        """The complete message. `used_ids` are the call ids of the session so far.

        A reply without text and calls is valid if it stopped normally (a model may have nothing to
        add after its tools), reached the token limit or refused; announcing calls and making none
        is a fault.

        Raises: TransientError if the reply is incomplete.
        """
        if not self.stop or (self.continues_after_stop and not self.done):
            raise TransientError(
                "The reply was cut off: the stream ended without a stop reason. Try again."
            )
        for key, splitter in self._splitters.items():
            self._append("thinking" if splitter.end else "text", key, splitter.held)
        calls, stop = self.calls, self._stop_reason(self.calls > 0)
        parts = self._make_parts(stop, set(used_ids))
        if stop == "tool_calls" and not calls:
            if not any(isinstance(part, Text) for part in parts):
                raise TransientError("The server announced tool calls and sent none. Try again.")
            stop = "end"
        elif stop == "end" and calls:
            stop = "tool_calls"
        return Message(
            role="assistant",
            parts=parts,
            stop=stop,
            usage=self._count_usage(),
            model=model,
            origin=self.origin,
        )

    def _stop_reason(self, has_calls: bool) -> StopReason:
        reason = self.stop.lower()
        if stop := STOP_REASONS.get(reason):
            return "refusal" if stop == "end" and self.refused and not has_calls else stop
        if reason == "model_context_window_exceeded":
            text = "The reply did not fit into what the window of the model had left. Start over"
            raise ContextOverflow(f"{text} with less, {LARGER_WINDOW}")
        if reason in BROKEN_OFF:
            raise TransientError(f"The server broke the reply off ({reason!r}). Try again.")
        if has_calls:
            # After an unknown reason the calls may be truncated; they must not run.
            raise TransientError(
                f"The server ended tool calls for a reason kode does not know ({reason[:40]!r}). "
                "If it keeps happening, use another server or model."
            )
        return "end"

    def _make_parts(self, stop: StopReason, used_ids: set[str]) -> tuple[Part, ...]:
        parts: list[Part] = []
        for place, draft in self.parts.items():
            own, text = draft.own, draft.text + ("\ufffd" if place in self._half_pairs else "")
            match draft.kind:
                case "text" if text or own:
                    parts.append(Text(text=text, own=own))
                case "thinking" if text or draft.signature or draft.redacted or own:
                    signature, redacted = draft.signature, draft.redacted
                    part = Thinking(text=text, signature=signature, redacted=redacted, own=own)
                    parts.append(part)
                case "item" if own:
                    parts.append(ServerItem(own=own, text=text))
                case "call":
                    call_id = draft.id if draft.id and draft.id not in used_ids else new_call_id()
                    used_ids.add(call_id)
                    # Empty arguments mean none, unless the token limit cut them off.
                    arguments = join_surrogates(text or ("" if stop == "length" else "{}"))
                    own = own if call_id == draft.id else None
                    call = ToolCall(id=call_id, name=draft.name, arguments=arguments, own=own)
                    parts.append(call)
        return tuple(parts)

    def _count_usage(self) -> Usage | None:
        if not self.usage:
            return None
        count = {name: self.usage.get(name, 0) for name in Usage.__annotations__}
        count["cached_tokens"] = min(count["cached_tokens"], count["input_tokens"])
        uncached = count["input_tokens"] - count["cached_tokens"]
        count["cache_write_tokens"] = min(count["cache_write_tokens"], uncached)
        count["hour_write_tokens"] = min(count["hour_write_tokens"], count["cache_write_tokens"])
        count["thinking_tokens"] = min(count["thinking_tokens"], count["output_tokens"])
        return Usage(**count)


def new_call_id() -> str:
    """An id for a call that came without a usable one."""
    return f"call_{secrets.token_hex(8)}"


def mapping_of(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping; otherwise an empty one."""
    return value if isinstance(value, Mapping) else {}


def list_of(value: Any) -> list[Any]:
    """The value if it is a list; otherwise an empty one."""
    return value if isinstance(value, list) else []


def pick(value: Any, *keys: str) -> Any:
    """The value under nested keys; None if one of them is missing."""
    for key in keys:
        value = mapping_of(value).get(key)
    return value


_SURROGATES = re.compile("[\ud800-\udfff]")


def join_surrogates(text: str) -> str:
    """Joins surrogate pairs into their character, and replaces lone ones."""
    if not _SURROGATES.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def join_surrogates_in(value: Any) -> Any:
    """The JSON value with `join_surrogates` applied to each of its strings."""
    text = json.dumps(value, ensure_ascii=False)
    return json.loads(join_surrogates(text)) if _SURROGATES.search(text) else value


def is_whole_object(text: str) -> bool:
    """Whether an argument text is one JSON object, strictly (no NaN)."""
    try:
        return isinstance(json.loads(text, parse_constant=_refuse_constant), dict)
    except (ValueError, RecursionError):
        return False


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


_FINAL = "<|channel|>final<|message|>"
_BEGINNINGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<|channel|>analysis<|message|>": "<|end|>",
    "<|start|>assistant<|channel|>analysis<|message|>": "<|end|>",
    _FINAL: "",
    f"<|start|>assistant{_FINAL}": "",
}
"""What begins thoughts that a server leaves in the text → what ends them, or "" if it begins an
answer. Qwen, DeepSeek and others write the first, Gemini the third, gpt-oss the last four, in
OpenAI's harmony format."""


class ThoughtSplitter:
    """Splits streaming text into the thoughts that it begins with, and the answer."""

    def __init__(self) -> None:
        self.held = ""
        """Text that cannot be classified yet."""
        self.end = ""
        """The mark that ends the current thought; "" outside of one."""
        self._is_answer = self._has_begun = False

    def split(self, piece: str) -> Iterator[tuple[Kind, str]]:
        """Adds a piece; yields the kind and the text of all that can be classified now."""
        self.held += piece
        while self.held:
            if self._is_answer:
                yield "text", self.held
                self.held = ""
            elif self.end:
                thought, end, rest = self.held.partition(self.end)
                sizes = range(min(len(self.end), len(thought)), 0, -1)
                cut = next((n for n in sizes if not end and self.end.startswith(thought[-n:])), 0)
                yield "thinking", thought[: len(thought) - cut]
                self.held = rest if end else thought[len(thought) - cut :]
                self.end = "" if end else self.end
                if not end:
                    return
            else:
                text = self.held.lstrip()
                begun = next((begin for begin in _BEGINNINGS if text.startswith(begin)), "")
                if not begun and any(begin.startswith(text) for begin in _BEGINNINGS):
                    return
                self._has_begun = self._has_begun or bool(begun)
                self.held = text.removeprefix(begun) if self._has_begun else self.held
                self.end = _BEGINNINGS.get(begun, "")
                self._is_answer = not self.end
