"""What is refused: bodies checked against the SDKs' own types, to the last field, and schemas of
tools by draft 2020-12.

pydantic takes the SDK's TypedDicts as they are, with two gaps: an `Iterable` is checked when
somebody reads it, and unknown keys pass. Both are closed in the schema that it makes of them.
"""

import json
import pkgutil
import re
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from pydantic import TypeAdapter
from pydantic_core import SchemaValidator, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012


class Refused(Exception):
    """What is answered instead of a reply; `error` is more for its error object."""

    def __init__(self, message: str, *, status: int = 400, **error: Any) -> None:
        super().__init__(message)
        self.message, self.status = message, status
        self.body = {"type": "invalid_request_error", "message": message, **error}


class Scripted(Refused):
    """An error that the script wants: no fault of the client's."""


def refuse(is_wrong: Any, words: str, **more: Any) -> None:
    """Raises `Refused` with the words where something is wrong."""
    if is_wrong:
        raise Refused(words, **more)


# ── schemas of tools ─────────────────────────────────────────────────────────────────────────


@cache
def schema_fault(text: str) -> str:
    """What is wrong with the JSON of a schema by draft 2020-12; "" for nothing. A reference has to
    lead somewhere in it."""
    schema = json.loads(text)
    if schema is None:
        return ""
    checks = Draft202012Validator(Draft202012Validator.META_SCHEMA)
    if wrong := best_match(checks.iter_errors(schema)):
        return f"In context={tuple(wrong.absolute_path)}, {wrong.message}"
    resolver = Registry().with_resource("", DRAFT202012.create_resource(schema)).resolver()
    for ref in re.findall(r'"\$ref": ?"([^"]*)"', text):
        try:
            resolver.lookup(ref)
        except Unresolvable:
            return f"reference to component '{ref}' which was not found in the schema"
    return ""


# ── shapes of bodies ─────────────────────────────────────────────────────────────────────────

TYPES = {
    "messages": "anthropic.types.message_create_params:MessageCreateParamsBase",
    "responses": "openai.types.responses.response_create_params:ResponseCreateParamsBase",
    "chat": "openai.types.chat.completion_create_params:CompletionCreateParamsBase",
}
"""Each is the request without `stream`."""


def check_shape(kind: str, body: Any, *, closed: bool = True) -> None:
    """Refuses a body that the SDK's type does not take, with the deepest of its faults: that of the
    branch of a union that was meant."""
    try:
        _validator(kind, closed).validate_python(body)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        fault = max(faults, key=lambda it: (it["type"] == "extra_forbidden", len(it["loc"])))
        raise Refused(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None


@cache
def _validator(kind: str, closed: bool) -> SchemaValidator:
    schema = TypeAdapter(pkgutil.resolve_name(TYPES[kind])).core_schema
    models = {d["ref"] for d in schema.get("definitions", ()) if d["type"] == "model"}  # type: ignore[attr-defined]
    return SchemaValidator(_eager(schema, closed, models))


def _eager(node: Any, closed: bool, models: set[str]) -> Any:
    """The schema with lists for iterables, closed TypedDicts, and no response classes, which
    Anthropic's types allow in a request and which take every key."""
    if isinstance(node, list | tuple):
        return type(node)(_eager(child, closed, models) for child in node)
    if not isinstance(node, dict):
        return node
    node = {key: _eager(child, closed, models) for key, child in node.items()}
    if node.get("type") == "generator":
        node["type"] = "list"
    if node.get("type") == "typed-dict" and closed and "extras_schema" not in node:
        node["extra_behavior"] = "forbid"
    if node.get("type") == "union":
        kept = [choice for choice in node["choices"] if not _is_model(choice, models)]
        node["choices"] = kept or node["choices"]
    return node


def _is_model(choice: Any, models: set[str]) -> bool:
    choice = choice[0] if isinstance(choice, tuple) else choice
    if choice.get("type") == "union":
        return all(_is_model(inner, models) for inner in choice["choices"])
    return choice.get("type") == "model" or choice.get("schema_ref") in models
