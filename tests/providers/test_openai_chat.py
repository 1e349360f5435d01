"""The wire format of Chat Completions, and what its imitators make of it."""

import itertools
import json
from typing import Any

import pytest

from kode.errors import ProviderError, TransientError
from kode.events import Event, TextDelta, ThinkingDelta
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
from kode.providers.chat import answer_schema
from tests.providers.conftest import Connect
from tests.scripted_server import ScriptedServer

HELLO = Request(system="You are kode.", messages=[user_message("Hello")])


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **rest: Any) -> Any:
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **rest}


def fragment(**parts: Any) -> dict[str, Any]:
    function = {k: parts.pop(k) for k in ("name", "arguments") if k in parts}
    return {**parts, "function": function}


def calls_chunk(*fragments: dict[str, Any]) -> Any:
    return chunk({"tool_calls": list(fragments)})


async def play(connect: Connect, frames: list[Any], done: bool = True) -> Message:
    ending = ["data: [DONE]\n\n"] if done else []
    provider, _ = connect("openai", [{"wire": {"frames": [*frames, *ending]}}])
    return await provider.reply(HELLO, lambda event: None)


def made(message: Message) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in calls_of(message)]


READ_A = ("read_file", {"path": "a"})
READ_B = ("read_file", {"path": "b"})
A, B = '{"path": "a"}', '{"path": "b"}'


def f(index: int | None, call_id: str | None, name: str | None, arguments: Any) -> dict[str, Any]:
    """A fragment of a call, without what is None."""
    fields = {"index": index, "id": call_id, "name": name, "arguments": arguments}
    return fragment(**{key: value for key, value in fields.items() if value is not None})


READ = "read_file"
WHOLE = {"tool_calls": [f(None, "x", READ, A), f(None, "y", READ, B)]}
FRAGMENTS: dict[str, list[Any]] = {
    "interleaved by index": [f(0, "x", READ, ""), f(1, "y", READ, ""), f(1, None, None, B[:5]),
                             f(0, None, None, A), f(1, None, None, B[5:])],
    "index 0 for all with different ids": [
        f(0, "x", READ, A[:4]), f(0, None, None, A[4:]), f(0, "y", READ, B)],
    "index 0 for all and no ids": [f(0, "", READ, A), f(0, "", READ, B)],
    "no index": [f(None, "x", READ, A[:4]), f(None, "x", None, A[4:]), f(None, "y", READ, B)],
    "no index and no ids, in one chunk": [[f(None, None, READ, A), f(None, None, READ, B)]],
    "no index and no ids, in two chunks": [f(None, None, READ, A), f(None, None, READ, B)],
    "name in pieces, the id again": [f(0, "x", "read_", ""), f(0, None, "file", ""),
                                     f(0, None, None, A), f(1, "x", READ, B)],
    "name and id in each chunk": [
        f(0, "x", READ, A[:6]), f(0, "x", READ, A[6:]), f(1, "y", READ, B)],
    "arguments as objects": [f(0, "x", READ, {"path": "a"}), f(1, "y", READ, {"path": "b"})],
    "a whole message in the stream": [{"choices": [{"message": WHOLE}]}],
}  # fmt: skip


@pytest.mark.parametrize("way", FRAGMENTS)
@pytest.mark.parametrize("finish", ["tool_calls", "stop"])
async def test_fragments_of_calls_find_together(connect: Connect, way: str, finish: str) -> None:
    frames = [
        piece
        if "choices" in piece
        else calls_chunk(*(piece if isinstance(piece, list) else [piece]))
        for piece in FRAGMENTS[way]
    ]
    message = await play(connect, [*frames, chunk(finish=finish)])

    assert made(message) == [READ_A, READ_B]
    assert message.stop == "tool_calls"
    assert len({call.id for call in calls_of(message)}) == 2


async def test_a_call_without_arguments_gets_an_empty_object(connect: Connect) -> None:
    frames = [calls_chunk(fragment(index=0, id="x", name="todo")), chunk(finish="tool_calls")]

    assert made(await play(connect, frames)) == [("todo", {})]


@pytest.mark.parametrize(
    ("key", "own"), [("reasoning_content", None), ("reasoning", {"reasoning": "Hm, well."})]
)
async def test_reasoning_becomes_thinking(
    connect: Connect, key: str, own: dict[str, str] | None
) -> None:
    frames = [
        chunk({key: "Hm, "}),
        chunk({key: "well."}),
        chunk({"content": "Yes."}),
        chunk(finish="stop"),
        "data: [DONE]\n\n",
    ]
    provider, _ = connect("openai", [{"wire": {"frames": frames}}])
    events: list[Event] = []

    message = await provider.reply(HELLO, events.append)

    assert message.parts == (Thinking(text="Hm, well.", own=own), Text(text="Yes."))
    assert message.origin == "chat:openai/some-model"
    assert [type(event) for event in events] == [ThinkingDelta, ThinkingDelta, TextDelta]


async def test_reasoning_under_two_names_is_taken_once(connect: Connect) -> None:
    both = {"reasoning": "Hm.", "reasoning_content": "Hm."}
    message = await play(connect, [chunk(both), chunk({"content": "Yes."}), chunk(finish="stop")])

    assert message.parts[0].text == "Hm."


async def test_content_in_parts_is_understood(connect: Connect) -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "Yes."},
    ]
    message = await play(connect, [chunk({"content": parts}), chunk(finish="stop")])

    assert [part.text for part in message.parts] == ["Hm.", "Yes."]


async def test_a_refusal_in_words_is_a_refusal(connect: Connect) -> None:
    frames = [chunk({"refusal": "I will "}), chunk({"refusal": "not."}), chunk(finish="stop")]
    message = await play(connect, frames)

    assert (message.stop, text_of(message)) == ("refusal", "I will not.")


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", "end"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("content_filter", "refusal"),
        ("eos", "end"),
        ("STOP", "end"),
        ("some_new_reason", "end"),
        ("tool_calls", "end"),
    ],
)
async def test_finish_reasons_of_text_are_understood(
    connect: Connect, finish: str, stop: str
) -> None:
    message = await play(connect, [chunk({"content": "Hi"}), chunk(finish=finish)])

    assert message.stop == stop


@pytest.mark.parametrize(
    "frames",
    [
        [chunk({"content": "Hi"}), chunk(finish="error")],
        [chunk({"content": "Hi"}), chunk(finish="abort")],
        [chunk({"content": "Hi"}), chunk(finish="")],
        [chunk(finish="tool_calls")],
        [calls_chunk(fragment(index=0, id="x", name="todo")), chunk(finish="some_new_reason")],
        [{"choices": [], "usage": {"prompt_tokens": 3}}],
    ],
)
async def test_a_reply_that_is_not_whole_is_transient(connect: Connect, frames: list[Any]) -> None:
    with pytest.raises(TransientError):
        await play(connect, frames)


async def test_text_after_the_stop_reason_belongs_to_the_reply(connect: Connect) -> None:
    frames = [chunk({"content": "Hel"}, finish="stop"), chunk({"content": "lo"}, finish="stop")]

    assert text_of(await play(connect, frames)) == "Hello"


async def test_text_after_the_stop_reason_without_an_end_is_cut(connect: Connect) -> None:
    frames = [chunk({"content": "Hel"}, finish="stop"), chunk({"content": "lo"})]

    with pytest.raises(TransientError):
        await play(connect, frames, done=False)


@pytest.mark.parametrize(
    "usages",
    [
        [{"prompt_tokens": 9, "completion_tokens": 2,
          "prompt_tokens_details": {"cached_tokens": 4}}],
        [{"prompt_tokens": 9, "completion_tokens": 0, "prompt_cache_hit_tokens": 4},
         {"prompt_tokens": 9, "completion_tokens": 2}],
        [None, {"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 4.0}],
        [{"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 4,
          "prompt_tokens_details": None}, {"prompt_tokens": None, "completion_tokens": -1}],
    ],
)  # fmt: skip
async def test_usage_comes_in_many_ways(connect: Connect, usages: list[Any]) -> None:
    frames = [chunk({"content": "Hi"}), chunk(finish="stop")]
    frames += [{"choices": [], "usage": usage} for usage in usages]
    usage = (await play(connect, frames)).usage

    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (9, 2, 4)


async def test_a_character_split_between_chunks_is_one_again(connect: Connect) -> None:
    frames = [
        'data: {"choices":[{"delta":{"content":"fox \\ud83e"}}]}\n\n',
        'data: {"choices":[{"delta":{"content":"\\udd8a!"}}]}\n\n',
        'data: {"choices":[{"delta":{"content":" \\ud83e"},"finish_reason":"stop"}]}\n\n',
        "data: [DONE]\n\n",
    ]
    provider, _ = connect("openai", [{"wire": {"frames": frames}}])
    events: list[Event] = []

    message = await provider.reply(HELLO, events.append)

    assert text_of(message) == "fox 🦊! \ufffd"
    assert all(e.text.encode() for e in events if isinstance(e, TextDelta))


@pytest.mark.parametrize(
    "frame",
    [
        {"error": {"message": "n_ctx exceeded: context size", "code": 400}},
        {"error": "the prompt is too long for this model's context window"},
        {"choices": [{"error": {"message": "maximum context length is 5", "code": 400}}]},
    ],
)
async def test_error_objects_in_the_stream_are_read(connect: Connect, frame: Any) -> None:
    with pytest.raises(ProviderError) as caught:
        await play(connect, [chunk({"content": "Hi"}), frame])

    assert type(caught.value).__name__ == "ContextOverflow"


# ── out ──────────────────────────────────────────────────────────────────────────────────────

CALL = ToolCall(id="call_1", name="read_file", arguments='{"path":  "a"}')
HISTORY = [
    Message(role="user", parts=(Text(text="[memory]", source="memory"), Text(text="Read a"))),
    Message(
        role="assistant",
        parts=(Thinking(text="hm", origin="openai/some-model"), Text(text="Sure."), CALL),
        stop="tool_calls",
    ),
    Message(
        role="tool",
        parts=(ToolResult(call_id="call_1", name="read_file", text="é", is_error=True),),
    ),
]


async def sent(connect: Connect, request: Request, **settings: Any) -> dict[str, Any]:
    provider, server = connect("openai", [{"text": "ok"}], **settings)
    await provider.reply(request, lambda event: None)
    return server.requests[-1].json


async def test_a_request_has_every_field_the_api_expects(connect: Connect) -> None:
    tool = ToolSpec(
        name="read_file", description="Read.", parameters={"type": "object", "properties": {}}
    )
    body = await sent(connect, Request(system="You are kode.", messages=HISTORY, tools=(tool,)))

    function = {
        "name": "read_file",
        "description": "Read.",
        "parameters": {"type": "object", "properties": {}},
    }
    assert body == {
        "model": "some-model",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 4_096,
        "tools": [{"type": "function", "function": function}],
        "messages": [
            {"role": "system", "content": "You are kode."},
            {"role": "user", "content": "[memory]\n\nRead a"},
            {
                "role": "assistant",
                "content": "Sure.",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "read_file", "arguments": '{"path":  "a"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "é"},
        ],
    }


async def test_other_servers_get_the_older_name_of_the_limit(connect: Connect) -> None:
    body = await sent(connect, Request(system="", messages=HISTORY[:1], max_output_tokens=50))

    assert body["max_tokens"] == 50
    assert "max_completion_tokens" not in body
    assert [message["role"] for message in body["messages"]] == ["user"]


def test_a_limit_of_output_is_named_as_openai_names_it() -> None:
    url = "https://api.openai.com/v1"
    provider = open_provider("openai", "m", api_key="k", api="chat", base_url=url)
    request = Request(system="", messages=HISTORY[:1], max_output_tokens=50)

    body = json.loads(provider.encode(request))  # type: ignore[attr-defined]

    assert body["max_completion_tokens"] == 50
    assert "max_tokens" not in body


@pytest.mark.parametrize("arguments", ['{"path": "a', "", "[1]", '{"x": NaN}', "null"])
async def test_broken_arguments_go_out_as_an_empty_object(connect: Connect, arguments: str) -> None:
    call = ToolCall(id="c" * 50, name="functions.read file", arguments=arguments)
    result = ToolResult(call_id="c" * 50, name="x", text="that was no JSON")
    messages = [
        user_message("go"),
        Message(role="assistant", parts=(call,), stop="tool_calls"),
        Message(role="tool", parts=(result,)),
    ]
    body = await sent(connect, Request(system="", messages=messages))

    out = body["messages"][1]["tool_calls"][0]
    assert out["function"] == {"name": "functions_read_file", "arguments": "{}"}
    assert out["id"] == body["messages"][2]["tool_call_id"]
    assert len(out["id"]) <= 40


async def test_an_assistant_message_that_says_nothing_is_left_out(connect: Connect) -> None:
    empty = Message(role="assistant", parts=(Thinking(text="hm"),), stop="end")
    body = await sent(connect, Request(system="", messages=[*HISTORY[:1], empty, *HISTORY[:1]]))

    assert [message["role"] for message in body["messages"]] == ["user"]


async def test_sent_bytes_begin_every_later_request() -> None:
    with ScriptedServer([{"text": "ok"}], repeat_last=True) as server:
        provider = open_provider("openai", "m", base_url=server.openai_url, api_key="k")
        messages: list[Message] = []
        for number in range(6):
            messages.append(user_message(f"question {number} é"))
            reply = await provider.reply(Request(system="s", messages=messages), lambda e: None)
            messages.append(reply)
        await provider.aclose()

    bodies = [request.body.removesuffix(b"]}") for request in server.requests]
    for earlier, later in itertools.pairwise(bodies):
        assert later.startswith(earlier)


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "integer"}, True),
        ({"type": "object", "properties": {}, "additionalProperties": False}, True),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, False),
        ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, False),
        ({"type": "array", "items": {"type": "object"}}, False),
    ],
)
def test_a_schema_is_kept_to_the_letter_where_openai_can(
    schema: dict[str, Any], strict: bool
) -> None:
    assert answer_schema(schema)["strict"] is strict
