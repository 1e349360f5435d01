"""Makes a `Tool` of an async function: the signature is the schema, the docstring the description.

    @tool(effect="read", subject="path", parallel=True)
    async def read_file(context: ToolContext, path: str, offset: int = 1) -> ToolOutput:
        '''Read a text file. ...'''

The first parameter is the `ToolContext`; the others are what the model sees. Describe a parameter
with `Annotated[str, "..."]`. A default makes it optional. Argument models are built on first use:
importing pydantic would slow down start-up.

A program that embeds kode passes plain functions without a `ToolContext`: `plain_tool`.
"""

import asyncio
import functools
import inspect
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

from kode.errors import KodeError, ToolError, UserError
from kode.messages import ToolCall, shorten
from kode.tool import Effect, Tool, ToolContext, ToolOutput

if TYPE_CHECKING:
    from pydantic import BaseModel

Function = Callable[..., Awaitable[ToolOutput | str]]
_NAMED = ("POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY")


def tool(
    *,
    effect: Effect,
    name: str | None = None,
    description: str | None = None,
    subject: str = "",
    parallel: bool = False,
    unlisted: Sequence[str] = (),
    **more: Any,
) -> Callable[[Function], Tool]:
    """Declares a tool. `name` and `description` default to the function's own; `unlisted` are
    optional parameters that it takes and does not describe: their words are sent with every
    request; `more` are further fields of the `Tool`."""

    def declare(function: Function) -> Tool:
        tool_name = name or function.__name__
        model = functools.cache(lambda: _arguments_model(function, tool_name))

        async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolOutput | str:
            return await function(context, **arguments)

        return Tool(
            name=tool_name,
            description=description or inspect.cleandoc(function.__doc__ or ""),
            effect=effect,
            subject=subject,
            parallel=parallel,
            parameters=functools.cache(lambda: _schema(model(), unlisted)),
            check=lambda arguments: _check(model(), arguments),
            run=run,
            **more,
        )

    return declare


def plain_tool(function: Callable[..., Any]) -> Tool:
    """A tool made from a plain function of an embedding program. Its parameters are what the model
    sees. It counts as touching nothing, so it runs without a question unless a rule names it. A
    sync function runs in a thread. Return values other than text are shown as JSON; an exception
    becomes the call's error.

    Raises: UserError for a function that cannot be described to a model.
    """
    name = getattr(function, "__name__", repr(function))
    if not name.isidentifier() or not inspect.getdoc(function):
        raise UserError(
            f"{name} cannot be a tool: give a named function with a docstring that says to the "
            "model what it does."
        )
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise UserError(f"{name} cannot be a tool: a type in its signature: {error}.") from None
    parameters = list(inspect.signature(function).parameters.values())
    for parameter in parameters:
        if parameter.name not in hints or parameter.kind.name not in _NAMED:
            raise UserError(
                f"{name} cannot be a tool: its parameter {parameter.name} needs a type, and a "
                "name that the model can give it by (no *args, no **kwargs)."
            )

    async def call(context: ToolContext, **arguments: Any) -> ToolOutput | str:
        try:
            is_async = inspect.iscoroutinefunction(function)
            run = function if is_async else functools.partial(asyncio.to_thread, function)
            value = await run(**arguments)
            if isinstance(value, ToolOutput | str):
                return value
            from pydantic_core import to_json

            return "Done." if value is None else to_json(value, indent=2, fallback=str).decode()
        except KodeError:
            raise
        except Exception as error:
            raise ToolError(f"{name} failed ({type(error).__name__}: {error}).") from error

    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_ONLY)
    by_name = [it.replace(kind=inspect.Parameter.KEYWORD_ONLY) for it in parameters]
    call.__signature__ = inspect.Signature([first, *by_name])  # type: ignore[attr-defined]
    call.__annotations__ = hints
    return tool(effect="none", name=name, description=inspect.getdoc(function))(call)


def _arguments_model(function: Function, tool_name: str) -> "type[BaseModel]":
    from pydantic import ConfigDict, Field, create_model

    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        hint, text = hints[parameter.name], None
        if get_origin(hint) is Annotated:
            hint, *extras = get_args(hint)
            text = next((extra for extra in extras if isinstance(extra, str)), None)
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hint, Field(default, description=text))
    return create_model(tool_name, __config__=ConfigDict(extra="forbid"), **fields)


def _schema(model: "type[BaseModel]", unlisted: Sequence[str]) -> Mapping[str, Any]:
    full = model.model_json_schema()
    schema = _slim(full, full.pop("$defs", {}))
    properties = schema.get("properties", {})
    schema["properties"] = {name: properties[name] for name in properties if name not in unlisted}
    return {"type": "object", **{k: v for k, v in schema.items() if k != "type"}}


def _slim(node: Any, definitions: Mapping[str, Any]) -> Any:
    """Drops what costs tokens and tells a model nothing: titles, null alternatives, defaults that
    are as good as nothing (None, false, 0, ""), `additionalProperties: false`. References are
    resolved in place, because some servers do not follow `$ref`."""
    if isinstance(node, list):
        return [_slim(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        rest = {key: value for key, value in node.items() if key != "$ref"}
        node = {**definitions[node["$ref"].removeprefix("#/$defs/")], **rest}
    slim = {
        key: {name: _slim(item, definitions) for name, item in value.items()}
        if key == "properties"
        else _slim(value, definitions)
        for key, value in node.items()
        if key not in ("title", "additionalProperties") and not (key == "default" and not value)
    }
    choices = [c for c in slim.get("anyOf", []) if c != {"type": "null"}]
    if "anyOf" in slim and len(choices) == 1:
        del slim["anyOf"]
        slim = {**choices[0], **slim}
    return slim


def _check(model: "type[BaseModel]", arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    from pydantic import ValidationError

    try:
        return dict(model.model_validate(dict(arguments)))
    except ValidationError as error:
        faults = "; ".join(map(_fault, error.errors()[:5]))
        fields = model.model_fields.items()
        names = ", ".join(name if field.is_required() else f"{name}?" for name, field in fields)
        raise ToolError(
            f"{model.__name__} was not run: {faults}. Its parameters are: {names}."
        ) from None


def _fault(fault: Any) -> str:
    place = ".".join(str(step) for step in fault["loc"]) or "arguments"
    if fault["type"] == "missing":
        return f"`{place}` is required"
    if fault["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"there is no parameter `{place}`"
    value = shorten(repr(fault["input"]), 80)
    return f"`{place}`: {fault['msg'][:1].lower()}{fault['msg'][1:]}, got {value}"


def parse_arguments(call: ToolCall, *, free_text: bool = False) -> dict[str, Any]:
    """Parses the arguments of a call: one JSON object, strictly. An empty text means no arguments.
    With `free_text` a text that begins none is the argument `input`.

    Raises: ToolError that says what is wrong and where.
    """
    if not call.arguments.strip():
        return {}
    if free_text and not call.arguments.lstrip().startswith("{"):
        return {"input": call.arguments}
    try:
        arguments = json.loads(call.arguments, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        why = "they are nested too deeply" if isinstance(error, RecursionError) else error
        raise ToolError(
            f"{call.name} was not run: its arguments are not valid JSON ({why}). "
            f"They began: {call.arguments[:200]!r}. Send one JSON object."
        ) from None
    if not isinstance(arguments, dict):
        raise ToolError(
            f"{call.name} was not run: its arguments must be one JSON object, "
            f"not {type(arguments).__name__}."
        )
    return arguments


def _no_constant(name: str) -> Iterator[None]:
    raise ValueError(f"{name} is not a JSON value")
