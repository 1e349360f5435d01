"""What is sent to the official servers, which no test may reach: respx stands in for them, through
the plugin that makes it see the clients of the SDKs. The recorded traces are its answers.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import respx

from kode.errors import AuthenticationError, TransientError
from kode.events import silent
from kode.messages import Message, calls_of, text_of, user_message
from kode.provider import Request, ToolSpec
from kode.providers import open_provider

TRACES = Path(__file__).parent / "traces"
CHAT = "https://api.openai.com/v1/chat/completions"
RESPONSES = "https://api.openai.com/v1/responses"
MESSAGES = "https://api.anthropic.com/v1/messages"
KEY = "sk-test-key-of-nobody"

TOOL = ToolSpec(
    name="read_file",
    description="Read a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
)


def trace(name: str) -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads((TRACES / f"{name}.json").read_text())
    return recorded


def plays(mock: respx.Router, url: str, name: str) -> respx.Route:
    recorded = trace(name)
    content = "".join(recorded["stream"]) if "stream" in recorded else recorded["body"]
    headers = {"content-type": recorded["content_type"]}
    return mock.post(url).respond(recorded["status"], headers=headers, content=content.encode())


async def ask(name: str, model: str, *, api: Any = None, small: bool = False) -> Message:
    provider = open_provider(name, model, api_key=KEY, api=api)
    request = Request(
        system="Be brief.",
        messages=(user_message("hi"),),
        tools=(TOOL,),
        small=small,
        conversation="a-session",
    )
    try:
        return await provider.reply(request, silent)
    finally:
        await provider.aclose()


async def test_chat_completions_reaches_openai_with_key_and_tools(
    httpx2_mock: respx.Router,
) -> None:
    route = plays(httpx2_mock, CHAT, "openai_parallel_tools")

    message = await ask("openai", "gpt-4o", api="chat")

    assert [call.name for call in calls_of(message)]
    sent = route.calls.last.request
    body = json.loads(sent.content)
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert body["model"] == "gpt-4o"
    assert body["tools"][0]["function"]["name"] == "read_file"
    assert body["stream_options"] == {"include_usage": True}


async def test_openai_is_asked_by_responses_if_nothing_else_is_said(
    httpx2_mock: respx.Router,
) -> None:
    route = plays(httpx2_mock, RESPONSES, "responses_tools_stream")

    message = await ask("openai", "gpt-5.4")

    assert [call.name for call in calls_of(message)] == ["read_file"]
    sent = route.calls.last.request
    body = json.loads(sent.content)
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert body["tools"][0]["name"] == "read_file"
    assert body["store"] is False


async def test_messages_goes_to_anthropic_with_two_cache_breakpoints(
    httpx2_mock: respx.Router,
) -> None:
    route = plays(httpx2_mock, MESSAGES, "anthropic_text_stream")

    message = await ask("anthropic", "claude-sonnet-4-5")

    assert text_of(message)
    sent = route.calls.last.request
    body = json.loads(sent.content)
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert body["system"][-1]["cache_control"] == {"type": "ephemeral"}
    assert body["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert json.dumps(body).count("cache_control") == 2


@pytest.mark.parametrize(
    ("name", "url", "recording"),
    [
        ("openai", RESPONSES, "responses_text_stream"),
        ("anthropic", MESSAGES, "anthropic_text_stream"),
    ],
)
async def test_official_hosts_get_no_temperature(
    httpx2_mock: respx.Router, name: str, url: str, recording: str
) -> None:
    route = plays(httpx2_mock, url, recording)

    await ask(name, "some-model", small=True)

    assert "temperature" not in json.loads(route.calls.last.request.content)


async def test_retry_after_and_a_wrong_key_are_told_apart(httpx2_mock: respx.Router) -> None:
    route = httpx2_mock.post(CHAT)
    route.respond(429, headers={"retry-after": "7"}, json={"error": {"message": "slow down"}})
    with pytest.raises(TransientError) as slow:
        await ask("openai", "gpt-4o", api="chat")
    assert slow.value.retry_after_s == 7.0
    route.respond(401, json={"error": {"message": f"Incorrect API key provided: {KEY}"}})
    with pytest.raises(AuthenticationError) as wrong:
        await ask("openai", "gpt-4o", api="chat")
    assert KEY not in str(wrong.value)
