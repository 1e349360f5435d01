"""The strict server as Anthropic, driven by Anthropic's own client."""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import pytest

from tests.strict_server import StrictServer

NEW, OLDER, OLD = "claude-opus-5-5", "claude-opus-4-8", "claude-haiku-4-5"
BETA = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
TOOLS = [{"name": "read", "description": "Reads", "input_schema": SCHEMA}]
CALLS = [{"name": "read", "arguments": {"path": path}} for path in ("a", "b")]
SCRIPT = [{"thinking": "I need both", "text": "Reading", "calls": CALLS}, {"text": "Done"}]
MARK = {"cache_control": {"type": "ephemeral"}}


@asynccontextmanager
async def opened(script: Any = SCRIPT, **more: Any) -> AsyncIterator[tuple[StrictServer, Any]]:
    with StrictServer(script, repeat_last=True, **more) as server:
        client = anthropic.AsyncAnthropic(base_url=server.url, api_key="k", max_retries=0)
        async with client:
            yield server, client


async def ask(client: Any, messages: Any, model: str = NEW, /, **body: Any) -> Any:
    headers = body.pop("headers", {})
    messages = body.pop("instead", messages)
    fixed = {"model": model, "max_tokens": 9000, "messages": messages}
    first = {"system": "Be brief.", "tools": TOOLS}
    given = {name: body.pop(name, value) for name, value in first.items()}
    async with client.messages.stream(
        **fixed, **given, extra_body=body, extra_headers=headers
    ) as stream:
        return await stream.get_final_message()


async def begun(server: StrictServer, client: Any, model: str = NEW) -> list[Any]:
    """A conversation up to the results of two calls."""
    messages: list[Any] = [{"role": "user", "content": "Read a and b"}]
    await ask(client, messages, model)
    content = copy.deepcopy(server.requests[-1].reply["content"])
    names = [block["id"] for block in content if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": name, "content": "x"} for name in names]
    return [
        *messages,
        {"role": "assistant", "content": content},
        {"role": "user", "content": results},
    ]


def user(*blocks: Any) -> list[Any]:
    return [{"role": "user", "content": list(blocks) or "Hello"}]


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def odd_tool(**schema: Any) -> dict[str, Any]:
    return {"name": "odd", "input_schema": {"type": "object", **schema}}


CLOSED = {"type": "json_schema", "schema": SCHEMA}
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "unknown key": (NEW, {"top": 1}, "top: Extra inputs"),
    "unknown field": (NEW, {"instead": user(text("x", foo=1))}, "messages.0.content.0.foo: Extra"),
    "no text": (NEW, {"instead": user({"type": "text"})}, "text: Field required"),
    "model": ("claude-9", {}, "model: claude-9"),
    "retired": (NEW, {"model": "claude-mythos-preview"}, "model: claude"),
    "too many tokens": (OLD, {"max_tokens": 64_001}, "64001 > 64000"),
    "budget": (OLDER, {"thinking": {"type": "enabled", "budget_tokens": 2000}}, "thinking.type.en"),
    "small budget": (OLD, {"thinking": {"type": "enabled", "budget_tokens": 9}}, "equal to 1024"),
    "big budget": (OLD, {"thinking": {"type": "enabled", "budget_tokens": 9000}}, "`max_tokens`"),
    "adaptive": (OLD, {"thinking": {"type": "adaptive"}}, "thinking.type.adaptive"),
    "disabled": ("claude-fable-5", {"thinking": {"type": "disabled"}}, "thinking.type.disabled"),
    "no effort": (OLD, {"output_config": {"effort": "low"}}, "effort parameter"),
    "xhigh": ("claude-opus-4-6", {"output_config": {"effort": "xhigh"}}, "Supported levels"),
    "temperature": (NEW, {"temperature": 0.2}, "`temperature` is deprecated"),
    "forced tool": (NEW, {"tool_choice": {"type": "any"}}, "forces tool use"),
    "open schema": (NEW, {"output_config": {"format": CLOSED}}, "additionalProperties"),
    "twice": (NEW, {"tools": TOOLS * 2}, "must be unique"),
    "tool name": (NEW, {"tools": [TOOLS[0] | {"name": "a b"}]}, "String should match"),
    "alternatives": (NEW, {"tools": [odd_tool(oneOf=[])]}, "at the top level"),
    "draft 4": (NEW, {"tools": [odd_tool(properties={"a": {"required": True}})]}, "2020-12"),
    "an argument": (NEW, {"tools": [odd_tool(properties={"a b": {}})]}, "Property keys"),
    "five marks": (NEW, {"instead": user(*[text("x", **MARK)] * 5)}, "Found 5"),
    "marked blank": (NEW, {"instead": user(text(" ", **MARK))}, "cannot be set for empty"),
    "blank": (NEW, {"instead": user(text(" "))}, "non-whitespace"),
    "empty": (NEW, {"instead": user(text(""))}, "must be non-empty"),
    "late hour": (
        NEW,
        {
            "instead": user(
                text("x", **MARK), text("y", cache_control={"type": "ephemeral", "ttl": "1h"})
            )
        },
        "must not come after",
    ),
    "prefill": (NEW, {"instead": [*user(), {"role": "assistant", "content": "A"}]}, "prefill"),
    "system first": (NEW, {"instead": [{"role": "system", "content": "A"}]}, "top-level 'system'"),
    "system before 4.8": (
        "claude-opus-4-7",
        {"instead": [*user(), {"role": "system", "content": "A"}]},
        'Unexpected role "system"',
    ),
    "system before the user": (
        NEW,
        {"instead": [*user(), {"role": "system", "content": "A"}, *user()]},
        "followed by an assistant",
    ),
    "no beta": (
        NEW,
        {"thinking": {"type": "adaptive", "block_binding": {}}},
        "thinking.block_binding: Extra inputs",
    ),
    "too long": (OLD, {"instead": user(text("x" * 800_100))}, "> 200000 maximum"),
}
TAKEN: dict[str, tuple[str, dict[str, Any]]] = {
    "budget": (OLD, {"thinking": {"type": "enabled", "budget_tokens": 2000}}),
    "adaptive": (OLDER, {"thinking": {"type": "adaptive", "display": "summarized"}}),
    "disabled": ("claude-sonnet-5", {"thinking": {"type": "disabled"}}),
    "between tools": ("claude-opus-5", {"thinking": {"type": "between_tools"}}),
    "xhigh": (NEW, {"output_config": {"effort": "xhigh"}}),
    "temperature": (OLD, {"temperature": 0.2}),
    "default temperature": (NEW, {"temperature": 1}),
    "forced tool": ("claude-opus-4-7", {"tool_choice": {"type": "any"}}),
    "four marks": (NEW, {"instead": user(*[text("x", **MARK)] * 4)}),
    "prefill": (OLD, {"instead": [*user(), {"role": "assistant", "content": "A"}]}),
    "later system": (OLDER, {"instead": [*user(), {"role": "system", "content": "A"}]}),
    "warming": (NEW, {"max_tokens": 0}),
    "dated name": ("claude-haiku-4-5-20251001", {}),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_an_invalid_request_is_refused_in_the_vendors_words(name: str) -> None:
    model, body, words = REFUSED[name]
    async with opened() as (server, client):
        with pytest.raises(anthropic.APIStatusError) as caught:
            await ask(client, user(), model, **body)
        assert caught.value.status_code == (404 if "model: " in words else 400)
        assert words in caught.value.body["error"]["message"]  # type: ignore[index]
        assert server.requests[-1].refusal
        assert len(server.refusals) == 1


@pytest.mark.parametrize("name", TAKEN)
async def test_a_request_that_the_vendor_takes_is_taken(name: str) -> None:
    model, body = TAKEN[name]
    async with opened() as (server, client):
        await ask(client, user(), model, **body)
        assert server.refusals == []


async def test_a_request_without_a_key_is_refused() -> None:
    with StrictServer(SCRIPT) as server:
        async with anthropic.AsyncAnthropic(base_url=server.url, auth_token="x") as client:
            with pytest.raises(anthropic.AuthenticationError):
                await ask(client, user(), headers={"authorization": anthropic.Omit()})


# ── what comes back ──────────────────────────────────────────────────────────────────────────


def cut(messages: list[Any]) -> None:
    del messages[1]["content"][-1], messages[2]["content"][-1]


def split(messages: list[Any]) -> None:
    content = messages[1]["content"]
    messages[1:2] = [{"role": "assistant", "content": part} for part in (content[:1], content[1:])]


def change(path: str, value: Any) -> Callable[[list[Any]], None]:
    def changed(messages: list[Any]) -> None:
        *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        at: Any = messages
        for part in way:
            at = at[part]
        at[last] = value

    return changed


UNMODIFIED, INVALID, BOUND = "cannot be modified", "Invalid `signature`", "different conversation"
NO_RESULT, NO_USE = "without `tool_result`", "unexpected `tool_use_id`"
TAMPERED: dict[str, tuple[str, Callable[[list[Any]], Any], str]] = {
    "its text": (NEW, change("1.content.0.thinking", "Other"), UNMODIFIED),
    "its order": (OLDER, lambda m: m[1]["content"].insert(1, m[1]["content"].pop(0)), UNMODIFIED),
    "a call of two": (OLDER, cut, UNMODIFIED),
    "split": (OLDER, split, UNMODIFIED),
    "its signature": (NEW, change("1.content.0.signature", "made up"), INVALID),
    "no signature": (NEW, lambda m: m[1]["content"][0].pop("signature"), "Field required"),
    "a mark on it": (NEW, lambda m: m[1]["content"][0].update(MARK), "Extra inputs"),
    "what was before": (NEW, change("0.content", "Read a"), BOUND),
    "a result": (OLDER, lambda m: m[2]["content"].pop(), NO_RESULT),
    "words first": (OLDER, lambda m: m[2]["content"].insert(0, text("So:")), NO_RESULT),
    "no results": (OLDER, lambda m: m.append(m.pop() | {"content": "Go on"}), NO_RESULT),
    "a result twice": (
        OLDER,
        lambda m: m[2]["content"].append(m[2]["content"][0]),
        "single result",
    ),
    "another's result": (
        OLDER,
        lambda m: m[2]["content"].append({"type": "tool_result", "tool_use_id": "toolu_1"}),
        NO_USE,
    ),
}


@pytest.mark.parametrize("name", TAMPERED)
async def test_a_reply_that_comes_back_otherwise_is_refused(name: str) -> None:
    model, tamper, words = TAMPERED[name]
    async with opened([SCRIPT[0] | {"stop": "tool_calls"}]) as (server, client):
        thinking = {"type": "adaptive"}
        messages = user(text("Read a and b"))
        await ask(client, messages, model, thinking=thinking)
        content = copy.deepcopy(server.requests[-1].reply["content"])
        names = [block["id"] for block in content if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": name, "content": "x"} for name in names]
        messages += [
            {"role": "assistant", "content": content},
            {"role": "user", "content": results},
        ]
        changed = copy.deepcopy(messages)
        tamper(changed)
        with pytest.raises(anthropic.BadRequestError) as caught:
            await ask(client, changed, model, thinking=thinking)
        assert words in caught.value.body["error"]["message"]  # type: ignore[index]
        await ask(client, messages, model, thinking=thinking)  # as it came, it is taken
        assert len(server.refusals) == 1


async def test_thinking_is_bound_to_system_tools_and_newest_messages() -> None:
    other = [TOOLS[0] | {"description": "Reads a file"}]
    async with opened() as (server, client):
        for model, refused in ((NEW, 2), (OLDER, 0)):
            server.play(SCRIPT)
            server.refusals.clear()
            messages = await begun(server, client, model)
            for body in ({"system": "Be long."}, {"tools": other}):
                try:
                    await ask(client, messages, model, **body)
                except anthropic.BadRequestError:
                    pass
            assert len(server.refusals) == refused


async def test_a_block_behind_another_beginning_is_dropped_on_request() -> None:
    binding = {"prefix_mismatch_behavior": "drop_block"}
    async with opened() as (server, client):
        messages = await begun(server, client)
        thinking = {"type": "adaptive", "block_binding": binding}
        await ask(client, messages, system="New", thinking=thinking, headers=BETA)
        dropped = server.requests[-1].reply["input_transformations"]
        assert [(d["path"], d["reason"]) for d in dropped] == [
            ("messages.1.content.0", "prefix_binding_mismatch")
        ]


async def test_another_models_thinking_is_dropped_and_nothing_of_it_billed() -> None:
    async with opened() as (server, client):
        messages = await begun(server, client)
        await ask(client, messages, "claude-sonnet-5-5")
        with_it = server.requests[-1].usage["input_tokens"]
        del messages[1]["content"][0]
        await ask(client, messages, "claude-sonnet-5-5")
        assert server.requests[-1].usage["input_tokens"] == with_it
        assert server.refusals == []


async def test_a_reply_lacking_thinking_is_refused_under_a_budget() -> None:
    async with opened() as (server, client):
        messages = await begun(server, client, "claude-opus-4-6")
        await ask(client, messages, "claude-opus-4-6", thinking={"type": "adaptive"})
        budget = {"type": "enabled", "budget_tokens": 2000}
        with pytest.raises(anthropic.BadRequestError, match="must start with a thinking block"):
            await ask(client, messages, "claude-opus-4-6", thinking=budget)


async def test_unknown_fields_come_back_or_are_noted() -> None:
    async with opened([SCRIPT[0] | {"extra": {"x_new": [1]}}]) as (server, client):
        messages = await begun(server, client)
        await ask(client, messages)
        assert server.soft_faults == []
        del messages[1]["content"][1]["x_new"]
        await ask(client, messages)
        assert len(server.soft_faults) == 1


async def test_a_turn_that_paused_goes_on_behind_its_own_words() -> None:
    search = {"query": "kode", "results": [{"url": "https://example.org"}]}
    parts = [{"thinking": "Hm"}, {"search": search}]
    async with opened([{"parts": parts, "stop": "pause_turn"}, {"text": "Found"}]) as found:
        server, client = found
        paused = await ask(client, user())
        assert paused.stop_reason == "pause_turn"
        assert paused.usage.server_tool_use.web_search_requests == 1
        content = server.requests[-1].reply["content"]
        reply = await ask(client, [*user(), {"role": "assistant", "content": content}])
        assert reply.content[0].text == "Found"


# ── the cache, the stream, the lists ─────────────────────────────────────────────────────────


async def test_a_prefix_is_cached_from_mark_to_mark() -> None:
    async with opened([{"text": "Yes"}]) as (server, client):
        one = text("x" * 8000, **MARK)
        await ask(client, user(one))
        await ask(client, user(one, text("y" * 400), text("z" * 400, **MARK), text("w" * 80)))
        first, second = (request.usage for request in server.requests)
        assert first["cache_creation_input_tokens"] == second["cache_read_input_tokens"] > 2000
        assert 200 <= second["cache_creation_input_tokens"] < 240
        assert 20 <= second["input_tokens"] < 40
        await ask(client, user(text("x" * 1000, **MARK)), OLD)  # below its 4,096 tokens
        assert server.requests[-1].usage["cache_creation_input_tokens"] == 0
        assert server.billed["cached"] == second["cache_read_input_tokens"]


@pytest.mark.parametrize(("between", "found"), [(18, True), (19, False)])
async def test_a_prefix_is_looked_for_twenty_blocks_back(between: int, found: bool) -> None:
    async with opened([{"text": "Yes"}]) as (server, client):
        one = text("x" * 8000)
        await ask(client, user(one | MARK))
        await ask(client, user(one, *[text("y")] * between, text("z", **MARK)))
        assert bool(server.requests[-1].usage["cache_read_input_tokens"]) is found


async def test_an_hour_is_told_apart_in_what_was_written() -> None:
    async with opened([{"text": "Yes"}]) as (server, client):
        hour = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
        await ask(client, user(text("x" * 8000, **hour), text("y" * 4000, **MARK)))
        written = server.requests[-1].usage["cache_creation"]
        assert written["ephemeral_1h_input_tokens"] > 2000 > 1000
        assert written["ephemeral_5m_input_tokens"] > 1000


async def test_thinking_is_empty_unless_the_request_wants_to_see_it() -> None:
    async with opened() as (_, client):
        for display, seen in (("omitted", ""), ("summarized", "I need both")):
            thinking = {"type": "adaptive", "display": display}
            reply = await ask(client, user(), thinking=thinking)
            client_saw = [block.thinking for block in reply.content if block.type == "thinking"]
            assert client_saw in ([seen], [])
            if client_saw:
                assert reply.usage.output_tokens_details.thinking_tokens > 0


async def test_a_model_that_is_not_asked_to_think_does_not() -> None:
    async with opened() as (_, client):
        reply = await ask(client, user(), OLDER)
        assert [block.type for block in reply.content] == ["text", "tool_use", "tool_use"]


async def test_a_stream_can_be_cut_ended_or_failed() -> None:
    async with opened() as (server, client):
        server.play([{"text": "A" * 50, "cut_after": 4}])
        with pytest.raises(Exception, match=r"incomplete|disconnected|closed"):
            await ask(client, user())
        fault = {"events": 4, "error": {"text": "Overloaded", "type": "overloaded_error"}}
        server.play([{"text": "A" * 50, "error_after": fault}])
        with pytest.raises(anthropic.APIStatusError):
            await ask(client, user())
        server.play([{"error": {"status": 529, "type": "overloaded_error"}}])
        with pytest.raises(anthropic.APIStatusError) as caught:
            await ask(client, user())
        assert caught.value.status_code == 529
        assert server.refusals == []


async def test_the_stream_is_the_whole_message() -> None:
    search = {"query": "kode", "results": [{"url": "https://example.org"}]}
    parts = [{"thinking": "Hm"}, {"redacted": "secret"}, {"text": "So"}, {"search": search}]
    script = [{"parts": parts, "calls": CALLS, "extra": {"x_new": 1}}]
    async with opened(script) as (server, client):
        streamed = await ask(client, user(), thinking={"type": "adaptive", "display": "summarized"})
        sent = server.requests[-1].reply["content"]
        kinds = [block["type"] for block in sent]
        assert kinds[:3] == ["thinking", "redacted_thinking", "text"]
        assert kinds[3:5] == ["server_tool_use", "web_search_tool_result"]
        for came, block in zip(streamed.content, sent, strict=True):
            assert (
                came.model_dump(exclude_none=True, mode="json").items()
                >= {key: value for key, value in block.items() if key != "content"}.items()
            )


async def test_a_stream_can_be_held_until_the_client_goes() -> None:
    async with opened([{"text": "A" * 50, "hold_after": 5}]) as (server, client):
        async with client.messages.stream(model=NEW, max_tokens=99, messages=user()) as stream:
            async for event in stream:
                if event.type == "text":
                    break
        await asyncio.to_thread(server.wait_for_disconnect)
        assert server.requests[-1].reply["content"] == [text("A" * 50)]


async def test_models_and_tokens_can_be_asked_for() -> None:
    async with opened(models={NEW: {"window": 20_000}}) as (server, client):
        info = await client.models.retrieve(NEW)
        assert info.max_input_tokens == 20_000
        assert info.capabilities.thinking.types.adaptive.supported
        assert not info.capabilities.thinking.types.disabled.supported
        assert info.capabilities.effort.xhigh.supported
        assert NEW in [model.id async for model in client.models.list()]
        counted = await client.messages.count_tokens(model=NEW, messages=user(text("x" * 400)))
        assert 100 <= counted.input_tokens < 130
        assert not server.requests
        with pytest.raises(anthropic.BadRequestError, match="> 20000 maximum"):
            await ask(client, user(text("x" * 90_000)))
