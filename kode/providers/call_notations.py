"""The notations in which models write calls, and the reader of a text that consists of them.

An object that says the tool and its arguments (`call_objects`), the name of a tool in front of its
arguments, Python's notation, elements, YAML; and what templates put around them. Not here: whether
a call is made or only shown (`written_calls`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kode import broken_json
from kode.provider import ToolSpec
from kode.providers.call_objects import (
    ARGUMENT_KEYS,
    NAME_KEYS,
    Call,
    NoCallError,
    UnfitError,
    calls_in,
    fitting,
    named_call,
    properties_of,
)
from kode.providers.draft import MAX_CALLS

MAX_YAML_CHARS = 20_000
"""Its parser reads 100,000 characters a second."""
MAX_ENDS = 50
"""So many places are tried as the end of a call in Python's notation: strings may hold markup."""

_TOKEN = r"<[|｜][^<>\n]{1,60}[|｜]>"
_TAG = (
    rf"{_TOKEN}|</[A-Za-z_|｜][^<>\n]{{0,60}}(?:>|\Z)|\[/?[A-Z][A-Z_]{{2,30}}\]"
    r"|<(?:[|｜]\w+[|｜])?(?!\w*_(?:response|result|output))[\w:]*(?:tool|function|call|invoke|action)[^<>\n]{0,120}>"
)
"""What templates put around a call. Other elements hold other things, such as a tool's output."""
FENCE = r"(?m:^[ \t]*(?:```|~~~)[^\s`]*[ \t]*$)|```+\w*"
MARKUP = re.compile(rf"{FENCE}|[\s,;`}}\]]|{_TAG}")
"""Closing brackets too: many calls end with one too many."""
_TEMPLATE_BEGINS = re.compile(rf"\s*(?:{_TOKEN}|<\w)")
MARK = re.compile(_TAG)
"""A template's markup alone: neither words nor Markdown. An end too: some templates begin the
thinking in the prompt."""
_NAME_AT = re.compile(r"[>*`]*(?:functions?\.)?([A-Za-z_][\w.-]*)(?::\d+)?[*`]*")
_NAME_ELEMENT = re.compile(r"<(\w+)>\s*([\w.-]+)\s*</\1>\s*(?:<\w+>)?")
_HEAD = re.compile(rf"(?:[\w.:=-]++|\s++|{_TAG}|{FENCE}){{1,20}}?(?=\{{)")
"""What templates put between a special token and the arguments: the name, an id, a channel."""
_HEAD_NAME = re.compile(rf"{_TAG}|([\w-]+)")
_BEFORE_ARGUMENTS = re.compile(rf"(?:[\s:(]|{FENCE}|{_TAG})*")
_NAMED_TAG = re.compile(r"<(?:\w+\s*=\s*|\w+\s+name\s*=\s*)?\"?([\w.-]+)\"?\s*>")
_ELEMENT = re.compile(
    r"\s*<(?:(parameter|param|arg)(?:\s*=\s*|\s+name\s*=\s*))?\"?([\w.-]+)\"?\s*>(.*?)"
    r"(</(?(1)\1|\2)>)",
    re.DOTALL,
)
_ATTRIBUTES = re.compile(r"<(\w+)((?:\s+[\w.-]+\s*=\s*(?:\"[^\"]*\"|'[^']*'))+)\s*/?>")
_ATTRIBUTE = re.compile(r"([\w.-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_PAIR = re.compile(
    r"\s*<(arg)_key>(.*?)</arg_key>\s*<arg_value>(.*?)(</arg_value>)", re.DOTALL | re.IGNORECASE
)
_ENDS = re.compile(r"(?:\s*</[\w.:-]+>)*")
_VALUE_END = re.compile(rf"{FENCE}|</\w+>|<[|｜]|\Z")
_YAML_AT = re.compile(r"[A-Za-z_][\w ]*:[ \t\n].*\n[A-Za-z_]")
_YAML_END = re.compile(r"^(?:```|~~~|<)|<[|｜]|\Z", re.MULTILINE)
_YAML_COMMENT = re.compile(r"(?m)(?:^|\s)#")
_PYTHON_AT = re.compile(r"\[?\s*[A-Za-z_][\w.]*\(")
_BROKEN_CALL = re.compile(r"[\[{\s]*\W?(\w+)\W?\s*:\s*\W?([\w.-]+)")


@dataclass(frozen=True)
class Written:
    """A call, with its text as the model wrote it."""

    name: str
    arguments: Mapping[str, Any]
    text: str


class Reader:
    """Parses a text that consists of calls from start to end."""

    def __init__(self, text: str, tools: Mapping[str, ToolSpec], *, is_all: bool) -> None:
        self.text = text
        self.tools = tools
        self.is_all = is_all
        """Whether nothing precedes it."""
        self.at = 0
        self.is_marked = False
        """Whether a template's markup was the last that is not a call."""

    def read(self) -> list[Written]:
        """The calls, at least one. Raises: NoCallError, UnfitError."""
        found: list[Written] = []
        while not self._is_over():
            begin = self.at
            try:
                calls = self._next()
            except NoCallError:
                # A model that continues after a call of its template makes up the result.
                if self.is_all and (
                    _TEMPLATE_BEGINS.match(self.text) if found else self._is_in_markup()
                ):
                    raise UnfitError from None
                raise
            found += (Written(*call, self.text[begin : self.at]) for call in calls)
            if len(found) > MAX_CALLS:
                raise UnfitError
        if not found and self.is_all and _TEMPLATE_BEGINS.match(self.text):
            raise UnfitError  # the tags of calls, and none in them
        if not found:
            raise NoCallError
        return found

    def _is_in_markup(self) -> bool:
        """Whether markup of calls, not words, stands at both ends."""
        begins = MARK.match(self.text.lstrip())
        return begins is not None and self.text.rstrip().endswith((">", "}", "]", "```"))

    def _is_over(self) -> bool:
        """Whether only markup is left; skips to the next possible call."""
        while self.at < len(self.text):
            markup = MARKUP.match(self.text, self.at)
            if markup is None or self._tool_of_tag() or self._attributes():
                return False
            self.at = markup.end()
            if markup[0].strip(" \n\r\t,;"):
                self.is_marked = MARK.match(markup[0]) is not None
        return True

    def _next(self) -> list[Call]:
        if calls := self._python_calls():
            return calls
        if attributes := self._attributes():
            self.at = attributes.end()
            return [self._call_of_attributes(attributes)]
        if self.text[self.at] in "{[":
            return calls_in(self._value(), self.tools)
        if self.text[self.at] == '"':
            return calls_in(broken_json.parse_value(self._string()), self.tools)
        if _YAML_AT.match(self.text, self.at):
            return [self._call_of_yaml()]
        tag = self._tool_of_tag()
        tool = self._tool_here(tag)
        if elements := self._elements(tool):
            return [fitting(tool, elements)]
        between = _BEFORE_ARGUMENTS.match(self.text, self.at)
        begin = between.end() if between else self.at
        if self.text[begin : begin + 1] != "{":
            if not tag and not self.is_marked:
                raise NoCallError
            if "<" not in self.text[self.at : begin]:
                raise UnfitError  # cut behind the name
            return [fitting(tool, {})]
        self.at = begin
        arguments = self._value()
        if self.text[self.at : self.at + 1] == ")":
            self.at += 1
        return [fitting(tool, arguments)]

    def _tool_here(self, tag: re.Match[str] | None) -> ToolSpec:
        """The tool whose name is in a tag, in an element, in front of arguments, or somewhere
        between a template's token and the arguments. Raises: NoCallError."""
        element = _NAME_ELEMENT.match(self.text, self.at) if self.is_marked else None
        if element and element[2] in self.tools:
            self.at = element.end()
            return self.tools[element[2]]
        head = _HEAD.match(self.text, self.at) if self.is_marked and not tag else None
        named = {word for word in _HEAD_NAME.findall(head[0]) if word in self.tools} if head else ()
        if head and len(named) == 1:
            self.at = head.end()
            return self.tools[named.pop()]
        name = tag or _NAME_AT.match(self.text, self.at)
        if name is None or name[1] not in self.tools:
            raise NoCallError
        self.at = name.end()
        return self.tools[name[1]]

    def _tool_of_tag(self) -> re.Match[str] | None:
        """The tag here, if it has the name of a tool."""
        tag = _NAMED_TAG.match(self.text, self.at)
        return tag if tag and tag[1] in self.tools else None

    def _attributes(self) -> re.Match[str] | None:
        """The tag here, if its attributes name a tool and more than its name."""
        tag = _ATTRIBUTES.match(self.text, self.at)
        tool, values = _said_by(tag) if tag else ("", {})
        return tag if tool in self.tools and values else None

    def _call_of_attributes(self, tag: re.Match[str]) -> Call:
        name, values = _said_by(tag)
        tool = self.tools[name]
        if len(values) == 1 and (whole := "".join(values.get(key, "") for key in ARGUMENT_KEYS)):
            value = broken_json.loose_value_at(whole.strip(), 0)
            return fitting(tool, value[0] if value else None)
        known = properties_of(tool)
        typed = {key: _typed(text, known.get(key, {})) for key, text in values.items()}
        return fitting(tool, typed)

    def _elements(self, tool: ToolSpec) -> dict[str, Any]:
        """Arguments as elements: `<parameter=path>a.py</parameter>`, `<path>a.py</path>`, or in
        pairs of key and value."""
        found: dict[str, Any] = {}
        while element := (_PAIR.match(self.text, self.at) or _ELEMENT.match(self.text, self.at)):
            key = element[2].strip()
            text = element[3].removeprefix("\n").removesuffix("\n")
            found[key] = _typed(text, properties_of(tool).get(key, {}))
            self.at = element.end()
            ends = _ENDS.match(self.text, self.at)
            if ends and element[4] in ends[0]:
                raise UnfitError  # the value itself holds such an element
        if properties_of(tool) and set(found) - set(properties_of(tool)):
            raise UnfitError
        return found

    def _value(self) -> Any:
        """The JSON value that begins here."""
        found = broken_json.value_at(self.text, self.at)
        found = found or broken_json.loose_value_at(self.text, self.at)
        if found is None:
            begun = _BROKEN_CALL.match(self.text, self.at)
            of_tool = begun and begun[1] in NAME_KEYS and begun[2] in self.tools
            raise UnfitError if of_tool else NoCallError
        value, self.at = found
        return value

    def _string(self) -> str:
        found = broken_json.value_at(self.text, self.at)
        if found is None or not isinstance(found[0], str):
            raise NoCallError
        text: str = found[0]
        self.at = found[1]
        return text

    def _call_of_yaml(self) -> Call:
        """A mapping of the tool and its arguments, which also is ReAct's form. Other YAML has too
        much in common with calls."""
        import yaml

        end = _YAML_END.search(self.text, self.at)
        written = self.text[self.at : end.start() if end else len(self.text)]
        if len(written) > MAX_YAML_CHARS:
            raise NoCallError
        try:
            if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(written)):
                raise NoCallError  # a few lines of aliases are gigabytes of JSON
            value = yaml.load(written, yaml.BaseLoader)  # only strings: the tool says the types
        except (yaml.YAMLError, ValueError):
            raise NoCallError from None
        if not isinstance(value, dict):
            raise NoCallError
        said = {str(key).strip().lower().replace(" ", "_"): one for key, one in value.items()}
        name, arguments = named_call(said, self.tools)
        if not set(said) & set(ARGUMENT_KEYS):
            raise NoCallError
        is_begun = bool(self.text[: self.at].strip())
        if _YAML_COMMENT.search(written) or (is_begun and self.text.endswith(written)):
            # The comment may have been meant as part of a value, and a fence or tag never ends.
            raise UnfitError
        self.at += len(written)
        known = properties_of(self.tools[name])
        return name, {
            key: _typed(one, known.get(key, {})) if isinstance(one, str) else one
            for key, one in arguments.items()
        }

    def _python_calls(self) -> list[Call]:
        """Calls in Python's notation up to the end or to markup: `[read_file(path="a.py")]`."""
        if not _PYTHON_AT.match(self.text, self.at):
            return []
        for end in islice(_VALUE_END.finditer(self.text, self.at), MAX_ENDS):
            with suppress(SyntaxError, ValueError, MemoryError, AttributeError, KeyError):
                calls = [
                    fitting(self.tools[name], _named(self.tools[name], by_position) | by_name)
                    for name, by_position, by_name in _python_calls(
                        self.text[self.at : end.start()], self.tools
                    )
                ]
                self.at = end.start()
                return calls
        return []


def _said_by(tag: re.Match[str]) -> tuple[str, dict[str, str]]:
    """The name in a tag, by `name` or as its own, and its other attributes."""
    from html import unescape

    matches = _ATTRIBUTE.findall(tag[2])
    values = {key: unescape(double or single) for key, double, single in matches}
    return values.pop("name", tag[1]), values


def _named(tool: ToolSpec, values: Sequence[Any]) -> dict[str, Any]:
    """Positional arguments by name, or one object of them. Raises: ValueError for too many."""
    if len(values) == 1 and isinstance(values[0], dict):
        return values[0]
    if len(values) > len(properties_of(tool)):
        raise ValueError("more arguments than there are parameters")
    return dict(zip(properties_of(tool), values, strict=False))


def _python_calls(
    text: str, tools: Mapping[str, ToolSpec]
) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """Raises: what parsing does; AttributeError, KeyError and ValueError for anything but calls of
    tools with plain values.
    """
    import ast
    import warnings

    with warnings.catch_warnings(action="ignore"):  # of odd escapes, which are the model's
        statements: list[Any] = list(ast.parse(text := text.strip()).body)
    last = text.splitlines()[statements[-1].end_lineno - 1 :] if statements else [""]
    if "".join([last[0].encode()[statements[-1].end_col_offset :].decode(), *last[1:]]).strip(" ;"):
        raise ValueError("a comment explains the calls")
    for statement in statements:
        for outer in getattr(statement.value, "elts", [statement.value]):
            # Gemma's template prints what a call returns.
            is_printed = getattr(outer.func, "id", "") == "print" and len(outer.args) == 1
            call = outer.args[0] if is_printed else outer
            (name,) = [part for part in ast.unparse(call.func).split(".") if part in tools]
            by_name = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
            yield name, [ast.literal_eval(one) for one in call.args], by_name


def _typed(text: str, schema: Mapping[str, Any]) -> Any:
    """The value of an element: JSON, unless a string is expected."""
    if schema.get("type") == "string":
        return text
    value = broken_json.parse_value(text)
    return text if value is None else value
