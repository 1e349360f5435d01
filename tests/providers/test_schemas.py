"""What a tool's schema becomes for a vendor."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kode.events import Notice
from kode.messages import text_of, user_message
from kode.provider import Request, ToolSpec
from kode.providers.request import Omissions, fit_tools
from kode.providers.schemas import (
    ANTHROPIC_FORM,
    ANY_FORM,
    GOOGLE_FORM,
    SchemaForm,
    UnfitSchemaError,
    fit_schema,
)
from kode.registry import opener_of
from tests.effort import share
from tests.providers.line import settings_of
from tests.strict_server import StrictServer
from tests.tables import for_each

Schema = dict[str, Any]

WORDS = st.sampled_from(
    "string number object array null STRING any type properties required items anyOf a b #/$defs/a "
    "#/$defs/b #/properties/a # #/nothing https://a.example/s ( ^a$ date-time uuid".split()
)
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-2, 3), st.floats(), WORDS)
KEYWORDS = st.sampled_from(
    "type properties required items anyOf oneOf allOf $ref $defs definitions $schema $id enum "
    "const nullable exclusiveMinimum minimum maxLength multipleOf pattern format not if title "
    "additionalProperties prefixItems additionalItems dependencies patternProperties description "
    "default x-y".split()
)
ANYTHING = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(KEYWORDS, inner, max_size=5),
        st.dictionaries(WORDS, inner, max_size=3),
        st.fixed_dictionaries({"properties": st.dictionaries(WORDS, inner, max_size=3)}),
        st.fixed_dictionaries({"$ref": WORDS}),
    ),
    max_leaves=12,
)
FORMS = {"any": ANY_FORM, "anthropic": ANTHROPIC_FORM, "google": GOOGLE_FORM}


def schemas_in(schema: Schema) -> list[Schema]:
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    inner += [schema["items"]] if "items" in schema else []
    return [schema, *(each for one in inner for each in schemas_in(one))]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@settings(max_examples=share(60))
@given(raw=st.dictionaries(KEYWORDS, ANYTHING, max_size=6))
def test_every_schema_becomes_valid_without_alternatives_at_the_top(
    form: SchemaForm, raw: Schema
) -> None:
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


@settings(max_examples=share(60))
@given(raw=st.dictionaries(KEYWORDS, ANYTHING, max_size=6))
def test_google_gets_only_keywords_and_combinations_that_it_knows(raw: Schema) -> None:
    try:
        fitted = fit_schema(raw, GOOGLE_FORM)
    except UnfitSchemaError:
        return

    for schema in schemas_in(fitted):
        assert schema.keys() <= GOOGLE_FORM.keywords
        assert isinstance(schema.get("type"), str) != ("anyOf" in schema)
        assert "anyOf" not in schema or schema.keys() == {"anyOf"}
        assert all(isinstance(word, str) for word in schema.get("enum", ()))
        assert "items" in schema or schema.get("type") != "array"


SOUND: Schema = {
    "type": "object",
    "description": "A search.",
    "properties": {
        "query": {"type": "string", "description": "What to find", "minLength": 1},
        "limit": {"type": "integer", "minimum": 1, "default": 10},
        "kinds": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        "tree": {"$ref": "#/$defs/node"},
    },
    "$defs": {
        "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}},
    },
    "required": ["query"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("form", [ANY_FORM, ANTHROPIC_FORM])
def test_a_sound_schema_stays_as_it_is(form: SchemaForm) -> None:
    assert fit_schema(SOUND, form) == SOUND


@for_each(
    ("given_schema", "properties"),
    [
        ({}, {}),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "id": "x"}, {}),
        ({"properties": {"a": "string", "b": True}}, {"a": {"type": "string"}, "b": {}}),
        ({"properties": {"a": {"type": "ARRAY"}}}, {"a": {"type": "array", "items": {}}}),
        (
            {"properties": {"a": {"minimum": 1, "exclusiveMinimum": True}}},
            {"a": {"exclusiveMinimum": 1}},
        ),
        (
            {"properties": {"a": {"type": "array", "items": [{"type": "string"}]}}},
            {"a": {"type": "array", "prefixItems": [{"type": "string"}], "items": {}}},
        ),
        (
            {"properties": {"a": {"type": "string", "nullable": True}}},
            {"a": {"type": ["string", "null"]}},
        ),
        ({"required": ["a"]}, {"a": {}}),
        (
            {"properties": {"a": {"$ref": "https://a.example/s.json", "title": "A"}}},
            {"a": {"title": "A"}},
        ),
        (
            {
                "$ref": "#/definitions/x",
                "definitions": {"x": {"properties": {"a": {"type": "null"}}}},
            },
            {"a": {"type": "null"}},
        ),
    ],
)
def test_older_words_and_faults_are_put_right(given_schema: Schema, properties: Schema) -> None:
    assert fit_schema(given_schema, ANY_FORM)["properties"] == properties


def test_alternatives_at_the_top_become_properties_and_a_sentence() -> None:
    fitted = fit_schema(
        {
            "type": "object",
            "properties": {"q": {"type": "string"}},
            "anyOf": [
                {"properties": {"id": {"type": "integer"}}, "required": ["q", "id"]},
                {"properties": {"id": {"type": "string"}, "name": {}}, "required": ["q", "name"]},
            ],
            "allOf": [{"required": ["all"]}],
        },
        ANTHROPIC_FORM,
    )

    assert fitted["properties"] == {
        "q": {"type": "string"},
        "id": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "name": {},
        "all": {},
    }
    assert sorted(fitted["required"]) == ["all", "q"]
    assert "q and id" in fitted["description"]
    assert "q and name" in fitted["description"]


def test_google_is_told_in_a_description_what_it_lacks() -> None:
    fitted = fit_schema(
        {
            "type": "object",
            "properties": {
                "a": {"type": ["integer", "null"], "exclusiveMinimum": 0, "description": "An A."},
                "b": {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "B"},
                "c": {"oneOf": [{"type": "string"}, {"const": 1}], "description": "C."},
                "d": {"$ref": "#/$defs/node"},
                "e": {"enum": [1, 2]},
                "f": {"const": "x"},
            },
            "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}},
            "additionalProperties": False,
        },
        GOOGLE_FORM,
    )

    assert fitted["properties"] == {
        "a": {"type": "integer", "nullable": True, "description": "An A. exclusiveMinimum: 0"},
        "b": {"type": "string", "nullable": True, "title": "B"},
        "c": {
            "anyOf": [
                {"type": "string", "description": "C."},
                {"type": "integer", "description": "C. const: 1"},
            ]
        },
        "d": {"type": "object", "properties": {"next": {"type": "string"}}},
        "e": {"type": "integer", "description": "enum: [1, 2]"},
        "f": {"type": "string", "enum": ["x"]},
    }


@pytest.mark.parametrize(
    ("unfit", "form"),
    [
        ({"type": "array"}, ANY_FORM),
        ({"properties": {"a b": {}}, "required": ["a b"]}, ANTHROPIC_FORM),
    ],
)
def test_a_tool_without_a_fit_is_left_out_by_name(unfit: Schema, form: SchemaForm) -> None:
    good, bad = (
        ToolSpec(name=n, description="", parameters=p) for n, p in (("g", {}), ("b", unfit))
    )

    fitted, notes = fit_tools((good, bad), form, Omissions())

    assert [tool.name for tool in fitted] == ["g"]
    (note,) = notes
    assert " b:" in note


def test_references_that_stand_for_more_and_more_end() -> None:
    names = [f"d{number}" for number in range(40)]
    defs = {
        name: {"properties": {side: {"$ref": f"#/$defs/{after}"} for side in "lr"}}
        for name, after in itertools.pairwise(names)
    }

    fitted = fit_schema({"$ref": "#/$defs/d0", "$defs": defs}, GOOGLE_FORM)

    assert len(schemas_in(fitted)) < 10_000


ODD: dict[str, Schema] = {
    "nothing": {},
    "draft 4": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": "x",
        "properties": {"a": {"type": "number", "minimum": 0, "exclusiveMinimum": True}},
        "required": True,
    },
    "types": {"type": ["object", "null"], "properties": {"a": {"type": ["string", "null"]}}},
    "any of": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {}}},
    "one of": {"oneOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": {"properties": {"a": True}}}},
    "all of": {"allOf": [{"properties": {"a": {"type": "array"}}, "required": ["a"]}]},
    "itself": {"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#/nothing"}}},
    "tree": SOUND,
    "tuple": {"properties": {"a": {"type": "array", "items": [{"const": 1}, {"enum": ["x"]}]}}},
    "not": {"not": {"required": ["a"]}, "properties": {"a": {"not": {}, "format": "uri"}}},
    "a list": {"type": "array"},
}


@pytest.mark.parametrize(
    ("api", "vendor", "model"),
    [
        ("messages", "anthropic", "claude-sonnet-5-5"),
        ("responses", "openai", "gpt-6.1-sol"),
        ("chat", "gemini", "gemini-3.1-pro-preview"),
        ("chat", "moonshot", "kimi-k3"),
    ],
)
async def test_no_schema_makes_a_vendor_refuse_a_request(api: str, vendor: str, model: str) -> None:
    tools = tuple(
        ToolSpec(name=f"tool_{at}", description="", parameters=schema)
        for at, schema in enumerate(ODD.values())
    )
    with StrictServer([{"text": "Done."}], vendor=vendor) as server:
        settings = settings_of(vendor, model, api_key="k", base_url=server.url)
        provider = opener_of(api)(settings)
        request = Request(system="", messages=[user_message("Hi")], tools=tools)
        said: list[Any] = []
        reply = await provider.reply(request, said.append)
        await provider.aclose()

    assert text_of(reply) == "Done."
    assert server.refusals == []
    assert len(server.requests[0].json["tools"]) == len(ODD) - 1
    assert [type(event) for event in said].count(Notice) == 1
