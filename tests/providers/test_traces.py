"""Exchanges recorded from a real local server, played again byte for byte."""

import json
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
from kode.messages import Message, calls_of, text_of, user_message
from kode.provider import Request
from tests.providers.conftest import Connect

TRACES = Path(__file__).parent / "traces"


async def replay(connect: Connect, name: str) -> Message:
    trace: dict[str, Any] = json.loads((TRACES / f"{name}.json").read_text(encoding="utf-8"))
    wire = {"status": trace["status"]}
    if "stream" in trace:
        wire |= {"frames": trace["stream"]}
    else:
        wire |= {"body": trace["body"], "content_type": trace["content_type"]}
    provider, _ = connect(name.partition("_")[0], [{"wire": wire}])
    request = Request(system="", messages=[user_message("Hello")])
    return await provider.reply(request, lambda event: None)


@pytest.mark.parametrize(
    ("name", "text", "stop", "tokens"),
    [
        ("openai_text_stream", "Hello, world!", "end", (25, 5, 6)),
        ("anthropic_text_stream", "Hello, world!", "end", None),
        ("openai_text_once", None, "end", None),
        ("anthropic_text_once", None, "end", None),
        ("openai_length_stop", None, "length", None),
        ("anthropic_max_tokens", None, "length", None),
    ],
)
async def test_recorded_text_arrives_whole(
    connect: Connect, name: str, text: str | None, stop: str, tokens: tuple[int, ...] | None
) -> None:
    message = await replay(connect, name)

    assert message.stop == stop
    assert text_of(message)
    assert text is None or text_of(message) == text
    assert message.usage is not None
    assert message.usage.cached_tokens <= message.usage.input_tokens
    usage = (
        message.usage.input_tokens,
        message.usage.output_tokens,
        message.usage.cached_tokens,
    )
    assert tokens is None or usage == tokens


@pytest.mark.parametrize("name", ["openai_tools_auto_stream", "anthropic_tools_auto_stream"])
async def test_a_recorded_call_arrives_whole(connect: Connect, name: str) -> None:
    message = await replay(connect, name)

    (call,) = calls_of(message)
    assert (message.stop, call.name) == ("tool_calls", "read_file")
    assert json.loads(call.arguments)["path"] == "src/main.py"
    assert message.usage is not None
    assert message.usage.input_tokens > 200


async def test_recorded_parallel_calls_arrive_whole(connect: Connect) -> None:
    message = await replay(connect, "openai_parallel_tools")

    assert [json.loads(call.arguments)["path"] for call in calls_of(message)] == ["a.txt", "b.txt"]


@pytest.mark.parametrize("name", ["openai_tool_call_truncated", "anthropic_tool_call_truncated"])
async def test_a_cut_call_is_kept_as_it_came(connect: Connect, name: str) -> None:
    message = await replay(connect, name)

    assert message.stop == "length"
    assert calls_of(message)[0].arguments == '{"path": "'


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("openai_err_model_output_stream", TransientError),
        ("anthropic_err_model_output_stream", TransientError),
        ("openai_err_context_overflow", ContextOverflow),
        ("anthropic_err_overflow", ContextOverflow),
        ("openai_err_bad_tool_schema", RefusedError),
        ("anthropic_err_bad_tool", RefusedError),
        ("openai_bad_key", AuthenticationError),
    ],
)
async def test_recorded_errors_have_their_kind(
    connect: Connect, name: str, kind: type[ProviderError]
) -> None:
    with pytest.raises(ProviderError) as caught:
        await replay(connect, name)

    assert type(caught.value) is kind
