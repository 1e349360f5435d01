"""The wire format of the Messages API."""

import itertools
import json
from typing import Any

import pytest

from kode.errors import ContextOverflow, RefusedError, TransientError
from kode.messages import (
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    calls_of,
    text_of,
    user_message,
)
from kode.provider import Request, ToolSpec
from kode.providers import open_provider
from kode.providers.clients import transform_schema
from kode.providers.models import info_of
from kode.providers.request import default_max_tokens
from tests.providers.conftest import Connect
from tests.scripted_server import ScriptedServer

HELLO = Request(system="You are kode.", messages=[user_message("Hello")])
MARK = {"type": "ephemeral"}
ORIGIN = "messages:anthropic/some-model"


async def sent(connect: Connect, *messages: Message, **rest: Any) -> dict[str, Any]:
    provider, server = connect("anthropic", [{"text": "ok"}])
    given = {"system": "You are kode.", "conversation": "a-session", **rest}
    request = Request(messages=messages, **given)
    await provider.reply(request, lambda event: None)
    return server.requests[-1].json


async def play(connect: Connect, *frames: dict[str, Any]) -> Message:
    provider, _ = connect("anthropic", [{"wire": {"frames": list(frames)}}])
    return await provider.reply(HELLO, lambda event: None)


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def stop(reason: str | None, **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


STOPPED = {"type": "message_stop"}


async def test_a_tool_the_models_know_is_declared_by_type(connect: Connect) -> None:
    tool = ToolSpec(
        name="memory", description="Not sent.", parameters={}, api_type="memory_20250818"
    )

    body = await sent(connect, Message(role="user", parts=(Text(text="hi"),)), tools=(tool,))

    assert body["tools"] == [{"type": "memory_20250818", "name": "memory"}]


async def test_a_request_has_every_field_the_api_expects(connect: Connect) -> None:
    tool = ToolSpec(
        name="read_file", description="Read.", parameters={"type": "object", "properties": {}}
    )
    call = ToolCall(id="call_1", name="read_file", arguments='{"path": "a"}')
    body = await sent(
        connect,
        Message(role="user", parts=(Text(text="[memory]", source="memory"), Text(text="Read a"))),
        Message(role="assistant", parts=(Text(text="Sure."), call), stop="tool_calls"),
        Message(
            role="tool",
            parts=(ToolResult(call_id="call_1", name="read_file", text="no", is_error=True),),
        ),
        tools=(tool,),
        max_output_tokens=99,
    )

    result = {
        "type": "tool_result",
        "tool_use_id": "call_1",
        "content": "no",
        "is_error": True,
        "cache_control": MARK,
    }
    use = {"type": "tool_use", "id": "call_1", "name": "read_file", "input": {"path": "a"}}
    assert body == {
        "model": "some-model",
        "max_tokens": 99,
        "stream": True,
        "tools": [
            {
                "name": "read_file",
                "description": "Read.",
                "input_schema": {"type": "object", "properties": {}},
            }
        ],
        "system": [{"type": "text", "text": "You are kode.", "cache_control": MARK}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "[memory]"},
                    {"type": "text", "text": "Read a"},
                ],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "Sure."}, use]},
            {"role": "user", "content": [result]},
        ],
    }


async def test_neighbours_of_the_user_become_one_turn_with_results_first(connect: Connect) -> None:
    call = ToolCall(id="call_1", name="todo", arguments="{}")
    body = await sent(
        connect,
        user_message("one"),
        user_message("two"),
        Message(role="assistant", parts=(call,), stop="tool_calls"),
        Message(
            role="tool",
            parts=(Text(text="note"), ToolResult(call_id="call_1", name="todo", text="done")),
        ),
        user_message("three"),
    )

    shape = [(m["role"], [b["type"] for b in m["content"]]) for m in body["messages"]]
    assert shape == [
        ("user", ["text", "text"]),
        ("assistant", ["tool_use"]),
        ("user", ["tool_result", "text", "text"]),
    ]
    marks = [b for m in body["messages"] for b in m["content"] if "cache_control" in b]
    assert [mark["text"] for mark in marks] == ["three"]


def test_the_limit_of_output_leaves_room_for_the_conversation() -> None:
    assert default_max_tokens(info_of("claude-sonnet-5-5")) == 128_000
    assert default_max_tokens(info_of("claude-haiku-4-5")) < 40_000


@pytest.mark.parametrize("arguments", ['{"path": "a', "", "[1]", '{"x": Infinity}', "7"])
async def test_broken_calls_go_out_as_an_empty_object(connect: Connect, arguments: str) -> None:
    call = ToolCall(id="functions.x:0", name="a b", arguments=arguments)
    body = await sent(
        connect,
        user_message("go"),
        Message(role="assistant", parts=(call,), stop="tool_calls"),
        Message(role="tool", parts=(ToolResult(call_id="functions.x:0", name="a b", text="no"),)),
    )

    use, result = body["messages"][1]["content"][0], body["messages"][2]["content"][0]
    assert (use["name"], use["input"]) == ("a_b", {})
    assert use["id"] == result["tool_use_id"]
    assert use["id"].replace("_", "").isalnum()


async def test_earlier_turns_stay_the_same_but_for_the_moving_mark() -> None:
    with ScriptedServer([{"text": "ok", "thinking": "hm"}], repeat_last=True) as server:
        provider = open_provider(
            "anthropic", "some-model", base_url=server.anthropic_url, api_key="k"
        )
        messages: list[Message] = []
        for number in range(5):
            messages.append(user_message(f"question {number} é"))
            request = Request(system="s", messages=messages, conversation="a-session")
            reply = await provider.reply(request, lambda e: None)
            messages.append(reply)
        await provider.aclose()

    mark = b',"cache_control":{"type":"ephemeral"}'
    bodies = [request.body for request in server.requests]
    assert [body.count(mark) for body in bodies] == [2, 3, 3, 3, 3]
    for earlier, later in itertools.pairwise(bodies):
        before = earlier.replace(mark, b"").removesuffix(b"]}")
        assert later.replace(mark, b"").startswith(before)


async def test_thinking_comes_with_signature_and_redaction(connect: Connect) -> None:
    message = await play(
        connect,
        start(0, type="thinking", thinking="", signature=""),
        delta(0, type="thinking_delta", thinking="Hm, "),
        delta(0, type="thinking_delta", thinking="yes."),
        delta(0, type="signature_delta", signature="c2ln"),
        start(1, type="redacted_thinking", data="b3BhcXVl"),
        start(2, type="text", text=""),
        delta(2, type="text_delta", text="Done."),
        stop("end_turn"),
        STOPPED,
    )

    assert message.parts == (
        Thinking(text="Hm, yes.", signature="c2ln"),
        Thinking(redacted="b3BhcXVl"),
        Text(text="Done."),
    )
    assert message.origin == ORIGIN


async def test_cached_and_written_tokens_are_part_of_the_input(connect: Connect) -> None:
    opening = {
        "input_tokens": 5,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
        "output_tokens": 1,
    }
    message = await play(
        connect,
        {"type": "message_start", "message": {"usage": opening}},
        start(0, type="text", text="Hi"),
        stop("end_turn", output_tokens=9, input_tokens=None),
        STOPPED,
    )

    usage = message.usage
    assert usage is not None
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens) == (125, 100, 20)
    assert usage.output_tokens == 9


async def test_two_calls_under_one_index_are_two(connect: Connect) -> None:
    message = await play(
        connect,
        start(0, type="tool_use", id="a", name="todo", input={}),
        delta(0, type="input_json_delta", partial_json='{"n": 1}'),
        start(0, type="tool_use", id="b", name="todo", input={}),
        delta(0, type="input_json_delta", partial_json='{"n": 2}'),
        stop("tool_use"),
        STOPPED,
    )

    made = [(call.id, json.loads(call.arguments)) for call in calls_of(message)]
    assert made == [("a", {"n": 1}), ("b", {"n": 2})]


async def test_events_without_names_and_blocks_without_a_start_are_understood(
    connect: Connect,
) -> None:
    frames = [
        {"type": "ping"},
        delta(0, type="text_delta", text="Hi"),
        {"type": "something_new", "x": 1},
        stop("end_turn"),
        STOPPED,
    ]
    raw = [f"data: {json.dumps(frame)}\n\n" for frame in frames]
    provider, _ = connect("anthropic", [{"wire": {"frames": raw}}])

    message = await provider.reply(HELLO, lambda event: None)

    assert (text_of(message), message.stop) == ("Hi", "end")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("pause_turn", "paused"),
        ("max_tokens", "length"),
        ("refusal", "refusal"),
    ],
)
async def test_stop_reasons_of_the_api_are_understood(
    connect: Connect, reason: str, expected: str
) -> None:
    message = await play(connect, start(0, type="text", text="Hi"), stop(reason), STOPPED)

    assert message.stop == expected


async def test_a_window_that_a_reply_fills_is_an_overflow(connect: Connect) -> None:
    end = stop("model_context_window_exceeded")

    with pytest.raises(ContextOverflow):
        await play(connect, start(0, type="text", text="Hi"), end, STOPPED)


async def test_a_stop_without_a_reason_is_transient(connect: Connect) -> None:
    with pytest.raises(TransientError):
        await play(connect, start(0, type="text", text="Hi"), stop(None), STOPPED)


async def test_a_base_url_may_end_in_v1_or_not(connect: Connect) -> None:
    provider, server = connect("anthropic", [{"text": "1"}, {"text": "2"}])
    bare = open_provider("anthropic", "m", base_url=server.root_url + "/", api_key="k")

    await provider.reply(HELLO, lambda event: None)
    await bare.reply(HELLO, lambda event: None)
    await bare.aclose()

    assert [request.path for request in server.requests] == ["/v1/messages"] * 2


def test_a_schema_that_the_api_cannot_take_is_refused() -> None:
    with pytest.raises(RefusedError, match="cannot hold an answer"):
        transform_schema({"properties": {"a": {}}})
