"""Fits the JSON schema of a tool to what a vendor takes.

Schemas come from MCP servers and plug-ins, and one that a vendor refuses makes every request fail.
So only what JSON Schema 2020-12 knows is sent, in the form it has there, and of that only what the
vendor knows. The rest is told to the model in a description where that is of use: whoever runs the
tool checks its arguments in any case.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kode.providers.encoding import list_of, mapping_of

Schema = dict[str, Any]

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
    """OpenAPI's, if the vendor knows only these: a type is one word, beside which `nullable` allows
    null, and alternatives stand alone. Empty: all of JSON Schema 2020-12."""
    inlines_refs: bool = False
    """Whether references are replaced by what they mean."""
    property_names: str = ".*"
    """A pattern for the names of arguments."""


ANY_FORM = SchemaForm()
ANTHROPIC_FORM = SchemaForm(property_names=r"[a-zA-Z0-9_.-]{1,64}")
GOOGLE_FORM = SchemaForm(
    keywords=frozenset(
        "type format title description nullable enum properties required items minItems maxItems "
        "minProperties maxProperties minimum maximum minLength maxLength pattern anyOf".split()
    ),
    inlines_refs=True,
)

_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_FORMATS = ("date-time", "float", "double", "int32", "int64")
"""Those that OpenAPI's form names."""
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")
_ONE = frozenset(
    "items contains additionalProperties propertyNames unevaluatedItems unevaluatedProperties not "
    "if then else".split()
)
_LISTS = frozenset((*_ALTERNATIVES, "prefixItems"))
_DEFINITIONS = ("$defs", "definitions")
_MAPS = frozenset(("properties", "patternProperties", "dependentSchemas", *_DEFINITIONS))
"""Keywords that hold a schema, a list of them, or schemas by name."""


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_pattern(value: Any) -> bool:
    try:
        return isinstance(value, str) and re.compile(value) is not None
    except re.error:
        return False


_VALUES: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        "title description format contentEncoding contentMediaType".split(),
        lambda value: isinstance(value, str),
    ),
    "pattern": _is_pattern,
    **dict.fromkeys("minimum maximum exclusiveMinimum exclusiveMaximum".split(), _is_number),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(
        "minLength maxLength minItems maxItems minProperties maxProperties minContains "
        "maxContains".split(),
        _is_count,
    ),
    **dict.fromkeys(
        "uniqueItems deprecated readOnly writeOnly".split(), lambda value: isinstance(value, bool)
    ),
    **dict.fromkeys(("enum", "examples"), lambda value: isinstance(value, list) and value != []),
    **dict.fromkeys(("const", "default"), lambda value: True),
}
"""Other keywords → whether they can have a value."""

_KIND_OF = {bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
_NULL: Mapping[str, Any] = {"type": "string", "nullable": True, "description": "null"}


def fit_schema(schema: Mapping[str, Any], form: SchemaForm) -> Schema:
    """The schema of an object as a form takes it. Raises: UnfitSchemaError."""
    fitted = _Fitting(dict(schema), form).whole()
    fitted.pop("nullable", None)  # the arguments of a call are never null
    return fitted | {"type": "object"}


class _Fitting:
    """One schema on its way to a form."""

    def __init__(self, root: Schema, form: SchemaForm) -> None:
        self.root = root
        self.form = form
        self.parts = 0

    def whole(self) -> Schema:
        kinds = self.root.get("type") or "object"
        if "object" not in (kinds if isinstance(kinds, list) else [kinds]):
            raise UnfitSchemaError("its arguments are no object")
        fitted = self._fit({**self._without_alternatives(self.root, ()), "type": "object"}, (), 0)
        required = fitted.get("required", [])
        properties: Schema = {name: {} for name in required} | fitted.get("properties", {})
        for name in [name for name in properties if not self._can_name(name)]:
            if name in required:
                raise UnfitSchemaError(f"this vendor takes no argument named {name[:80]!r}")
            del properties[name]
        fitted["properties"], self.parts = properties, 0
        return self._in_openapi(fitted) if self.form.keywords else fitted

    def _can_name(self, name: str) -> bool:
        return re.fullmatch(self.form.property_names, name, re.DOTALL) is not None

    def _without_alternatives(self, schema: Any, refs: tuple[str, ...]) -> Schema:
        """The schema of an object with the properties of all its alternatives. Which of them belong
        together is told in its description."""
        self.parts += 1
        if not isinstance(schema, Mapping) or self.parts > MAX_PARTS:
            return {}
        merged = _of_today(schema)
        ref = merged.pop("$ref", None)
        if isinstance(ref, str) and ref not in refs:
            merged = {**(self._resolve_reference(ref) or {}), **merged}
            return self._without_alternatives(merged, (*refs, ref))
        properties = {name: [value] for name, value in mapping_of(merged.get("properties")).items()}
        required = _required(merged)
        notes = [merged.get("description")]
        for keyword in _ALTERNATIVES:
            branches = [
                self._without_alternatives(each, refs) for each in list_of(merged.get(keyword))
            ]
            for branch in branches:
                notes.append(branch.get("description"))
                for name, value in branch["properties"].items() if branch else ():
                    values = properties.setdefault(name, [])
                    values += [value] if value not in values else []
            needed = [branch.get("required", []) for branch in branches]
            if keyword == "allOf":
                required += [name for names in needed for name in names]
            elif needed:
                required += [name for name in needed[0] if all(name in names for names in needed)]
                sets = [" and ".join(names) for names in needed if names]
                notes += [f"Give {', or '.join(sets)}."] if sets else []
        left = (*_ALTERNATIVES, *"description enum const not if then else dependentSchemas".split())
        texts = [note for note in notes if note and isinstance(note, str)]
        description = " ".join(dict.fromkeys(texts))
        return {
            **{name: value for name, value in merged.items() if name not in left},
            **({"description": description} if description else {}),
            "properties": {
                name: values[0] if len(values) == 1 else {"anyOf": values}
                for name, values in properties.items()
            },
            "required": list(dict.fromkeys(required)),
        }

    def _fit(self, raw: Any, refs: tuple[str, ...], depth: int) -> Schema:
        """A schema within the whole; `refs` are the references that have led to it."""
        self.parts += 1
        if self.parts > MAX_PARTS or depth > MAX_DEPTH:
            raw = {}
        schema = _of_today(raw)
        ref = schema.pop("$ref", None)
        target = self._resolve_reference(ref) if isinstance(ref, str) else None
        if target is not None and not self.form.inlines_refs and _is_definition(ref):
            return {"$ref": ref, **self._fit(schema, refs, depth + 1)}
        if target is not None and ref not in refs:
            return self._fit({**target, **schema}, (*refs, ref), depth + 1)
        kinds = _kinds(schema)
        fitted: Schema = {"type": kinds[0] if len(kinds) == 1 else kinds} if kinds else {}
        for name, value in schema.items():
            if name in _VALUES and _VALUES[name](value):
                fitted[name] = value
            elif name in _ONE and isinstance(value, Mapping | bool):
                is_word = isinstance(value, bool) and name != "items"
                fitted[name] = value if is_word else self._fit(value, refs, depth + 1)
            elif name in _LISTS and list_of(value):
                fitted[name] = [self._fit(element, refs, depth + 1) for element in value]
            elif name in _MAPS and (depth == 0 or name not in _DEFINITIONS):
                fitted[name] = {
                    key: self._fit(part, refs, depth + 1)
                    for key, part in mapping_of(value).items()
                    if name != "patternProperties" or _is_pattern(key)
                }
        if required := _required(schema):
            fitted["required"] = required
        if "array" in kinds and "items" not in fitted:
            fitted["items"] = self._fit({}, refs, depth + 1)
        return fitted

    def _resolve_reference(self, ref: str) -> Mapping[str, Any] | None:
        """What a reference within the whole means; None for nothing, and for another document."""
        node: Any = self.root if ref.startswith("#") else None
        for step in ref[1:].split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            is_place = isinstance(node, list) and step.isdecimal() and int(step) < len(node)
            node = node[int(step)] if is_place else mapping_of(node).get(step)
        return node if isinstance(node, Mapping) else None

    def _in_openapi(self, schema: Schema) -> Schema:
        """A schema of 2020-12 without references in OpenAPI's words."""
        self.parts += 1
        if self.parts > MAX_PARTS:
            return {"type": "string"}
        common = {k: v for k, v in schema.items() if k not in _ALTERNATIVES}
        demands = [*schema.get("allOf", ())]
        for branch in demands:
            demands += branch.get("allOf", ())
            common = _both({k: v for k, v in branch.items() if k != "allOf"}, common)
        nested = [*common.pop("anyOf", ()), *common.pop("oneOf", ())]
        choices = [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *nested]
        kinds = _kinds(common)
        if len({*kinds} - {"null"}) > 1 and not choices:
            choices = [{"type": kind} for kind in kinds]
        if not choices:
            return self._typed(common, kinds)
        # Alternatives stand alone: what is beside them goes into each.
        if len({*kinds} - {"null"}) > 1:
            del common["type"]
        fitted: list[Schema] = []
        for choice in choices:
            if choice.get("type") != "null":
                each = self._in_openapi(_both(common, choice))
                fitted += each.get("anyOf", [each])
        if "null" in kinds or len(fitted) < len(choices):
            fitted = [{**each, "nullable": True} for each in fitted]
        return {"anyOf": fitted} if len(fitted) > 1 else fitted[0] if fitted else dict(_NULL)

    def _typed(self, schema: Schema, kinds: Sequence[str]) -> Schema:
        """A schema without alternatives."""
        if [*kinds] == ["null"]:
            return dict(_NULL)
        values = schema.get("enum") or [schema.get("const")]
        if isinstance(values[0], str):
            schema = {k: v for k, v in schema.items() if k != "const"} | {"enum": values}
        holds = (("object", "properties"), ("array", "items"))
        held = next((kind for kind, name in holds if schema.get(name)), "string")
        kind = next((kind for kind in kinds if kind != "null"), _KIND_OF.get(type(values[0]), held))
        typed: Schema = {"type": kind} | ({"nullable": True} if "null" in kinds else {})
        notes = [schema["description"]] if schema.get("description") else []
        for name, value in schema.items():
            if name in ("type", "description", "required"):
                continue
            if name == "properties" and kind == "object":
                typed[name] = {key: self._in_openapi(part) for key, part in value.items()}
            elif name == "items" and kind == "array":
                typed[name] = self._in_openapi(value)
            elif name in self.form.keywords and _fits(name, value, kind):
                typed[name] = value
            elif not isinstance(value, bool) and value not in (None, {}):
                notes.append(f"{name}: {json.dumps(value, ensure_ascii=False)[:MAX_NOTE_CHARS]}")
        if kind == "array":
            typed.setdefault("items", {"type": "string"})
        if notes:
            typed["description"] = " ".join(notes)
        names = [name for name in schema.get("required", ()) if name in typed.get("properties", {})]
        return {**typed, "required": list(dict.fromkeys(names))} if names else typed


def _fits(name: str, value: Any, kind: str) -> bool:
    """Whether a keyword is one that OpenAPI's form has for this value and type."""
    if name == "enum":
        return kind == "string" and all(isinstance(word, str) and word for word in value)
    return value in _FORMATS if name == "format" else name not in ("properties", "items")


def _both(first: Mapping[str, Any], second: Mapping[str, Any]) -> Schema:
    """A schema that demands what two demand, as far as one keyword can say it."""
    both = {**first, **second}
    for name in ("properties", "required"):
        pair = first.get(name), second.get(name)
        if pair[0] and pair[1]:
            both[name] = {**pair[0], **pair[1]} if name == "properties" else [*pair[0], *pair[1]]
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
        if "additionalItems" in schema:
            schema["items"] = schema["additionalItems"]
    return schema


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    """The types that a schema allows; none for every type."""
    kind = schema.get("type")
    words = [str(word).lower() for word in (kind if isinstance(kind, list) else [kind])]
    words += ["null"] if schema.get("nullable") is True and kind else []
    return list(dict.fromkeys(word for word in words if word in _TYPES))


def _required(schema: Mapping[str, Any]) -> list[str]:
    """The names of a list, and those of properties that say it of themselves, as in draft 3."""
    names = [name for name in list_of(schema.get("required")) if isinstance(name, str)]
    for name, value in mapping_of(schema.get("properties")).items():
        names += [name] if mapping_of(value).get("required") is True else []
    return list(dict.fromkeys(names))


def _is_definition(ref: str) -> bool:
    return re.fullmatch(r"#/(\$defs|definitions)/[^/]+", ref) is not None
