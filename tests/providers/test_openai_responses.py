"""The wire format of Responses: what goes out, what comes in, and that a reply goes back as it
came."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import respx
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from kode.credentials import redact
from kode.errors import (
    AuthenticationError,
    ConfigError,
    ContextOverflow,
    ProviderError,
    RefusedError,
    ThinkingRefused,
    TransientError,
)
from kode.events import Event as Shown
from kode.events import Notice, TextDelta, ThinkingDelta, silent
from kode.messages import (
    Image,
    Message,
    ServerItem,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    calls_of,
    text_of,
    user_message,
)
from kode.provider import ModelInfo, Request, ToolSpec
from kode.providers.draft import Draft
from kode.providers.encoding import WireForm, encode_json
from kode.providers.errors import Endpoint
from kode.providers.provider import HttpProvider
from kode.providers.responses import message_items, open_responses, read_event
from kode.providers.stream import Event
from kode.session.entries import MessageEntry, line_of, parse_line
from tests.effort import share
from tests.providers.conftest import Connect
from tests.providers.opened import settings_of
from tests.scripted_server import ScriptedServer
from tests.strict_server import StrictServer
from tests.tables import for_each

ORIGIN = "responses:openai/some-model"
FORM = WireForm(origin=ORIGIN)
HELLO = Request(system="You are kode.", messages=[user_message("Hello")])
READ = ToolSpec(
    name="read_file", description="Read.", parameters={"type": "object", "properties": {}}
)
REASONS = ModelInfo(
    context_window=400_000,
    max_output_tokens=128_000,
    efforts=("none", "low", "medium", "high"),
    default_effort="high",
    searches=True,
)
ENDPOINT = Endpoint(base_url="http://host/v1", model="m")


def opened(url: str, info: ModelInfo = REASONS, model: str = "some-model") -> HttpProvider:
    given = settings_of("openai", model, base_url=url, api_key="k")
    return open_responses(replace(given, info=info))


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer([{"text": "ok"}], repeat_last=True) as running:
        yield running


async def sent(server: ScriptedServer, request: Request, **known: Any) -> dict[str, Any]:
    provider = opened(server.openai_url, replace(REASONS, **known))
    await provider.reply(request, silent)
    await provider.aclose()
    return server.requests[-1].json


def items_of(*messages: Message, form: WireForm = FORM) -> list[Any]:
    custom: set[str] = set()
    return [item for message in messages for item in message_items(message, form, custom)]


# ── out: the request ─────────────────────────────────────────────────────────────────────────

THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA", "x": 1}
SAID = {
    "id": "msg_1",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "Sure.", "annotations": [], "logprobs": []}],
}
CALLED = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "read_file",
    "arguments": '{"path":  "a"}',
    "status": "completed",
}
REPLY = Message(
    role="assistant",
    parts=(
        Thinking(own=THOUGHT),
        Text(text="Sure.", own=SAID),
        ToolCall(id="call_1", name="read_file", arguments='{"path":  "a"}', own=CALLED),
    ),
    stop="tool_calls",
    origin=ORIGIN,
)
RESULT = Message(role="tool", parts=(ToolResult(call_id="call_1", name="read_file", text="é"),))
ASKED = Message(
    role="user",
    parts=(
        Text(text="[folder]", source="opening"),
        Text(text="[memory]", source="memory"),
        Text(text="Read a"),
    ),
)


async def test_a_request_has_every_field_the_api_expects(server: ScriptedServer) -> None:
    request = Request(
        system="You are kode.",
        messages=[ASKED, REPLY, RESULT],
        tools=(READ,),
        conversation="session-1",
    )

    assert await sent(server, request) == (
        {
            "model": "some-model",
            "stream": True,
            "store": False,
            "truncation": "disabled",
            "max_output_tokens": 66666,
            "reasoning": {"effort": "high", "summary": "auto"},
            "prompt_cache_key": "session-1",
            "include": ["reasoning.encrypted_content"],
            "instructions": "You are kode.",
            "tools": [
                {
                    "type": "function",
                    "name": "read_file",
                    "description": "Read.",
                    "parameters": {"type": "object", "properties": {}},
                    "strict": False,
                }
            ],
            "input": [
                {
                    "type": "message",
                    "role": "developer",
                    "content": [{"type": "input_text", "text": "[folder]"}],
                },
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "[memory]\n\nRead a"}],
                },
                THOUGHT,
                SAID,
                CALLED,
                {"type": "function_call_output", "call_id": "call_1", "output": "é"},
            ],
        }
    )


@pytest.mark.parametrize(
    ("effort", "known", "wanted"),
    [
        (None, {}, {"effort": "high", "summary": "auto"}),
        ("low", {}, {"effort": "low", "summary": "auto"}),
        ("max", {}, {"effort": "high", "summary": "auto"}),
        ("none", {}, {"effort": "none"}),
        (None, {"default_effort": None}, {"summary": "auto"}),
        ("high", {"efforts": ()}, None),
    ],
)
async def test_the_level_of_thinking_is_put_as_models_expect(
    server: ScriptedServer, effort: Any, known: dict[str, Any], wanted: Any
) -> None:
    body = await sent(server, replace(HELLO, effort=effort), **known)

    assert body.get("reasoning") == wanted
    assert body.get("include") == (["reasoning.encrypted_content"] if wanted else None)


async def test_a_small_limit_becomes_the_least_that_the_api_takes(server: ScriptedServer) -> None:
    body = await sent(server, replace(HELLO, max_output_tokens=4))

    assert body["max_output_tokens"] == 16


@pytest.mark.parametrize("strict", [True, False])
async def test_a_schema_binds_the_answer_and_forbids_calls(
    server: ScriptedServer, strict: bool
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    schema |= {"additionalProperties": not strict}

    body = await sent(server, replace(HELLO, tools=(READ,), answer_schema=schema))

    named = {"type": "json_schema", "name": "answer", "schema": schema, "strict": strict}
    assert body["text"] == {"format": named}
    assert (body["tool_choice"], len(body["tools"])) == ("none", 1)


@pytest.mark.parametrize("tools", [(), (READ,)])
async def test_web_search_is_declared_where_wanted_and_supported(
    server: ScriptedServer, tools: tuple[ToolSpec, ...]
) -> None:
    asking = replace(HELLO, search=True, tools=tools)
    body = await sent(server, asking)
    without = await sent(server, asking, searches=False)

    assert [tool["type"] for tool in body["tools"]] == [*["function"] * len(tools), "web_search"]
    assert "web_search_call.action.sources" in body["include"]
    assert len(without.get("tools", ())) == len(tools)


async def test_a_single_question_names_no_session(server: ScriptedServer) -> None:
    assert "prompt_cache_key" not in await sent(server, HELLO)


async def test_the_end_of_the_opening_is_marked_for_other_sessions(server: ScriptedServer) -> None:
    asked = replace(ASKED, parts=(*ASKED.parts, Text(text="[tools]", source="news")))

    body = await sent(server, replace(HELLO, messages=[asked]), cache_marks=True)

    opening, news = body["input"][0]["content"]
    mark = {"mode": "explicit"}
    assert opening == {"type": "input_text", "text": "[folder]", "prompt_cache_breakpoint": mark}
    assert news == {"type": "input_text", "text": "[tools]"}
    assert json.dumps(body).count("breakpoint") == 1


async def test_sent_bytes_begin_every_later_request(server: ScriptedServer) -> None:
    provider = opened(server.openai_url)
    messages: list[Message] = []
    for number in range(6):
        messages.append(user_message(f"question {number} é"))
        if number == 2:  # the answer before was lost
            messages.append(user_message("again"))
        messages.append(await provider.reply(Request(system="s", messages=messages), silent))
    await provider.aclose()

    bodies = [request.body.removesuffix(b"]}") for request in server.requests]
    for earlier, later in itertools.pairwise(bodies):
        assert later.startswith(earlier + b",")


async def test_a_server_of_ones_own_gets_no_second_system_message() -> None:
    given = settings_of("llamacpp", "qwen", base_url="http://127.0.0.1:9/v1")
    body = json.loads(open_responses(given).encode(replace(HELLO, messages=[ASKED])))

    assert [item["role"] for item in body["input"]] == ["user"]
    assert body["input"][0]["content"][0]["text"] == "[folder]\n\n[memory]\n\nRead a"


# ── out: messages ────────────────────────────────────────────────────────────────────────────


def test_another_model_gets_the_plain_form() -> None:
    assert items_of(replace(REPLY, origin="responses:openai/other"), RESULT) == snapshot(
        [
            {"type": "message", "role": "assistant", "content": "Sure.", "phase": "commentary"},
            {
                "type": "function_call",
                "call_id": "call_1",
                "name": "read_file",
                "arguments": '{"path":  "a"}',
            },
            {"type": "function_call_output", "call_id": "call_1", "output": "é"},
        ]
    )


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_reply_lacking_one_own_form_loses_all_ids(lost: int) -> None:
    parts = list(REPLY.parts)
    parts[lost] = replace(parts[lost], own=None)

    items = items_of(replace(REPLY, parts=tuple(parts)))

    assert [item["type"] for item in items] == ["message", "function_call"]
    assert not any("id" in item for item in items)


@pytest.mark.parametrize(
    "own",
    [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None},
    ],
)
def test_thinking_that_only_the_server_kept_does_not_go_back(own: dict[str, Any]) -> None:
    thinking, *rest = REPLY.parts
    items = items_of(replace(REPLY, parts=(replace(thinking, own=own), *rest)))  # type: ignore[arg-type]

    assert [item["type"] for item in items] == ["message", "function_call"]


def test_thinking_that_nothing_followed_does_not_go_back() -> None:
    thinking, said, _ = REPLY.parts

    assert items_of(replace(REPLY, parts=(thinking,), stop="length")) == []
    assert items_of(replace(REPLY, parts=(said, thinking), stop="length")) == [SAID]


@pytest.mark.parametrize("arguments", ['{"path": "a', "", "[1]", '{"x": NaN}', "null"])
def test_a_call_that_servers_choke_on_goes_back_repaired(arguments: str) -> None:
    own = {**CALLED, "arguments": arguments}
    call = ToolCall(id="call_1", name="read_file", arguments=arguments, own=own)

    (item,) = items_of(replace(REPLY, parts=(call,)))

    assert (item["arguments"], "id" in item) == ("{}", False)


def test_a_long_id_is_shortened_in_call_and_result() -> None:
    long = "c" * 50
    call = ToolCall(id=long, name="f", arguments="{}", own={**CALLED, "call_id": long})
    result = Message(role="tool", parts=(ToolResult(call_id=long, name="f", text="ok"),))

    made, answered = items_of(replace(REPLY, parts=(call,)), result)

    assert made["call_id"] == answered["call_id"]
    assert len(made["call_id"]) <= 40


def test_results_of_custom_tools_have_their_own_type() -> None:
    own = {
        "type": "custom_tool_call",
        "id": "ctc_1",
        "call_id": "call_1",
        "name": "x",
        "input": "*",
    }
    call = ToolCall(id="call_1", name="x", arguments="*", own=own)

    assert items_of(replace(REPLY, parts=(call,)), RESULT) == [
        own,
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": "é"},
    ]


def test_search_findings_reach_another_model_only_if_alone() -> None:
    found = ServerItem(own={"type": "web_search_call", "id": "ws_1"}, text="https://a.example")
    other = replace(REPLY, origin="messages:anthropic/x", parts=(found,))

    assert [item["content"] for item in items_of(other)] == ["https://a.example"]
    assert [
        item["content"] for item in items_of(replace(other, parts=(found, Text(text="So."))))
    ] == ["So."]
    assert items_of(replace(other, origin=ORIGIN)) == [found.own]


def test_an_empty_message_of_the_person_is_still_one() -> None:
    (item,) = items_of(Message(role="user", parts=(Text(text=""),)))

    assert (item["role"], len(item["content"])) == ("user", 1)


def image(kind: str, call_id: str = "call_1") -> Image:
    name = f"shot.{kind.rpartition('/')[2]}"
    sized = {"width": 1, "height": 1, "size_bytes": 4, "kept_in": "/nowhere"}
    return Image(name=name, media_type=kind, call_id=call_id, **sized)  # type: ignore[arg-type]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kode.providers.encoding.bytes_of", lambda image: b"data")


SHOWN = Message(role="tool", parts=(*RESULT.parts, image("image/png"), image("application/pdf")))


def test_a_result_holds_the_pictures_and_files_that_it_shows(kept: None) -> None:
    assert items_of(SHOWN) == snapshot(
        [
            {
                "type": "function_call_output",
                "call_id": "call_1",
                "output": [
                    {"type": "input_text", "text": "é"},
                    {
                        "type": "input_image",
                        "image_url": "data:image/png;base64,ZGF0YQ==",
                        "detail": "auto",
                    },
                    {
                        "type": "input_file",
                        "filename": "shot.pdf",
                        "file_data": "data:application/pdf;base64,ZGF0YQ==",
                    },
                ],
            }
        ]
    )


def test_pictures_follow_results_that_may_hold_only_text(kept: None) -> None:
    result, after = items_of(SHOWN, form=replace(FORM, images_in_results=False))

    assert result["output"] == "é"
    assert [part["type"] for part in after["content"]] == ["input_image", "input_file"]


@pytest.mark.parametrize(
    ("unseen", "types"),
    [
        ("sees_images", ["input_text", "input_text", "input_file"]),
        ("sees_pdf", ["input_text", "input_image", "input_text"]),
    ],
)
def test_a_note_stands_for_what_a_model_cannot_see(
    kept: None, unseen: str, types: list[str]
) -> None:
    (result,) = items_of(SHOWN, form=replace(FORM, **{unseen: False}))  # type: ignore[arg-type]

    assert [part["type"] for part in result["output"]] == types


def test_an_attached_picture_keeps_its_place_in_the_message(kept: None) -> None:
    parts = (Text(text="one"), Text(text="two"), image("image/png", ""), Text(text="three"))
    (item,) = items_of(Message(role="user", parts=parts))

    assert [part.get("text", part["type"]) for part in item["content"]] == [
        "one\n\ntwo",
        "input_image",
        "three",
    ]


# ── in ───────────────────────────────────────────────────────────────────────────────────────


def event(kind: str, **rest: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **rest}


def frames_of(items: list[dict[str, Any]], **ended: Any) -> list[dict[str, Any]]:
    """The events of a response with these items, in the vendor's order."""
    frames = [event("created", response={"status": "in_progress"})]
    for index, item in enumerate(items):
        at = {"output_index": index, "item_id": item.get("id", "")}
        begun = {**item, **{key: [] for key in ("content", "summary") if key in item}}
        begun |= {key: "" for key in ("arguments", "input") if key in item}
        begun |= {"encrypted_content": "not the one"} if "encrypted_content" in item else {}
        frames.append(event("output_item.added", output_index=index, item=begun))
        for part in item.get("summary", ()):
            frames.append(event("reasoning_summary_part.added", **at, part=part))
            for piece in halves(part["text"]):
                frames.append(event("reasoning_summary_text.delta", **at, delta=piece))
        for part in item.get("content", ()):
            kind = "output_text" if "text" in part else "refusal"
            for piece in halves(part["text"] if "text" in part else part["refusal"]):
                frames.append(event(f"{kind}.delta", **at, delta=piece))
        for piece in halves(item.get("arguments", "")):
            frames.append(event("function_call_arguments.delta", **at, delta=piece))
        for piece in halves(item.get("input", "")):
            frames.append(event("custom_tool_call_input.delta", **at, delta=piece))
        frames.append(event("output_item.done", output_index=index, item=item))
    response = {"object": "response", "status": "completed", "output": items, **ended}
    return [*frames, event(response["status"], response=response)]


def halves(text: str) -> list[str]:
    at = len(text) // 2
    return [piece for piece in (text[:at], text[at:]) if piece]


def taken(frames: list[dict[str, Any]], emit: Any = silent) -> Message:
    """The message that these events make."""
    draft = Draft(ORIGIN, emit)
    for frame in frames:
        read_event(Event("", frame), draft, ENDPOINT)
    return draft.finish("some-model", ())


def message_item(text: str, **rest: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg", "role": "assistant", "content": content, **rest}


def test_each_item_becomes_a_part_that_keeps_it() -> None:
    parts = [{"type": "summary_text", "text": text} for text in ("First.", "Then.")]
    thought = {**THOUGHT, "summary": parts}
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    search["action"] = {
        "type": "search",
        "query": "kode",
        "sources": [{"type": "url", "url": "https://a.example"}],
    }
    shown: list[Shown] = []

    message = taken(frames_of([thought, search, SAID, CALLED]), shown.append)

    thinking, found, said, call = message.parts
    assert thinking == Thinking(text="First.\n\nThen.", own=thought)
    assert found == ServerItem(own=search, text="Web search: kode\nhttps://a.example")
    assert said == Text(text="Sure.", own=SAID)
    assert call == ToolCall(id="call_1", name="read_file", arguments='{"path":  "a"}', own=CALLED)
    assert message.stop == "tool_calls"
    assert "".join(e.text for e in shown if isinstance(e, ThinkingDelta)) == "First.\n\nThen."
    assert "".join(e.text for e in shown if isinstance(e, TextDelta)) == "Sure."


def test_two_messages_of_a_reply_are_shown_apart() -> None:
    shown: list[Shown] = []
    items = [message_item("Let me see."), message_item("Done.")]

    message = taken(frames_of(items), shown.append)

    assert text_of(message) == "Let me see.\nDone."
    assert "".join(e.text for e in shown if isinstance(e, TextDelta)) == "Let me see.\n\nDone."


def test_thinking_that_a_server_shows_is_thinking() -> None:
    item = {"type": "reasoning", "id": "rs", "summary": [], "status": "completed"}
    whole = {**item, "content": [{"type": "reasoning_text", "text": "Hm, well."}]}
    frames = [
        event("output_item.added", output_index=0, item=item),
        event("reasoning_text.delta", output_index=0, item_id="rs", delta="Hm, "),
        event("output_item.done", output_index=0, item=whole),
        *frames_of([])[1:],
    ]

    assert taken(frames).parts == (Thinking(text="Hm, well.", own=whole),)


@pytest.mark.parametrize(
    ("ended", "stop"),
    [
        ({}, "end"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "refusal"),
        ({"status": "incomplete", "incomplete_details": {"reason": "something_new"}}, "length"),
        ({"status": "incomplete"}, "length"),
    ],
)
def test_the_end_of_a_response_decides_its_stop(ended: dict[str, Any], stop: str) -> None:
    message = taken(frames_of([message_item("Half a")], **ended))

    assert (message.stop, text_of(message)) == (stop, "Half a")


def test_a_refusal_in_words_is_a_refusal() -> None:
    item = message_item("")
    item["content"] = [{"type": "refusal", "refusal": "I will not."}]

    message = taken(frames_of([item]))

    assert (message.stop, message.parts) == ("refusal", (Text(text="I will not.", own=item),))


def test_a_call_cut_by_the_limit_keeps_no_own_form() -> None:
    cut = {**CALLED, "arguments": '{"path": "a', "status": "incomplete"}
    details = {"reason": "max_output_tokens"}

    message = taken(frames_of([THOUGHT, cut], status="incomplete", incomplete_details=details))

    (call,) = calls_of(message)
    assert (message.stop, call.arguments, call.own) == ("length", '{"path": "a', None)
    assert [item["type"] for item in items_of(message)] == ["function_call"]


@for_each(
    ("error", "kind"),
    [
        ({"code": "server_error", "message": "oops"}, TransientError),
        ({"code": "rate_limit_exceeded", "message": "slow down"}, TransientError),
        ({"code": "server_is_overloaded", "message": "later"}, TransientError),
        ({"code": "vector_store_timeout", "message": "later"}, TransientError),
        ({"message": "who knows"}, TransientError),
        ({}, TransientError),
        ({"code": "context_length_exceeded", "message": "Your input is long."}, ContextOverflow),
        ({"code": "invalid_prompt", "message": "no"}, RefusedError),
        ({"code": "image_too_large", "message": "no"}, RefusedError),
        ({"code": "something_new", "message": "no"}, RefusedError),
        ({"code": "insufficient_quota", "message": "no"}, RefusedError),
        (
            {"code": "invalid_encrypted_content", "message": "The encrypted content gA could not"},
            ThinkingRefused,
        ),
    ],
)
@for_each("nested", ["failed", "flat", "inside"])
def test_an_error_means_what_its_code_says(
    error: dict[str, Any], kind: type[ProviderError], nested: str
) -> None:
    failed = {"object": "response", "status": "failed", "error": error, "output": []}
    frame = {
        "failed": event("failed", response=failed),
        "flat": {"type": "error", **error},
        "inside": {"type": "error", "error": error},
    }[nested]

    with pytest.raises(ProviderError) as caught:
        taken([*frames_of([message_item("Hi")])[:3], frame])

    assert type(caught.value) is kind


@pytest.mark.parametrize(("words", "pause_s"), [("1.5s", 1.5), ("20ms", 0.02), ("a while", None)])
def test_the_pause_a_stream_wants_is_read_from_words(words: str, pause_s: float | None) -> None:
    told = f"Rate limit reached for m. Please try again in {words}. Visit the limits page."
    error = {"code": "rate_limit_exceeded", "message": told}

    with pytest.raises(TransientError) as caught:
        taken([event("failed", response={"status": "failed", "error": error})])

    assert caught.value.retry_after_s == pause_s


WHOLE = [THOUGHT, SAID, CALLED]


@for_each("end", range(len(frames_of(WHOLE))))
def test_a_stream_cut_before_its_last_event_is_transient(end: int) -> None:
    with pytest.raises(TransientError):
        taken(frames_of(WHOLE)[:end])


def test_usage_counts_what_was_cached_written_and_thought() -> None:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 70, "cache_write_tokens": 20},
        "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 25},
        "total_tokens": 130,
    }
    counted = taken(frames_of([message_item("Hi")], usage=usage)).usage

    assert counted is not None
    assert (counted.input_tokens, counted.cached_tokens, counted.cache_write_tokens) == (
        100,
        70,
        20,
    )
    assert (counted.output_tokens, counted.thinking_tokens, counted.uncached_tokens) == (30, 25, 10)


@pytest.mark.parametrize("usage", [None, 3, {"input_tokens": None, "input_tokens_details": 5}])
def test_usage_that_is_none_is_left_out(usage: Any) -> None:
    assert taken(frames_of([message_item("Hi")], usage=usage)).usage is None


def test_items_are_taken_from_the_last_event_alone() -> None:
    assert taken([frames_of(WHOLE)[-1]]) == taken(frames_of(WHOLE))


def test_an_end_without_items_leaves_those_that_came() -> None:
    *frames, end = frames_of(WHOLE)
    end["response"]["output"] = []

    assert taken([*frames, end]).parts == taken(frames_of(WHOLE)).parts


def test_ids_tell_items_apart_where_the_index_is_missing() -> None:
    second = {**CALLED, "id": "fc_2", "call_id": "call_2"}
    frames = [
        {key: value for key, value in frame.items() if key != "output_index"}
        for frame in frames_of([CALLED, second])
    ]

    assert taken(frames) == taken(frames_of([CALLED, second]))


def test_items_that_come_at_the_same_time_keep_their_order() -> None:
    one, other = frames_of([CALLED])[1:-1], frames_of([CALLED, {**CALLED, "call_id": "call_2"}])
    other = [frame for frame in other if frame.get("output_index") == 1]
    mixed = [frame for pair in zip(one, other, strict=True) for frame in pair]

    message = taken([*mixed, frames_of([])[-1]])

    assert [call.id for call in calls_of(message)] == ["call_1", "call_2"]
    assert {call.arguments for call in calls_of(message)} == {'{"path":  "a"}'}


def test_a_whole_response_is_a_message() -> None:
    draft = Draft(ORIGIN, silent)
    response = frames_of(WHOLE)[-1]["response"]
    read_event(Event("whole", response), draft, ENDPOINT)

    assert draft.finish("some-model", ()) == taken(frames_of(WHOLE))


@pytest.mark.parametrize("status", ["in_progress", "queued", "cancelled"])
def test_a_response_that_is_not_over_is_transient(status: str) -> None:
    with pytest.raises(TransientError):
        taken([event("completed", response={"object": "response", "status": status})])


@for_each(
    "frame",
    [
        {"type": "response.output_item.done"},
        {"type": "response.output_item.done", "item": {"type": 3}, "output_index": True},
        {"type": "response.output_item.done", "item": {"type": "message", "content": [3, {}]}},
        {"type": "response.output_item.done", "item": {"type": "reasoning", "summary": "x"}},
        {"type": "response.output_item.done", "item": {"type": "web_search_call", "action": 3}},
        {"type": "response.output_text.delta", "delta": 5, "item_id": 3},
        {"type": "response.reasoning_summary_part.added"},
        {"type": "response.something_new", "delta": "x"},
        {"type": 7},
    ],
)
def test_nonsense_does_not_stop_a_reply(frame: dict[str, Any]) -> None:
    frame = {"output_index": 9, **frame}

    assert text_of(taken([frame, *frames_of([message_item("Hi")])])).strip() == "Hi"


TRACES = Path(__file__).parent / "traces"


async def replay(connect: Connect, name: str, **asked: Any) -> Message:
    trace = json.loads((TRACES / f"{name}.json").read_text(encoding="utf-8"))
    provider, _ = connect("llamacpp", [{"wire": {"frames": trace["stream"]}}], api="responses")
    return await provider.reply(replace(HELLO, tools=(READ,), **asked), silent)


async def test_recorded_text_of_llama_cpp_is_understood(connect: Connect) -> None:
    message = await replay(connect, "responses_text_stream")

    assert (text_of(message), message.stop) == ("Hello, world!", "end")
    usage = message.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (25, 5, 14)


async def test_a_recorded_call_of_llama_cpp_is_understood(connect: Connect) -> None:
    message = await replay(connect, "responses_tools_stream")

    (call,) = calls_of(message)
    assert json.loads(call.arguments) == {"path": "src/main.py", "limit": 10}
    assert (call.name, message.stop) == ("read_file", "tool_calls")
    assert items_of(message, form=replace(FORM, origin=message.origin)) == [call.own]


@pytest.mark.parametrize(
    ("name", "limit", "stop"),
    [
        ("responses_text_stream", 16, "end"),
        ("responses_cut_stream", 16, "length"),
        ("responses_cut_stream", 17, "end"),
    ],
)
async def test_llama_cpp_answers_that_used_the_limit_are_cut(
    connect: Connect, name: str, limit: int, stop: str
) -> None:
    message = await replay(connect, name, max_output_tokens=limit)

    assert message.stop == stop


async def test_a_call_that_used_up_the_limit_does_not_run(connect: Connect) -> None:
    usage = {"input_tokens": 20, "output_tokens": 16}
    frames = frames_of([{**CALLED, "arguments": '{"path": "a'}], usage=usage)
    provider, _ = connect("llamacpp", [{"wire": {"frames": frames}}], api="responses")

    message = await provider.reply(replace(HELLO, tools=(READ,), max_output_tokens=16), silent)

    assert message.stop == "length"


async def test_openai_is_believed_how_an_answer_ended(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HttpProvider, "is_official", True)

    message = await replay(connect, "responses_cut_stream", max_output_tokens=16)

    assert message.stop == "end"


# ── back as it came ──────────────────────────────────────────────────────────────────────────

texts = st.text(max_size=30)
unknown = st.dictionaries(
    st.text("abcdefgh_", min_size=1, max_size=8).map(lambda name: f"x_{name}"),
    st.recursive(
        st.none() | st.booleans() | st.integers() | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)
numbers = itertools.count()


def item_strategy(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    """An item with an id of its own, and unknown fields among the known ones in any order."""
    known = st.fixed_dictionaries(fields)
    return st.tuples(known, unknown, st.randoms(use_true_random=False)).map(
        lambda drawn: shuffled({**drawn[0], **drawn[1], "id": f"it_{next(numbers)}"}, drawn[2])
    )


def shuffled(item: dict[str, Any], random: Any) -> dict[str, Any]:
    pairs = list(item.items())
    random.shuffle(pairs)
    return dict(pairs)


thoughts = item_strategy(
    type=st.just("reasoning"),
    summary=st.lists(st.fixed_dictionaries({"type": st.just("summary_text"), "text": texts})),
    encrypted_content=texts.map(lambda text: f"gAAAA{text}"),
)
messages = item_strategy(
    type=st.just("message"),
    role=st.just("assistant"),
    status=st.just("completed"),
    phase=st.sampled_from(["commentary", "final_answer", None]),
    content=st.lists(
        st.tuples(st.fixed_dictionaries({"type": st.just("output_text"), "text": texts}), unknown)
        .map(lambda drawn: {**drawn[0], **drawn[1]}),
        max_size=2,
    ),
)  # fmt: skip
calls = item_strategy(
    type=st.just("function_call"),
    name=st.text("abc_", min_size=1, max_size=9),
    arguments=st.dictionaries(texts, texts, max_size=2).map(json.dumps),
).map(lambda item: {**item, "call_id": f"call_{item['id']}"})
customs = item_strategy(
    type=st.just("custom_tool_call"),
    name=st.text("abc_", min_size=1, max_size=9),
    input=st.text(min_size=1, max_size=30),
).map(lambda item: {**item, "call_id": f"call_{item['id']}"})
others = item_strategy(type=st.sampled_from(["web_search_call", "x_new"]), action=unknown)


@settings(max_examples=share(150), deadline=None)
@given(items=st.lists(thoughts | messages | calls | customs | others, max_size=6))
def test_every_reply_survives_the_disk_and_goes_back_unchanged(items: list[dict[str, Any]]) -> None:
    written = [json.dumps(items), *(item.get("arguments", "") for item in items)]
    # A credential would be masked, and does not go back.
    assume([redact(text) for text in written] == written)
    *frames, end = frames_of(items)
    end["response"]["output"] = []
    message = taken([*frames, end])
    loaded = parse_line(line_of(MessageEntry(**{f: getattr(message, f) for f in FIELDS})))
    assert isinstance(loaded, MessageEntry)

    while items and items[-1]["type"] == "reasoning":
        items = items[:-1]  # nothing came of it
    expected = [encode_json(item) for item in items]
    assert [encode_json(item) for item in items_of(message)] == expected
    assert [encode_json(item) for item in items_of(loaded)] == expected


FIELDS = ("role", "parts", "stop", "usage", "model", "origin")


# ── refusals ─────────────────────────────────────────────────────────────────────────────────


def refusal(message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    body = json.dumps({"error": error})
    return {"wire": {"status": 400, "body": body, "content_type": "application/json"}}


UNSUPPORTED = "Unsupported parameter: '{0}' is not supported with this model."


@pytest.mark.parametrize(
    ("refused", "gone"),
    [
        (
            refusal(
                "Unsupported value: 'high' is not supported with the 'some-model' model. "
                "Supported values are: 'low' and 'medium'.",
                "reasoning.effort",
                "unsupported_value",
            ),
            "effort",
        ),
        (
            refusal(
                "Your organization must be verified to generate reasoning summaries.",
                "reasoning.summary",
                "unsupported_value",
            ),
            "summary",
        ),
        (
            refusal("Encrypted content is not supported with this model.", "include"),
            "reasoning.encrypted_content",
        ),
        (refusal("Unknown parameter: 'prompt_cache_key'.", "prompt_cache_key"), "prompt_cache_key"),
        (
            refusal(
                UNSUPPORTED.format("prompt_cache_breakpoint"),
                "prompt_cache_breakpoint",
                "unsupported_parameter",
            ),
            "prompt_cache_breakpoint",
        ),
        (refusal(UNSUPPORTED.format("temperature"), "temperature"), "temperature"),
        (refusal("Hosted tool 'web_search' is not supported with m.", "tools"), "web_search"),
        (refusal("Invalid value: 'developer'. Supported are: 'user'.", "input[0]"), "developer"),
        (refusal("Invalid value: 'custom'.", "tools[0].type"), "custom"),
    ],
)
async def test_settings_a_model_refuses_stay_out_from_then_on(
    refused: dict[str, Any], gone: str
) -> None:
    patch = ToolSpec(name="patch", description="d", parameters={}, grammar="start: /x/")
    request = Request(
        system="s",
        messages=[ASKED],
        tools=(patch,),
        conversation="c",
        small=True,
        search=True,
        effort="high",
    )
    with ScriptedServer([refused, {"text": "ok"}, {"text": "ok"}]) as server:
        provider = opened(server.openai_url, replace(REASONS, cache_marks=True))
        shown: list[Shown] = []
        said = [text_of(await provider.reply(request, shown.append)) for _ in range(2)]
        await provider.aclose()
        first, second, third = (request.json for request in server.requests)

    assert said == ["ok", "ok"]
    assert len([event for event in shown if isinstance(event, Notice)]) == 1
    assert f'"{gone}"' in json.dumps(first)
    assert f'"{gone}"' not in json.dumps(second).replace("web_search_call", "")
    assert second == third


async def test_pictures_llama_cpp_refuses_in_a_result_follow_it(kept: None) -> None:
    refused = refusal("Output of tool call should be 'Input text'")
    history = [ASKED, REPLY, SHOWN]
    with ScriptedServer([refused, {"text": "ok"}]) as server:
        provider = opened(server.openai_url)
        await provider.reply(replace(HELLO, messages=history), silent)
        await provider.aclose()
        *_, result, after = server.requests[1].json["input"]

    assert (result["output"], after["role"]) == ("é", "user")


async def test_moved_replies_lose_thinking_once_it_was_refused() -> None:
    moved, new = replace(REPLY, moved=True), replace(REPLY, parts=REPLY.parts[:2])
    history = [ASKED, moved, RESULT, new, user_message("go on")]
    unverified = refusal("x", code="invalid_encrypted_content")
    with ScriptedServer([{"text": "ok"}, unverified, {"text": "ok"}]) as server:
        provider = opened(server.openai_url)
        request = replace(HELLO, messages=history)
        await provider.reply(request, silent)
        with pytest.raises(ThinkingRefused):
            await provider.reply(request, silent)
        await provider.reply(request, silent)
        await provider.aclose()
        sent_items = [request.json["input"] for request in server.requests]

    thought = [[i["type"] for i in items].count("reasoning") for items in sent_items]
    assert thought == [2, 2, 1]
    assert [i.get("id") for i in sent_items[2] if i["type"] == "function_call"] == [None]


async def test_a_server_without_the_endpoint_is_told_with_the_setting(connect: Connect) -> None:
    provider, _ = connect("openai", [{"error": {"status": 404}}], api="responses")

    with pytest.raises(RefusedError, match=r"providers\.openai\.api"):
        await provider.reply(HELLO, silent)


# ── clients ──────────────────────────────────────────────────────────────────────────────────

AWS = (
    "AWS_REGION AWS_DEFAULT_REGION AWS_PROFILE AWS_BEARER_TOKEN_BEDROCK AWS_BEDROCK_BASE_URL "
    "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AZURE_OPENAI_BASE_URL AZURE_OPENAI_API_KEY"
).split()


@pytest.fixture
def no_cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in AWS:
        monkeypatch.delenv(variable, raising=False)


DONE = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames_of([message_item("Hi")]))


async def reached(mock: respx.Router, url: str, name: str, **given: Any) -> Any:
    headers = {"content-type": "text/event-stream"}
    route = mock.post(url).respond(200, headers=headers, content=DONE.encode())
    provider = open_responses(settings_of(name, "openai.gpt-5.4", **given))
    assert text_of(await provider.reply(HELLO, silent)) == "Hi"
    await provider.aclose()
    return route.calls.last.request


async def test_bedrock_is_reached_in_the_region_of_the_environment(
    httpx2_mock: respx.Router, no_cloud: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-key")
    url = "https://bedrock-mantle.eu-central-1.api.aws/openai/v1/responses"

    request = await reached(httpx2_mock, url, "bedrock")

    assert request.headers["authorization"] == "Bearer bedrock-key"
    assert json.loads(request.content)["model"] == "openai.gpt-5.4"


async def test_azure_is_reached_at_the_address_of_the_account(
    httpx2_mock: respx.Router, no_cloud: None
) -> None:
    url = "https://mine.openai.azure.com/openai/v1"

    request = await reached(
        httpx2_mock, f"{url}/responses", "azure", base_url=f"{url}/", api_key="azure-key"
    )

    assert request.headers["authorization"] == "Bearer azure-key"


@pytest.mark.parametrize(
    ("name", "given", "named"),
    [
        ("bedrock", {"api_key": "k"}, "AWS_REGION"),
        ("bedrock", {}, "AWS_BEARER_TOKEN_BEDROCK"),
        ("azure", {"api_key": "k"}, "AZURE_OPENAI_BASE_URL"),
    ],
)
async def test_missing_settings_of_a_cloud_stop_the_request(
    no_cloud: None, name: str, given: dict[str, Any], named: str
) -> None:
    provider = open_responses(settings_of(name, "m", **given))

    with pytest.raises(ConfigError, match=named):
        await provider.reply(HELLO, silent)


async def test_credentials_missing_to_the_sdk_are_an_authentication_error(
    no_cloud: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openai import OpenAIError

    def missing(*_: Any, **__: Any) -> None:
        raise OpenAIError("Could not find credentials for Bedrock.")

    provider = opened("http://127.0.0.1:9/v1")
    provider._client = provider._open()
    monkeypatch.setattr(provider._client, "_prepare_request", missing)

    with pytest.raises(AuthenticationError):
        await provider.reply(HELLO, silent)


# ── as strictly as OpenAI ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", ["gpt-6.1-sol", "gpt-5.4", "gpt-5.3-codex", "gpt-4.1"])
async def test_a_session_reaches_openai_as_it_expects(model: str) -> None:
    reasons = model != "gpt-4.1"
    info = replace(
        REASONS,
        max_output_tokens=30_000,
        efforts=("low", "medium", "high") if reasons else (),
        cache_marks=model == "gpt-6.1-sol",
    )
    call = {"name": "read_file", "arguments": {"path": "a"}}
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    script = [
        {"thinking": "Hm.", "text": "Reading.", "calls": [call, call], "extra": {"x_new": [1]}},
        {
            "parts": [
                {"thinking": "Look."},
                {"search": {"query": "q", "results": [{"url": "https://a.example"}]}},
                {"text": "It says so."},
            ]
        },
        {"thinking": "Never mind.", "text": "Half", "stop": "length"},
        {"thinking": "Only thought.", "stop": "length"},
        {"text": "{}"},
    ]
    with StrictServer(script, vendor="openai") as server:
        provider = opened(server.openai_url, info, model)
        history = [replace(ASKED, parts=(*ASKED.parts, Text(text="x" * 6_000)))]
        request = Request(
            system="You are kode. " * 500,
            messages=history,
            tools=(READ,),
            search=True,
            conversation="c",
        )
        history.append(await provider.reply(request, silent))
        results = [ToolResult(call_id=c.id, name=c.name, text="é") for c in calls_of(history[-1])]
        history.append(Message(role="tool", parts=tuple(results)))
        history.append(await provider.reply(request, silent))
        for question in ("And?", "Go on.", "As JSON."):
            history.append(user_message(question))
            held = {"answer_schema": schema} if question == "As JSON." else {}
            history.append(await provider.reply(replace(request, **held), silent))
        await provider.aclose()

        assert (server.refusals, server.soft_faults) == ([], [])
        assert [message.stop for message in history if message.role == "assistant"] == [
            "tool_calls",
            "end",
            "length",
            "length",
            "end",
        ]
        assert any(isinstance(part, ServerItem) for part in history[3].parts)
        usages = [message.usage or Usage() for message in history if message.role == "assistant"]
        # The last differs: the schema of an answer is read ahead of the prompt.
        for earlier, later in itertools.pairwise(usages[:-1]):
            assert later.cached_tokens > earlier.input_tokens - 128
