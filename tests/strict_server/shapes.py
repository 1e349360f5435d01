"""Bodies checked against the SDKs' own types, eagerly and to the last field.

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


@cache
def schema_fault(text: str) -> str:
    """What is wrong with the JSON of a schema by draft 2020-12; "" for nothing. A reference has to
    lead somewhere in it."""
    schema = json.loads(text)
    if schema is None:
        return ""
    if wrong := best_match(
        Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema)
    ):
        return f"In context={tuple(wrong.absolute_path)}, {wrong.message}"
    for ref in re.findall(r'"\$ref": ?"([^"]*)"', text):
        try:
            Registry().with_resource("", DRAFT202012.create_resource(schema)).resolver().lookup(ref)
        except Unresolvable:
            return f"reference to component '{ref}' which was not found in the schema"
    return ""


TYPES = {
    "messages": "anthropic.types.message_create_params:MessageCreateParamsBase",
    "beta messages": "anthropic.types.beta.message_create_params:MessageCreateParamsBase",
    "responses": "openai.types.responses.response_create_params:ResponseCreateParamsBase",
    "chat": "openai.types.chat.completion_create_params:CompletionCreateParamsBase",
}
"""Each is the request without `stream`."""


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


def fault(kind: str, body: Any, *, closed: bool = True) -> dict[str, Any] | None:
    """The first thing wrong with a body: its `path` (keys and numbers), pydantic's `type` and
    `msg`, `expected` values and the `input`; None where the SDK's type takes it."""
    try:
        _validator(kind, closed).validate_python(body)
    except ValidationError as error:
        return _nearest(error.errors(include_url=False), body)
    return None


def _nearest(errors: list[Any], body: Any) -> dict[str, Any]:
    """Of the errors of all branches of a union the one of the branch that was meant: the branch
    whose `type` and `role` fit; of those the deepest."""
    named = [e for e in errors if e["type"] == "literal_error" and e["loc"][-1] in ("type", "role")]
    wrong = [e["loc"][:-1] for e in named]
    meant = [e for e in errors if not any(e["loc"][: len(w)] == w for w in wrong)]
    scalars = ("string_type", "none_required", "list_type", "dict_type")
    found = [e for e in meant if e["type"] not in scalars] or meant or named
    best = max(found, key=lambda e: (len(e["loc"]), e["type"] == "extra_forbidden"))
    deepest = max(named, key=lambda e: len(e["loc"]), default=best)
    if len(deepest["loc"]) > len(best["loc"]):  # no branch fits: its type is known to none
        best = deepest
    return {
        "path": _path(best["loc"], body, best["type"]),
        "type": best["type"],
        "msg": best["msg"],
        "expected": best.get("ctx", {}).get("expected", ""),
        "input": best["input"],
    }


def _path(loc: tuple[Any, ...], body: Any, kind: str) -> list[Any]:
    """Where it is in the body: the location without the names of a union's branches."""
    path: list[Any] = []
    at = body
    for number, key in enumerate(loc):
        last = number == len(loc) - 1
        if isinstance(at, dict) and (key in at or (last and kind == "missing")):
            at = at.get(key)
        elif isinstance(at, list) and isinstance(key, int) and key < len(at):
            at = at[key]
        else:
            continue
        path.append(key)
    return path
