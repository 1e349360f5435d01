"""Reads tool calls that a model wrote as text because its server did not parse them.

Servers of local models parse calls by the model's template. If the template is not used, or the
model strays from it, the call arrives as the answer. A reply is calls if they are all of it, or
follow one short paragraph in a template's markup. A call is JSON with a tool and its arguments, a
name in front of an object, an element or a tag with elements in it, or Python's notation; around it
are special tokens, tags about tools, and fences.

It must name a tool of the request and have every required argument. One that is followed by words,
or quoted from memory, a person or a tool, is shown, not made. A reply that looks like a call and
cannot be one gets the stop `malformed_call`, and so does a call that may as well be shown: after
words in Markdown, or as in the model's own earlier answer. The model, which knows, is asked, and a
call at the end of its next reply is made whatever words introduce it.
"""

import ast
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from kode import broken_json
from kode.messages import (
    Message,
    Text,
    ToolCall,
    ToolResult,
    calls_of,
    new_call_id,
)
from kode.provider import Request, ToolSpec
from kode.providers.draft import MAX_CALLS

MAX_LEAD_CHARS = 300
"""A paragraph that introduces a call is short; a longer one explains."""
MAX_TEXT_CHARS = 400_000  # longer than any reply
MAX_ENDS = 50
"""So many places are tried as the end of a call in Python's notation: strings may hold markup."""

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
"""Closing brackets too: many calls end with one too many."""
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
_PYTHON = re.compile(r"\[?\s*[A-Za-z_][\w.]*\(")
_PYTHON_END = re.compile(rf"{_FENCE}|</\w+>|<[|｜]|\Z")
_BROKEN_CALL = re.compile(r"[\[{\s]*\W?(\w+)\W?\s*:\s*\W?([\w.-]+)")
_BEGINNING = re.compile(r"^[ \t]*(?=[{\[<]|```|~~~|[\w.:]+[ \t]*[({])", re.MULTILINE)
_INSIDE = re.compile(r"[{<]")
_LINE_NUMBER = re.compile(r"^(?:[^\s:]+:)?\d+[:\t]", re.MULTILINE)
"""What a tool puts in front of each line."""
_NOTATION = re.compile(r"\\+[nrt]?|[^\w{(<\\]+")
"""What differs between the same call in a file, in a string, in Python and in a comment."""


class _NoCallError(Exception):
    """A text does not have the form of a call."""


class _UnfitCallError(Exception):
    """It has the form of a call and cannot be one: the tool is unknown, or an argument missing."""


@dataclass(frozen=True)
class _Call:
    name: str
    arguments: Mapping[str, Any]
    text: str = ""


def read_written_calls(message: Message, request: Request) -> Message:
    """The message with calls in place of a text that is calls, or with the stop `malformed_call`;
    the same message for any other text, and if the server sent calls or could not send any.

    The first call keeps the text in `ToolCall.written`.
    """
    text = "\n".join(part.text for part in message.parts if isinstance(part, Text))
    may_call = bool(request.tools) and request.answer_schema is None and not calls_of(message)
    if not may_call or message.stop not in ("end", "length") or len(text) > MAX_TEXT_CHARS:
        return message
    tools = {tool.name: tool for tool in request.tools}
    for lead, rest in _splits(text):
        words = lead.strip()
        try:
            calls = _Reader(rest, tools, is_all=not words).read()
        except (_NoCallError, RecursionError):
            continue
        except _UnfitCallError:
            calls = []
        heard = (
            request.system,
            *_texts(request.messages, "user"),
            *_texts(request.messages, "tool"),
        )
        if _is_quoted(calls, rest, heard):
            return message
        is_marked = _MARK.match(rest) is not None
        if _asks_about_call(request.messages):
            is_made = len(words) <= MAX_LEAD_CHARS
        else:
            answers = [m for m in request.messages if m.stop == "end" and not calls_of(m)]
            is_made = not words or (is_marked and _is_paragraph(words))
            is_made = is_made and not _is_quoted(calls, rest, _texts(answers, "assistant"))
        if calls and is_made:
            return _with_calls(message, lead, rest, calls)
        is_unclear = is_made or (calls and (is_marked or len(words) <= MAX_LEAD_CHARS))
        is_malformed = is_unclear and message.stop == "end"
        return replace(message, stop="malformed_call") if is_malformed else message
    return message


def _with_calls(message: Message, lead: str, rest: str, calls: Sequence[_Call]) -> Message:
    others = [part for part in message.parts if not isinstance(part, Text)]
    texts = [Text(text=lead)] if lead.strip() else []
    written = [
        ToolCall(
            id=new_call_id(),
            name=call.name,
            # Escapes may have created lone surrogates, which no server takes.
            arguments=json.dumps(call.arguments, ensure_ascii=False)
            .encode("utf-8", "replace")
            .decode(),
            written="" if number else rest,
        )
        for number, call in enumerate(calls)
    ]
    stop = "tool_calls" if message.stop == "end" else message.stop
    return replace(message, parts=(*others, *texts, *written), stop=stop)


def _splits(text: str) -> Iterator[tuple[str, str]]:
    """Where calls could begin, as (text before, rest): at once, at the first line that looks like a
    call, and in the middle of a line."""
    places = (pattern.search(text) for pattern in (_BEGINNING, _INSIDE, _MARK))
    for position in sorted({0, *(place.start() for place in places if place)}):
        if not text[:position].endswith("`"):  # else it is quoted
            yield text[:position], text[position:]


def _is_paragraph(words: str) -> bool:
    """Whether a text before a call announces an action. A colon announces a quotation."""
    is_whole = words.endswith((".", "!", "…", "。"))
    return is_whole and len(words) <= MAX_LEAD_CHARS and "\n\n" not in words


def _asks_about_call(messages: Sequence[Message]) -> bool:
    """Whether the model is asked what its last reply was, and was told how to show a call."""
    replies = [message for message in messages if message.role == "assistant"]
    return bool(replies) and replies[-1].stop == "malformed_call"


def _texts(messages: Sequence[Message], role: str) -> list[str]:
    parts = (part for message in messages if message.role == role for part in message.parts)
    return [part.text for part in parts if isinstance(part, Text | ToolResult)]


def _is_quoted(calls: Sequence[_Call], rest: str, texts: Iterable[str]) -> bool:
    """Whether the rest of a reply, or one of the calls in it, stands in one of these texts in some
    notation; a bare name is not enough."""
    source = _without_notation("\0".join(texts))
    quotable = (rest, *(call.text for call in calls))
    return any(_without_notation(each) in source for each in quotable if re.search(r"[{(<]", each))


def _without_notation(text: str) -> str:
    from html import unescape

    return _NOTATION.sub("", _LINE_NUMBER.sub("", unescape(text)))


# ── a text that consists of calls ────────────────────────────────────────────────────────────


class _Reader:
    """Parses a text that consists of calls from start to end."""

    def __init__(self, text: str, tools: Mapping[str, ToolSpec], *, is_all: bool) -> None:
        self.text, self.tools = text, tools
        self.begins_marked = is_all and _MARK.match(text.lstrip()) is not None
        """Whether nothing precedes it, and it begins with a template's markup."""
        self.at = 0
        self.is_marked = False
        """Whether a template's markup was the last that is not a call."""

    def read(self) -> list[_Call]:
        """The calls, at least one. Raises: _NoCallError, _UnfitCallError."""
        calls: list[_Call] = []
        while not self._is_over():
            begin = self.at
            try:
                calls_here = self._next()
            except _NoCallError:
                # A model that continues after a call of its template makes up the result.
                ends_marked = self.text.rstrip().endswith((">", "}", "]", "```"))
                if self.begins_marked and (calls or ends_marked):
                    raise _UnfitCallError from None
                raise
            calls += (replace(call, text=self.text[begin : self.at]) for call in calls_here)
        if not calls or len(calls) > MAX_CALLS:
            raise _UnfitCallError if calls or self.begins_marked else _NoCallError
        return calls

    def _is_over(self) -> bool:
        """Whether only markup is left; skips to the next possible call."""
        while self.at < len(self.text):
            markup = _MARKUP.match(self.text, self.at)
            if markup is None or self._named(_NAMED_TAG.match(self.text, self.at)):
                return False
            self.at = markup.end()
            if markup[0].strip(" \n\r\t,;"):
                self.is_marked = _MARK.match(markup[0]) is not None
        return True

    def _named(self, match: re.Match[str] | None) -> ToolSpec | None:
        return self.tools.get(match[1]) if match else None

    def _next(self) -> list[_Call]:
        if _PYTHON.match(self.text, self.at):
            for end in islice(_PYTHON_END.finditer(self.text, self.at), MAX_ENDS):
                with suppress(SyntaxError, ValueError, MemoryError, AttributeError, KeyError):
                    text = self.text[self.at : end.start()].strip()
                    calls = list(_parse_python(text, self.tools))
                    self.at = end.start()
                    return calls
        if self.text[self.at] in '{["':
            value = self._value()
            is_text = isinstance(value, str)
            return _calls_in(broken_json.parse_value(value) if is_text else value, self.tools)
        tool, is_tag = self._tool_here()
        if elements := self._elements(tool):
            return [_fit(tool, elements)]
        between = _BEFORE_ARGUMENTS.match(self.text, self.at)
        begin = between.end() if between else self.at
        if self.text[begin : begin + 1] == "{":
            self.at = begin
            arguments = self._value()
            self.at += self.text[self.at : self.at + 1] == ")"
            return [_fit(tool, arguments)]
        if not is_tag and not self.is_marked:
            raise _NoCallError
        if "<" not in self.text[self.at : begin]:
            raise _UnfitCallError  # cut behind the name
        return [_fit(tool, {})]

    def _tool_here(self) -> tuple[ToolSpec, bool]:
        """The tool whose name is in a tag, in front of arguments, or somewhere between a template's
        token and the arguments; and whether it is in a tag. Raises: _NoCallError."""
        tag = _NAMED_TAG.match(self.text, self.at)
        if (tool := self._named(tag)) is not None and tag is not None:
            self.at = tag.end()
            return tool, True
        head = _HEAD.match(self.text, self.at) if self.is_marked else None
        words = re.findall(r"[\w-]+", _MARK.sub(" ", head[0])) if head else []
        names = {word for word in words if word in self.tools}
        if head and len(names) == 1:
            self.at = head.end()
            return self.tools[names.pop()], False
        name = _NAME.match(self.text, self.at)
        if (tool := self._named(name)) is None or name is None:
            raise _NoCallError
        self.at = name.end()
        return tool, False

    def _elements(self, tool: ToolSpec) -> dict[str, Any]:
        """Arguments as elements: `<parameter=path>a.py</parameter>`, `<path>a.py</path>`, or in
        pairs of key and value."""
        values: dict[str, Any] = {}
        properties = _properties(tool)
        while element := (_PAIR.match(self.text, self.at) or _ELEMENT.match(self.text, self.at)):
            key = element[2].strip()
            text = element[3].removeprefix("\n").removesuffix("\n")
            is_string = properties.get(key, {}).get("type") == "string"
            value = None if is_string else broken_json.parse_value(text)
            values[key] = text if value is None else value
            self.at = element.end()
            ends = _END_TAGS.match(self.text, self.at)
            if (properties and key not in properties) or (ends and element[4] in ends[0]):
                raise _UnfitCallError  # in the second case the value itself holds such an element
        return values

    def _value(self) -> Any:
        """The JSON value that begins here."""
        value = broken_json.value_at(self.text, self.at)
        value = value or broken_json.loose_value_at(self.text, self.at)
        if value is None:
            begun = _BROKEN_CALL.match(self.text, self.at)
            names_tool = begun and begun[1] in NAME_KEYS and begun[2] in self.tools
            raise _UnfitCallError if names_tool else _NoCallError
        self.at = value[1]
        return value[0]


def _parse_python(text: str, tools: Mapping[str, ToolSpec]) -> Iterator[_Call]:
    """The calls in Python's notation: `[read_file(path="a.py")]`. Raises: what parsing does;
    AttributeError, KeyError and ValueError for anything but calls of tools with plain values."""
    if not text.rstrip(" ;").endswith((")", "]")) or re.search(r"[)\]]\s*#", text):
        raise ValueError("a comment explains the calls")
    with warnings.catch_warnings(action="ignore"):  # of odd escapes, which are the model's
        statements: list[Any] = list(ast.parse(text).body)
    for statement in statements:
        for outer in getattr(statement.value, "elts", [statement.value]):
            # Gemma's template prints what a call returns.
            is_printed = getattr(outer.func, "id", "") == "print" and len(outer.args) == 1
            call = outer.args[0] if is_printed else outer
            (name,) = [part for part in ast.unparse(call.func).split(".") if part in tools]
            values = [ast.literal_eval(argument) for argument in call.args]
            arguments = dict(zip(_properties(tools[name]), values, strict=False))
            if len(values) == 1 and isinstance(values[0], dict):
                arguments = values[0]
            named = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
            yield _fit(tools[name], arguments | named)


# ── a JSON value that consists of calls ──────────────────────────────────────────────────────


def _calls_in(value: Any, tools: Mapping[str, ToolSpec]) -> list[_Call]:
    """The calls in a value that contains nothing else. Keys that are common in other data count
    only if everything else fits as well. Raises: _NoCallError, _UnfitCallError."""
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


def _call_by_name(value: Mapping[str, Any], tools: Mapping[str, ToolSpec]) -> _Call:
    """The call that an object says by keys for the tool and for its arguments, or with the
    arguments beside the tool. Raises: _NoCallError, _UnfitCallError."""
    key = next((key for key in NAME_KEYS if isinstance(value.get(key), str)), None)
    if key is None:
        raise _NoCallError
    tool = tools.get(value[key].removeprefix("functions."))
    properties = _properties(tool) if tool else {}
    known = {key, *_LABELS, *ARGUMENT_KEYS, *properties}
    before = list(value)[: list(value).index(key)]
    # A text before the name introduces the call, as a sentence before an object does.
    thoughts = {each for each in before if isinstance(value[each], str) and each not in known}
    content = {k: v for k, v in value.items() if k != key and k not in thoughts}
    if tool is None:
        # Only an unmistakable object: a name occurs in much data.
        is_call = isinstance(value.get("arguments"), dict | str) and content.keys() <= known
        raise _UnfitCallError if is_call and key != "action" else _NoCallError
    flat = {k: v for k, v in content.items() if k not in _LABELS or k in properties}
    if flat.keys() <= properties.keys() and (flat or not properties):
        return _fit(tool, flat)
    keys = [each for each in ARGUMENT_KEYS if each in content]
    if len(keys) != 1 or content.keys() - {*keys, *_LABELS}:
        raise _NoCallError
    arguments = content[keys[0]]
    while isinstance(arguments, str):
        arguments = broken_json.parse_value(arguments)
    if isinstance(arguments, dict) and "properties" in arguments:
        raise _NoCallError  # a schema, which describes the tool
    if not isinstance(arguments, dict):
        raise _UnfitCallError
    return _fit(tool, arguments)


def _call_by_key(tool: ToolSpec, value: Any) -> _Call:
    """A call whose tool is the only key of an object. Much data looks like that, so everything in
    it must be known; a list may stand for the one required argument."""
    required = tool.parameters.get("required", [])
    if isinstance(value, list) and len(required) == 1:
        value = {required[0]: value}
    if not isinstance(value, dict) or not value or value.keys() - _properties(tool).keys():
        raise _NoCallError
    return _fit(tool, value)


def _fit(tool: ToolSpec, arguments: Any) -> _Call:
    """The call, if all required arguments are present. Values are checked when it runs, which tells
    the model what is wrong. Raises: _NoCallError if it is no object, _UnfitCallError."""
    if not isinstance(arguments, dict):
        raise _NoCallError
    properties = _properties(tool)
    is_known = not arguments or not properties or bool(arguments.keys() & properties.keys())
    if not is_known or not set(tool.parameters.get("required", ())) <= arguments.keys():
        raise _UnfitCallError
    return _Call(tool.name, arguments)


def _properties(tool: ToolSpec) -> Mapping[str, Any]:
    """The schemas of a tool's arguments by name."""
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    return properties
