"""Fits the JSON schema of a tool to what a vendor takes.

Schemas come from MCP servers and plug-ins, and one that a vendor refuses makes every request fail.
So only the keywords that every vendor takes are sent, with references and older drafts resolved;
others become words in a description, because whoever runs the tool checks its arguments in any
case. Google gets the part of that which OpenAPI has.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kode.providers.draft import list_of, mapping_of

Schema = dict[str, Any]
Refs = tuple[str, ...]

MAX_DEPTH = 24  # what people write has fewer than ten levels
MAX_PARTS = 2_000
"""Schemas within a schema. What is beyond these limits may be anything."""
MAX_NOTE_CHARS = 500  # a list of a few dozen words


class UnfitSchemaError(ValueError):
    """A schema that no request can carry; the text says why."""


@dataclass(frozen=True, kw_only=True)
class SchemaForm:
    """What a vendor takes of a schema. None of them takes alternatives at the top."""

    is_openapi: bool = False
    """Whether a type is one word, beside which `nullable` allows null, and alternatives stand
    alone."""
    property_names: str = ".*"
    """A pattern for the names of arguments."""


ANY_FORM = SchemaForm()
ANTHROPIC_FORM = SchemaForm(property_names=r"[a-zA-Z0-9_.-]{1,64}")
GOOGLE_FORM = SchemaForm(is_openapi=True)

_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_TYPE_OF = {bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
_HINTS = frozenset(
    "format pattern minLength maxLength minItems maxItems minProperties maxProperties multipleOf "
    "exclusiveMinimum exclusiveMaximum uniqueItems examples".split()
)
"""Keywords that are told in a description."""
_NULL: Schema = {"type": "string", "nullable": True, "description": "null"}


def fit_schema(schema: Mapping[str, Any], form: SchemaForm) -> Schema:
    """The schema of an object as a form takes it. Raises: UnfitSchemaError."""
    kinds = schema.get("type") or "object"
    if "object" not in (kinds if isinstance(kinds, list) else [kinds]):
        raise UnfitSchemaError("its arguments are no object")
    flat = _flatten(_Expansion(schema).expand(schema))
    for name in list(flat["properties"]):
        if not re.fullmatch(form.property_names, name, re.DOTALL):
            if name in flat["required"]:
                raise UnfitSchemaError(f"this vendor takes no argument named {name[:80]!r}")
            del flat["properties"][name]
    if not flat["required"]:
        del flat["required"]
    return {"properties": {}, **_in_openapi(flat)} if form.is_openapi else flat


class _Expansion:
    """Writes one schema in few keywords, without references."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.parts = 0

    def expand(self, raw: Any, refs: Refs = (), depth: int = 0) -> Schema:
        """A schema within the whole; `refs` are the references that have led to it."""
        schema, refs = self._resolve(raw if depth <= MAX_DEPTH else {}, refs)
        inner = partial(self.expand, refs=refs, depth=depth + 1)
        kinds, about = _kinds(schema), schema.get("description")
        plain: Schema = {"type": kinds[0] if len(kinds) == 1 else kinds} if kinds else {}
        if isinstance(about, str):
            plain["description"] = about
        for name, value in schema.items():
            match name:
                case "properties":
                    plain[name] = {key: inner(part) for key, part in mapping_of(value).items()}
                case "anyOf" if list_of(value):
                    plain[name] = list(map(inner, value))
                case "additionalProperties" if isinstance(value, bool):
                    plain[name] = value
                case "items" | "additionalProperties":
                    plain[name] = inner(value)
                case "enum" if list_of(value):
                    plain[name] = value
                case "minimum" | "maximum" if _is_number(value):
                    plain[name] = value
                case "default":
                    plain[name] = value
                case _ if name in _HINTS and not isinstance(value, bool):
                    _add_note(plain, name, value)
        if required := [name for name in list_of(schema.get("required")) if isinstance(name, str)]:
            plain["required"] = list(dict.fromkeys(required))
        if "array" in kinds:
            plain.setdefault("items", {})
        return plain

    def _resolve(self, raw: Any, refs: Refs) -> tuple[Schema, Refs]:
        """The schema with what its reference and `allOf` demand merged in; and the references that
        were followed so far, each only once on the way."""
        self.parts += 1
        schema = _of_today(raw if self.parts <= MAX_PARTS else {})
        demands = list_of(schema.pop("allOf", None))
        ref = schema.pop("$ref", None)
        if isinstance(ref, str) and ref not in refs:
            demands, refs = [*demands, self._find(ref)], (*refs, ref)
        for demand in demands:
            demanded, refs = self._resolve(demand, refs)
            schema = _both(demanded, schema)
        return schema, refs

    def _find(self, ref: str) -> Any:
        """What a reference within the whole means; an empty schema for any other."""
        node: Any = self.root if ref.startswith("#") else {}
        for step in ref.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            is_place = isinstance(node, list) and step.isdecimal() and int(step) < len(node)
            node = node[int(step)] if is_place else mapping_of(node).get(step)
        return mapping_of(node)


def _flatten(schema: Schema) -> Schema:
    """The schema of an object with the properties of all its alternatives. Which of them belong
    together is told in its description."""
    branches = [_flatten(branch) for branch in schema.get("anyOf", ())]
    needed = [branch["required"] for branch in branches]
    common = [name for name in next(iter(needed), ()) if all(name in names for names in needed)]
    required = list(dict.fromkeys((*schema.get("required", ()), *common)))
    properties: dict[str, list[Schema]] = {name: [] for name in required}
    for each in (schema, *branches):
        for name, value in each.get("properties", {}).items():
            values = properties.setdefault(name, [])
            values += [value] if value not in (*values, {}) else []
    flat: Schema = {"type": "object"}
    flat |= {
        name: schema[name] for name in ("description", "additionalProperties") if name in schema
    }
    if sets := [" and ".join(names) for names in needed if names]:
        flat["description"] = f"{flat.get('description', '')} Give {', or '.join(sets)}.".strip()
    flat["properties"] = {
        name: {"anyOf": values} if len(values) > 1 else next(iter(values), {})
        for name, values in properties.items()
    }
    return {**flat, "required": required}


def _in_openapi(schema: Schema) -> Schema:
    """An expanded schema in OpenAPI's words."""
    kinds = _kinds(schema)
    types = [kind for kind in kinds if kind != "null"]
    choices = schema.get("anyOf") or [{"type": kind} for kind in types if len(types) > 1]
    if choices:  # they stand alone: what is beside them goes into each
        left_out = ("anyOf", "type") if len(types) > 1 else ("anyOf",)
        beside = {name: value for name, value in schema.items() if name not in left_out}
        chosen = [_in_openapi(_both(each, beside)) for each in choices if _kinds(each) != ["null"]]
        fitted = [each for one in chosen for each in one.get("anyOf", [one])]
        if "null" in kinds or len(chosen) < len(choices):
            fitted = [{**each, "nullable": True} for each in fitted]
        return {"anyOf": fitted} if len(fitted) > 1 else fitted[0] if fitted else dict(_NULL)
    if kinds == ["null"]:
        return dict(_NULL)
    words, properties = schema.get("enum", ()), schema.get("properties", {})
    held = "object" if properties else "array" if schema.get("items") else "string"
    kind = types[0] if types else _TYPE_OF.get(type(next(iter(words), None)), held)
    typed: Schema = {"type": kind} | ({"nullable": True} if "null" in kinds else {})
    if "description" in schema:
        typed["description"] = schema["description"]
    if kind == "array":
        typed["items"] = _in_openapi(schema.get("items", {}))
    elif kind == "object" and properties:
        typed["properties"] = {name: _in_openapi(part) for name, part in properties.items()}
        required = [name for name in schema.get("required", ()) if name in properties]
        typed |= {"required": required} if required else {}
    elif kind in ("number", "integer"):
        typed |= {name: schema[name] for name in ("minimum", "maximum") if name in schema}
    if words and kind == "string" and all(isinstance(word, str) and word for word in words):
        typed["enum"] = words
    elif words:
        _add_note(typed, "enum", words)
    if not isinstance(schema.get("default"), bool):
        _add_note(typed, "default", schema.get("default"))
    return typed


def _add_note(schema: Schema, name: str, value: Any) -> None:
    """Tells a keyword in the description."""
    if value not in (None, {}, []):
        note = f"{name}: {json.dumps(value, ensure_ascii=False)[:MAX_NOTE_CHARS]}"
        about = schema.get("description", "")
        schema["description"] = about if note in about else f"{about} {note}".strip()


def _both(first: Mapping[str, Any], second: Mapping[str, Any]) -> Schema:
    """A schema that demands what two demand, as far as one keyword can say it."""
    both = {**first, **second}
    for name in first.keys() & second.keys() & {"properties", "required", "anyOf", "description"}:
        new, old = second[name], first[name]
        if isinstance(new, dict) and isinstance(old, dict):
            both[name] = {**old, **new}
        elif isinstance(new, list) and isinstance(old, list):
            both[name] = [*new, *(each for each in old if each not in new)]
        elif isinstance(new, str) and isinstance(old, str):
            both[name] = " ".join(dict.fromkeys((new, old)))
    return both


def _of_today(raw: Any) -> Schema:
    """A schema in few words of 2020-12, where older drafts have others and one says the same."""
    if isinstance(raw, str) and raw.lower() in _TYPES:
        return {"type": raw}
    schema = dict(raw) if isinstance(raw, Mapping) else {}
    places = list_of(schema.pop("prefixItems", None)) or list_of(schema.get("items"))
    if places:
        schema["items"] = {"anyOf": places} if len(places) > 1 else places[0]
    if choices := [*list_of(schema.get("anyOf")), *list_of(schema.pop("oneOf", None))]:
        schema["anyOf"] = choices
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    return schema


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    """The types that a schema allows; none for every type."""
    kind = schema.get("type")
    words = [str(word).lower() for word in (kind if isinstance(kind, list) else [kind])]
    words += ["null"] if schema.get("nullable") is True and kind else []
    return list(dict.fromkeys(word for word in words if word in _TYPES))


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)
