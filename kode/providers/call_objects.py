"""Reads a JSON value as tool calls, by the keys that chat templates and training data use.

Keys that are common in other data count only if everything else in the object fits as well.
"""

from collections.abc import Mapping
from typing import Any

from kode import broken_json
from kode.provider import ToolSpec

Call = tuple[str, Mapping[str, Any]]
"""A tool's name and arguments."""

NAME_KEYS = ("name", "tool", "tool_name", "function", "action")
ARGUMENT_KEYS = ("arguments", "parameters", "input", "args", "params", "action_input")
_LABELS = {"id", "type", "index", "call_id", "tool_call_id"}
_OF_MESSAGES = {"role", "content"}
_WRAPPERS = {"tool_call", "tool_calls", "function_call", "function_calls"}


class NoCallError(Exception):
    """The value or text does not have the form of a call."""


class UnfitError(Exception):
    """It has the form of a call but cannot be one: the tool is unknown, or a required argument is
    missing."""


def calls_in(value: Any, tools: Mapping[str, ToolSpec]) -> list[Call]:
    """The calls in a JSON value that contains nothing else. Raises: NoCallError, UnfitError."""
    if isinstance(value, list):
        if not value:
            raise NoCallError
        return [call for item in value for call in calls_in(item, tools)]
    if not isinstance(value, dict):
        raise NoCallError
    if len(value) == 1:
        (key, inner), *_ = value.items()
        if key in tools:
            return [_lone_call(tools[key], inner)]
    wrapped = set(value) - _OF_MESSAGES
    if len(wrapped) == 1 and wrapped <= _WRAPPERS:
        return calls_in(value[wrapped.pop()], tools)
    rest = set(value) - _LABELS
    if len(rest) == 1 and rest <= set(NAME_KEYS) and isinstance(inner := value[rest.pop()], dict):
        return calls_in(inner, tools)
    if tool := _tool_of_arguments(value, tools):
        return [fitting(tool, value)]
    return [named_call(value, tools)]


def named_call(value: Mapping[str, Any], tools: Mapping[str, ToolSpec]) -> Call:
    """The call that an object says by keys for the tool and for its arguments, or with the
    arguments beside the tool. Raises: NoCallError, UnfitError."""
    key = next((key for key in NAME_KEYS if isinstance(value.get(key), str)), None)
    if key is None:
        raise UnfitError if _resembles_call(value, tools) else NoCallError
    tool = tools.get(value[key].removeprefix("functions."))
    known = {*_LABELS, *ARGUMENT_KEYS, *(properties_of(tool) if tool else ())}
    before = list(value)[: list(value).index(key)]
    # A text before the name introduces the call, as a sentence before an object does.
    thoughts = {one for one in before if isinstance(value[one], str) and one not in known}
    rest = {k: v for k, v in value.items() if k != key and k not in thoughts}
    if tool is None:
        # Only an unmistakable object: a name occurs in much data.
        is_call = isinstance(value.get("arguments"), dict | str) and set(rest) <= known
        raise UnfitError if is_call and key != "action" else NoCallError
    flat = {k: v for k, v in rest.items() if k not in _LABELS or k in properties_of(tool)}
    if set(flat) <= set(properties_of(tool)) and (flat or not properties_of(tool)):
        return fitting(tool, flat)
    keys = [one for one in ARGUMENT_KEYS if one in rest]
    if len(keys) != 1 or set(rest) - {*keys, *_LABELS}:
        raise UnfitError if _resembles_call(value, tools) else NoCallError
    given = rest[keys[0]]
    while isinstance(given, str):
        given = broken_json.parse_value(given)
    if isinstance(given, dict) and "properties" in given:
        raise NoCallError  # a schema, which describes the tool
    if not isinstance(given, dict):
        raise UnfitError
    return fitting(tool, given)


def _resembles_call(value: Mapping[str, Any], tools: Mapping[str, ToolSpec]) -> bool:
    """Whether an object is a tool's name and its arguments under keys that no template uses: data
    can be that, so it does not run."""
    named = [tools[one] for one in value.values() if isinstance(one, str) and one in tools]
    given = [one for one in value.values() if isinstance(one, dict) and one]
    if not len(named) == len(given) == 1 or len(value) != 2:
        return False
    required = named[0].parameters.get("required", ())
    return set(required) <= set(given[0]) <= set(properties_of(named[0]))


def _tool_of_arguments(value: Mapping[str, Any], tools: Mapping[str, ToolSpec]) -> ToolSpec | None:
    """The tool that an object without its name is the arguments of: all that it requires and no
    others, among them a choice that the tool lists, which other data would hardly have."""
    meant = []
    for tool in tools.values():
        known, required = properties_of(tool), tool.parameters.get("required", ())
        chosen = any(value.get(name) in known[name].get("enum", ()) for name in required)
        if chosen and set(required) <= set(value) <= set(known):
            meant.append(tool)
    return meant[0] if len(meant) == 1 else None


def _lone_call(tool: ToolSpec, value: Any) -> Call:
    """A call whose tool is the only key of an object. Much data looks like that, so everything in
    it must be known; a list may stand for the one required argument."""
    required = tool.parameters.get("required", [])
    if isinstance(value, list) and len(required) == 1:
        kind = properties_of(tool).get(required[0], {}).get("type")
        value = {required[0]: value} if kind == "array" else value
    if not isinstance(value, dict) or not value or set(value) - set(properties_of(tool)):
        raise NoCallError
    return fitting(tool, value)


def fitting(tool: ToolSpec, arguments: Any) -> Call:
    """The call with these arguments, if all required ones are present. Values are checked when the
    call runs, which tells the model what is wrong.

    Raises: NoCallError if the arguments are not an object, UnfitError.
    """
    if not isinstance(arguments, dict):
        raise NoCallError
    known = not arguments or not properties_of(tool) or set(arguments) & set(properties_of(tool))
    if not known or not set(tool.parameters.get("required", ())) <= set(arguments):
        raise UnfitError
    return tool.name, arguments


def properties_of(tool: ToolSpec) -> Mapping[str, Any]:
    """The schemas of a tool's arguments by name."""
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    return properties
