"""Converts what servers send from the SDK's types to kode's: contents and forms. Part of
`mcp_client`."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

import mcp_types as types

from kode.extensions.mcp_values import Content, Field, Form, Picture


def content_of(blocks: Iterable[Any]) -> Content:
    """Joins texts, collects pictures, and adds a line for anything else."""
    texts: list[str] = []
    pictures: list[Picture] = []
    for block in blocks:
        match block:
            case types.TextContent():
                texts.append(block.text)
            case types.ImageContent():
                pictures += _picture(f"image {len(pictures) + 1}", block.data, texts)
            case types.AudioContent():
                texts.append(f"[Audio ({block.mime_type}), which is not played.]")
            case types.ResourceLink():
                about = f": {block.description}" if block.description else ""
                texts.append(f"[Resource {block.uri}{about}]")
            case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
                texts.append(resource.text)
            case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
                if str(resource.mime_type).startswith("image/"):
                    pictures += _picture(str(resource.uri), resource.blob, texts)
                else:
                    texts.append(f"[{resource.uri} ({resource.mime_type}) is not text.]")
    return Content(text="\n".join(texts), pictures=tuple(pictures))


def _picture(name: str, encoded: str, texts: list[str]) -> list[Picture]:
    try:
        return [Picture(name=name, data=base64.b64decode(encoded, validate=True))]
    except (ValueError, binascii.Error):
        texts.append(f"[{name} is damaged.]")
        return []


def form_of(server: str, params: types.ElicitRequestParams) -> Form:
    """The form that an elicitation asks for."""
    if isinstance(params, types.ElicitRequestURLParams):
        return Form(server=server, message=params.message, url=params.url)
    return Form(server=server, message=params.message, fields=_fields(params.requested_schema))


def _fields(schema: Mapping[str, Any]) -> tuple[Field, ...]:
    required = schema.get("required", ())
    return tuple(
        _field(name, one, required=name in required)
        for name, one in schema.get("properties", {}).items()
        if isinstance(one, dict)
    )


def _field(name: str, schema: Mapping[str, Any], *, required: bool) -> Field:
    kinds: Any = {"number": "number", "integer": "integer", "boolean": "boolean"}
    kind = kinds.get(schema.get("type"), "text")
    listed = schema.get("items", {}) if schema.get("type") == "array" else schema
    options = listed.get("enum") or [
        one.get("const") for one in listed.get("oneOf") or listed.get("anyOf") or ()
    ]
    if options:
        kind = "choices" if schema.get("type") == "array" else "choice"
    return Field(
        name=name,
        title=str(schema.get("description") or schema.get("title") or name),
        kind=kind,
        options=tuple(map(str, options)),
        required=required,
        default=schema.get("default"),
    )
