"""Reads tool calls that a model wrote as text because its server did not parse them.

Servers of local models parse calls by the model's template. If the template is not used, or the
model strays from it, the calls arrive as the text of the reply. Text is read as calls if it holds
nothing else, or only one short paragraph before calls in a template's markup. A call is JSON with a
tool and its arguments, a tool's name before an object, or a tag or element around elements for the
arguments; special tokens, tags about tools, and fences may surround it.

A call must name a tool of the request; the model learns of wrong arguments when the call runs. A
call that is followed by words, or quoted from memory, a person or a tool, stays text and is not
run. A reply that begins like a call but cannot be read, or has a call after other short text, gets
the stop `malformed_call`: the model is asked again, and a call that ends its next reply is run
whatever short text precedes it.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from kode import broken_json
from kode.messages import Message, Part, Text, ToolCall, ToolResult, calls_of
from kode.provider import Request, ToolSpec
from kode.providers.draft import MAX_CALLS, new_call_id
from kode.values import dataclass, replace

MAX_LEAD_CHARS = 300
"""A paragraph that introduces a call is short; a longer one explains."""
MAX_TEXT_CHARS = 400_000  # longer than any reply

NAME_KEYS = ("name", "tool", "tool_name", "function", "action")
ARGUMENT_KEYS = ("arguments", "parameters", "input", "args", "params", "action_input")
_LABELS = {"id", "type", "index", "call_id", "tool_call_id", "role", "content"}
_WRAPPERS = {"tool_call", "tool_calls", "function_call", "function_calls"}

_TOKEN = r"<[|｜][^<>\n]{1,60}[|｜]>"
_TAG = (
    rf"{_TOKEN}|</[A-Za-z_|｜][^<>\n]{{0,60}}(?:>|\Z)|\[/?[A-Z][A-Z_]{{2,30}}\]"
    r"|<(?:[|｜]\w+[|｜])?(?!\w*_(?:response|result|output))[\w:]*(?:tool|function|call|invoke|action)[^<>\n]{0,120}>"
)
"""What templates put around a call. Other elements hold other things, such as a tool's output."""
_FENCE = r"(?m:^[ \t]*(?:```|~~~)[^\s`]*[ \t]*$)|```+\w*"
_MARKUP = re.compile(rf"{_FENCE}|[\s,;`}}\]]|{_TAG}")
"""Includes closing brackets, since many calls end with one too many."""
_MARK = re.compile(_TAG)
_NAME = re.compile(r"[>*`]*(?:functions?\.)?([A-Za-z_][\w.-]*)(?::\d+)?[*`]*")
_HEAD = re.compile(rf"(?:[\w.:=-]++|\s++|{_TAG}|{_FENCE}){{1,20}}?(?=\{{)")
"""What templates put between a special token and the arguments: the name, an id, a channel."""
_BEFORE_ARGUMENTS = re.compile(rf"(?:[\s:(]|{_FENCE}|{_TAG})*")
_NAMED_TAG = re.compile(r"<(?:\w+\s*=\s*|\w+\s+name\s*=\s*)?\"?([\w.-]+)\"?\s*>")
_ELEMENT = re.compile(
    r"\s*<(?:(parameter|param|arg)(?:\s*=\s*|\s+name\s*=\s*))?\"?([\w.-]+)\"?\s*>(.*?)"
    r"(</(?(1)\1|\2)>)",
    re.DOTALL,
)
_PAIR = re.compile(
    r"\s*<(arg)_key>(.*?)</arg_key>\s*<arg_value>(.*?)(</arg_value>)", re.DOTALL | re.IGNORECASE
)
_END_TAGS = re.compile(r"(?:\s*</[\w.:-]+>)*")
_BROKEN_CALL = re.compile(r"\s*([\[{]+)\s*\W?(\w+)\W?\s*:\s*\W?([\w.-]+)")
_BEGINNING = re.compile(r"^[ \t]*(?=[{\[]|```|~~~)", re.MULTILINE)
_LINE_NUMBER = re.compile(r"^(?:[^\s:]+:)?\d+[:\t]", re.MULTILINE)
"""What a tool puts in front of each line."""
_NOTATION = re.compile(r"\\+[nrt]?|[^\w{(<\\]+")
"""What differs between the same call in a file, in a string, in Python and in a comment."""


class _NoCallError(Exception):
    """A text does not have the form of a call."""


@dataclass(frozen=True)
class _WrittenCall:
    name: str
    arguments: Mapping[str, Any]
    text: str = ""


def read_written_calls(message: Message, request: Request) -> Message:
    """The message with its text replaced by the calls in it, or with the stop `malformed_call`; the
    message itself if its text is no call, if it has calls already, or if the request allows none.

    The first call keeps the replaced text in `ToolCall.written`.
    """
    text = "\n".join(part.text for part in message.parts if isinstance(part, Text))
    may_call = bool(request.tools) and request.answer_schema is None and not calls_of(message)
    if not may_call or message.stop not in ("end", "length") or len(text) > MAX_TEXT_CHARS:
        return message
    tools = {tool.name: tool for tool in request.tools}
    outside = (part for m in request.messages if m.role != "assistant" for part in m.parts)
    texts = (part.text for part in outside if isinstance(part, Text | ToolResult))

    @cache
    def squeeze_source() -> str:
        return _strip_notation("\0".join((request.system, *texts)))

    replies = [earlier for earlier in request.messages if earlier.role == "assistant"]
    was_asked = bool(replies) and replies[-1].stop == "malformed_call"
    is_malformed = False
    matches = (pattern.search(text) for pattern in (_MARK, _BEGINNING))
    for place in sorted({0, *(match.start() for match in matches if match)}):
        lead, written = text[:place].strip(), text[place:]
        calls: list[_WrittenCall] = []
        with suppress(_NoCallError, RecursionError):
            calls = _Reader(written, tools).read()
        if not calls or _is_quoted((written, *(call.text for call in calls)), squeeze_source):
            continue
        announces = _MARK.match(written) is not None and _is_paragraph(lead)
        if not lead or announces or (was_asked and len(lead) <= MAX_LEAD_CHARS):
            return _add_calls(message, text[:place], written, calls)
        is_malformed = len(lead) <= MAX_LEAD_CHARS and not lead.startswith("<")
    beginning = _BROKEN_CALL.match(text)
    if beginning is not None and beginning[2] in NAME_KEYS and beginning[3] in tools:
        is_malformed = broken_json.parse_value_at(text, beginning.start(1)) is None
    is_malformed = is_malformed or _MARK.match(text.lstrip()) is not None
    if is_malformed and message.stop == "end" and not _is_quoted((text,), squeeze_source):
        return replace(message, stop="malformed_call")
    return message


def _add_calls(message: Message, lead: str, written: str, calls: Sequence[_WrittenCall]) -> Message:
    parts: list[Part] = [part for part in message.parts if not isinstance(part, Text)]
    parts += [Text(text=lead)] if lead.strip() else []
    for number, call in enumerate(calls):
        # Escapes may have created lone surrogates, which no server takes.
        arguments = json.dumps(call.arguments, ensure_ascii=False).encode("utf-8", "replace")
        id, text, source = new_call_id(), arguments.decode(), "" if number else written
        parts.append(ToolCall(id=id, name=call.name, arguments=text, written=source))
    stop = "tool_calls" if message.stop == "end" else message.stop
    return replace(message, parts=tuple(parts), stop=stop)


def _is_paragraph(words: str) -> bool:
    """Whether text before a call is one short, whole paragraph; a colon announces a quotation."""
    is_whole = words.endswith((".", "!", "…", "。", "</think>"))
    return is_whole and len(words) <= MAX_LEAD_CHARS and "\n\n" not in words


def _is_quoted(texts: Iterable[str], squeeze_source: Callable[[], str]) -> bool:
    """Whether the source contains one of the texts that have a bracket, in any notation."""
    forms = [_strip_notation(text) for text in texts if re.search(r"[{(<]", text)]
    return any(form in squeeze_source() for form in forms)


def _strip_notation(text: str) -> str:
    from html import unescape

    return _NOTATION.sub("", _LINE_NUMBER.sub("", unescape(text)))


class _Reader:
    """Parses a text that consists of calls from start to end."""

    def __init__(self, text: str, tools: Mapping[str, ToolSpec]) -> None:
        self.text, self.tools = text, tools
        self.pos = 0
        self.is_marked = False
        """Whether the last markup skipped, except white space, was a template's token or tag."""

    def read(self) -> list[_WrittenCall]:
        """Returns the calls, at least one. Raises: _NoCallError if the text holds anything else."""
        calls: list[_WrittenCall] = []
        while not self._skip_markup():
            begin = self.pos
            made = self._read_next()
            calls += (replace(call, text=self.text[begin : self.pos]) for call in made)
        if not calls or len(calls) > MAX_CALLS:
            raise _NoCallError
        return calls

    def _skip_markup(self) -> bool:
        """Skips markup up to the next possible call. Returns whether nothing else was left."""
        while self.pos < len(self.text):
            markup = _MARKUP.match(self.text, self.pos)
            if markup is None or self._find_tool(_NAMED_TAG.match(self.text, self.pos)):
                return False
            self.pos = markup.end()
            if markup[0].strip(" \n\r\t,;"):
                self.is_marked = _MARK.match(markup[0]) is not None
        return True

    def _find_tool(self, match: re.Match[str] | None) -> ToolSpec | None:
        return self.tools.get(match[1]) if match else None

    def _read_next(self) -> list[_WrittenCall]:
        if self.text[self.pos] in '{["':
            value = self._read_value()
            is_text = isinstance(value, str)
            return _calls_in(broken_json.parse_value(value) if is_text else value, self.tools)
        tool, is_tag = self._read_tool()
        if elements := self._read_elements(tool):
            return [_fit_call(tool, elements)]
        between = _BEFORE_ARGUMENTS.match(self.text, self.pos)
        begin = between.end() if between else self.pos
        if self.text[begin : begin + 1] == "{":
            self.pos = begin
            arguments = self._read_value()
            self.pos += self.text[self.pos : self.pos + 1] == ")"
            return [_fit_call(tool, arguments)]
        if not (is_tag or self.is_marked) or "<" not in self.text[self.pos : begin]:
            raise _NoCallError  # no markup, or the text was cut after the name
        return [_fit_call(tool, {})]

    def _read_tool(self) -> tuple[ToolSpec, bool]:
        """Reads past a tool's name in a tag, before arguments, or between a template's token and
        them. Returns the tool, and whether a tag held the name. Raises: _NoCallError."""
        tag = _NAMED_TAG.match(self.text, self.pos)
        if (tool := self._find_tool(tag)) is not None and tag is not None:
            self.pos = tag.end()
            return tool, True
        head = _HEAD.match(self.text, self.pos) if self.is_marked else None
        words = re.findall(r"[\w-]+", _MARK.sub(" ", head[0])) if head else []
        names = {word for word in words if word in self.tools}
        if head and len(names) == 1:
            self.pos = head.end()
            return self.tools[names.pop()], False
        name = _NAME.match(self.text, self.pos)
        if (tool := self._find_tool(name)) is None or name is None:
            raise _NoCallError
        self.pos = name.end()
        return tool, False

    def _read_elements(self, tool: ToolSpec) -> dict[str, Any]:
        """Reads arguments given as elements: `<parameter=path>a.py</parameter>`,
        `<path>a.py</path>`, or pairs of key and value. Returns {} if there are none."""
        values: dict[str, Any] = {}
        properties = _properties(tool)
        while element := (_PAIR.match(self.text, self.pos) or _ELEMENT.match(self.text, self.pos)):
            key = element[2].strip()
            text = element[3].removeprefix("\n").removesuffix("\n")
            is_string = properties.get(key, {}).get("type") == "string"
            value = None if is_string else broken_json.parse_value(text)
            values[key] = text if value is None else value
            self.pos = element.end()
            ends = _END_TAGS.match(self.text, self.pos)
            if (properties and key not in properties) or (ends and element[4] in ends[0]):
                raise _NoCallError  # unknown, or the value itself holds such an element
        return values

    def _read_value(self) -> Any:
        """Reads the JSON value that begins here, even a slightly broken one."""
        value = broken_json.parse_value_at(self.text, self.pos)
        value = value or broken_json.parse_loosely_at(self.text, self.pos)
        if value is None:
            raise _NoCallError
        self.pos = value[1]
        return value[0]


def _calls_in(value: Any, tools: Mapping[str, ToolSpec]) -> list[_WrittenCall]:
    """The calls in a value that contains nothing else. Keys that are common in other data count
    only if everything else fits as well. Raises: _NoCallError."""
    if isinstance(value, list) and value:
        return [call for item in value for call in _calls_in(item, tools)]
    if not isinstance(value, dict):
        raise _NoCallError
    if len(content := value.keys() - _LABELS) == 1:
        inner = value[key := content.pop()]
        if key in _WRAPPERS or (key in NAME_KEYS and isinstance(inner, dict)):
            return _calls_in(inner, tools)
        if key in tools and len(value) == 1:
            return [_call_by_key(tools[key], inner)]
    return [_call_by_name(value, tools)]


def _call_by_name(value: Mapping[str, Any], tools: Mapping[str, ToolSpec]) -> _WrittenCall:
    """The call in an object that has a key for the tool and one for its arguments, or the arguments
    themselves beside the tool. Raises: _NoCallError."""
    key = next((key for key in NAME_KEYS if isinstance(value.get(key), str)), "")
    tool = tools.get(value.get(key, "").removeprefix("functions."))
    if tool is None:
        raise _NoCallError
    properties = _properties(tool)
    labels = {*_LABELS, *ARGUMENT_KEYS, *properties}
    before = list(value)[: list(value).index(key)]
    # A text before the name introduces the call, as a sentence before an object does.
    thoughts = {each for each in before if isinstance(value[each], str) and each not in labels}
    content = {k: v for k, v in value.items() if k != key and k not in thoughts}
    flat = {k: v for k, v in content.items() if k not in _LABELS or k in properties}
    if flat.keys() <= properties.keys() and (flat or not properties):
        return _fit_call(tool, flat)
    keys = [each for each in ARGUMENT_KEYS if each in content]
    if len(keys) != 1 or content.keys() - {*keys, *_LABELS}:
        raise _NoCallError
    arguments = content[keys[0]]
    while isinstance(arguments, str):
        arguments = broken_json.parse_value(arguments)
    return _fit_call(tool, arguments)


def _call_by_key(tool: ToolSpec, value: Any) -> _WrittenCall:
    """The call in an object whose only key is the tool's name. Much other data looks like that, so
    each argument must be one of the tool's; a list may stand for the only required argument."""
    required = tool.parameters.get("required", [])
    if isinstance(value, list) and len(required) == 1:
        value = {required[0]: value}
    if not isinstance(value, dict) or not value or value.keys() - _properties(tool).keys():
        raise _NoCallError
    return _fit_call(tool, value)


def _fit_call(tool: ToolSpec, arguments: Any) -> _WrittenCall:
    """The call, if its arguments are an object, and not the schema that describes the tool. The
    model learns of other faults in them when the call runs. Raises: _NoCallError."""
    is_schema = isinstance(arguments, dict) and "properties" in arguments
    if not isinstance(arguments, dict) or (is_schema and "properties" not in _properties(tool)):
        raise _NoCallError
    return _WrittenCall(tool.name, arguments)


def _properties(tool: ToolSpec) -> Mapping[str, Any]:
    """The schemas of a tool's arguments by name."""
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    return properties
