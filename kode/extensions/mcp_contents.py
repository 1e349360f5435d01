"""What MCP servers send, in kode's types: lists, contents and forms. Lists are checked item by item
before the SDK checks them as a whole: one odd tool must not remove its server. Part of
`mcp_client`."""

import base64
import binascii
import copy
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse, methods
from pydantic import ValidationError

from kode.extensions.mcp_process import Streams
from kode.extensions.mcp_values import Content, Field, Form, Picture

METHODS: Mapping[str, str] = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
}
VERSION = "2025-11-25"
"""Of the protocol: newer versions take every schema that this one takes."""
MAX_REPAIRS = 50  # more than a tool made by hand has faults


@dataclass
class Listing:
    """What a server lists that the SDK does not see."""

    output_schemas: dict[str, Any] = field(default_factory=dict)
    """Tool → the schema of its results. The SDK would lose a result that does not fit it."""
    left_out: dict[str, None] = field(default_factory=dict)
    """See `mcp_client.Connection`."""

    def take(self, received: object) -> None:
        """Keeps of a message with a listing only the usable items, repaired."""
        message = received.message if isinstance(received, SessionMessage) else None
        if not isinstance(message, JSONRPCResponse):
            return
        for key in METHODS.keys() & message.result.keys():
            if isinstance(items := message.result[key], list):
                usable = (self._usable(key, raw) for raw in items)
                message.result[key] = [item for item in usable if item is not None]

    def _usable(self, key: str, raw: object) -> dict[str, Any] | None:
        if key == "tools" and isinstance(raw, dict):
            raw = dict(raw)
            if (schema := raw.pop("outputSchema", None)) is not None:
                self.output_schemas[str(raw.get("name"))] = schema
        item, fault = usable_item(key, raw)
        if item is None:
            name = raw.get("name") if isinstance(raw, dict) else raw
            self.left_out[f"{key.removesuffix('s')} {str(name)[:80]!r}: {fault}"] = None
        return item


def usable_item(key: str, raw: object) -> tuple[dict[str, Any] | None, str]:
    """An item of a listing without what is not as the protocol has it; None if it needs that, and
    why it is left out."""
    if not isinstance(raw, dict) or not raw.get("name"):
        return None, "it has no name"
    item = copy.deepcopy(raw)
    if key == "tools":
        schema = item["inputSchema"] = item.get("inputSchema") or {}
        types = schema.get("type") or "object" if isinstance(schema, dict) else None
        if "object" not in (types if isinstance(types, list) else [types]):
            return None, "its arguments are no object"
        schema["type"] = "object"
        if isinstance(properties := schema.get("properties"), dict):
            for name, value in properties.items():
                properties[name] = value if isinstance(value, dict | bool) else {}
    for _ in range(MAX_REPAIRS):
        try:
            methods.validate_server_result(METHODS[key], VERSION, {key: [item]})
            return item, ""
        except ValidationError as error:
            path = error.errors()[0]["loc"][2:]
            if not _drop(item, path):
                return None, f"its `{'.'.join(map(str, path))}` is missing or not as it must be"
    return None, "too much of it is not as it must be"


def _drop(item: dict[str, Any], path: tuple[int | str, ...]) -> bool:
    """Removes the innermost value on a path to a fault; returns whether there is one."""
    holder: Any = None
    value: Any = item
    for step in path:
        inside = isinstance(value, dict) and step in value
        if not inside and not (isinstance(value, list) and isinstance(step, int)):
            break
        holder, at, value = value, step, value[step]
    if holder is None:
        return False
    del holder[at]
    return True


@asynccontextmanager
async def checked_listings(
    transport: AbstractAsyncContextManager[Streams], listing: Listing
) -> AsyncIterator[Streams]:
    """The streams of a transport, with each received message shown to the listing first."""
    async with transport as (incoming, outgoing):
        yield _Checked(incoming, listing), outgoing


class _Checked:
    """A stream of received messages, as the SDK reads it."""

    def __init__(self, stream: Any, listing: Listing) -> None:
        self._stream = stream
        self._listing = listing

    def __aiter__(self) -> "_Checked":
        return self

    async def __anext__(self) -> Any:
        received = await self._stream.__anext__()
        self._listing.take(received)
        return received

    async def __aenter__(self) -> "_Checked":
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


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
    schema: Mapping[str, Any] = params.requested_schema
    fields = tuple(
        _field(name, part, required=name in schema.get("required", ()))
        for name, part in schema.get("properties", {}).items()
        if isinstance(part, dict)
    )
    return Form(server=server, message=params.message, fields=fields)


def _field(name: str, schema: Mapping[str, Any], *, required: bool) -> Field:
    kinds: Any = {"number": "number", "integer": "integer", "boolean": "boolean"}
    kind = kinds.get(schema.get("type"), "text")
    listed = schema.get("items", {}) if schema.get("type") == "array" else schema
    options = listed.get("enum") or [
        choice.get("const") for choice in listed.get("oneOf") or listed.get("anyOf") or ()
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
