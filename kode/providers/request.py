"""Prepares each request for its server, encodes it once, and repairs it after a refusal.

Everything depends only on the request and on what this server has refused before, which is left out
as long as the provider is open. A refusal is repaired once for each part that can be left out, with
one notice; `refusals.toml` says what refusals mean.

Schemas of tools come from MCP servers and plug-ins, and one that a vendor refuses makes every
request fail. So only the keywords that every vendor takes are sent, with references and older
drafts resolved; others become words in a description: whoever runs the tool checks its arguments in
any case. Google gets the part of that which OpenAPI has.

A request holds every message so far. Each is encoded when it is first sent; later requests of the
session join the same bytes. So a message is byte for byte the same in every request, as a
provider's cache needs, and a request only costs the joining.
"""

import base64
import hashlib
import json
import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, Literal

from kode.errors import RefusedError, ThinkingRefused
from kode.images import LARGE_SIDE, PDF, read_image
from kode.messages import Image, Message, Text, ToolCall, images_of
from kode.provider import EFFORTS, Api, Effort, ModelInfo, Request, ToolSpec
from kode.providers.draft import is_whole_object, list_of, mapping_of
from kode.providers.errors import read_table
from kode.registry import ProviderRow
from kode.values import Value, replace

FEW = 8
"""Shorter lists do not replace the cached bytes: questions of memory and a summary must not evict
the session's."""

MAX_PICTURES, CROWD = 100, 20
"""The most pictures in a request of the Messages API for a window of 200,000 tokens, and the number
above which none may be larger than `LARGE_SIDE`. No other vendor that names a limit has a lower one
for its current models."""
MAX_PAGES, MAX_PAGES_OF_MILLION = 100, 600
"""The most PDF pages in a request of the Messages API, and for a window of a million tokens."""
MAX_ATTACHED_BYTES = 20_000_000
"""Pictures and PDFs together. In base64 they take a third more, of a request's 30 or 32 MB."""

_OBJECT_STREAM = re.compile(rb"/ObjStm\b.{0,200}?stream\r?\n(.*?)endstream", re.DOTALL)
_PAGE_COUNT = re.compile(rb"/Pages\b[^<>]*?/Count\s+(\d+)|/Count\s+(\d+)[^<>]*?/Type\s*/Pages\b")

CONTEXT_REPLY = Message(
    role="assistant",
    parts=(Text(text="I know this now. Ask me a question or give me a task."),),
    stop="end",
)
"""Stands between the context of a request and the person's words. A small model repeats words that
could be an answer: asked for a fact in memory, it said "Noted.", or "I have read it. What is the
task?", in four of five cases."""


Schema = dict[str, Any]
Refs = tuple[str, ...]

MAX_DEPTH = 24  # what people write has fewer than ten levels
MAX_PARTS = 2_000
"""Schemas within a schema. Beyond these two limits a schema becomes `{}`, which allows anything."""
MAX_NOTE_CHARS = 500  # a list of a few dozen words


class UnfitSchemaError(ValueError):
    """A schema that no request can carry; the text says why."""


SchemaForm = Literal["any", "anthropic", "google"]
"""How a vendor restricts schemas. None takes alternatives at the top. Anthropic restricts the names
of arguments. For Google a type is one word, `nullable` beside it allows null, and alternatives
stand alone."""

_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_TYPE_OF = {bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
_HINTS = frozenset(
    "format pattern minLength maxLength minItems maxItems minProperties maxProperties multipleOf "
    "exclusiveMinimum exclusiveMaximum uniqueItems examples".split()
)
"""Keywords that are not sent as such, but as words in the description."""
_NULL: Schema = {"type": "string", "nullable": True, "description": "null"}


class Omissions(Value):
    """What this server has refused and kode no longer sends."""

    parts: frozenset[str] = frozenset()
    """Keys of `RefusalTable.parts`, and `bound_thinking`: the server refused its own thinking, so
    that of moved messages is left out."""
    tools: frozenset[str] = frozenset()
    """Tools whose schema it refused."""
    images: frozenset[str] = frozenset()
    """The copies of pictures and PDFs that it refused, as in `Image.kept_in`."""
    output_tokens: int | None = None
    """The highest output limit that the server said it accepts."""


class Target(Value):
    """One model at one server, which requests are encoded for."""

    api: Api
    row: ProviderRow
    model: str
    info: ModelInfo
    is_official: bool
    """Whether it is the vendor's own server, or a cloud's."""
    cache: str = "auto"
    """As in `ProviderSettings`."""
    omitted: Omissions = Omissions()

    @property
    def origin(self) -> str:
        """Marks this model's replies: only it gets them back in their own form."""
        return f"{self.api}:{self.row.name}/{self.model}"

    def omits(self, *parts: str) -> bool:
        """Whether one of these parts was refused."""
        return not self.omitted.parts.isdisjoint(parts)

    def omit(self, **omissions: Any) -> "Target":
        """A copy in which these fields of `omitted` are replaced."""
        return replace(self, omitted=replace(self.omitted, **omissions))

    def effort(self, request: Request) -> Effort | None:
        """The model's level that is nearest to the wanted effort, the lower of two equally near;
        None if none is to be sent."""
        wanted = request.effort or self.info.default_effort
        if wanted is None or self.omits("thinking", "effort"):
            return None
        at, levels = EFFORTS.index(wanted), sorted(self.info.efforts, key=EFFORTS.index)
        return min(levels, key=lambda level: abs(EFFORTS.index(level) - at), default=None)

    def searches(self, request: Request) -> bool:
        """Whether to offer the vendor's web search."""
        return request.search and self.info.searches and not self.omits("search")

    @property
    def marks_cache(self) -> bool:
        """Whether texts are marked for the cache."""
        return self.cache != "none" and not self.omits("cache")

    @property
    def marks_hour(self) -> bool:
        """Whether some of the marks live an hour, to outlast a person's pauses."""
        return self.cache == "long" and not self.omits("long_cache")

    def image_data(self, image: Image, *, takes_pdf: bool = True) -> tuple[str | None, str]:
        """An image or a PDF in base64, and no text; or None and the text that replaces it, if the
        model cannot see it, the server refused it, or kode's copy is gone."""
        is_pdf = image.media_type == PDF
        what, cannot = ("A PDF", "read PDFs") if is_pdf else ("An image", "see images")
        is_blind = (self.info.sees_pdf if is_pdf else self.info.sees_images) is False
        if is_blind or (is_pdf and not takes_pdf):
            why = f"this model cannot {cannot}"
        elif image.kept_in in self.omitted.images:
            pages = " pages at once: read_file shows them in parts" if is_pdf else ""
            why = f"its server does not take it, or not so many{pages}"
        elif (data := read_image(image)) is not None:
            return base64.b64encode(data).decode("ascii"), ""
        else:
            why = "kode's copy is gone or damaged"
        return None, f"[{what}, {image.name}, is not shown: {why}. Say so where it matters.]"


def fit_tools(
    tools: Sequence[ToolSpec], target: Target
) -> tuple[tuple[ToolSpec, ...], tuple[str, ...]]:
    """The tools with schemas that the vendor takes, in order, without those that the server
    refused; and a sentence for each whose schema cannot be fitted."""
    form: SchemaForm = "anthropic" if target.api == "messages" else "any"
    if target.api == "chat" and target.row.dialect.switch == "google":
        form = "google"
    fitted, notes = [], []
    for tool in tools:
        if tool.name in target.omitted.tools:
            continue
        try:
            fitted.append(replace(tool, parameters=fit_schema(tool.parameters, form)))
        except UnfitSchemaError as error:
            notes.append(f"The model does not get the tool {tool.name}: {error}.")
    return tuple(fitted), tuple(notes)


def prepare_request(
    request: Request, tools: tuple[ToolSpec, ...], info: ModelInfo, omitted: Omissions
) -> Request:
    """The request as this server takes it, with the fitted `tools` and a limit of output."""
    messages = split_context_message(request.messages)
    # Without a limit, a model that repeats itself never ends. Servers refuse a request whose input
    # and limit together exceed the window, of which the conversation gets five sixths.
    limit = request.max_output_tokens or max(
        1, min(info.max_output_tokens, info.context_window // 6)
    )
    if omitted.output_tokens is not None:
        limit = min(limit, omitted.output_tokens)
    return replace(request, messages=messages, tools=tools, max_output_tokens=limit)


def choose_dropped_pictures(messages: Sequence[Message], info: ModelInfo) -> dict[str, Image]:
    """The pictures and PDFs that one request cannot hold, by kode's copy: those beyond a limit on
    the whole request, and large pictures if there are many."""
    images = [part for message in messages for part in message.parts if isinstance(part, Image)]
    if not images:
        return {}
    pages = MAX_PAGES if info.context_window < 1_000_000 else MAX_PAGES_OF_MILLION
    documents = [image for image in images if image.media_type == PDF]
    pictures = [image for image in images if image.media_type != PDF]
    left_out = {
        *_take_surplus(pictures, lambda _: 1, MAX_PICTURES),
        *_take_surplus(documents, count_pages, pages),
        *_take_surplus(images, lambda image: image.size_bytes, MAX_ATTACHED_BYTES),
    }
    others = [image for image in pictures if image not in left_out]
    if len(others) > CROWD:
        left_out |= {image for image in others if max(image.width, image.height) > LARGE_SIDE}
    return {image.kept_in: image for image in images if image in left_out}


def _take_surplus(
    images: Iterable[Image], weigh: Callable[[Image], int], limit: int
) -> Iterator[Image]:
    """Yields the images that alone exceed the limit, and the oldest until the rest fits, a quarter
    of the limit at a time, so that the cached beginning of the conversation seldom changes."""
    weights = [(image, weigh(image)) for image in images]
    excess = max(0, sum(weight for _, weight in weights if weight <= limit) - limit)
    surplus = -(-excess * 4 // limit) * limit // 4
    for image, weight in weights:
        if weight > limit or surplus > 0:
            surplus -= weight if weight <= limit else 0
            yield image


@lru_cache(maxsize=256)
def count_pages(document: Image) -> int:
    """The number of pages that a PDF states, even in a compressed part; 0 if that cannot be read,
    as behind a password: then only the server counts."""
    data, room = read_image(document) or b"", MAX_ATTACHED_BYTES
    texts = [data]
    for stream in _OBJECT_STREAM.finditer(data):
        with suppress(zlib.error):
            texts.append(zlib.decompressobj().decompress(stream[1], max(1, room)))
            room -= len(texts[-1])
    counts = (first or second for text in texts for first, second in _PAGE_COUNT.findall(text))
    return max(map(int, counts), default=0)


def place_marks(ends: Iterable[int], asked: Sequence[int]) -> dict[int, bool]:
    """Where Claude's cache marks stand in a request, and whether each lives an hour: at `ends` of
    requests, and, if a person pauses, at the last two messages `asked`, the later one first.

    A mark of an hour makes all before it live as long, but only what no other mark has written yet
    costs 2 instead of 1.25 times the input price: here, an answer and the next message. After a
    pause what followed is written again, so the message before is marked too, which is read.
    """
    last = next(iter(asked), -1)
    hours = asked if last in ends else asked[:1]
    return {index: index <= last for index in sorted({*ends, *hours})}


def repair_request(
    refused: RefusedError, request: Request, target: Target
) -> tuple[Omissions, str] | None:
    """The omissions from now on after a refusal, and the sentence that says so; None if leaving out
    does not help, or was tried."""
    omitted, name = target.omitted, refused.part
    if tool := _refused_tool(refused, [tool.name for tool in request.tools]):
        note = f"{refused} kode continues without the tool {tool}."
        return replace(omitted, tools=omitted.tools | {tool}), note
    part = read_table().parts.get(name)
    is_of_thinking = isinstance(refused, ThinkingRefused) and target.api != "chat"
    if part is None or not part.then or is_of_thinking:
        return None
    note = f"{refused} {part.then}"
    if name == "attachment":
        images = {image.kept_in for m in request.messages for image in images_of(m)}
        repaired = replace(omitted, images=omitted.images | images)
    elif name == "output_limit":
        rules = (rule for rule in read_table().rules if rule.means == name)
        match = next(filter(None, (rule.search(refused.server_text) for rule in rules)), None)
        tokens = int(match["tokens"]) if match else 0
        if not 0 < tokens < (omitted.output_tokens or request.max_output_tokens or 0):
            return None
        repaired = replace(omitted, output_tokens=tokens)
    else:
        repaired = replace(omitted, parts=omitted.parts | {name})
    return (repaired, note) if repaired != omitted else None


def _refused_tool(refused: RefusedError, names: Sequence[str]) -> str:
    """The one of a request's tools, `names` in order, whose schema was refused; "" if none was."""
    is_about_tools = re.search("schema|parameters|declarations", refused.server_text, re.IGNORECASE)
    if refused.status not in (400, 403, 404, 422) or not is_about_tools:
        return ""
    quoted = re.findall(r"['`\"]([\w-]+)['`\"]", refused.server_text)
    if name_of_tool := next((name for name in quoted if name in names), ""):
        return name_of_tool
    places = (r"function_declarations\[(\d+)", r"tools[.\[](\d+)")
    place = next(filter(None, (re.search(place, refused.server_text) for place in places)), None)
    return names[int(place[1])] if place and int(place[1]) < len(names) else ""


def split_context_message(messages: Sequence[Message]) -> list[Message]:
    """The messages, in which memory recorded for a small model, with other context beside it,
    becomes an exchange before the person's words; see `Request.small`."""
    split: list[Message] = []
    context: list[Text] = []
    for message in messages:
        if message.role != "user" and not context:
            split.append(message)
            continue
        parts = message.parts if message.role == "user" else ()
        context += (p for p in parts if isinstance(p, Text) and p.source in ("opening", "memory"))
        if not any(part.source == "memory" and part.section_name for part in context):
            split.append(message)
            context = []
        elif words := tuple(part for part in message.parts if part not in context):
            split += [Message(role="user", parts=tuple(context)), CONTEXT_REPLY]
            split.append(replace(message, parts=words))
            context = []
    return [*split, Message(role="user", parts=tuple(context))] if context else split


class EncodedMessages:
    """The wire forms of a session's messages. A request that goes on from the last one encodes only
    what is new.

    With `joins_users` consecutive user messages become one message: templates of many local models
    refuse them, which would break a session in which one answer never came.
    """

    def __init__(self, encode: Callable[[Message], Any], *, joins_users: bool = False) -> None:
        self._encode = encode
        self._joins_users = joins_users
        self._messages: list[Message] = []
        """The messages of the last request up to the first whose wire form may still grow."""
        self._wires: list[Any] = []

    def of(self, messages: Sequence[Message]) -> list[Any]:
        """The wire forms of all messages; empty ones are left out."""
        complete, wires = len(self._messages), self._wires[:]
        if list(messages[:complete]) != self._messages:
            complete, wires = 0, []
        row: list[Message] = []
        for number, message in enumerate(messages[complete:], complete + 1):
            if self._joins_users and message.role == "user":
                row.append(message)
            elif wire := self._encode(message):
                wires += [*self._join_row(row), wire]
                row = []
            complete = complete if row else number
        if len(messages) >= FEW:
            self._messages, self._wires = list(messages[:complete]), wires
        return wires + self._join_row(row)

    def _join_row(self, row: list[Message]) -> list[Any]:
        parts = tuple([part for message in row for part in message.parts])
        return [self._encode(replace(row[0], parts=parts))] if row else []


def encode_json(value: Any) -> bytes:
    """Compact JSON in UTF-8; lone surrogates, which no server accepts, become "?"."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def sendable_arguments(call: ToolCall) -> str:
    """The argument text unchanged if it is a JSON object; free text as the only argument; else
    `{}`.

    Servers decode arguments in the history (many to render a template) and fail permanently on a
    truncated text. The result of such a call tells the model what was wrong with it.
    """
    if call.own and "input" in call.own and isinstance(call.own["input"], str):
        return json.dumps({"input": call.arguments}, ensure_ascii=False)
    return call.arguments if is_whole_object(call.arguments) else "{}"


def sendable_id(call_id: str, *, strict: bool) -> str:
    """A call id that the server accepts: at most 40 characters, and with `strict` only those that
    Anthropic allows. Others, from another server earlier in the session, become a digest, the same
    in the call and in its result."""
    if len(call_id) <= 40 and (not strict or re.fullmatch(r"[A-Za-z0-9_-]+", call_id)):
        return call_id
    return f"call_{hashlib.sha256(call_id.encode('utf-8', 'replace')).hexdigest()[:24]}"


def used_ids(messages: Sequence[Message]) -> set[str]:
    """The call ids of a session so far, which a new call may not reuse."""
    return {
        part.id
        for message in messages
        if message.role == "assistant"
        for part in message.parts
        if isinstance(part, ToolCall)
    }


def fit_schema(schema: Mapping[str, Any], form: SchemaForm) -> Schema:
    """The schema of an object in the form that a vendor takes. Raises: UnfitSchemaError."""
    kinds = schema.get("type") or "object"
    if "object" not in (kinds if isinstance(kinds, list) else [kinds]):
        raise UnfitSchemaError("its arguments are no object")
    flat = _flatten_schema(_Expansion(schema).expand(schema))
    for name in list(flat["properties"]):
        if form == "anthropic" and not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name):
            if name in flat["required"]:
                raise UnfitSchemaError(f"this vendor takes no argument named {name[:80]!r}")
            del flat["properties"][name]
    if not flat["required"]:
        del flat["required"]
    return {"properties": {}, **_to_openapi(flat)} if form == "google" else flat


class _Expansion:
    """Writes one schema in few keywords, without references."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.parts = 0

    def expand(self, raw: Any, refs: Refs = (), depth: int = 0) -> Schema:
        """A schema within the whole; `refs` are the references that have led to it."""
        schema, refs = self._resolve_references(raw if depth <= MAX_DEPTH else {}, refs)
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
                case "minimum" | "maximum":
                    if type(value) in (int, float) and math.isfinite(value):
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

    def _resolve_references(self, raw: Any, refs: Refs) -> tuple[Schema, Refs]:
        """The schema with what its reference and `allOf` demand merged in; and the references that
        were followed so far, each only once on the way."""
        self.parts += 1
        schema = _modernize_schema(raw if self.parts <= MAX_PARTS else {})
        demands = list_of(schema.pop("allOf", None))
        ref = schema.pop("$ref", None)
        if isinstance(ref, str) and ref not in refs:
            demands, refs = [*demands, self._find(ref)], (*refs, ref)
        for demand in demands:
            demanded, refs = self._resolve_references(demand, refs)
            schema = _merge(demanded, schema)
        return schema, refs

    def _find(self, ref: str) -> Any:
        """The schema that a reference within the whole names; {} for any other reference."""
        node: Any = self.root if ref.startswith("#") else {}
        for step in ref.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            is_place = isinstance(node, list) and step.isdecimal() and int(step) < len(node)
            node = node[int(step)] if is_place else mapping_of(node).get(step)
        return mapping_of(node)


def _flatten_schema(schema: Schema) -> Schema:
    """The schema of an object with the properties of all its alternatives. Its
    description says which of them belong together."""
    branches = [_flatten_schema(branch) for branch in schema.get("anyOf", ())]
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


def _to_openapi(schema: Schema) -> Schema:
    """An expanded schema in OpenAPI's words."""
    kinds = _kinds(schema)
    types = [kind for kind in kinds if kind != "null"]
    choices = schema.get("anyOf") or [{"type": kind} for kind in types if len(types) > 1]
    if choices:  # alternatives stand alone: the keywords beside them go into each
        left_out = ("anyOf", "type") if len(types) > 1 else ("anyOf",)
        beside = {name: value for name, value in schema.items() if name not in left_out}
        chosen = [_to_openapi(_merge(each, beside)) for each in choices if _kinds(each) != ["null"]]
        fitted = [each for choice in chosen for each in choice.get("anyOf", [choice])]
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
        typed["items"] = _to_openapi(schema.get("items", {}))
    elif kind == "object" and properties:
        typed["properties"] = {name: _to_openapi(part) for name, part in properties.items()}
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
    """Adds a keyword and its value, unless that is empty, to the description."""
    if value not in (None, {}, []):
        note = f"{name}: {json.dumps(value, ensure_ascii=False)[:MAX_NOTE_CHARS]}"
        about = schema.get("description", "")
        schema["description"] = about if note in about else f"{about} {note}".strip()


def _merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> Schema:
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


def _modernize_schema(raw: Any) -> Schema:
    """A schema in a few keywords of 2020-12, in place of older ones and synonyms."""
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
