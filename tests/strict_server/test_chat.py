"""The strict server's Chat Completions, vendor by vendor, driven by OpenAI's client."""

import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest

from tests.strict_server import StrictServer

MODELS = {
    "openai": "gpt-5.4",
    "gemini": "gemini-3.8-flash",
    "deepseek": "deepseek-v4-pro",
    "moonshot": "kimi-k3",
    "openrouter": "anthropic/claude-opus-5.5",
    "mistral": "mistral-large-4",
    "groq": "openai/gpt-oss-120b",
    "cerebras": "glm-5",
    "xai": "grok-5",
}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": SCHEMA}}]
CALLS = [{"name": "read", "arguments": {"path": path}} for path in ("a", "b")]
SCRIPT = [{"thinking": "I need both", "text": "Reading", "calls": CALLS}, {"text": "Done"}]
HELLO = {"role": "user", "content": "Hello"}


@asynccontextmanager
async def opened(
    vendor: str, script: Any = SCRIPT, **more: Any
) -> AsyncIterator[tuple[StrictServer, Any]]:
    with StrictServer(script, vendor=vendor, repeat_last=True, **more) as server:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="k", max_retries=0) as client:
            yield server, client


async def ask(client: Any, messages: Any, model: str, /, **body: Any) -> list[Any]:
    """The chunks of the stream."""
    given = {"model": model, "messages": messages, "tools": TOOLS, "stream": True}
    given["stream_options"] = {"include_usage": True}
    stream = await client.chat.completions.create(**given, extra_body=body)
    return [chunk async for chunk in stream]


KEPT = ("role", "content", "tool_calls", "reasoning_content", "reasoning_details")


async def begun(server: StrictServer, client: Any) -> list[Any]:
    """A conversation up to the results of two calls, as a good client sends it."""
    vendor = server.vendor
    await ask(client, [HELLO], MODELS[vendor])
    message = copy.deepcopy(server.requests[-1].reply["choices"][0]["message"])
    kept = {name: message[name] for name in KEPT if name in message}
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": "x"} for call in kept["tool_calls"]
    ]
    return [HELLO, kept, *results]


SAY = {"role": "assistant", "content": "A", "reasoning_content": "B"}
SCHEMED = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}


def of_schema(**schema: Any) -> dict[str, Any]:
    """A body with a tool of this schema; without effort, which some models refuse with tools."""
    function = {"name": "odd", "parameters": {"type": "object", "properties": {}, **schema}}
    return {"tools": [{"type": "function", "function": function}]}


REFUSED: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "tools by default": ("openai", "gpt-6-sol", {}, "use /v1/responses"),
    "tools on 5.6": ("openai", "gpt-5.6", {}, "use /v1/responses"),
    "tools and effort": ("openai", "gpt-5.4", {"reasoning_effort": "low"}, "use /v1/responses"),
    "no none": ("openai", "gpt-6.1-sol", {"reasoning_effort": "none"}, "does not support 'none'"),
    "minimal": ("openai", "gpt-5.6", {"reasoning_effort": "minimal"}, "does not support 'minimal'"),
    "responses only": ("openai", "gpt-5-codex", {}, "only supported in v1/responses"),
    "max_tokens": ("openai", "gpt-5.4", {"max_tokens": 100}, "Use 'max_completion_tokens' instead"),
    "temperature": ("openai", "gpt-5.4", {"temperature": 0.2}, "Only the default (1)"),
    "unknown": ("openai", "gpt-5.4", {"top": 1}, "Unknown parameter: 'top'"),
    "field": ("openai", "gpt-5.4", {"messages": [HELLO, SAY]}, "'messages[1].reasoning_content'"),
    "cache": ("openai", "gpt-5.4", {"prompt_cache_options": {"ttl": "30m"}}, "not supported"),
    "schema": ("openai", "gpt-5.4", {"response_format": SCHEMED}, "'additionalProperties'"),
    "gemini body": ("gemini", "gemini-3.8-flash", {"store": False}, 'Unknown name "store"'),
    "developer": (
        "deepseek",
        "deepseek-v4-pro",
        {"messages": [{"role": "developer", "content": "A"}, HELLO]},
        "unknown variant `developer`",
    ),
    "an image": (
        "deepseek",
        "deepseek-v4-pro",
        {"messages": [HELLO | {"content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        "expected `text`",
    ),
    "both": (
        "moonshot",
        "kimi-k3",
        {"reasoning_effort": "high", "thinking": {"type": "enabled"}},
        "cannot specify both",
    ),
    "five marks": (
        "openrouter",
        "anthropic/claude-opus-5.5",
        {
            "messages": [
                HELLO
                | {"content": [{"type": "text", "text": "x", "cache_control": {"type": "e"}}] * 5}
            ]
        },
        "Found 5",
    ),
    "mistral field": ("mistral", "mistral-large-4", {"messages": [HELLO, SAY, HELLO]}, "Extra"),
    "mistral body": ("mistral", "mistral-large-4", {"max_completion_tokens": 9}, "Extra inputs"),
    "groq": ("groq", "x", {"messages": [HELLO, SAY, HELLO]}, "'reasoning_content' is unsupported"),
    "cerebras": ("cerebras", "x", {"messages": [HELLO, SAY, HELLO]}, "is unsupported"),
    "alternatives": ("openai", "gpt-5.4", of_schema(anyOf=[]), "at the top level"),
    "draft 4": ("openai", "gpt-5.4", of_schema(properties={"a": {"required": True}}), "context="),
    "an array": ("openai", "gpt-5.4", of_schema(properties={"a": {"type": "array"}}), "items"),
    "nowhere": ("openai", "gpt-5.4", of_schema(properties={"a": {"$ref": "#/x"}}), "not found"),
    "$schema": ("gemini", "gemini-3.8-flash", of_schema(**{"$schema": "x"}), '"$schema"'),
    "null": (
        "gemini",
        "gemini-3.8-flash",
        of_schema(properties={"a": {"type": ["string", "null"]}}),
        "not repeating",
    ),
    "beside": (
        "gemini",
        "gemini-3.8-flash",
        of_schema(properties={"a": {"title": "A", "anyOf": [{"type": "string"}]}}),
        "only field set",
    ),
    "window": ("xai", "small", {"messages": [HELLO | {"content": "x" * 5000}]}, "maximum context"),
}
TAKEN: dict[str, tuple[str, str, dict[str, Any]]] = {
    "none": ("openai", "gpt-6-sol", {"reasoning_effort": "none"}),
    "left out": ("openai", "gpt-5.5", {}),
    "no tools": ("openai", "gpt-6.1-sol", {"tools": [], "max_completion_tokens": 99}),
    "older": ("openai", "gpt-5.1", {"reasoning_effort": "high"}),
    "not reasoning": ("openai", "gpt-4.1", {"max_tokens": 99, "temperature": 0.2}),
    "gemini": ("gemini", "gemini-3.8-flash", {"reasoning_effort": "high", "max_tokens": 9}),
    "deepseek": ("deepseek", "deepseek-v4-pro", {"thinking": {"type": "enabled"}, "other": 1}),
    "openrouter": ("openrouter", "x/y", {"reasoning": {"effort": "high"}, "provider": {}}),
    "mistral": ("mistral", "mistral-large-4", {"max_tokens": 9}),
    "groq": ("groq", "x", {"messages": [HELLO, {"role": "assistant", "content": "A"}, HELLO]}),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_an_invalid_request_is_refused_in_the_vendors_words(name: str) -> None:
    vendor, model, body, words = REFUSED[name]
    async with opened(vendor, models={"small": {"window": 1000}}) as (server, client):
        with pytest.raises(openai.APIStatusError) as caught:
            await ask(client, [HELLO], model, **body)
        known = {"responses only": 404, "developer": 422}
        status = 422 if name.startswith("mistral") else known.get(name, 400)
        assert caught.value.status_code == status
        assert words in str(caught.value.response.json())
        assert len(server.refusals) == 1


@pytest.mark.parametrize("name", TAKEN)
async def test_a_request_that_the_vendor_takes_is_taken(name: str) -> None:
    vendor, model, body = TAKEN[name]
    async with opened(vendor) as (server, client):
        chunks = await ask(client, [HELLO], model, **body)
        assert any(chunk.usage for chunk in chunks)
        assert server.refusals == []


# ── what comes back ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("vendor", MODELS)
async def test_a_conversation_that_sends_everything_back_is_taken(vendor: str) -> None:
    async with opened(vendor) as (server, client):
        messages = await begun(server, client)
        await ask(client, messages, MODELS[vendor])
        assert server.refusals == []
        assert server.soft_faults == []


TAMPERED: dict[str, tuple[str, Callable[[list[Any]], Any], str]] = {
    "a result": ("openai", lambda m: m.pop(), "did not have response messages"),
    "another's result": ("xai", lambda m: m[2].update(tool_call_id="call_1"), "preceeding message"),
    "a long id": (
        "openai",
        lambda m: [part.update({name: "x" * 41}) for part, name in ids(m)],
        "maximum length 40",
    ),
    "a signature": ("gemini", lambda m: m[1]["tool_calls"][0].pop("extra_content"), "`default_api"),
    "a changed one": ("gemini", lambda m: signature(m).update(thought_signature="x"), "Corrupted"),
    "a step in two": ("gemini", lambda m: in_two(m), "missing a thought_signature"),
    "gemini's result": ("gemini", lambda m: m.pop(), "number of function response parts"),
    "reasoning": ("deepseek", lambda m: m[1].pop("reasoning_content"), "must be passed back"),
    "kimi's reasoning": ("moonshot", lambda m: m[1].pop("reasoning_content"), "at index 1"),
    "kimi's empty": ("moonshot", lambda m: m[1].update(reasoning_content=""), "at index 1"),
    "the user after a tool": ("mistral", lambda m: m.append(HELLO), "after role 'tool'"),
    "an id of another": (
        "mistral",
        lambda m: [part.update({name: "call_123456"}) for part, name in ids(m)],
        "with a length of 9",
    ),
}


def ids(messages: list[Any]) -> list[tuple[Any, str]]:
    del messages[1]["tool_calls"][1], messages[3]
    return [(messages[1]["tool_calls"][0], "id"), (messages[2], "tool_call_id")]


def signature(messages: list[Any]) -> Any:
    return messages[1]["tool_calls"][0]["extra_content"]["google"]


def in_two(messages: list[Any]) -> None:
    said, second = messages[1], messages[1]["tool_calls"].pop()
    messages.insert(3, said | {"tool_calls": [second]})


@pytest.mark.parametrize("name", TAMPERED)
async def test_a_message_that_comes_back_otherwise_is_refused(name: str) -> None:
    vendor, tamper, words = TAMPERED[name]
    async with opened(vendor) as (server, client):
        messages = await begun(server, client)
        changed = copy.deepcopy(messages)
        tamper(changed)
        with pytest.raises(openai.APIStatusError) as caught:
            await ask(client, changed, MODELS[vendor])
        assert words in str(caught.value.response.json())
        await ask(client, messages, MODELS[vendor])  # as it came, it is taken


async def test_signatures_are_wanted_only_since_the_user_last_spoke() -> None:
    async with opened("gemini") as (server, client):
        messages = await begun(server, client)
        del messages[1]["tool_calls"][0]["extra_content"]
        done = {"role": "assistant", "content": "Done"}
        await ask(client, [*messages, done, HELLO], MODELS["gemini"])
        assert server.refusals == []


async def test_no_thinking_needs_no_reasoning() -> None:
    async with opened("deepseek") as (server, client):
        messages = await begun(server, client)
        del messages[1]["reasoning_content"]
        await ask(client, messages, MODELS["deepseek"], thinking={"type": "disabled"})
        assert server.refusals == []


@pytest.mark.parametrize(
    ("vendor", "field"), [("openrouter", "reasoning_details"), ("zai", "reasoning_content")]
)
async def test_reasoning_better_sent_back_is_noted_where_lost(vendor: str, field: str) -> None:
    async with opened(vendor) as (server, client):
        await ask(client, [HELLO], "some/model")
        message = copy.deepcopy(server.requests[-1].reply["choices"][0]["message"])
        assert message.pop(field)
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": "x"}
            for call in message["tool_calls"]
        ]
        await ask(client, [HELLO, message, *results], "some/model")
        assert len(server.soft_faults) == 1


async def test_twin_replies_with_the_same_words_are_told_apart() -> None:
    same = [{"thinking": thought, "text": "Yes"} for thought in ("one", "two")]
    async with opened("openrouter", same) as (server, client):
        messages = [HELLO]
        for _ in range(3):
            await ask(client, messages, "some/model")
            reply = server.requests[-1].reply["choices"][0]["message"]
            kept = {name: reply[name] for name in KEPT if name in reply}
            messages = [*messages, kept, HELLO]
        assert server.soft_faults == []


# ── cache, lists, the stream ─────────────────────────────────────────────────────────────────


async def test_marks_pay_through_openrouter_and_nothing_else_does() -> None:
    async with opened("openrouter", [{"text": "Yes"}]) as (server, client):
        part = {"type": "text", "text": "x" * 8000}
        for marked in (part, part | {"cache_control": {"type": "ephemeral"}}):
            for _ in range(2):
                message = {"role": "user", "content": [marked]}
                await ask(client, [message, HELLO], MODELS["openrouter"])
        details = [request.usage["prompt_tokens_details"] for request in server.requests]
        assert [bool(one["cached_tokens"]) for one in details] == [False, False, False, True]
        assert [bool(one["cache_write_tokens"]) for one in details] == [False, False, True, False]


async def test_cache_savings_appear_in_deepseeks_fields() -> None:
    async with opened("deepseek", [{"text": "Yes"}]) as (server, client):
        for _ in range(2):
            await ask(client, [HELLO | {"content": "x" * 8000}], MODELS["deepseek"])
        usage = server.requests[-1].usage
        assert usage["prompt_cache_hit_tokens"] > 1900
        hit, miss = usage["prompt_cache_hit_tokens"], usage["prompt_cache_miss_tokens"]
        assert hit + miss == usage["prompt_tokens"]


async def test_openrouter_lists_what_its_models_take() -> None:
    async with opened("openrouter", models={"x/y": {"window": 5000}}) as (_, client):
        found = {model.id: model async for model in client.models.list()}
        assert found["x/y"].context_length == 5000
        assert "reasoning" in found["x/y"].supported_parameters
        assert "image" in found["x/y"].architecture["input_modalities"]


async def test_any_prefix_leads_to_the_same_endpoint() -> None:
    async with opened("gemini") as (server, _):
        address = f"{server.root_url}/v1beta/openai"
        async with openai.AsyncOpenAI(base_url=address, api_key="k", max_retries=0) as client:
            await ask(client, [HELLO], MODELS["gemini"])
        assert server.requests[0].path == "/v1beta/openai/chat/completions"


@pytest.mark.parametrize("vendor", MODELS)
async def test_the_chunks_are_the_whole_message(vendor: str) -> None:
    async with opened(vendor, [SCRIPT[0] | {"extra": {"x_new": 1}}]) as (server, client):
        chunks = await ask(client, [HELLO], MODELS[vendor])
        sent = server.requests[-1].reply
        usage = [chunk.usage.to_dict() for chunk in chunks if chunk.usage]
        assert usage == [sent["usage"]]
        deltas = [choice.delta.to_dict() for chunk in chunks for choice in chunk.choices]
        message = sent["choices"][0]["message"]
        assert [delta["x_new"] for delta in deltas if "x_new" in delta] == [message["x_new"]]
        for name in ("content", "reasoning_content", "reasoning"):
            said = "".join(delta.get(name) or "" for delta in deltas)
            assert said == (message.get(name) or "")
        calls: list[Any] = [{}, {}]
        for part in (part for delta in deltas for part in delta.get("tool_calls", ())):
            whole, more = calls[part.pop("index")], part.pop("function")
            function = whole.setdefault("function", {"arguments": ""})
            function["arguments"] += more.pop("arguments")
            function |= more
            whole |= part
        assert calls == message["tool_calls"]
        details = [part for delta in deltas for part in delta.get("reasoning_details", ())]
        text = "".join(part.get("text", "") for part in details)
        assert text == "".join(one["text"] for one in message.get("reasoning_details", ()))


async def test_a_reply_without_a_stream_is_whole() -> None:
    async with opened("deepseek") as (_, client):
        reply = await client.chat.completions.create(
            model=MODELS["deepseek"], messages=[HELLO], tools=TOOLS
        )
        message = reply.choices[0].message
        assert message.reasoning_content == "I need both"
        assert [call.function.name for call in message.tool_calls] == ["read", "read"]
