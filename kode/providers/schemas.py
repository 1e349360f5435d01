"""Fits the JSON schema of a tool to what a vendor takes.

Schemas come from MCP servers and plug-ins, and one that a vendor refuses makes every request fail.
So only what JSON Schema 2020-12 knows is sent, in the form it has there, and of that only what the
vendor knows. The rest is told to the model in a description where that is of use: whoever runs the
tool checks its arguments in any case.
"""

import contextlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kode.providers.encoding import list_of, mapping_of

Schema = dict[str, Any]
Refs = tuple[str, ...]

MAX_DEPTH = 24  # what people write has fewer than ten levels
MAX_PARTS = 5_000
"""Schemas within a schema. What is beyond these limits may be anything."""
MAX_NOTE_CHARS = 500  # a list of a few dozen words


class UnfitSchemaError(ValueError):
    """A schema that no request can carry; the text says why."""


@dataclass(frozen=True, kw_only=True)
class SchemaForm:
    """What a vendor takes of a schema. None of them takes alternatives at the top."""

    keywords: frozenset[str] = frozenset()
    """OpenAPI's, if the vendor knows only these and no references: a type is one word, beside which
    `nullable` allows null, and alternatives stand alone. Empty: all of JSON Schema 2020-12."""
    property_names: str = ".*"
    """A pattern for the names of arguments."""


ANY_FORM = SchemaForm()
ANTHROPIC_FORM = SchemaForm(property_names=r"[a-zA-Z0-9_.-]{1,64}")
GOOGLE_FORM = SchemaForm(
    keywords=frozenset(
        "type format title description nullable enum properties required items minItems maxItems "
        "minProperties maxProperties minimum maximum minLength maxLength pattern anyOf".split()
    ),
)

_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_FORMATS = ("date-time", "float", "double", "int32", "int64")
"""Those that OpenAPI's form names."""
_CONTENT = {
    keyword: content
    for content, keywords in {
        "text": "title description format contentEncoding contentMediaType",
        "pattern": "pattern",
        "number": "minimum maximum exclusiveMinimum exclusiveMaximum",
        "positive": "multipleOf",
        "count": "minLength maxLength minItems maxItems minProperties maxProperties minContains "
        "maxContains",
        "switch": "uniqueItems deprecated readOnly writeOnly",
        "list": "enum examples",
        "any": "const default",
        "schema": "items contains additionalProperties propertyNames unevaluatedItems "
        "unevaluatedProperties not if then else",
        "schemas": "anyOf oneOf allOf prefixItems",
        "names": "properties patternProperties dependentSchemas $defs definitions",
    }.items()
    for keyword in keywords.split()
}
"""The keywords of JSON Schema 2020-12 → what they hold."""
_TYPE_OF = {bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
_NULL: Schema = {"type": "string", "nullable": True, "description": "null"}


def fit_schema(schema: Mapping[str, Any], form: SchemaForm) -> Schema:
    """The schema of an object as a form takes it. Raises: UnfitSchemaError."""
    kinds = schema.get("type") or "object"
    if "object" not in (kinds if isinstance(kinds, list) else [kinds]):
        raise UnfitSchemaError("its arguments are no object")
    fitting = _Fitting(dict(schema), form)
    flat = {**fitting.flatten(schema), "type": "object"}
    for name in [
        name
        for name in flat["properties"]
        if not re.fullmatch(form.property_names, name, re.DOTALL)
    ]:
        if name in flat["required"]:
            raise UnfitSchemaError(f"this vendor takes no argument named {name[:80]!r}")
        del flat["properties"][name]
    fitting.parts = 0
    fitted = fitting.fit(flat)
    fitted.setdefault("properties", {})
    return fitted


class _Fitting:
    """One schema on its way to a form."""

    def __init__(self, root: Schema, form: SchemaForm) -> None:
        self.root, self.form = root, form
        self.parts = 0

    def flatten(self, raw: Any, refs: Refs = ()) -> Schema:
        """The schema of an object with the properties of all its alternatives. Which of them belong
        together is told in its description."""
        schema, refs = self._follow(raw, refs, merges=True)
        alternatives = [*list_of(schema.get("anyOf")), *list_of(schema.get("oneOf"))]
        branches = [self.flatten(each, refs) for each in alternatives]
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
        left = "anyOf oneOf enum const not if then else dependentSchemas".split()
        return {
            **{name: value for name, value in schema.items() if name not in left},
            "properties": {name: {} for name in required}
            | {
                name: {"anyOf": values} if len(values) > 1 else next(iter(values), {})
                for name, values in properties.items()
            },
            "required": required,
        }

    def fit(self, raw: Any, refs: Refs = (), depth: int = 0) -> Schema:
        """A schema within the whole as the form takes it; `refs` are the references that have led
        to it."""
        raw = {} if depth > MAX_DEPTH else raw
        ref, to_openapi = mapping_of(raw).get("$ref"), bool(self.form.keywords)
        is_definition = re.fullmatch(r"#/(\$defs|definitions)/[^/]+", str(ref)) is not None
        if not to_openapi and is_definition and self._find(ref) is not None:
            beside = {name: value for name, value in raw.items() if name != "$ref"}
            return {"$ref": ref, **self.fit(beside, refs, depth + 1)}
        schema, refs = self._follow(raw, refs, merges=to_openapi)
        kinds = _kinds(schema)
        fitted: Schema = {"type": kinds[0] if len(kinds) == 1 else kinds} if kinds else {}
        for name, value in schema.items():
            content = _CONTENT.get(name)
            if content == "schema" and isinstance(value, Mapping | bool):
                is_word = isinstance(value, bool) and name != "items"
                fitted[name] = value if is_word else self.fit(value, refs, depth + 1)
            elif content == "schemas" and list_of(value):
                fitted[name] = [self.fit(element, refs, depth + 1) for element in value]
            elif content == "names" and (
                name not in ("$defs", "definitions") or (depth == 0 and not to_openapi)
            ):
                fitted[name] = {
                    key: self.fit(part, refs, depth + 1)
                    for key, part in mapping_of(value).items()
                    if name != "patternProperties" or _can_be("pattern", key)
                }
            elif content is not None and _can_be(content, value):
                fitted[name] = value
        if required := _list_required(schema):
            fitted["required"] = required
        if "array" in kinds and "items" not in fitted:
            fitted["items"] = self.fit({}, refs, depth + 1)
        return self._in_openapi(fitted) if to_openapi else fitted

    def _follow(self, raw: Any, refs: Refs, *, merges: bool) -> tuple[Schema, Refs]:
        """The schema with its references resolved and, if it `merges`, with the demands of `allOf`
        merged in; and the references that were followed so far."""
        self.parts += 1
        schema = _of_today(raw if self.parts <= MAX_PARTS else {})
        while "$ref" in schema:
            ref = schema.pop("$ref")
            if ref not in refs and (target := self._find(ref)) is not None:
                schema, refs = _both(_of_today(target), schema), (*refs, ref)
        for branch in list_of(schema.pop("allOf", None)) if merges else ():
            demanded, refs = self._follow(branch, refs, merges=True)
            schema = _both(demanded, schema)
        return schema, refs

    def _find(self, ref: Any) -> Mapping[str, Any] | None:
        """What a reference within the whole means; None for nothing, and for another document."""
        if not isinstance(ref, str) or not ref.startswith("#"):
            return None
        node: Any = self.root
        for step in ref.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            is_place = isinstance(node, list) and step.isdecimal() and int(step) < len(node)
            node = node[int(step)] if is_place else mapping_of(node).get(step)
        return node if isinstance(node, Mapping) else None

    def _in_openapi(self, schema: Schema) -> Schema:
        """A schema whose parts are in OpenAPI's words in these words."""
        kinds = _kinds(schema)
        types = [kind for kind in kinds if kind != "null"]
        choices = [*schema.pop("anyOf", ()), *schema.pop("oneOf", ())]
        if len(types) > 1:
            del schema["type"]
            choices = choices or [{"type": kind} for kind in types]
        if not choices:
            return dict(_NULL) if kinds == ["null"] else self._fit_types(schema, types, kinds)
        # Alternatives stand alone: what is beside them goes into each.
        fitted: list[Schema] = []
        for choice in choices:
            if choice != _NULL:
                each = self._in_openapi(_both(choice, schema))
                fitted += each.get("anyOf", [each])
        if "null" in kinds or _NULL in choices:
            fitted = [{**each, "nullable": True} for each in fitted]
        return {"anyOf": fitted} if len(fitted) > 1 else fitted[0] if fitted else dict(_NULL)

    def _fit_types(self, schema: Schema, types: list[str], kinds: list[str]) -> Schema:
        """A schema of at most one type, without alternatives."""
        value = next(iter(schema.get("enum", ())), schema.get("const"))
        if isinstance(value, str) and "const" in schema:
            schema["enum"] = [schema.pop("const")]
        holds = {"properties": "object", "items": "array"}
        held = next((kind for name, kind in holds.items() if schema.get(name)), "string")
        kind = types[0] if types else _TYPE_OF.get(type(value), held)
        typed: Schema = {"type": kind} | ({"nullable": True} if "null" in kinds else {})
        notes = [schema["description"]] if schema.get("description") else []
        for name, value in schema.items():
            if name in ("type", "nullable", "description", "required"):
                continue
            is_known = name in self.form.keywords and holds.get(name, kind) == kind
            if name == "enum":
                is_known = kind == "string" and all(
                    isinstance(word, str) and word for word in value
                )
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
    for name in ("properties", "required", "anyOf", "oneOf", "description"):
        new, old = second.get(name), first.get(name)
        if isinstance(new, dict) and isinstance(old, dict):
            both[name] = {**old, **new}
        elif isinstance(new, list) and isinstance(old, list):
            both[name] = [*new, *(each for each in old if each not in new)]
        elif name == "description" and isinstance(new, str) and isinstance(old, str):
            both[name] = " ".join(dict.fromkeys((new, old)))
    return both


def _of_today(raw: Any) -> Schema:
    """A schema in the words of 2020-12, where older drafts have others."""
    if isinstance(raw, str) and raw.lower() in _TYPES:
        return {"type": raw}
    schema = dict(raw) if isinstance(raw, Mapping) else {"not": {}} if raw is False else {}
    for exclusive, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if schema.get(exclusive) is True and limit in schema:
            schema[exclusive] = schema.pop(limit)
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
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


def _can_be(content: str, value: Any) -> bool:
    """Whether a value is what a keyword holds."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match content:
        case "text":
            return isinstance(value, str)
        case "pattern":
            with contextlib.suppress(re.error):
                return isinstance(value, str) and re.compile(value) is not None
        case "number" | "positive":
            return is_number and math.isfinite(value) and (content == "number" or value > 0)
        case "count":
            return is_number and isinstance(value, int) and value >= 0
        case "switch":
            return isinstance(value, bool)
        case "list":
            return list_of(value) != []
    return content == "any"
