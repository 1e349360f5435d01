"""What Chat Completions refuse, vendor by vendor, in their words.

Where a rule is from: OpenAI's, Gemini's, DeepSeek's, Kimi's, OpenRouter's and `max_tokens` of
reasoning models from the vendors' documents and many reports of their errors in 2026. Mistral's
closed bodies, ids of nine characters and order of roles, Groq's and Cerebras' closed messages,
DeepSeek's roles and Gemini's closed bodies from reports of theirs; which fields those closed bodies
have is from their API references. Vendors not named here are as OpenAI's format says, and ignore
what they do not know.
"""

import re
from collections.abc import Iterator
from typing import Any

from tests.strict_server.cache import Cache, Cost, Piece
from tests.strict_server.models import Model
from tests.strict_server.refusals import check_shape, refuse
from tests.strict_server.replies import Key, Memory, compact, unseal
from tests.strict_server.responses import (
    check_effort,
    check_length,
    check_limits,
    check_schema,
    check_tool,
    unsupported,
)

Body = dict[str, Any]
Message = dict[str, Any]

FIELDS = frozenset(
    "model messages stream stream_options max_tokens tools tool_choice response_format"
    " reasoning_effort".split()
)
CLOSED_BODIES = {
    "openai": FIELDS | {"max_completion_tokens", "prompt_cache_key"},
    "gemini": FIELDS | {"extra_body"},
    "mistral": FIELDS,
    "groq": FIELDS | {"max_completion_tokens"},
}
"""The fields of the body, where more are refused: fewer than the vendors take, what kode sends."""
CLOSED_MESSAGES = {
    "mistral": frozenset("role content tool_calls tool_call_id name prefix".split()),
    "groq": frozenset("role content tool_calls tool_call_id name reasoning".split()),
    "cerebras": frozenset("role content tool_calls tool_call_id name reasoning".split()),
}
THINKS_ON = ("deepseek", "moonshot", "zai")
"""Their models go on from `reasoning_content` within a turn; the first two refuse to go without."""
UNSIGNED = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""What Google's notes name for calls that another model made."""


def check(body: Body, vendor: str, model: Model, memory: Memory) -> list[Piece]:
    """The prompt. Raises `Refused` for the first thing that the vendor would refuse."""
    _closed(body, vendor)
    messages = [_known(m, at, model, memory) for at, m in enumerate(body.get("messages", ()))]
    plain = {key: value for key, value in body.items() if key != "stream"} | {"messages": messages}
    if vendor == "openai":
        check_shape("chat", plain)
        _openai(body, model)
    else:
        check_shape("chat", plain | {"reasoning_effort": None}, closed=False)
    for at, tool in enumerate(body.get("tools") or ()):
        if tool["type"] == "function":
            check_tool(tool["function"], f"tools[{at}].function")
            if vendor == "gemini":
                place = f"tools[0].function_declarations[{at}].parameters"
                _google_schema(tool["function"].get("parameters", {}), place)
    _roles(body, vendor)
    _pairs(body["messages"], vendor)
    if signs_calls(vendor, model):
        _signatures(body["messages"])
    if thinks(body, vendor, model):
        _reasoning(body, vendor)
    pieces = list(_pieces(body))
    marks = sum(bool(piece.mark) for piece in pieces)
    refuse(vendor == "openrouter" and marks > 4, f"At most 4 cache_control. Found {marks}.")
    total = sum(len(piece.text.encode()) for piece in pieces) // 4
    refuse(total > model.window, f"The maximum context length is {model.window}, not {total}.")
    refuse(vendor == "openai" and marks, "Unknown parameter: 'cache_control'.")
    return pieces


def cost_of(body: Body, vendor: str, pieces: list[Piece], model: Model, prompts: Cache) -> Cost:
    if vendor == "openrouter" and model.name.startswith("anthropic/"):
        return prompts.by_marks(model.name, pieces, model.cache_min)
    owner = f"{model.name} {body.get('prompt_cache_key')}"
    return prompts.by_steps(owner, pieces, 64 if vendor == "deepseek" else 128)


def thinks(body: Body, vendor: str, model: Model) -> bool:
    """Whether the model thinks, and shows it. OpenAI's never do here."""
    switch = (body.get("thinking") or {}).get("type")
    if vendor == "deepseek":
        effort = body.get("reasoning_effort")
        return model.reasons and switch != "disabled" and effort != "none"
    if vendor == "moonshot":
        return model.reasons and switch != "disabled"
    if vendor == "openrouter":
        reasoning = body.get("reasoning") or {}
        return bool(reasoning.get("enabled", True) and reasoning.get("effort") != "none")
    return vendor != "openai"


def signs_calls(vendor: str, model: Model) -> bool:
    """Gemini from 3 on signs the first call of each step, and wants the signature back."""
    return vendor == "gemini" and not model.name.startswith("gemini-2")


def _closed(body: Body, vendor: str) -> None:
    allowed, fields = CLOSED_BODIES.get(vendor), CLOSED_MESSAGES.get(vendor)
    for name in body:
        refuse(allowed is not None and name not in allowed, f"Unknown parameter: '{name}'.")
    for at, message in enumerate(body.get("messages", ())):
        for name in message:
            words = f"Unknown parameter: 'messages[{at}].{name}'."
            refuse(fields is not None and name not in fields, words)


GOOGLE_KEYWORDS = frozenset(
    "type format title description nullable enum items minItems maxItems properties required anyOf"
    " minProperties maxProperties minimum maximum minLength maxLength pattern default example"
    " propertyOrdering".split()
)
"""Of `Schema` in Google's reference."""


def _google_schema(schema: Body, path: str) -> None:
    kind, properties = schema.get("type"), schema.get("properties", {})
    refuse(schema.keys() - GOOGLE_KEYWORDS, f"{path}: unknown {[*schema]}")
    refuse(isinstance(kind, list), f"{path}.type is not repeating")
    refuse("anyOf" in schema and len(schema) > 1, f"{path}.any_of must be the only field set.")
    refuse(kind == "array" and "items" not in schema, f"{path}.items: missing field.")
    refuse(schema.get("enum") and kind != "string", f"{path}.enum: only allowed for STRING type")
    undefined = {*schema.get("required", ())} - properties.keys()
    refuse(undefined, f"{path}.required: property is not defined")
    inner = [*properties.values(), *schema.get("anyOf", ())]
    for each in [*inner, schema["items"]] if "items" in schema else inner:
        _google_schema(each, path)


def _openai(body: Body, model: Model) -> None:
    refuse(model.responses_only, "only supported in v1/responses", status=404)
    effort = body.get("reasoning_effort")
    check_effort(effort, model)
    functions = [tool for tool in body.get("tools") or () if tool["type"] == "function"]
    counts = effort if model.chat_tools == "given" else effort or model.default_effort
    thinks = functions and model.chat_tools != "any" and counts not in (None, "none")
    refuse(thinks, "Function tools with reasoning_effort: use /v1/responses")
    if body.get("max_tokens") is not None and model.reasons:
        raise unsupported("max_tokens")
    check_limits(body, "max_completion_tokens", model)
    check_limits(body, "max_tokens", model)
    check_length(body.get("prompt_cache_key") or "", "prompt_cache_key", 64)
    wanted = (body.get("response_format") or {}).get("json_schema") or {}
    if wanted.get("strict"):
        check_schema(wanted["schema"], f"response_format '{wanted['name']}'")
    for at, message in enumerate(body["messages"]):
        for number, call in enumerate(message.get("tool_calls") or ()):
            check_length(call["id"], f"messages[{at}].tool_calls[{number}].id", 40)


# ── messages ─────────────────────────────────────────────────────────────────────────────────


def _roles(body: Body, vendor: str) -> None:
    before = ""
    for at, message in enumerate(body["messages"]):
        role, content = message["role"], message.get("content")
        refuse(role == "developer", "unknown variant `developer`")
        is_late = vendor == "mistral" and before == "tool" and role == "user"
        refuse(is_late, "Unexpected role 'user' after role 'tool'")
        before = role
        empty = role == "assistant" and content in (None, "", []) and not message.get("tool_calls")
        refuse(empty, f"the message at position {at} must not be empty")
        for part in content if isinstance(content, list) and vendor == "deepseek" else ():
            refuse(part["type"] != "text", f"messages[{at}]: expected `text`")


def _pairs(messages: list[Message], vendor: str) -> None:
    waiting: list[str] = []
    for message in [*messages, {"role": "end"}]:
        if message["role"] == "tool":
            is_odd = message["tool_call_id"] not in waiting
            refuse(is_odd, "'tool' must be a response to a preceeding message with 'tool_calls'.")
            waiting.remove(message["tool_call_id"])
            continue
        refuse(waiting, f"These calls did not have response messages: {waiting}")
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        for name in waiting if vendor == "mistral" else ():
            is_odd = not re.fullmatch("[a-zA-Z0-9]{9}", name)
            refuse(is_odd, f"Tool call id was {name}: a-z, A-Z, 0-9, with a length of 9.")


def _signatures(messages: list[Message]) -> None:
    """The first call of each step since the user last spoke is signed."""
    spoke = max((at for at, m in enumerate(messages) if m["role"] == "user"), default=0)
    for message in messages[spoke:]:
        for number, call in enumerate(message.get("tool_calls") or ()):
            google = (call.get("extra_content") or {}).get("google") or {}
            signature = google.get("thought_signature")
            refuse(not signature and number == 0, f"{call['id']} is missing a thought_signature")
            is_known = not signature or signature in UNSIGNED or unseal(signature) is not None
            refuse(not is_known, "Corrupted thought signature.")


def _reasoning(body: Body, vendor: str) -> None:
    """Of every message with calls in the conversation, as DeepSeek's guide says ("in all subsequent
    requests"): the field must be there. It may be empty for DeepSeek; Kimi takes an empty one for a
    missing one (earendil-works/pi#4178)."""
    is_kimi = vendor == "moonshot"
    both = body.get("reasoning_effort") is not None and body.get("thinking") is not None
    refuse(is_kimi and both, "cannot specify both 'thinking' and 'reasoning_effort'")
    refuse(body.get("tool_choice") not in (None, "auto", "none"), "tool_choice is forced")
    for at, message in enumerate(body["messages"]):
        if not message.get("tool_calls"):
            continue
        thought = message.get("reasoning_content")
        is_lost = vendor == "deepseek" and not isinstance(thought, str)
        refuse(is_lost or (is_kimi and not thought), f"no reasoning_content at index {at}")


# ── what comes back ──────────────────────────────────────────────────────────────────────────


def keep(message: Message, extra: set[str], model: Model, memory: Memory) -> None:
    """To know the message again; `extra` are the fields that the script added."""
    plain = {key: value for key, value in message.items() if key not in extra}
    if "tool_calls" in plain:
        plain["tool_calls"] = [
            {key: value for key, value in call.items() if key not in extra}
            for call in plain["tool_calls"]
        ]
    memory.keep(_key(message, model), message, plain)


def _key(message: Message, model: Model) -> Key:
    calls = [call.get("id") for call in message.get("tool_calls") or ()]
    return (model.name, "message", compact(calls or message.get("content")))


def _known(message: Any, at: int, model: Model, memory: Memory) -> Any:
    """The message without what the script had added to it, so that only what the client added is
    left to refuse. What came back changed or not at all is noted."""
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return message
    sent = memory.sent.get(_key(message, model))
    if not sent:
        return message
    found = [_differences(message, whole, plain, model) for whole, plain in sent]
    lost = min(found, key=len)  # of replies that say the same, the one that came back
    plain = sent[found.index(lost)][1]
    memory.soft_faults.extend(f"messages[{at}].{name}: {word}" for name, word in lost.items())
    added = {name for name in sent[found.index(lost)][0] if name not in plain}
    same = {name for name in (*added, "tool_calls") if name in message and name not in lost}
    bare = {name: value for name, value in message.items() if name not in same}
    return bare | {name: plain[name] for name in same & set(plain)}


def _differences(message: Message, whole: Message, plain: Message, model: Model) -> dict[str, str]:
    """By field of those that must come back: changed, or lost."""
    watched = {"tool_calls", "reasoning_details", *(set(whole) - set(plain))}
    if whole.get("tool_calls") and whole.get("reasoning_content") and model.vendor in THINKS_ON:
        watched.add("reasoning_content")
    return {
        name: "changed" if name in message else "lost"
        for name in sorted(watched & set(whole))
        if message.get(name) != whole[name]
    }


def _pieces(body: Body) -> Iterator[Piece]:
    """System, tools, messages; the parts of a message one by one."""
    wanted = body.get("response_format")
    for part in (*(body.get("tools") or ()), wanted):
        if part:
            yield Piece(compact(part))
    for message in body["messages"]:
        parts = message.get("content")
        if not isinstance(parts, list):
            yield Piece(compact(message))
            continue
        yield Piece(compact({key: value for key, value in message.items() if key != "content"}))
        for part in parts:
            mark = part.get("cache_control")
            bare = {key: value for key, value in part.items() if key != "cache_control"}
            yield Piece(compact(bare), mark.get("ttl", "5m") if mark else "")
