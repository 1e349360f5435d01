"""What is refused: bodies checked against the SDKs' own types, to the last field, tools' schemas by
draft 2020-12, and what each vendor wraps a refusal in.

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
    """What the vendor answers instead of a reply, in its words."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: Any = None,
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.kind = message, status, kind
        self.param, self.code = param, code


class Scripted(Refused):
    """An error that the script wants: no fault of the client's."""


def refuse(is_wrong: Any, words: str, **more: Any) -> None:
    """Raises `Refused` with the words where something is wrong."""
    if is_wrong:
        raise Refused(words, **more)


GOOGLE_STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}
GOOGLE_STATUS |= {404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}


def envelope(vendor: str, refused: Refused, number: int) -> Any:
    """The body of the error as JSON."""
    message, status = refused.message, refused.status
    error: Any = {"type": refused.kind, "message": message}
    if vendor == "anthropic":
        return {"type": "error", "error": error, "request_id": request_id(number)}
    if vendor == "gemini":
        word = GOOGLE_STATUS.get(status, "INTERNAL")
        return [{"error": {"code": status, "message": message, "status": word}}]
    if vendor == "openrouter":
        metadata = {"raw": json.dumps({"error": error}), "provider_name": "Strict"}
        error = {"message": "Provider returned error", "code": status, "metadata": metadata}
        return {"error": error, "user_id": "user_strict"}
    if vendor not in ("moonshot", "groq"):
        error |= {"param": refused.param, "code": refused.code}
    if vendor != "mistral":
        return {"error": error}
    if status == 422:
        where = ["body", *(refused.param or "").split(".")]
        detail = {"type": refused.code, "loc": where, "msg": message, "input": None}
        error |= {"message": {"detail": [detail]}, "code": None}
    return {"object": "error", **error, "param": None}


def request_id(number: int) -> str:
    return f"req_strict{number:06d}"


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


def shape_fault(kind: str, body: Any, *, closed: bool = True) -> dict[str, Any] | None:
    """The first thing wrong with a body: its `path` (keys and numbers), pydantic's `type`, `msg`,
    `input` and `ctx`; None where the SDK's type takes it."""
    try:
        _validator(kind, closed).validate_python(body)
    except ValidationError as error:
        nearest = _nearest(error.errors(include_url=False))
        return {**nearest, "path": _path(nearest["loc"], body, nearest["type"])}
    return None


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


def _nearest(errors: list[Any]) -> dict[str, Any]:
    """Of the errors of all branches of a union the one of the branch that was meant: the branch
    whose `type` and `role` fit; of those the deepest."""
    named = [e for e in errors if e["type"] == "literal_error" and e["loc"][-1] in ("type", "role")]
    wrong = [e["loc"][:-1] for e in named]
    meant = [e for e in errors if not any(e["loc"][: len(w)] == w for w in wrong)]
    scalars = ("string_type", "none_required", "list_type", "dict_type")
    likely = [e for e in meant if e["type"] not in scalars] or meant or named
    best = max(likely, key=lambda e: (len(e["loc"]), e["type"] == "extra_forbidden"))
    deepest = max(named, key=lambda e: len(e["loc"]), default=best)
    # Where no branch fits, its type is known to none.
    nearest: dict[str, Any] = deepest if len(deepest["loc"]) > len(best["loc"]) else best
    return nearest


def _path(loc: tuple[Any, ...], body: Any, kind: str) -> list[Any]:
    """Where it is in the body: the location without the names of a union's branches."""
    path: list[Any] = []
    at = body
    for number, key in enumerate(loc):
        is_missing = kind == "missing" and number == len(loc) - 1
        if isinstance(at, dict) and (key in at or is_missing):
            at = at.get(key)
        elif isinstance(at, list) and isinstance(key, int) and key < len(at):
            at = at[key]
        else:
            continue
        path.append(key)
    return path
