"""Fits the JSON schema of a tool to what a vendor takes.

Schemas come from MCP servers and plug-ins, and one that a vendor refuses makes every request fail.
So only what every vendor knows of JSON Schema 2020-12 is sent, without references. To Google goes
the part of it that OpenAPI has, and the rest as words in a description. What is left out loses
nothing: whoever runs the tool checks its arguments in any case.
"""

import contextlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_pattern(value: Any) -> bool:
    with contextlib.suppress(re.error, RecursionError):
        return isinstance(value, str) and re.compile(value) is not None
    return False


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("title", "description", "format"), _is_text),
    **dict.fromkeys(("minimum", "maximum"), _is_number),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        _is_count,
    ),
    "pattern": _is_pattern,
    "enum": lambda value: list_of(value) != [],
    "default": lambda value: True,
}
"""The keywords that hold no schema → whether a value is one that they can have."""
_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_TYPE_OF = {bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
_HOLDERS = {"properties": "object", "items": "array"}
_NOT_IN_OPENAPI = ("default", "additionalProperties")
_FORMATS = ("date-time", "float", "double", "int32", "int64")
"""Those that OpenAPI's form names."""
_NULL: Schema = {"type": "string", "nullable": True, "description": "null"}


def fit_schema(schema: Mapping[str, Any], form: SchemaForm) -> Schema:
    """The schema of an object as a form takes it. Raises: UnfitSchemaError."""
    kinds = schema.get("type") or "object"
    if "object" not in (kinds if isinstance(kinds, list) else [kinds]):
        raise UnfitSchemaError("its arguments are no object")
    fitting = _Fitting(schema, form)
    flat = {**fitting.flatten(schema), "type": "object"}
    flat.pop("nullable", None)
    for name in list(flat["properties"]):
        if not re.fullmatch(form.property_names, name, re.DOTALL):
            if name in flat["required"]:
                raise UnfitSchemaError(f"this vendor takes no argument named {name[:80]!r}")
            del flat["properties"][name]
    fitting.parts = 0
    return {"type": "object", "properties": {}} | fitting.fit(flat)


class _Fitting:
    """One schema on its way to a form."""

    def __init__(self, root: Mapping[str, Any], form: SchemaForm) -> None:
        self.root, self.form = root, form
        self.parts = 0

    def flatten(self, raw: Any, refs: Refs = ()) -> Schema:
        """The schema of an object with the properties of all its alternatives. Which of them belong
        together is told in its description."""
        schema, refs = self._resolve(raw, refs)
        branches = [self.flatten(each, refs) for each in list_of(schema.pop("anyOf", None))]
        properties: dict[str, list[Any]] = {}
        for each in (schema, *branches):
            for name, value in mapping_of(each.get("properties")).items():
                values = properties.setdefault(name, [])
                values += [value] if value not in (*values, {}) else []
        needed = [branch["required"] for branch in branches]
        common = [name for name in next(iter(needed), ()) if all(name in n for n in needed)]
        required = list(dict.fromkeys((*_list_required(schema), *common)))
        if sets := [" and ".join(names) for names in needed if names]:
            note = f"Give {', or '.join(sets)}."
            schema["description"] = f"{schema.get('description') or ''} {note}".strip()
        schema.pop("enum", None)
        for name in required:
            properties.setdefault(name, [])
        given = {
            name: {"anyOf": values} if len(values) > 1 else next(iter(values), {})
            for name, values in properties.items()
        }
        return {**schema, "properties": given, "required": required}

    def fit(self, raw: Any, refs: Refs = (), depth: int = 0) -> Schema:
        """A schema within the whole as the form takes it; `refs` are the references that have led
        to it."""
        schema, refs = self._resolve(raw if depth <= MAX_DEPTH else {}, refs)
        kinds = _kinds(schema)
        fitted: Schema = {"type": kinds[0] if len(kinds) == 1 else kinds} if kinds else {}
        for name, value in schema.items():
            match name:
                case "properties":
                    parts = mapping_of(value).items()
                    fitted[name] = {key: self.fit(part, refs, depth + 1) for key, part in parts}
                case "anyOf" if list_of(value):
                    fitted[name] = [self.fit(part, refs, depth + 1) for part in value]
                case "additionalProperties" if isinstance(value, bool):
                    fitted[name] = value
                case "items" | "additionalProperties" if isinstance(value, Mapping | bool):
                    fitted[name] = self.fit(value, refs, depth + 1)
                case _ if name in _CHECKS and _CHECKS[name](value):
                    fitted[name] = value
        if required := _list_required(schema):
            fitted["required"] = required
        if "array" in kinds and "items" not in fitted:
            fitted["items"] = self.fit({}, refs, depth + 1)
        return _in_openapi(fitted) if self.form.is_openapi else fitted

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


def _in_openapi(schema: Schema) -> Schema:
    """A schema whose parts are in OpenAPI's words in these words."""
    kinds = _kinds(schema)
    types = [kind for kind in kinds if kind != "null"]
    choices = schema.pop("anyOf", [{"type": kind} for kind in types] if len(types) > 1 else [])
    if not choices:
        return dict(_NULL) if kinds == ["null"] else _fit_types(schema, types, kinds)
    if len(types) > 1:
        del schema["type"]
    # Alternatives stand alone: what is beside them goes into each.
    fitted: list[Schema] = []
    for choice in choices:
        if choice != _NULL:
            each = _in_openapi(_both(choice, schema))
            fitted += each.get("anyOf", [each])
    if "null" in kinds or _NULL in choices:
        fitted = [{**each, "nullable": True} for each in fitted]
    return {"anyOf": fitted} if len(fitted) > 1 else fitted[0] if fitted else dict(_NULL)


def _fit_types(schema: Schema, types: list[str], kinds: list[str]) -> Schema:
    """A schema of at most one type, without alternatives."""
    words = schema.get("enum", [])
    held = next((kind for name, kind in _HOLDERS.items() if schema.get(name)), "string")
    kind = types[0] if types else _TYPE_OF.get(type(next(iter(words), None)), held)
    typed: Schema = {"type": kind} | ({"nullable": True} if "null" in kinds else {})
    notes = [schema["description"]] if schema.get("description") else []
    for name, value in schema.items():
        if name in ("type", "nullable", "description", "required"):
            continue
        is_known = name not in _NOT_IN_OPENAPI and _HOLDERS.get(name, kind) == kind
        if name == "enum":
            is_known = kind == "string" and all(isinstance(word, str) and word for word in words)
        if is_known and (name != "format" or value in _FORMATS):
            typed[name] = value
        elif not isinstance(value, bool) and value not in (None, {}):
            notes.append(f"{name}: {json.dumps(value, ensure_ascii=False)[:MAX_NOTE_CHARS]}")
    if kind == "array":
        typed.setdefault("items", {"type": "string"})
    if notes:
        typed["description"] = " ".join(dict.fromkeys(notes))
    names = [name for name in schema.get("required", ()) if name in typed.get("properties", {})]
    return {**typed, "required": names} if names else typed


def _both(first: Mapping[str, Any], second: Mapping[str, Any]) -> Schema:
    """A schema that demands what two demand, as far as one keyword can say it."""
    both = {**first, **second}
    for name in ("properties", "required", "anyOf", "description"):
        new, old = second.get(name), first.get(name)
        if isinstance(new, dict) and isinstance(old, dict):
            both[name] = {**old, **new}
        elif isinstance(new, list) and isinstance(old, list):
            both[name] = [*new, *(each for each in old if each not in new)]
        elif name == "description" and isinstance(new, str) and isinstance(old, str):
            both[name] = " ".join(dict.fromkeys((new, old)))
    return both


def _of_today(raw: Any) -> Schema:
    """A schema in few words of 2020-12, where older drafts have others and one says the same."""
    if isinstance(raw, str) and raw.lower() in _TYPES:
        return {"type": raw}
    schema = dict(raw) if isinstance(raw, Mapping) else {}
    for limit in ("minimum", "maximum"):  # one more or less is for the tool to refuse
        if _is_number(exclusive := schema.pop(f"exclusive{limit.title()}", None)):
            schema.setdefault(limit, exclusive)
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


def _list_required(schema: Mapping[str, Any]) -> list[str]:
    names = [name for name in list_of(schema.get("required")) if isinstance(name, str)]
    return list(dict.fromkeys(names))
