"""Assembles and repairs a streaming reply from pieces of text, thinking and calls.

Shared by the wire providers, which feed it their events. It trusts nothing: pieces may come in any
order, ids may be empty or duplicate, names may come in parts or repeatedly. `finish` returns a
message only if the server said why it stopped.
"""

import json
import math
import re
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kode.errors import LARGER_WINDOW, ContextOverflow, RefusedError, TransientError
from kode.events import Emit, TextDelta, ThinkingDelta
from kode.messages import (
    Message,
    Part,
    ServerItem,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
    new_call_id,
)

MAX_CALLS = 128
"""Calls in one reply. A model that asks for more runs in circles."""

MAX_CHARS = 10_000_000
"""Total length of a reply's text, thinking and arguments."""

STOP_REASONS: Mapping[str, StopReason] = {
    "stop": "end",
    "end_turn": "end",
    "stop_sequence": "end",
    "pause_turn": "paused",
    "eos": "end",
    "eos_token": "end",
    "complete": "end",
    "completed": "end",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "content_filter": "refusal",
    "refusal": "refusal",
    "safety": "refusal",
    "recitation": "refusal",
    "prohibited_content": "refusal",
    "blocklist": "refusal",
}
"""Those of both wire formats and of servers that imitate them."""

WINDOW = 8_000  # 2,000 tokens: no honest text repeats itself for so long
LONGEST = 1_000
"""A text of this length has to come eight times in a row, a shorter one more often."""
STEP = 1_000
"""Checked again after this many characters."""

BROKEN_OFF = {"error", "abort", "aborted", "cancelled", "canceled", "insufficient_system_resource"}
"""Stop reasons of a server for an incomplete reply."""


@dataclass
class DraftText:
    pieces: list[str] = field(default_factory=list)
    own: dict[str, Any] | None = None
    """Here and below: the provider's own form, when it is complete. See `messages.Own`."""


@dataclass
class DraftThinking:
    pieces: list[str] = field(default_factory=list)
    signature: str = ""
    redacted: str = ""
    own: dict[str, Any] | None = None


@dataclass
class DraftItem:
    """What kode has no word for; see `messages.ServerItem`."""

    own: dict[str, Any] | None = None
    text: str = ""


@dataclass
class DraftCall:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    own: dict[str, Any] | None = None
    """Dropped where kode has to repair the call's id, as `ToolCall` does for its name."""

    def add_name(self, piece: str) -> None:
        """Adds to the name, which comes in full, in pieces, growing, or again with every chunk."""
        if not piece or piece == self.name:
            return
        if not self.name or piece.startswith(self.name):
            self.name = piece
        elif not self.arguments:
            self.name += piece

    @property
    def text(self) -> str:
        return "".join(self.arguments)


Block = DraftText | DraftThinking | DraftCall | DraftItem


class Draft:
    """What has arrived of a reply. `origin` is that of its message; `emit` gets every piece.
    `splits_thoughts`: whether its text may begin with thoughts that the server did not parse."""

    def __init__(self, origin: str, emit: Emit, *, splits_thoughts: bool = False) -> None:
        self.origin = origin
        self.emit = emit
        self.splits_thoughts = splits_thoughts
        self._splitters: dict[Hashable, ThoughtSplitter] = {}
        self.blocks: dict[Hashable, Block] = {}
        self.stop = ""
        """The server's stop reason; "" before it sends one."""
        self.continues_after_stop = False
        self.done = False
        """Whether the stream's own end mark arrived."""
        self.refused = False
        self.chars = 0
        self.calls = 0
        self.usage: dict[str, int] = {}
        self._held: dict[Hashable, str] = {}
        self._redirected: dict[Hashable, DraftCall] = {}
        self._repetition = Repetition()

    # ── what arrives ─────────────────────────────────────────────────────────────────────────

    def add_text(self, key: Hashable, piece: Any) -> None:
        if isinstance(piece, str) and piece and (whole := self._join(("text", key), piece)):
            self.count(whole)
            if not self.splits_thoughts:
                return self._add_answer(key, whole)
            for is_thought, text in self._splitters.setdefault(key, ThoughtSplitter()).split(whole):
                self._add_split(key, text, is_thought=is_thought)

    def _add_split(self, key: Hashable, text: str, *, is_thought: bool) -> None:
        if is_thought and text:
            self.thinking(key).pieces.append(text)
            self.emit(ThinkingDelta(text=text))
        elif text:
            self._add_answer(key, text)

    def _add_answer(self, key: Hashable, text: str) -> None:
        self.text(key).pieces.append(text)
        self.emit(TextDelta(text=text))

    def refuse(self, key: Hashable, piece: Any) -> None:
        """Handles a refusal in words: they become the text, and the reply stops as a refusal."""
        if isinstance(piece, str) and piece:
            self.refused = True
            self.add_text(key, piece)

    def begin_thinking(self, key: Hashable) -> None:
        """Notes that the model thinks: a person should know, even if nothing of it is shown."""
        if ("thinking", key) not in self.blocks:
            self.blocks["thinking", key] = DraftThinking()
            self.emit(ThinkingDelta(text=""))

    def add_thinking(self, key: Hashable, piece: Any) -> None:
        if isinstance(piece, str) and piece and (whole := self._join(("thinking", key), piece)):
            self.thinking(key).pieces.append(whole)
            self.count(whole)
            self.emit(ThinkingDelta(text=whole))

    def sign_thinking(self, key: Hashable, *, signature: Any = "", redacted: Any = "") -> None:
        block = self.thinking(key)
        for piece in (signature, redacted):
            self.count(piece if isinstance(piece, str) else "")
        block.signature += signature if isinstance(signature, str) else ""
        block.redacted += redacted if isinstance(redacted, str) else ""

    def text(self, key: Hashable) -> DraftText:
        """The text under a key; here and below: created on first use."""
        block = self.blocks.setdefault(("text", key), DraftText())
        assert isinstance(block, DraftText)
        return block

    def thinking(self, key: Hashable) -> DraftThinking:
        block = self.blocks.setdefault(("thinking", key), DraftThinking())
        assert isinstance(block, DraftThinking)
        return block

    def block(self, kind: str, key: Hashable) -> Block | None:
        """What has arrived as `text`, `thinking`, `call` or `item` under a key."""
        if kind == "call" and key in self._redirected:
            return self._redirected[key]
        return self.blocks.get((kind, key))

    def item(self, key: Hashable) -> DraftItem:
        """What kode has no word for."""
        block = self.blocks.setdefault(("item", key), DraftItem())
        assert isinstance(block, DraftItem)
        return block

    def call(self, key: Hashable) -> DraftCall:
        """Raises: RefusedError for more than `MAX_CALLS`."""
        block = self._redirected.get(key) or self.blocks.get(("call", key))
        if isinstance(block, DraftCall):
            return block
        if self.calls == MAX_CALLS:
            raise RefusedError(
                f"The model asked for more than {MAX_CALLS} tool calls in one reply, and none was "
                "run. Try again in other words, or with another model."
            )
        self.calls += 1
        fresh = DraftCall()
        self.blocks["call", key] = fresh
        return fresh

    def redirect(self, key: Hashable, call: DraftCall) -> None:
        """Assigns further pieces under a key to another call."""
        self._redirected[key] = call

    def add_arguments(self, call: DraftCall, piece: Any) -> None:
        """Adds a piece of argument text; some servers send the object instead."""
        if piece is None or piece == "":
            return
        if isinstance(piece, str):
            text = piece
        else:
            call.arguments.clear()
            text = json.dumps(piece, ensure_ascii=False)
        call.arguments.append(text)
        self.count(text)

    def stopped(self, reason: Any) -> None:
        """Records the server's stop reason; the last one counts."""
        if isinstance(reason, str) and reason:
            self.stop = reason
            self.continues_after_stop = False

    def count_usage(self, **counts: Any) -> None:
        """Sets tokens by the names of `Usage`; later figures replace earlier ones, field by
        field."""
        for name, value in counts.items():
            tokens = _tokens(value)
            if tokens is not None:
                self.usage[name] = tokens

    @property
    def complete(self) -> bool:
        """Whether the reply may end here: a stop reason with nothing after it."""
        return bool(self.stop) and not self.continues_after_stop

    # ── what becomes of it ───────────────────────────────────────────────────────────────────

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
            self._add_split(key, splitter.held, is_thought=bool(splitter.end))
        calls = [block for block in self.blocks.values() if isinstance(block, DraftCall)]
        stop = self._stop_reason(bool(calls))
        parts = self._parts(stop, set(used_ids))
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
            usage=self._usage(),
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

    def _parts(self, stop: StopReason, used_ids: set[str]) -> tuple[Part, ...]:
        parts: list[Part] = []
        for key, block in self.blocks.items():
            held = "\ufffd" if key in self._held else ""
            match block:
                case DraftText():
                    text = "".join(block.pieces) + held
                    parts.extend([Text(text=text, own=block.own)] if text or block.own else [])
                case DraftThinking():
                    text = "".join(block.pieces) + held
                    thinking = Thinking(
                        text=text,
                        signature=block.signature,
                        redacted=block.redacted,
                        own=block.own,
                    )
                    has_content = text or block.signature or block.redacted or block.own
                    parts.extend([thinking] if has_content else [])
                case DraftItem():
                    item = ServerItem(own=block.own or {}, text=block.text)
                    parts.extend([item] if block.own else [])
                case DraftCall():
                    call_id = block.id if block.id and block.id not in used_ids else new_call_id()
                    used_ids.add(call_id)
                    # Empty arguments mean none, unless the token limit cut them off.
                    arguments = block.text or ("" if stop == "length" else "{}")
                    parts.append(
                        ToolCall(
                            id=call_id,
                            name=block.name,
                            arguments=join_surrogates(arguments),
                            own=block.own if call_id == block.id else None,
                        )
                    )
        return tuple(parts)

    def _usage(self) -> Usage | None:
        if not self.usage:
            return None
        input_tokens = self.usage.get("input_tokens", 0)
        cached = min(self.usage.get("cached_tokens", 0), input_tokens)
        written = min(self.usage.get("cache_write_tokens", 0), input_tokens - cached)
        return Usage(
            input_tokens=input_tokens,
            output_tokens=self.usage.get("output_tokens", 0),
            cached_tokens=cached,
            cache_write_tokens=written,
            hour_write_tokens=min(self.usage.get("hour_write_tokens", 0), written),
            thinking_tokens=min(
                self.usage.get("thinking_tokens", 0), self.usage.get("output_tokens", 0)
            ),
        )

    def count(self, piece: str) -> None:
        """Notes that something has arrived. Raises: RefusedError for a reply without an end."""
        self.continues_after_stop = self.continues_after_stop or bool(piece)
        self._repetition.add(piece)
        self.grow(len(piece))

    def grow(self, chars: int) -> None:
        """Counts what is kept of the reply.

        Raises: RefusedError beyond `MAX_CHARS`.
        """
        self.chars += chars
        if self.chars > MAX_CHARS:
            raise RefusedError(
                f"The reply grew beyond {MAX_CHARS // 1_000_000} million characters and was ended. "
                "Ask for less at a time, or use another model."
            )

    def _join(self, key: Hashable, piece: str) -> str:
        """The piece without lone surrogates: the first half of a pair split between two chunks
        waits for the second; a half that stays alone is replaced."""
        piece = self._held.pop(key, "") + piece
        if not _SURROGATES.search(piece):
            return piece
        if "\ud800" <= piece[-1] <= "\udbff":
            self._held[key] = piece[-1]
            piece = piece[:-1]
        return join_surrogates(piece)


_SURROGATES = re.compile("[\ud800-\udfff]")


def join_surrogates(text: str) -> str:
    """Joins surrogate pairs into their character, and replaces lone ones."""
    if not _SURROGATES.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def is_whole_object(text: str) -> bool:
    """Whether an argument text is one JSON object, strictly (no NaN)."""
    try:
        return isinstance(json.loads(text, parse_constant=_no_constant), dict)
    except (ValueError, RecursionError):
        return False


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _tokens(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not math.isfinite(value) or value < 0:
        return None
    return int(value)


# ── thoughts ─────────────────────────────────────────────────────────────────────────────────

_FINAL = "<|channel|>final<|message|>"
_BEGINNINGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<|channel|>analysis<|message|>": "<|end|>",
    "<|start|>assistant<|channel|>analysis<|message|>": "<|end|>",
    _FINAL: "",
    f"<|start|>assistant{_FINAL}": "",
}
"""What thoughts begin with where a server leaves them in the text, and what ends them; "": an
answer begins. Qwen, DeepSeek and others write the first, gpt-oss the last, in OpenAI's harmony."""


class ThoughtSplitter:
    """Splits a text as it streams into the thoughts that it begins with, and the answer."""

    def __init__(self) -> None:
        self.held = ""
        """What cannot be told yet."""
        self.end = ""
        """What ends the present thought; "" outside of one."""
        self._is_answer = self._has_begun = False

    def split(self, piece: str) -> Iterator[tuple[bool, str]]:
        """Whether it is a thought, and the text, of all that can be told with another piece."""
        self.held += piece
        while self.held:
            if self._is_answer:
                yield False, self.held
                self.held = ""
            elif self.end:
                thought, end, rest = self.held.partition(self.end)
                sizes = range(min(len(self.end), len(thought)), 0, -1)
                cut = next((n for n in sizes if not end and self.end.startswith(thought[-n:])), 0)
                yield True, thought[: len(thought) - cut]
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


# ── loops ────────────────────────────────────────────────────────────────────────────────────


class Repetition:
    """Watches a reply as it arrives: small models fall into loops until a limit ends them. Only the
    form counts: the last `WINDOW` characters repeat one text of at most `LONGEST` characters, which
    is far beyond the rules, tables and blank lines of ordinary text."""

    def __init__(self) -> None:
        self._end = ""
        self._new: list[str] = []
        self._new_chars = 0

    def add(self, piece: str) -> None:
        """Adds a piece. Raises: RefusedError once the reply repeats itself."""
        self._new.append(piece)
        self._new_chars += len(piece)
        if self._new_chars < STEP:
            return
        self._end = (self._end + "".join(self._new))[-WINDOW:]
        self._new.clear()
        self._new_chars = 0
        unit = find_repetition(self._end) if len(self._end) == WINDOW else ""
        if unit:
            raise RefusedError(
                f"The model repeated itself (the same {len(unit)} characters for {WINDOW} in a "
                "row), and the reply was ended. Ask in other words or for less; where the server "
                "is yours, set a repeat penalty there or use a larger model."
            )


def find_repetition(text: str) -> str:
    """The shortest text of at most `LONGEST` characters of which `text` is repetitions, the first
    possibly cut; "" if there is none."""
    last = text[-LONGEST:]
    before = text.rfind(last, 0, len(text) - 1)
    length = len(text) - len(last) - before
    if before < 0 or length > LONGEST or text[length:] != text[:-length]:
        return ""
    return text[-length:]
