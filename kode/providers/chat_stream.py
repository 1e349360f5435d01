"""Replies of Chat Completions: what OpenAI and the servers that imitate it send."""

from collections.abc import Mapping, Sequence
from typing import Any

from kode.providers.draft import (
    Draft,
    DraftCall,
    is_whole_object,
    join_surrogates,
)
from kode.providers.errors import Endpoint, from_status
from kode.providers.stream import Event
from kode.registry import Dialect

KNOWN = frozenset(
    "role content refusal tool_calls function_call audio annotations reasoning_details "
    "reasoning_content reasoning".split()
)
"""Fields of a message that are not kept as unknown."""

THOUGHT, END_OF_THOUGHT = "<thought>", "</thought>"
"""Around what Gemini thought, within the text."""


class ReplyStream:
    """The state of one reply while it streams. `finish` completes the draft's own forms."""

    def __init__(self, draft: Draft, dialect: Dialect, endpoint: Endpoint) -> None:
        self.draft = draft
        self.dialect = dialect
        self.endpoint = endpoint
        self.calls = CallSorter(draft)
        self._fields: dict[str, Any] = {}
        """Fields of the message beside its text, pieces joined."""
        self._parts: list[dict[str, Any]] = []
        """Content that came as a list of parts, pieces joined."""
        self._annotations: list[Any] = []

    # ── what arrives ─────────────────────────────────────────────────────────────────────────

    def read_event(self, event: Event) -> None:
        """Adds one event to the draft.

        Raises: ProviderError for an error object, which some servers send with HTTP 200.
        """
        data = event.data
        if data.get("error") or event.name == "error":
            raise from_status(None, data, {}, self.endpoint)
        if data.get("object") == "error" or ("message" in data and "choices" not in data):
            raise from_status(None, data, {}, self.endpoint)
        choices = data.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if isinstance(choice, Mapping):
            if choice.get("error"):
                raise from_status(None, {"error": choice["error"]}, {}, self.endpoint)
            self._take_choice(choice)
            self._take_usage(choice.get("usage"))
        self._take_usage(data.get("usage"))

    def _take_choice(self, choice: Mapping[str, Any]) -> None:
        delta = choice.get("delta")
        if not isinstance(delta, Mapping) or not delta:
            delta = choice.get("message")
        if isinstance(delta, Mapping):
            self._take_delta(delta)
        self.draft.stopped(choice.get("finish_reason"))

    def _take_delta(self, delta: Mapping[str, Any]) -> None:
        draft = self.draft
        # Some servers send the same thinking under several names.
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        draft.add_thinking("thinking", thought or _readable(delta.get("reasoning_details")))
        self._take_content(delta.get("content"), is_thought=_is_thought(delta))
        draft.refuse("text", delta.get("refusal"))
        fragments = delta.get("tool_calls")
        if isinstance(fragments, list):
            self.calls.take(fragments)
        if isinstance(delta.get("function_call"), Mapping):
            self.calls.take([{"index": 0, "function": delta["function_call"]}])
        if isinstance(delta.get("annotations"), list):
            draft.grow(len(repr(delta["annotations"])))
            self._annotations += delta["annotations"]
        for name, value in _without_flag(delta).items():
            if value is not None and (name not in KNOWN or name in self.dialect.thinks_in):
                self._take_field(name, value)

    def _take_field(self, name: str, value: Any) -> None:
        if name in ("reasoning_content", "reasoning"):
            if isinstance(value, str):
                self._fields.setdefault(name, Pieces()).append(value)
            return
        self.draft.grow(len(repr(value)))
        if name == "reasoning_details":
            details = self._fields.setdefault(name, [])
            for piece in value if isinstance(value, list) else ():
                add_detail(details, piece)
        else:
            self._fields[name] = merge(self._fields.get(name), value)

    def _take_content(self, content: Any, *, is_thought: bool) -> None:
        """Adds content: text, or with some servers a list of parts."""
        if isinstance(content, list):
            for part in content:
                if isinstance(part, Mapping):
                    self._take_part(part)
        elif isinstance(content, str) and is_thought:
            thought, _, answer = content.removeprefix(THOUGHT).partition(END_OF_THOUGHT)
            self.draft.add_thinking("thinking", thought)
            self.draft.add_text("text", answer)
        elif isinstance(content, str) and self._parts and content:
            self._take_part({"type": "text", "text": content})
        elif isinstance(content, str):
            if self.dialect.switch == "google" and self.draft.block("text", "text") is None:
                content = content.removeprefix(END_OF_THOUGHT)
            self.draft.add_text("text", content)

    def _take_part(self, part: Mapping[str, Any]) -> None:
        if not self._parts or self._parts[-1].get("type") != part.get("type"):
            self._parts.append({})
        add_to_part(self._parts[-1], part)
        key = len(self._parts)
        if part.get("type") == "thinking":
            for piece in _pieces(part.get("thinking")):
                self.draft.add_thinking(key, piece.get("text"))
        else:
            self.draft.add_text(key, part.get("text"))

    def _take_usage(self, usage: Any) -> None:
        if not isinstance(usage, Mapping):
            return
        details, answer = _details(usage, "prompt"), _details(usage, "completion")
        cached = (
            details.get("cached_tokens"),
            usage.get("prompt_cache_hit_tokens"),
            usage.get("cached_tokens"),
        )
        self.draft.count_usage(
            input_tokens=usage.get("prompt_tokens"),
            output_tokens=usage.get("completion_tokens"),
            cached_tokens=next((value for value in cached if value is not None), None),
            cache_write_tokens=details.get("cache_write_tokens"),
            thinking_tokens=answer.get("reasoning_tokens"),
            total_tokens=usage.get("total_tokens"),
        )
        counts = self.draft.usage
        if self.dialect.counts_thinking_apart and "total_tokens" in counts:
            output = counts["total_tokens"] - counts.get("input_tokens", 0)
            thought = output - counts.get("output_tokens", 0)
            if thought > 0:
                self.draft.count_usage(output_tokens=output, thinking_tokens=thought)

    # ── what is complete ─────────────────────────────────────────────────────────────────────

    def finish(self) -> None:
        """Gives the draft's blocks the form in which they came."""
        self.calls.finish()
        for index, part in enumerate(self._parts, start=1):
            kind = "thinking" if part.get("type") == "thinking" else "text"
            if (block := self.draft.block(kind, index)) is not None:
                block.own = join_all(part)
        if fields := self._fields_to_return():
            self.draft.thinking("thinking").own = fields
        if self._annotations:
            item = self.draft.item("annotations")
            item.own = {"annotations": join_all(self._annotations)}
            item.text = "\n".join(map(_citation, self._annotations)).strip()

    def _fields_to_return(self) -> dict[str, Any]:
        """The fields that go back with the message."""
        fields = self._fields
        thinking = next((name for name in self.dialect.thinks_in if name in fields), "")
        returned = {
            name: join_all(value)
            for name, value in fields.items()
            if name == thinking or (name not in KNOWN and self.dialect.is_open)
        }
        if details := returned.get("reasoning_details"):
            returned["reasoning_details"] = [each for each in details if is_complete(each)]
            if not returned["reasoning_details"]:
                del returned["reasoning_details"]
        return returned


def _is_thought(delta: Mapping[str, Any]) -> bool:
    """Whether a piece of content is what Gemini thought."""
    extra = delta.get("extra_content")
    google = extra.get("google") if isinstance(extra, Mapping) else None
    return isinstance(google, Mapping) and google.get("thought") is True


def _without_flag(delta: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of the message, without what Gemini says of this piece alone."""
    if not _is_thought(delta):
        return delta
    extra = delta["extra_content"]
    google = {name: value for name, value in extra["google"].items() if name != "thought"}
    others = {name: value for name, value in extra.items() if name != "google"}
    extra = {**others, **({"google": google} if google else {})}
    return {**delta, "extra_content": extra or None}


def _details(usage: Mapping[str, Any], of: str) -> Mapping[str, Any]:
    details = usage.get(f"{of}_tokens_details")
    return details if isinstance(details, Mapping) else {}


def _citation(annotation: Any) -> str:
    """The title and the address of a page that the answer cites."""
    page = annotation.get("url_citation") if isinstance(annotation, Mapping) else None
    if not isinstance(page, Mapping):
        return ""
    return " ".join(str(page[name]) for name in ("title", "url") if page.get(name))


# ── pieces ───────────────────────────────────────────────────────────────────────────────────


class Pieces(list[str]):
    """A string that comes in pieces; `join_all` joins them."""


def _append(before: Any, piece: Any) -> Any:
    """A string with a further piece of it; the piece if one of them is none."""
    if not isinstance(before, str | Pieces) or not isinstance(piece, str):
        return piece
    pieces = before if isinstance(before, Pieces) else Pieces([before])
    pieces.append(piece)
    return pieces


_STREAMED = ("text", "summary", "data")
"""Strings of a reasoning detail that come in pieces."""


def add_detail(details: list[Any], piece: Any) -> None:
    """Adds a streamed piece of `reasoning_details`: it goes on with the last detail if it is of the
    same type, index and id; its other fields are those of the detail."""
    last = details[-1] if details else None
    if not isinstance(piece, Mapping) or not isinstance(last, dict) or not _continues(last, piece):
        details.append(dict(piece) if isinstance(piece, Mapping) else piece)
        return
    for name, value in piece.items():
        before = last.get(name)
        if name in _STREAMED and value is not None:
            last[name] = _append(before, value)
        elif before is None or before == "":
            last[name] = value


def _continues(last: Mapping[str, Any], piece: Mapping[str, Any]) -> bool:
    if last.get("type") != piece.get("type"):
        return False
    if piece.get("type") == "reasoning.encrypted" and last.get("index") is None:
        return False  # opaque, and nothing says that they belong together
    pairs = [(last.get(name), piece.get(name)) for name in ("index", "id")]
    return all(a is None or b is None or a == b for a, b in pairs)


def is_complete(detail: Any) -> bool:
    """Whether a reasoning detail can go back: Anthropic does not take text without its signature,
    which a reply that was cut off lacks."""
    if not isinstance(detail, Mapping) or detail.get("type") != "reasoning.text":
        return True
    return bool(detail.get("signature")) or detail.get("format") != "anthropic-claude-v1"


def _readable(details: Any) -> str:
    """What a person can read of reasoning details."""
    entries = details if isinstance(details, list) else ()
    texts = (d.get("text") or d.get("summary") for d in entries if isinstance(d, Mapping))
    return "".join(text for text in texts if isinstance(text, str))


def add_to_part(part: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Adds a streamed piece of a content part."""
    for name, value in piece.items():
        before = part.get(name)
        if name == "thinking":
            part[name] = _join_texts([*_pieces(before), *_pieces(value)])
        elif name == "text" and value is not None:
            part[name] = _append(before, value)
        elif value is not None or name not in part:
            part[name] = value


def _pieces(thinking: Any) -> list[dict[str, Any]]:
    """The texts of a thinking part: a list of them, or one."""
    pieces = thinking if isinstance(thinking, list) else [{"type": "text", "text": thinking}]
    return [piece for piece in pieces if isinstance(piece, dict) and piece.get("text") is not None]


def _join_texts(pieces: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Consecutive pieces of text as one."""
    texts: list[dict[str, Any]] = []
    for piece in pieces:
        if texts and {**texts[-1], "text": ""} == {**piece, "text": ""}:
            texts[-1]["text"] = _append(texts[-1]["text"], piece["text"])
        else:
            texts.append(dict(piece))
    return texts


def merge(before: Any, value: Any) -> Any:
    """A value of a field that kode does not know, with another piece of it. A string that comes
    again is the same; others are pieces."""
    if before is None:
        return value
    if isinstance(before, str) and isinstance(value, str):
        return before if before == value else before + value
    if isinstance(before, list) and isinstance(value, list):
        return [*before, *value]
    if isinstance(before, Mapping) and isinstance(value, Mapping):
        inner = {name: merge(before.get(name), each) for name, each in value.items()}
        return {**before, **inner}
    return value


def join_all(value: Any) -> Any:
    """The value with pieces joined, and surrogate pairs that were split between chunks."""
    if isinstance(value, Pieces):
        return join_surrogates("".join(value))
    if isinstance(value, str):
        return join_surrogates(value)
    if isinstance(value, Mapping):
        return {join_surrogates(str(name)): join_all(each) for name, each in value.items()}
    return [join_all(each) for each in value] if isinstance(value, list) else value


# ── calls ────────────────────────────────────────────────────────────────────────────────────


class CallSorter:
    """Assigns fragments to calls.

    The format's rule is the index. Servers break it: index 0 for all with different ids, no index,
    no id, the full call in one fragment or its name again in each.
    """

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.at_index: dict[int, DraftCall] = {}
        self.last: DraftCall | None = None
        self.came: list[tuple[DraftCall, dict[str, Any]]] = []
        """Each call with its fields as they came, without the pieces of its arguments."""

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
            self._keep(call, fragment)
            touched.append(call)
            self.last = call

    def finish(self) -> None:
        """Gives each complete call the form in which it came."""
        for call, came in self.came:
            if not is_whole_object(call.text):
                continue
            function = {**came.get("function", {}), "name": call.name, "arguments": call.text}
            own = {"id": call.id, "type": "function", **came, "function": function}
            call.own = {name: join_all(value) for name, value in own.items()}

    def _keep(self, call: DraftCall, fragment: Mapping[str, Any]) -> None:
        came = next((fields for other, fields in self.came if other is call), None)
        if came is None:
            came = {}
            self.came.append((call, came))
        for name, value in fragment.items():
            if name == "function" and isinstance(value, Mapping):
                came[name] = _function(came.get(name), value)
            elif name == "type" and isinstance(value, str):
                came[name] = value
            elif name not in _NOT_OF_A_CALL and value is not None:
                self.draft.grow(len(repr(value)))
                came[name] = merge(came.get(name), value)

    def _call_of(
        self, fragment: Mapping[str, Any], name: str, arguments: Any, touched: list[DraftCall]
    ) -> DraftCall:
        index = fragment.get("index")
        index = index if isinstance(index, int) and not isinstance(index, bool) else None
        call_id = fragment.get("id")
        call_id = call_id if isinstance(call_id, str) else ""
        call = self.last if index is None else self.at_index.get(index)
        if call is None or self._begins_another(call, call_id, name, arguments, touched):
            call = self.draft.call(self.draft.calls)
            if index is not None:
                self.at_index[index] = call
        if call_id and not call.id:
            call.id = call_id
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


_NOT_OF_A_CALL = ("index", "id", "type", "name", "arguments", "function")
"""Fields of a fragment that are not kept as unknown."""


def _function(before: Any, piece: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a call's function; name and arguments, which the draft joins, as places."""
    function = dict(before) if isinstance(before, dict) else {}
    for name, value in piece.items():
        if name in ("name", "arguments"):
            function.setdefault(name, "")
        elif value is not None:
            function[name] = merge(function.get(name), value)
    return function
