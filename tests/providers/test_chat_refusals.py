"""What hosts of Chat Completions refuse, in their words, and what kode does about it."""

import json
from pathlib import Path
from typing import Any

import pytest

from kode.errors import RefusedError, ThinkingRefused
from kode.events import Event, Notice
from kode.messages import Message, ToolCall, text_of, user_message
from kode.provider import Request
from kode.providers.errors import from_status
from kode.providers.refusals import read_table
from kode.providers.request import Omissions, repair_request
from kode.registry import provider_row
from tests.providers.chat_hosts import Object, answered, host
from tests.providers.conftest import Connect
from tests.tables import for_each

LINES = (Path(__file__).parent / "data" / "chat_refusals.jsonl").read_text(encoding="utf-8")
CASES = [json.loads(line) for line in LINES.splitlines()]


@for_each("case", CASES)
def test_a_refusal_has_a_kind_and_a_droppable_setting(
    case: Object,
) -> None:
    provider = host(case["row"], case.get("model", "m"))
    refused = from_status(case["status"], case["body"], {}, provider._endpoint)
    assert isinstance(refused, RefusedError)

    assert type(refused).__name__ == case.get("kind", "RefusedError")
    repair = repair_request(refused, Request(system="", messages=[]), Omissions(), "chat")
    assert (*(repair[0].parts if repair else ()), "")[0] == case.get("left_out", "")
    assert case.get("names", "") in str(refused)


def refusing(case: str) -> Object:
    """The reply of a server that refuses as in a case of the file."""
    found = next(each for each in CASES if each["of"] == case)
    wire = {"status": found["status"], "body": json.dumps(found["body"])}
    return {"wire": {**wire, "content_type": "application/json"}}


@pytest.mark.parametrize(
    ("case", "key", "fields", "kept"),
    [
        ("xAI, effort", "thinking", {"chat_template_kwargs"}, {"max_tokens", "stream_options"}),
        ("OpenAI, temperature", "temperature", {"temperature"}, {"chat_template_kwargs"}),
        ("Mistral, usage", "usage", {"stream_options"}, {"chat_template_kwargs"}),
        ("OpenAI behind a proxy, limit", "limit", {"max_tokens"}, {"max_completion_tokens"}),
    ],
)
async def test_a_refused_parameter_is_left_out_from_then_on(
    connect: Connect, case: str, key: str, fields: set[str], kept: set[str]
) -> None:
    provider, server = connect("vllm", [refusing(case), {"text": "one"}, {"text": "two"}])
    request = Request(system="", messages=[user_message("Hi")], effort="high", small=True)
    events: list[Event] = []

    first = await provider.reply(request, events.append)
    second = await provider.reply(request, events.append)

    assert (text_of(first), text_of(second)) == ("one", "two")
    assert fields <= server.requests[0].json.keys()
    for sent in (request.json for request in list(server.requests)[1:]):
        assert not fields & sent.keys()
        assert kept <= sent.keys()
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert len(notices) == 1
    assert read_table().parts[key].then in notices[0]


async def test_fields_a_host_refuses_stay_away_from_then_on(
    connect: Connect,
) -> None:
    frames = [
        {"choices": [{"delta": {"reasoning_content": "Hm.", "x_new": 1}}]},
        {"choices": [{"delta": {"content": "Yes."}, "finish_reason": "stop"}]},
        "data: [DONE]\n\n",
    ]
    replies: list[Any] = [
        {"wire": {"frames": frames}},
        refusing("OpenAI, a field of a message"),
        {"text": "one"},
        {"text": "two"},
    ]
    provider, server = connect("vllm", replies)
    messages = [user_message("Hi")]
    for _ in range(3):
        reply = await provider.reply(Request(system="", messages=messages), lambda event: None)
        messages += [reply, user_message("Next.")]

    replies_sent = [request.json["messages"][1:2] for request in server.requests]
    bare: Object = {"role": "assistant", "content": "Yes."}
    full = {**bare, "reasoning_content": "Hm.", "x_new": 1}
    assert replies_sent == [[], [full], [bare], [bare]]


@pytest.mark.parametrize(
    ("case", "field", "stand_in"),
    [
        ("Kimi, thinking", "reasoning_content", " "),
        ("DeepSeek, thinking", "reasoning_content", " "),
        (
            "Gemini, signature",
            "extra_content",
            {"google": {"thought_signature": "skip_thought_signature_validator"}},
        ),
    ],
)
async def test_an_unknown_host_gets_what_it_misses_in_the_past(
    connect: Connect, case: str, field: str, stand_in: Any
) -> None:
    call = ToolCall(id="1", name="look", arguments="{}")
    past = Message(role="assistant", parts=(call,), stop="tool_calls", origin="another")
    messages = [user_message("Hi"), past, answered(past)]
    provider, server = connect("vllm", [refusing(case), {"text": "one"}, {"text": "two"}])
    for _ in range(2):
        await provider.reply(Request(system="", messages=messages), lambda event: None)

    replies = [request.json["messages"][1] for request in server.requests]
    assert [
        (reply if field == "reasoning_content" else reply["tool_calls"][0]).get(field)
        for reply in replies
    ] == [None, stand_in, stand_in]


async def test_the_same_refusal_twice_is_an_error(connect: Connect) -> None:
    refusal = refusing("xAI, effort")
    provider, server = connect("vllm", [refusal, refusal])
    request = Request(system="", messages=[user_message("Hi")], effort="high")

    with pytest.raises(RefusedError):
        await provider.reply(request, lambda event: None)

    assert len(server.requests) == 2


def test_every_row_of_chat_has_a_case() -> None:
    """Of the vendors whose bodies or messages are closed, or who want thinking back."""
    rows = {case["row"] for case in CASES}
    closed = {"groq", "cerebras", "mistral", "gemini", "deepseek", "moonshot", "openai"}
    assert closed <= rows
    assert all(provider_row(name) is not None for name in rows)


@pytest.mark.parametrize(
    ("case", "kind", "names"),
    [
        ("OpenAI, tools with effort", RefusedError, "providers.openrouter.api"),
        ("Claude at OpenRouter, binding", ThinkingRefused, ""),
    ],
)
async def test_an_incurable_refusal_is_not_asked_again(
    connect: Connect, case: str, kind: type[RefusedError], names: str
) -> None:
    provider, server = connect("openrouter", [refusing(case)], model="anthropic/claude-sonnet-5.5")

    with pytest.raises(RefusedError) as caught:
        await provider.reply(
            Request(system="", messages=[user_message("Hi")], effort="high"), lambda event: None
        )

    assert type(caught.value) is kind
    assert names in str(caught.value)
    assert len(server.requests) == 1
