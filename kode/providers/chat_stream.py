"""Replies of Chat Completions: what OpenAI and the servers that imitate it send."""

from collections.abc import Mapping, Sequence
from typing import Any

from kode.providers.draft import (
    Draft,
    DraftPart,
    Kind,
    is_whole_object,
    join_surrogates,
    join_surrogates_in,
    list_of,
    mapping_of,
    pick,
)
from kode.providers.errors import Endpoint, status_error
from kode.providers.stream import StreamEvent
from kode.registry import Dialect

KNOWN = frozenset(
    "role content refusal tool_calls function_call audio annotations reasoning_details "
    "reasoning_content reasoning".split()
)
"""Fields of a message that kode reads or ignores; others are kept as unknown ones."""


class ReplyStream:
    """The state of one reply while it streams. `finish` completes the draft's own forms."""

    def __init__(self, draft: Draft, dialect: Dialect, endpoint: Endpoint) -> None:
        self.draft = draft
        self.dialect = dialect
        self.endpoint = endpoint
        self.calls = CallSorter(draft)
        self._fields: dict[str, Any] = {}
        """Fields of the message beside its text, pieces joined; True stands for the thinking."""
        self._parts: list[dict[str, Any]] = []
        """Content that came as a list of parts, pieces joined."""

    def read_event(self, event: StreamEvent) -> None:
        """Adds one event to the draft.

        Raises: ProviderError for an error object, which some servers send with HTTP 200.
        """
        data = event.data
        is_error = "error" in (event.name, data.get("object")) or data.get("error")
        if is_error or ("message" in data and "choices" not in data):
            raise status_error(None, data, {}, self.endpoint)
        choice = mapping_of(next(iter(list_of(data.get("choices"))), None))
        if choice.get("error"):
            raise status_error(None, {"error": choice["error"]}, {}, self.endpoint)
        self._take_delta(mapping_of(choice.get("delta")) or mapping_of(choice.get("message")))
        self.draft.note_stop(choice.get("finish_reason"))
        self._take_usage(choice.get("usage"))
        self._take_usage(data.get("usage"))

    def _take_delta(self, delta: Mapping[str, Any]) -> None:
        draft = self.draft
        # Some servers send the same thinking under several names.
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        details = list_of(delta.get("reasoning_details"))
        readable = [pick(each, "text") or pick(each, "summary") for each in details]
        shown = "".join(text for text in readable if isinstance(text, str))
        draft.add("thinking", "thinking", thought or shown)
        content = delta.get("content")
        for part in filter(None, map(mapping_of, list_of(content))):
            self._take_part(part)
        if self._parts and content and isinstance(content, str):
            self._take_part({"type": "text", "text": content})
        else:
            draft.add("text", "text", content)
        draft.refuse("text", delta.get("refusal"))
        self.calls.take(list_of(delta.get("tool_calls")))
        for name, value in delta.items():
            is_known = name in KNOWN and name not in self.dialect.thinks_in
            if value is None or is_known or pick(value, "google", "thought"):
                continue  # the last condition is Gemini's mark on a thought
            if name in ("reasoning_content", "reasoning"):
                if isinstance(value, str):
                    self._fields[name] = True
                continue
            draft.grow(len(repr(value)))
            if name == "reasoning_details":
                details = self._fields.setdefault(name, [])
                for piece in list_of(value):
                    add_piece(details, piece)
            else:
                self._fields[name] = merge_values(self._fields.get(name), value)

    def _take_part(self, part: Mapping[str, Any]) -> None:
        """Adds a part of content, which some servers send in place of text."""
        beside = {name: value for name, value in part.items() if name != "thinking"}
        add_piece(self._parts, beside)
        key = len(self._parts)
        if part.get("type") != "thinking":
            self.draft.add("text", key, part.get("text"))
            return
        thinking = part.get("thinking")
        if not isinstance(thinking, list):
            thinking = [{"type": "text", "text": thinking}]
        for piece in thinking:
            if pick(piece, "text") is not None:
                add_piece(self._parts[-1].setdefault("thinking", []), piece)
                self.draft.add("thinking", key, piece["text"])

    def _take_usage(self, usage: Any) -> None:
        usage = mapping_of(usage)
        cached = (
            pick(usage, "prompt_tokens_details", "cached_tokens"),
            usage.get("prompt_cache_hit_tokens"),
            usage.get("cached_tokens"),
        )
        self.draft.count_usage(
            input_tokens=usage.get("prompt_tokens"),
            output_tokens=usage.get("completion_tokens"),
            cached_tokens=next((value for value in cached if value is not None), None),
            cache_write_tokens=pick(usage, "prompt_tokens_details", "cache_write_tokens"),
            thinking_tokens=pick(usage, "completion_tokens_details", "reasoning_tokens"),
            total_tokens=usage.get("total_tokens"),
        )
        counts = self.draft.usage
        if usage and "total_tokens" in counts:  # some servers count thinking only there
            output = counts["total_tokens"] - counts.get("input_tokens", 0)
            thought = output - counts.get("output_tokens", 0)
            if thought > 0:
                self.draft.count_usage(output_tokens=output, thinking_tokens=thought)

    def finish(self) -> None:
        """Gives the draft's parts the form in which they came."""
        self.calls.finish()
        for index, content in enumerate(self._parts, start=1):
            kind: Kind = "thinking" if content.get("type") == "thinking" else "text"
            if (part := self.draft.find(kind, index)) is not None:
                # A form that says no more than the plain one is not kept.
                is_plain = tuple(content) == ("type", "text")
                part.own = None if is_plain else join_surrogates_in(content)
        if fields := self._fields_to_return():
            part = self.draft.part("thinking", "thinking")
            part.own = fields if fields != thinking_fields(part.text, self.dialect) else None

    def _fields_to_return(self) -> dict[str, Any]:
        """The fields that go back with the message."""
        fields = self._fields
        thinking = next((name for name in self.dialect.thinks_in if name in fields), "")
        returned: dict[str, Any] = {
            name: value
            for name, value in join_surrogates_in(fields).items()
            if name == thinking or (name not in KNOWN and self.dialect.is_open)
        }
        if returned.get(thinking) is True:
            returned[thinking] = self.draft.part("thinking", "thinking").text
        details = [each for each in returned.pop("reasoning_details", ()) if is_complete(each)]
        return returned | ({"reasoning_details": details} if details else {})


def thinking_fields(text: str, dialect: Dialect) -> dict[str, Any]:
    """The field in which thinking without an own form goes back as text; {} if there is none."""
    names = [name for name in dialect.thinks_in if name != "reasoning_details"]
    return {names[0]: text} if names and text else {}


_STREAMED = ("text", "summary", "data")
"""Strings that come in pieces."""


def add_piece(parts: list[Any], piece: Any) -> None:
    """Adds a streamed piece to a list of parts: it extends the last part if it continues that one,
    otherwise it begins another."""
    last = parts[-1] if parts else None
    if not isinstance(piece, Mapping) or not isinstance(last, dict) or not _continues(last, piece):
        parts.append(dict(piece) if isinstance(piece, Mapping) else piece)
        return
    for name, value in piece.items():
        before = last.get(name)
        if name in _STREAMED and isinstance(before, str) and isinstance(value, str):
            last[name] = before + value
        elif value not in (None, "") or name not in last:
            last[name] = value


def _continues(last: Mapping[str, Any], piece: Mapping[str, Any]) -> bool:
    """Whether a piece continues the part before it: the same type, and no other index or id."""
    if last.get("type") != piece.get("type"):
        return False
    if piece.get("type") == "reasoning.encrypted" and last.get("index") is None:
        return False  # opaque, and nothing says that they belong together
    pairs = [(last.get(name), piece.get(name)) for name in ("index", "id")]
    return all(a is None or b is None or a == b for a, b in pairs)


def is_complete(detail: Any) -> bool:
    """Whether a reasoning detail can go back: Anthropic does not take text without its signature,
    which a reply that was cut off lacks."""
    if pick(detail, "type") != "reasoning.text":
        return True
    return bool(detail.get("signature")) or detail.get("format") != "anthropic-claude-v1"


def merge_values(before: Any, value: Any) -> Any:
    """Adds another piece to the value of a field that kode does not know. A string that equals the
    one before is a repetition; any other continues it."""
    if before is None or value is None:
        return value if before is None else before
    if isinstance(before, str) and isinstance(value, str):
        return before if before == value else before + value
    if isinstance(before, list) and isinstance(value, list):
        return [*before, *value]
    if isinstance(before, Mapping) and isinstance(value, Mapping):
        inner = {name: merge_values(before.get(name), each) for name, each in value.items()}
        return {**before, **inner}
    return value


class CallSorter:
    """Assigns fragments to calls.

    By the format, the index decides. Servers break that rule: they send index 0 with different ids,
    no index, no id, a full call in one fragment, or its name again in each.
    """

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.at_index: dict[int, DraftPart] = {}
        self.last: DraftPart | None = None

    def take(self, fragments: Sequence[Any]) -> None:
        """Adds the fragments of one chunk, in order."""
        touched: list[DraftPart] = []
        for fragment in filter(None, map(mapping_of, fragments)):
            function = mapping_of(fragment.get("function")) or fragment
            name, arguments = function.get("name"), function.get("arguments")
            name = name if isinstance(name, str) else ""
            call = self.last = self._call_of(fragment, name, arguments, touched)
            call.add_name(name)
            self.draft.add_arguments(call, arguments)
            extras = _without_known(fragment)
            if "function" in extras:
                extras["function"] = _without_known(function)
            self.draft.grow(len(repr(extras)))
            call.own = merge_values(call.own, extras)
            touched.append(call)

    def finish(self) -> None:
        """Gives each complete call the form in which it came."""
        for call in (part for part in self.draft.parts.values() if part.kind == "call"):
            own = join_surrogates_in(call.own or {})
            whole = {"name": call.name, "arguments": join_surrogates(call.text)}
            function = {**whole, **mapping_of(own.get("function"))}
            is_kept = own not in ({}, {"function": {}}) and is_whole_object(call.text)
            own = {"id": call.id, "type": "function", **own, "function": function}
            call.own = own if is_kept else None

    def _call_of(
        self, fragment: Mapping[str, Any], name: str, arguments: Any, touched: list[DraftPart]
    ) -> DraftPart:
        index, call_id = fragment.get("index"), fragment.get("id")
        index = index if isinstance(index, int) and not isinstance(index, bool) else None
        call_id = call_id if isinstance(call_id, str) else ""
        call = self.last if index is None else self.at_index.get(index)
        is_other = call is None or bool(call_id and call.id and call_id != call.id)
        if call is not None and name and not is_other:
            # A name with the beginning of an object, after a complete object.
            begins = not isinstance(arguments, str) or arguments.lstrip().startswith("{")
            is_next = arguments is not None and begins and is_whole_object(call.text)
            is_other = is_next or any(call is other for other in touched)
        if call is None or is_other:
            call = self.draft.part("call", self.draft.calls)
            if index is not None:
                self.at_index[index] = call
        call.id = call.id or call_id
        return call


def _without_known(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a fragment, or of its function, that kode does not know."""
    names = ("index", "id", "type", "name", "arguments")
    return {name: value for name, value in fields.items() if name not in names}
