"""What every provider must do, asked of each in the same words.

The wire formats talk to the scripted server over real HTTP; `scripted` plays the same replies by
itself. A new format is one row in `FORMATS` here; a new provider of a known one needs nothing.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kode.errors import (
    AuthenticationError,
    ContextOverflow,
    ProviderError,
    RefusedError,
    TransientError,
)
from kode.events import CallAnnounced, Event, TextDelta, ThinkingDelta
from kode.messages import Message, Text, ToolResult, calls_of, text_of, user_message
from kode.provider import Provider, Request, ToolSpec
from kode.providers import open_provider
from kode.registry import PROVIDERS
from tests.scripted_server import ScriptedServer

CLOUDS = {
    "AWS_REGION": "us-east-1",
    "CLOUD_ML_REGION": "global",
    "ANTHROPIC_VERTEX_PROJECT_ID": "a-project",
}
"""What the clients of clouds need beside a key."""

Opener = Callable[[list[dict[str, Any]]], Awaitable[Provider]]

READ_FILE = ToolSpec(
    name="read_file",
    description="Read a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
)


FORMATS = {
    "responses": "openai",
    "responses-bedrock": "bedrock",
    "chat": "openai",
    "messages": "anthropic",
    "messages-bedrock": "bedrock",
    "messages-vertex": "vertex",
    "messages-foundry": "foundry",
    "scripted": "scripted",
}
"""Format, and client where it differs → the provider that speaks it."""


@pytest.fixture(params=FORMATS)
async def provider_for(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name, value in CLOUDS.items():
        monkeypatch.setenv(name, value)
    servers: list[ScriptedServer] = []
    opened: list[Provider] = []

    async def open_with(replies: list[dict[str, Any]]) -> Provider:
        script = tmp_path / f"script-{len(opened)}.json"
        script.write_text(json.dumps(replies))
        url, api = None, request.param.partition("-")[0]
        if api != "scripted":
            servers.append(ScriptedServer(replies).__enter__())
            url = servers[-1].openai_url
        opened.append(
            open_provider(
                FORMATS[request.param],
                "some-model",
                base_url=url,
                api_key="k",
                api=api,
                script=script,
            )
        )
        return opened[-1]

    open_with.servers = servers
    yield open_with
    for provider in opened:
        await provider.aclose()
        await provider.aclose()
    for server in servers:
        server.__exit__()


def asking(*messages: Message, tools: tuple[ToolSpec, ...] = (READ_FILE,)) -> Request:
    return Request(system="You are kode.", messages=messages, tools=tools)


HELLO = asking(user_message("Hello"))


async def test_text_streams_in_pieces_and_comes_back_whole(provider_for: Opener) -> None:
    said = "The quick brown fox jumps over the lazy dog, and then — naïve 🦊 — it does it again."
    provider = await provider_for([{"text": said}])
    events: list[Event] = []

    message = await provider.reply(HELLO, events.append)

    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(deltas) > 1
    assert "".join(deltas) == said == text_of(message)
    assert (message.role, message.stop, message.model) == ("assistant", "end", "some-model")
    for server in provider_for.servers:
        sent = server.requests[0].json  # it limits the output
        names = ("max_tokens", "max_completion_tokens", "max_output_tokens")
        assert [sent[name] > 0 for name in names if name in sent] == [True]


async def test_usage_includes_what_was_cached(provider_for: Opener) -> None:
    scripted = {"input_tokens": 100, "output_tokens": 7, "cached_tokens": 80}
    provider = await provider_for([{"text": "Hi there"}, {"text": "Hi", "usage": scripted}])

    counted = (await provider.reply(HELLO, lambda event: None)).usage
    usage = (await provider.reply(HELLO, lambda event: None)).usage

    assert counted is not None is not usage
    assert min(counted.input_tokens, counted.output_tokens) > 0
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (100, 7, 80)


async def test_thinking_streams_apart_from_the_text(provider_for: Opener) -> None:
    provider = await provider_for([{"thinking": "Let me see.", "text": "Done."}])
    events: list[Event] = []

    message = await provider.reply(HELLO, events.append)

    assert "".join(e.text for e in events if isinstance(e, ThinkingDelta)) == "Let me see."
    assert [part.type for part in message.parts] == ["thinking", "text"]
    origin = message.origin or message.parts[0].origin
    assert origin.endswith(f"{provider.name}/some-model")


async def test_parallel_calls_keep_their_order_and_raw_arguments(provider_for: Opener) -> None:
    calls = [
        {"name": "read_file", "arguments": {"path": "a.py"}},
        {"name": "read_file", "arguments": '{"path": "b.py", "n": 1.50}'},
        {"name": "todo", "arguments": {}},
    ]
    odd = [{"name": "x", "arguments": "{not json"}]
    provider = await provider_for([{"text": "Reading.", "calls": calls}, {"calls": odd}])
    events: list[Event] = []

    message = await provider.reply(HELLO, events.append)

    assert sum(isinstance(event, CallAnnounced) for event in events) == len(calls)
    made = calls_of(message)
    assert message.stop == "tool_calls"
    assert [call.name for call in made] == ["read_file", "read_file", "todo"]
    assert made[1].arguments == '{"path": "b.py", "n": 1.50}'
    assert [json.loads(made[at].arguments) for at in (0, 2)] == [{"path": "a.py"}, {}]
    assert len({call.id for call in made}) == 3
    (kept,) = calls_of(await provider.reply(HELLO, lambda event: None))
    assert kept.arguments == "{not json"


async def test_ids_of_calls_are_unique_and_a_conversation_goes_on(provider_for: Opener) -> None:
    same = {"name": "todo", "arguments": {}, "id": "same"}
    provider = await provider_for([{"calls": [same, same]}, {"text": "So.", "calls": [same]}])

    first = await provider.reply(HELLO, lambda event: None)
    results = [ToolResult(call_id=c.id, name=c.name, text="ok") for c in calls_of(first)]
    tool_message = Message(role="tool", parts=tuple(results))
    second = await provider.reply(
        asking(user_message("Hello"), first, tool_message), lambda event: None
    )

    ids = [call.id for message in (first, second) for call in calls_of(message)]
    assert len(set(ids)) == 3
    assert all(ids)
    assert text_of(second) == "So."


async def test_the_stop_reason_says_how_it_ended(provider_for: Opener) -> None:
    halves = [{"text": "Half a", "stop": stop} for stop in ("length", "refusal")]
    cut = {"calls": [{"name": "write_file", "arguments": '{"path": "a'}], "stop": "length"}
    provider = await provider_for([*halves, cut, {"text": ""}])

    *ended, cut_off, empty = [await provider.reply(HELLO, lambda event: None) for _ in range(4)]

    assert [(it.stop, text_of(it)) for it in ended] == [("length", "Half a"), ("refusal", "Half a")]
    assert (cut_off.stop, calls_of(cut_off)[0].arguments) == ("length", '{"path": "a')
    assert (empty.stop, empty.parts) == ("end", ())


KINDS: dict[type[ProviderError], tuple[int, ...]] = {
    TransientError: (408, 409, 429, 500, 503, 529),
    ContextOverflow: (413,),
    AuthenticationError: (401, 403),
    RefusedError: (400, 404, 402, 422),
}
"""Statuses by what to do next."""


async def test_errors_say_what_to_do_next_and_pass(provider_for: Opener) -> None:
    cases = [(kind, status) for kind, statuses in KINDS.items() for status in statuses]
    errors = [{"error": {"status": status, "retry_after_s": 1.5}} for _, status in cases]
    provider = await provider_for([*errors, {"text": "Here again"}])
    for kind, status in cases:
        with pytest.raises(ProviderError) as caught:
            await provider.reply(HELLO, lambda event: None)

        assert type(caught.value) is kind, status
        assert str(caught.value).rstrip().endswith(".")
        assert kind is not TransientError or caught.value.retry_after_s == 1.5
    assert text_of(await provider.reply(HELLO, lambda event: None)) == "Here again"
    with pytest.raises(RefusedError):  # the script is through
        await provider.reply(HELLO, lambda event: None)


async def test_cancelling_a_reply_leaves_the_provider_usable(provider_for: Opener) -> None:
    provider = await provider_for([{"text": "never", "delay_s": 60}, {"text": "Next"}])
    task = asyncio.create_task(provider.reply(HELLO, lambda event: None))
    await asyncio.sleep(0)
    while any(not list(server.requests) for server in provider_for.servers):
        await asyncio.sleep(0.01)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert text_of(await provider.reply(HELLO, lambda event: None)) == "Next"


async def test_memory_and_broken_characters_go_out_in_a_message(provider_for: Opener) -> None:
    provider = await provider_for([{"match": "remembered: tabs", "text": "fine"}])
    parts = (Text(text="remembered: tabs", source="memory"), Text(text="half \ud83d of a face"))

    message = await provider.reply(asking(Message(role="user", parts=parts)), lambda event: None)

    assert text_of(message) == "fine"


async def test_a_request_with_a_schema_has_the_server_enforce_it(provider_for: Opener) -> None:
    provider = await provider_for([{"text": '{"line": 3}'}])
    schema = {
        "type": "object",
        "properties": {"line": {"type": "integer"}},
        "required": ["line"],
        "additionalProperties": False,
    }

    message = await provider.reply(replace(HELLO, answer_schema=schema), lambda event: None)

    assert text_of(message) == '{"line": 3}'
    for server in provider_for.servers:
        sent = server.requests[0].json
        held = sent.get("response_format", {}).get("json_schema") or next(
            sent[key]["format"] for key in ("text", "output_config") if key in sent
        )
        assert held["schema"] == schema
        assert sent["tool_choice"] in ("none", {"type": "none"})
        assert len(sent["tools"]) == 1


WRITTEN = '```json\n{"name": "read_file", "arguments": {"path": "a.py"}}\n```'


async def test_a_call_written_as_text_is_one_on_either_wire(
    provider_for: Opener,
) -> None:
    provider = await provider_for([{"text": WRITTEN}, {"text": f"{WRITTEN}\nThis reads a.py."}])
    if provider.name == "scripted":
        pytest.skip("a script says what is a call")

    made = await provider.reply(HELLO, lambda event: None)
    shown = await provider.reply(HELLO, lambda event: None)

    (call,) = calls_of(made)
    assert (call.name, json.loads(call.arguments)) == ("read_file", {"path": "a.py"})
    assert (call.written, made.stop) == (WRITTEN, "tool_calls")
    assert (calls_of(shown), shown.stop) == ((), "end")


@pytest.mark.parametrize("name", sorted(row.name for row in PROVIDERS))
async def test_every_provider_of_the_table_answers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in CLOUDS.items():
        monkeypatch.setenv(variable, value)
    script = tmp_path / "script.json"
    script.write_text('[{"text": "Hello"}]')
    with ScriptedServer([{"text": "Hello"}]) as server:
        url = None if name == "scripted" else server.openai_url
        provider = open_provider(name, "some-model", base_url=url, api_key="k", script=script)
        message = await provider.reply(HELLO, lambda event: None)
        await provider.aclose()

    assert text_of(message) == "Hello"
