"""The strict server as OpenAI's Responses API, driven by OpenAI's own client."""

import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest

from tests.strict_server import StrictServer

SOL, OLDER, OLD = "gpt-6.1-sol", "gpt-5.4", "gpt-5.1"
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
READ = {"type": "function", "name": "read", "parameters": SCHEMA, "strict": False}
TOOLS = [READ, {"type": "custom", "name": "patch"}]
CALLS = [{"name": "read", "arguments": {"path": "a"}}, {"name": "patch", "arguments": "+ x"}]
SCRIPT = [{"thinking": "I need both", "text": "Reading", "calls": CALLS}, {"text": "Done"}]
FIXED = {"store": False, "reasoning": {"effort": "high", "summary": "auto"}}


@asynccontextmanager
async def opened(script: Any = SCRIPT, **more: Any) -> AsyncIterator[tuple[StrictServer, Any]]:
    with StrictServer(script, vendor="openai", repeat_last=True, **more) as server:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="k", max_retries=0) as client:
            yield server, client


async def ask(client: Any, items: Any, model: str = SOL, /, **body: Any) -> list[Any]:
    """The events of the stream."""
    given = {"model": model, "input": items, "tools": TOOLS, "instructions": "Be brief."}
    stream = await client.responses.create(stream=True, extra_body=given | FIXED | body)
    return [event async for event in stream]


async def begun(server: StrictServer, client: Any, model: str = SOL, /) -> list[Any]:
    """A conversation up to the results of two calls."""
    items: list[Any] = [user()]
    await ask(client, items, model)
    items += copy.deepcopy(server.requests[-1].reply["output"])
    for item in items[1:]:
        if "call_id" in item:
            kind = f"{item['type']}_output"
            items.append({"type": kind, "call_id": item["call_id"], "output": "x"})
    return items


def user(words: str = "Hello", **more: Any) -> dict[str, Any]:
    part = {"type": "input_text", "text": words, **more}
    return {"type": "message", "role": "user", "content": [part]}


BREAK = {"prompt_cache_breakpoint": {"mode": "explicit"}}
OPEN = {"type": "json_schema", "name": "x", "schema": SCHEMA, "strict": True}
REFUSED: dict[str, tuple[str, dict[str, Any], str, str | None]] = {
    "unknown": (SOL, {"top": 1}, "Unknown parameter: 'top'", "unknown_parameter"),
    "within": (SOL, {"input": [user(foo=1)]}, "'input[0].content[0].foo'", "unknown_parameter"),
    "model": ("gpt-9", {}, "`gpt-9` does not exist", "model_not_found"),
    "minimal": (SOL, {"reasoning": {"effort": "minimal"}}, "'low', 'medium'", "unsupported_value"),
    "none": (SOL, {"reasoning": {"effort": "none"}}, "'gpt-6.1-sol' model", "unsupported_value"),
    "word": (SOL, {"reasoning": {"effort": "huge"}}, "Invalid value: 'huge'", "invalid_value"),
    "heat": (SOL, {"temperature": 0.2}, "'temperature' is not", "unsupported_parameter"),
    "store": (SOL, {"store": True}, "Store must be set to false", None),
    "earlier": (
        SOL,
        {"previous_response_id": "resp_1"},
        "not found",
        "previous_response_not_found",
    ),
    "reference": (
        SOL,
        {"input": [{"type": "item_reference", "id": "rs_1"}]},
        "not persisted",
        None,
    ),
    "few": (SOL, {"max_output_tokens": 3}, "Expected a value >= 16", "integer_below_min_value"),
    "many": (SOL, {"max_output_tokens": 128_001}, "too large", "invalid_value"),
    "key": (SOL, {"prompt_cache_key": "x" * 65}, "too long", "string_above_max_length"),
    "name": (SOL, {"tools": [READ | {"name": "a.b"}]}, "does not match pattern", "invalid_value"),
    "strict": (SOL, {"tools": [READ | {"strict": True}]}, "'additionalProperties'", None),
    "format": (SOL, {"text": {"format": OPEN}}, "'additionalProperties'", "invalid_json_schema"),
    "cache": (OLDER, {"prompt_cache_options": {"ttl": "12h"}}, "not supported", None),
    "breakpoint": (OLDER, {"input": [user(**BREAK)]}, "not supported", "unsupported_parameter"),
    "window": (
        OLD,
        {"input": [user("x" * 1_100_000)]},
        "context window",
        "context_length_exceeded",
    ),
}
TAKEN: dict[str, tuple[str, dict[str, Any]]] = {
    "minimal": ("gpt-5", {"reasoning": {"effort": "minimal"}}),
    "none": ("gpt-6-sol", {"reasoning": {"effort": "none"}}),
    "max": (SOL, {"reasoning": {"effort": "max", "context": "all_turns"}}),
    "temperature": (SOL, {"temperature": 1}),
    "only here": ("gpt-5.5-pro", {}),
    "cache": (SOL, {"prompt_cache_options": {"mode": "explicit", "ttl": "12h"}}),
    "breakpoints": (SOL, {"input": [user(**BREAK)] * 3}),
    "text": (SOL, {"input": "Hello", "text": {"verbosity": "low"}}),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_an_invalid_request_is_refused_in_the_vendors_words(name: str) -> None:
    model, body, words, code = REFUSED[name]
    async with opened() as (server, client):
        with pytest.raises(openai.APIStatusError) as caught:
            await ask(client, [user()], model, **body)
        assert caught.value.status_code == (404 if name in ("model", "reference") else 400)
        assert words in caught.value.body["message"]  # type: ignore[index]
        assert code in (caught.value.code, None)
        assert len(server.refusals) == 1


@pytest.mark.parametrize("name", TAKEN)
async def test_a_request_that_the_vendor_takes_is_taken(name: str) -> None:
    model, body = TAKEN[name]
    async with opened() as (server, client):
        await ask(client, [user()], model, **body)
        assert server.refusals == []


# ── what comes back ──────────────────────────────────────────────────────────────────────────
# The items: user, reasoning, message, function call, custom call, two outputs.


def drop(*places: int) -> Callable[[list[Any]], None]:
    def dropped(items: list[Any]) -> None:
        for place in sorted(places, reverse=True):
            del items[place]

    return dropped


TAMPERED: dict[str, tuple[Callable[[list[Any]], Any], str]] = {
    "no reasoning": (drop(1), "without its required 'reasoning' item"),
    "reasoning alone": (drop(2, 3, 4, 5, 6), "without its required following item"),
    "other words": (lambda i: i[1].update(encrypted_content="gAAAAAx"), "could not be verified"),
    "no words": (lambda i: i[1].pop("encrypted_content"), "not persisted"),
    "no output": (drop(5), "No tool output found for function call"),
    "no custom output": (drop(6), "No tool output found for custom tool call"),
    "no call": (drop(3), "No tool call found for function call output"),
    "another id": (lambda i: i[3].update(id="toolu_1"), "Expected an ID that begins with 'fc'"),
    "unknown field": (lambda i: i[3].update(foo=1), "Unknown parameter: 'input[3].foo'"),
}


@pytest.mark.parametrize("name", TAMPERED)
async def test_an_item_that_comes_back_otherwise_is_refused(name: str) -> None:
    tamper, words = TAMPERED[name]
    async with opened() as (server, client):
        items = await begun(server, client)
        changed = copy.deepcopy(items)
        tamper(changed)
        with pytest.raises(openai.APIStatusError) as caught:
            await ask(client, changed)
        assert words in caught.value.body["message"]  # type: ignore[index]
        server.soft_faults.clear()
        await ask(client, items)  # as it came, it is taken
        assert server.soft_faults == []


async def test_encrypted_content_counts_from_the_finished_item() -> None:
    async with opened() as (server, client):
        events = await ask(client, [user()])
        added, done = (
            next(e.item for e in events if e.type == f"response.output_item.{word}")
            for word in ("added", "done")
        )
        assert added.id == done.id
        assert added.encrypted_content != done.encrypted_content
        items = [user(), *copy.deepcopy(server.requests[-1].reply["output"])[:2]]
        await ask(client, items)
        items[1]["encrypted_content"] = added.encrypted_content
        with pytest.raises(openai.BadRequestError) as caught:
            await ask(client, items)
        assert caught.value.code == "invalid_encrypted_content"


async def test_older_models_encrypt_content_only_when_asked() -> None:
    async with opened([SCRIPT[0]]) as (server, client):
        for include, given in (([], False), (["reasoning.encrypted_content"], True)):
            await ask(client, [user()], OLDER, include=include)
            assert bool(server.requests[-1].reply["output"][0]["encrypted_content"]) is given


async def test_lost_phases_and_fields_and_extra_breakpoints_are_noted() -> None:
    async with opened([SCRIPT[0] | {"extra": {"x_new": 1}}]) as (server, client):
        items = await begun(server, client)
        assert [item["phase"] for item in items if "phase" in item] == ["commentary"]
        await ask(client, items)
        assert server.soft_faults == []
        plain = {"type": "message", "role": "assistant", "content": "Reading"}
        await ask(client, [*items[:1], plain, user()])
        del items[3]["x_new"]
        await ask(client, items)
        await ask(client, [user(**BREAK)] * 4)
        assert len(server.soft_faults) == 3


# ── cache, stops, lists ──────────────────────────────────────────────────────────────────────


async def test_older_models_read_common_beginnings_in_steps_per_key() -> None:
    async with opened([{"text": "Yes"}]) as (server, client):
        for words, key in (("y", "a"), ("z", "a"), ("z", "b")):
            await ask(client, [user("x" * 8000 + words * 800)], OLDER, prompt_cache_key=key)
        read = [
            request.usage["input_tokens_details"]["cached_tokens"] for request in server.requests
        ]
        assert [read[0], read[1] % 128, read[2]] == [0, 0, 0]
        assert 1900 < read[1] < 2200
        written = [r.usage["input_tokens_details"]["cache_write_tokens"] for r in server.requests]
        assert written == [0, 0, 0]


async def test_newer_models_read_and_write_whole_breakpoints() -> None:
    async with opened([{"text": "Yes"}]) as (server, client):
        fixed = user("x" * 8000, **BREAK)
        explicit = {"prompt_cache_options": {"mode": "explicit"}}
        await ask(client, [fixed, user("one")], **explicit)
        await ask(client, [fixed, user("two")])
        await ask(client, [fixed, user("two"), user("three")])
        await ask(client, [fixed, user("four")], prompt_cache_options={"mode": "explicit"})
        usage = [request.usage for request in server.requests]
        first, second, third, fourth = (one["input_tokens_details"] for one in usage)
        assert first["cached_tokens"] == 0
        assert 0 < first["cache_write_tokens"] < usage[0]["input_tokens"]
        assert second["cached_tokens"] == first["cache_write_tokens"]
        assert third["cached_tokens"] == usage[1]["input_tokens"]
        assert fourth["cached_tokens"] == first["cache_write_tokens"]


@pytest.mark.parametrize(
    ("reply", "status", "reason"),
    [
        ({"text": "A", "stop": "length"}, "incomplete", "max_output_tokens"),
        ({"text": "A", "stop": "content_filter"}, "incomplete", "content_filter"),
        ({"stop": "failed", "reason": "rate_limit_exceeded"}, "failed", "rate_limit_exceeded"),
        ({"text": "No", "stop": "refusal"}, "completed", None),
    ],
)
async def test_a_response_ends_with_its_status_and_reason(
    reply: dict[str, Any], status: str, reason: str | None
) -> None:
    async with opened([reply]) as (_, client):
        events = await ask(client, [user()])
        last = events[-1]
        assert (last.type, last.response.status) == (f"response.{status}", status)
        details, error = last.response.incomplete_details, last.response.error
        assert (details.reason if details else error.code if error else None) == reason
        assert [event.sequence_number for event in events] == list(range(len(events)))


async def test_the_stream_is_the_whole_response() -> None:
    async with opened([SCRIPT[0] | {"extra": {"x_new": 1}}]) as (server, client):
        events = await ask(client, [user()])
        sent = server.requests[-1].reply["output"]
        assert [item["x_new"] for item in sent] == [1] * 4
        done = [event.item for event in events if event.type == "response.output_item.done"]
        assert [item.to_dict(mode="json") for item in done] == sent
        assert events[-1].response.to_dict(mode="json")["output"] == sent
        said: dict[str, str] = {}
        for event in events:
            if event.type.endswith(".delta"):
                said[event.item_id] = said.get(event.item_id, "") + event.delta
        texts = [sent[0]["summary"][0]["text"], sent[1]["content"][0]["text"]]
        assert list(said.values()) == [*texts, sent[2]["arguments"], sent[3]["input"]]


async def test_a_search_of_the_servers_comes_with_its_sources() -> None:
    search = {"search": {"query": "kode", "results": [{"url": "https://example.org"}]}}
    async with opened([{"parts": [{"thinking": "Hm"}, search], "text": "Found"}]) as found:
        server, client = found
        events = await ask(client, [user()])
        items = [event.item for event in events if event.type == "response.output_item.done"]
        assert [item.type for item in items] == ["reasoning", "web_search_call", "message"]
        assert items[2].content[0].annotations[0].url == "https://example.org"
        assert items[1].action.sources[0].url == "https://example.org"
        assert server.refusals == []


async def test_a_stream_can_be_cut_and_end_with_an_error() -> None:
    async with opened() as (server, client):
        server.play([{"text": "A" * 50, "cut_after": 5}])
        with pytest.raises(Exception, match=r"incomplete|disconnected|closed|Connection"):
            await ask(client, [user()])
        server.play([{"text": "A" * 50, "error_after": {"events": 5, "error": {"code": "x"}}}])
        events = await ask(client, [user()])
        assert (events[-1].type, events[-1].code) == ("error", "x")
        assert server.refusals == []


async def test_the_models_are_listed() -> None:
    async with opened() as (_, client):
        assert SOL in [model.id async for model in client.models.list()]
