"""What a tool's schema becomes for a vendor."""

import itertools
from typing import Any

from hypothesis import example, given, settings, strategies as st
from jsonschema import Draft202012Validator

from kode.events import Notice
from kode.messages import text_of, user_message
from kode.provider import Request, ToolSpec
from kode.providers.request import SchemaForm, UnfitSchemaError, fit_schema
from tests.effort import share
from tests.providers.line import open_at
from tests.strict_server import StrictServer
from tests.tables import for_each

Schema = dict[str, Any]

WORDS = st.sampled_from(
    "string number object array null STRING any type properties required items anyOf a b #/$defs/a "
    "#/$defs/b #/properties/a # #/nothing https://a.example/s ( ^a$ date-time uuid".split()
)
KEYWORDS = st.sampled_from(
    "type properties required items anyOf oneOf allOf $ref $defs definitions $schema $id enum "
    "const nullable exclusiveMinimum minimum maxLength multipleOf pattern format not if title "
    "additionalProperties prefixItems additionalItems dependencies patternProperties description "
    "default x-y".split()
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | WORDS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(KEYWORDS, inner, max_size=5),
        st.dictionaries(WORDS, inner, max_size=3),
        st.fixed_dictionaries({"properties": st.dictionaries(WORDS, inner, max_size=3)}),
        st.fixed_dictionaries({"$ref": WORDS}),
    ),
    max_leaves=12,
)


OPENAPI = frozenset(
    "type format title description nullable enum properties required items minItems maxItems "
    "minProperties maxProperties minimum maximum minLength maxLength pattern anyOf".split()
)


def schemas_in(schema: Schema) -> list[Schema]:
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    inner += [schema["items"]] if "items" in schema else []
    return [schema, *(each for one in inner for each in schemas_in(one))]


@settings(max_examples=share(150))
@given(
    raw=st.dictionaries(KEYWORDS, ANYTHING, max_size=6),
    form=st.sampled_from(("any", "anthropic", "google")),
)
@example(raw={"nullable": True}, form="any")
def test_every_schema_becomes_one_that_its_vendor_takes(raw: Schema, form: SchemaForm) -> None:
    try:
        fitted = fit_schema(raw, form)
    except UnfitSchemaError:
        return

    Draft202012Validator.check_schema(fitted)
    assert fitted["type"] == "object"
    assert not fitted.keys() & {"anyOf", "oneOf", "allOf", "enum", "not", "$schema"}
    assert {*fitted.get("required", ())} <= {*fitted["properties"]}
    # A reference that leads nowhere would raise.
    list(Draft202012Validator(fitted).iter_errors({"a": 1, "b": [{}]}))
    assert fit_schema(fitted, form) == fitted
    for schema in schemas_in(fitted) if form == "google" else ():
        assert schema.keys() <= OPENAPI
        assert isinstance(schema.get("type"), str) != ("anyOf" in schema)
        assert "anyOf" not in schema or schema.keys() == {"anyOf"}
        assert all(isinstance(word, str) for word in schema.get("enum", ()))
        assert "items" in schema or schema.get("type") != "array"


NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
SOUND: Schema = {
    "type": "object",
    "description": "A search.",
    "properties": {
        "query": {"type": "string", "description": "What to find"},
        "limit": {"type": "integer", "minimum": 1, "default": 10},
        "kinds": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
    },
    "required": ["query"],
    "additionalProperties": False,
}
ALTERNATIVES: Schema = {
    "properties": {"q": {"type": "string"}},
    "anyOf": [
        {"properties": {"id": {"type": "integer"}}, "required": ["q", "id"]},
        {"properties": {"id": {"type": "string"}, "name": {}}, "required": ["q", "name"]},
    ],
    "allOf": [{"required": ["all"]}],
}


def of(**schema: Any) -> Schema:
    """A schema with one property."""
    return {"properties": {"a": schema}}


@for_each(
    ("form", "raw", "properties"),
    [
        *((form, SOUND, SOUND["properties"]) for form in ("any", "anthropic")),
        # Older words and faults.
        ("any", {"properties": {"a": "string", "b": True}}, {"a": {"type": "string"}, "b": {}}),
        ("any", of(minimum=1, exclusiveMinimum=True), {"a": {"minimum": 1}}),
        ("any", of(minLength=1, description="An A."),
         {"a": {"description": "An A. minLength: 1"}}),
        ("any", of(type="array", items=[{"type": "string"}]),
         {"a": {"type": "array", "items": {"type": "string"}}}),
        ("any", {**of(**{"$ref": "#/$defs/node"}), "$defs": {"node": NODE}},
         {"a": {"type": "object", "properties": {"next": {}}}}),
        ("any", of(type="string", nullable=True), {"a": {"type": ["string", "null"]}}),
        ("any", {"$ref": "#/definitions/x", "definitions": {"x": of(type="null")}},
         {"a": {"type": "null"}}),
        # Alternatives at the top become properties.
        ("anthropic", ALTERNATIVES, {
            "q": {"type": "string"}, "id": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "name": {}, "all": {}}),
        # Google is told in a description what it lacks.
        ("google", of(type=["integer", "null"], default=0, description="An A."),
         {"a": {"type": "integer", "nullable": True, "description": "An A. default: 0"}}),
        ("google", of(anyOf=[{"type": "string"}, {"type": "null"}], description="B"),
         {"a": {"type": "string", "nullable": True, "description": "B"}}),
        ("google", of(oneOf=[{"type": "string"}, {"const": 1}], description="C."),
         {"a": {"anyOf": [{"type": "string", "description": "C."},
                          {"type": "integer", "description": "C. enum: [1]"}]}}),
        ("google", {**of(**{"$ref": "#/$defs/node"}), "$defs": {"node": NODE}},
         {"a": {"type": "object", "properties": {"next": {"type": "string"}}}}),
        ("google", of(enum=[1, 2]), {"a": {"type": "integer", "description": "enum: [1, 2]"}}),
    ],
)  # fmt: skip
def test_a_schema_keeps_its_meaning(form: SchemaForm, raw: Schema, properties: Schema) -> None:
    fitted = fit_schema(raw, form)

    assert fitted["properties"] == properties
    if raw is SOUND:
        assert fitted == SOUND
    if raw is ALTERNATIVES:
        assert sorted(fitted["required"]) == ["all", "q"]
        assert "q and id" in fitted["description"]
        assert "q and name" in fitted["description"]


def test_references_that_stand_for_more_and_more_end() -> None:
    names = [f"d{number}" for number in range(40)]
    defs = {
        name: {"properties": {side: {"$ref": f"#/$defs/{after}"} for side in "lr"}}
        for name, after in itertools.pairwise(names)
    }

    fitted = fit_schema({"$ref": "#/$defs/d0", "$defs": defs}, "google")

    assert len(schemas_in(fitted)) < 10_000


ODD: list[Schema] = [
    {},
    {
        "$schema": "http://json-schema.org/draft-04/schema#",
        **of(type="number", minimum=0, exclusiveMinimum=True),
        "required": True,
    },
    {"type": ["object", "null"], **of(type=["string", "null"])},
    ALTERNATIVES,
    {"oneOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": {"properties": {"a": True}}}},
    {"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#/nothing"}}},
    SOUND,
    of(type="array", items=[{"const": 1}, {"enum": ["x"]}]),
    {"not": {"required": ["a"]}, "properties": {"a": {"not": {}, "format": "uri"}}},
    {"type": "array"},
]
"""The last is none that a tool can have."""


@for_each(
    ("vendor", "model"),
    [
        ("anthropic", "claude-sonnet-5-5"),
        ("openai", "gpt-6.1-sol"),
        ("gemini", "gemini-3.1-pro-preview"),
        ("moonshot", "kimi-k3"),
    ],
)
async def test_no_schema_makes_a_vendor_refuse_a_request(vendor: str, model: str) -> None:
    tools = tuple(
        ToolSpec(name=f"tool_{at}", description="", parameters=raw) for at, raw in enumerate(ODD)
    )
    notices: list[Any] = []
    with StrictServer([{"text": "Done."}], vendor=vendor) as server:
        provider = open_at(server, vendor, model)
        request = Request(system="", messages=[user_message("Hi")], tools=tools)
        reply = await provider.reply(request, notices.append)
        await provider.aclose()

    assert (text_of(reply), server.refusals) == ("Done.", [])
    assert len(server.requests[0].json["tools"]) == len(ODD) - 1
    (note,) = [event.text for event in notices if isinstance(event, Notice)]
    assert f"tool_{len(ODD) - 1}:" in note
