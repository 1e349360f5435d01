"""What OpenAI's Responses API refuses, in its words, and what it makes of a prompt. What Chat
Completions on OpenAI's own host shares with it is here too."""

import re
from collections.abc import Iterator
from typing import Any

from tests.strict_server.cache import Cache, Cost, Piece
from tests.strict_server.models import Model
from tests.strict_server.refusals import Refused, check_shape, refuse, schema_fault
from tests.strict_server.replies import Key, Memory, compact, unseal

Body = dict[str, Any]
Item = dict[str, Any]

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
PREFIXES |= {"web_search_call": "ws"}
FIELDS = {
    *"model input stream store truncation max_output_tokens reasoning prompt_cache_key".split(),
    *"include text tool_choice instructions tools".split(),
}
"""Fewer than the vendor takes: what kode sends."""
SEALED = "gAAAAA"
"""What encrypted reasoning begins with."""
OUTPUTS = {"function_call": "function", "custom_tool_call": "custom tool"}
SAID = ("message", "function_call", "custom_tool_call", "web_search_call")
"""Items that may follow reasoning."""


def check(body: Body, model: Model, memory: Memory) -> tuple[list[Piece], list[Piece]]:
    """The prompt, and it with the cache marks that count. Raises `Refused` for the first thing that
    the vendor would refuse."""
    _shape(body, model, memory)
    for name in sorted(body.keys() - FIELDS):
        raise unsupported(name)
    refuse(body.get("store") is not False, "Store must be set to false")
    check_effort((body.get("reasoning") or {}).get("effort"), model)
    check_limits(body, "max_output_tokens", model)
    check_length(body.get("prompt_cache_key") or "", "prompt_cache_key", 64)
    for at, tool in enumerate(body.get("tools", ())):
        if tool["type"] == "function":
            check_tool(tool, f"tools[{at}]")
    wanted = (body.get("text") or {}).get("format") or {}
    if wanted.get("type") == "json_schema" and wanted.get("strict"):
        check_schema(wanted["schema"], f"response_format '{wanted['name']}'")
    items = items_of(body)
    _ids(items)
    _reasoning(items, model, memory)
    _pairs(items)
    pieces = list(_pieces(body, items))
    if any(piece.mark for piece in pieces) and not model.breakpoints:
        raise unsupported("prompt_cache_breakpoint")
    marked = marks_that_count(pieces, memory)
    is_long = sum(len(piece.text.encode()) for piece in pieces) // 4 > model.window
    refuse(is_long, "Your input exceeds the context window of this model.")
    return pieces, marked


def cost_of(
    body: Body, pieces: list[Piece], marked: list[Piece], model: Model, prompts: Cache
) -> Cost:
    owner = f"{model.name} {body.get('prompt_cache_key')}"
    if not model.breakpoints:
        return prompts.by_steps(owner, pieces)
    return prompts.by_marks(owner, marked, 1024, lookback=None)


def marks_that_count(pieces: list[Piece], memory: Memory) -> list[Piece]:
    """The latest three breakpoints are written, and the implicit one at the end."""
    at_marks = [at for at, piece in enumerate(pieces) if piece.mark]
    if len(at_marks) > 3:
        memory.soft_faults.append(f"{len(at_marks)} breakpoints, of which 3 are written")
    kept = {*at_marks[-3:], len(pieces) - 1}
    return [Piece(p.text, "30m" if at in kept else "") for at, p in enumerate(pieces)]


# ── what both of OpenAI's formats share ──────────────────────────────────────────────────────


def unsupported(name: str) -> Refused:
    return Refused(f"Unsupported parameter: '{name}' is not supported with this model.")


def check_effort(effort: str | None, model: Model) -> None:
    words = f"Unsupported value: '{effort}' is not supported with the '{model.name}' model."
    refuse(effort is not None and effort not in model.efforts, words)


def check_limits(body: Body, name: str, model: Model) -> None:
    limit = body.get(name) or 16
    refuse(limit < 16 and name == "max_output_tokens", f"Invalid '{name}': Expected >= 16.")
    words = f"max_tokens is too large: {limit}. This model supports at most {model.max_output}."
    refuse(limit > model.max_output, words)


def check_length(text: str, param: str, most: int) -> None:
    words = f"Invalid '{param}': string too long. Expected a string with maximum length {most}."
    refuse(len(text) > most, words)


def check_tool(function: Body, where: str) -> None:
    """A function: flat, as Responses has it."""
    refuse(not NAME.fullmatch(function["name"]), f"Invalid '{where}.name'.")
    schema, named = function.get("parameters"), f"function '{function['name']}'"
    if schema is None:
        return
    kind, alternatives = schema.get("type"), {"oneOf", "anyOf", "allOf", "enum", "not"}
    wrong = schema_fault(compact(schema)) or missing_contents(schema)
    if kind != "object":
        wrong = f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'"
    elif schema.keys() & alternatives:
        wrong = "schema must not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"
    refuse(wrong, f"Invalid schema for {named}: {wrong}.")
    refuse(function.get("strict"), f"Invalid schema for {named}: strict is for answers.")


def missing_contents(schema: Any, *path: str) -> str:
    """The fault of an array or an object of which nothing says what is in it; "" for none."""
    if not isinstance(schema, dict):
        return ""
    if not path and "properties" not in schema:
        return "In context=(), object schema missing properties"
    if schema.get("type") == "array" and "items" not in schema:
        return f"In context={path}, array schema missing items"
    inner = [*schema.get("properties", {}).items(), ("items", schema.get("items"))]
    return next(filter(None, (missing_contents(each, *path, name) for name, each in inner)), "")


def check_schema(schema: Any, name: str) -> None:
    """A strict schema closes its objects and requires all of their properties."""
    for inner in schema if isinstance(schema, list) else ():
        check_schema(inner, name)
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object":
        is_open = schema.get("additionalProperties") is not False
        refuse(is_open, f"Invalid schema for {name}: 'additionalProperties' is to be false.")
        missing = set(schema.get("properties", {})) - set(schema.get("required", ()))
        refuse(missing, f"Invalid schema for {name}: 'required' lacks {missing}")
    for inner in schema.values():
        check_schema(inner, name)


# ── input ────────────────────────────────────────────────────────────────────────────────────


def items_of(body: Body) -> list[Item]:
    given = body["input"]
    refuse(isinstance(given, str), "input: a list is expected")
    return [item if "type" in item else {"type": "message", **item} for item in given]


def key_of(item: Item, model: str) -> Key:
    kind = item.get("type", "message")
    if kind in OUTPUTS:
        return (model, kind, str(item.get("call_id")))
    if "id" in item:
        return (model, kind, str(item["id"]))
    content = item.get("content")
    texts = content if isinstance(content, list) else [{"text": content}]
    return (model, kind, "".join(str(part.get("text")) for part in texts))


def keep(item: Item, plain: Item, model: str, memory: Memory) -> None:
    """Under its id, and a message under its text too, for one that comes back without its id."""
    memory.keep(key_of(plain, model), item, plain)
    if item["type"] == "message":
        bare = {key: value for key, value in plain.items() if key != "id"}
        memory.keep(key_of(bare, model), item, plain)


def _shape(body: Body, model: Model, memory: Memory) -> None:
    plain = {key: value for key, value in body.items() if key != "stream"}
    if isinstance(plain.get("input"), list):
        plain["input"] = [
            memory.known(key_of(item, model.name), item, f"input[{at}]")
            if isinstance(item, dict) and item.get("role", "assistant") == "assistant"
            else item
            for at, item in enumerate(plain["input"])
        ]
    check_shape("responses", plain)


def _ids(items: list[Item]) -> None:
    for at, item in enumerate(items):
        refuse(item["type"] == "item_reference", f"input[{at}]: items are not persisted")
        for name in ("id", "call_id"):
            check_length(str(item.get(name) or ""), f"input[{at}].{name}", 64)
        prefix, name = PREFIXES.get(item["type"], ""), item.get("id") or ""
        words = f"Invalid 'input[{at}].id': '{name}'. Expected an ID that begins with '{prefix}'."
        refuse(name and not name.startswith(prefix), words)


def _reasoning(items: list[Item], model: Model, memory: Memory) -> None:
    given = {item.get("id") for item in items if item["type"] == "reasoning"}
    for at, item in enumerate(items):
        what = f"Item '{item.get('id')}' of type '{item['type']}' was provided without its required"
        if item["type"] == "reasoning":
            _sealed(item, model, memory)
            after = next((i for i in items[at + 1 :] if i["type"] != "reasoning"), {})
            said = after.get("type") in SAID and after.get("role", "assistant") == "assistant"
            refuse(not said, f"{what} following item.")
        needed = memory.needs.get(str(item.get("id")))
        refuse(needed and needed not in given, f"{what} 'reasoning' item: '{needed}'.")


def _sealed(item: Item, model: Model, memory: Memory) -> None:
    text = item.get("encrypted_content")
    refuse(not text, f"{item['id']}: items are not persisted")
    said = unseal(text, SEALED) or {}
    is_whole = said.get("at") == "done" and said["id"] == item["id"]
    refuse(not is_whole, f"The encrypted content for {item['id']} could not be verified.")
    if said["model"] != model.name:
        memory.soft_faults.append(f"{item['id']} is {said['model']}'s, sent to {model.name}")


def _pairs(items: list[Item]) -> None:
    for kind, word in OUTPUTS.items():
        calls = {item["call_id"] for item in items if item["type"] == kind}
        outputs = {item["call_id"] for item in items if item["type"] == f"{kind}_output"}
        refuse(outputs - calls, f"No tool call found for {word} call output {outputs - calls}.")
        refuse(calls - outputs, f"No tool output found for {word} call {calls - outputs}.")


# ── the prompt ───────────────────────────────────────────────────────────────────────────────


def _pieces(body: Body, items: list[Item]) -> Iterator[Piece]:
    """Tools, instructions, items; the parts of a message one by one."""
    wanted = (body.get("text") or {}).get("format")
    for part in (*body.get("tools", ()), wanted, body.get("instructions")):
        if part:
            yield Piece(compact(part))
    for item in items:
        name = "output" if "output" in item else "content"
        parts = item.get(name)
        if not isinstance(parts, list) or item["type"] == "reasoning":
            yield Piece(compact(item))
            continue
        yield Piece(compact({key: value for key, value in item.items() if key != name}))
        for part in parts:
            mark = part.get("prompt_cache_breakpoint")
            bare = {key: value for key, value in part.items() if key != "prompt_cache_breakpoint"}
            yield Piece(compact(bare), "30m" if mark else "")
