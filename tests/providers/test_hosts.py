"""What is sent to the vendors' own servers and to clouds, which no test may reach: respx stands in
for them, through the package that makes it see the clients of the SDKs."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kode.errors import AuthenticationError, ConfigError, RefusedError
from kode.events import no_emit
from kode.messages import Message, calls_of, text_of, user_message
from kode.provider import Request
from kode.providers import open_provider
from tests.needs import needs
from tests.providers.line import READ, Object, traced
from tests.tables import for_each

KEY = "sk-test-key-of-nobody"
HI = {"system": "Be brief — é.", "messages": (user_message("hi 🦊"),), "effort": "high"}
CLAUDE, GPT = "claude-sonnet-5-5", "gpt-5.4"
OPENAI, AWS = "https://api.openai.com/v1", "https://bedrock-mantle.us-east-1.api.aws"
GOOGLE = "https://aiplatform.googleapis.com/v1/projects/mine/locations/global/publishers/anthropic"
AZURE = "https://mine.services.ai.azure.com"
SPOKEN = (
    'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hi"}}\n\n'
    'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{}}\n\n'
    'data: {"type":"message_stop"}\n\n'
)
WHOLE = {"output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}]}
WHOLE |= {"object": "response", "status": "completed"}
ANSWERED = f"data: {json.dumps({'type': 'response.completed', 'response': WHOLE})}\n\n"
STREAM = {"content-type": "text/event-stream"}


@pytest.fixture
def hosts() -> Iterator[Any]:
    import pytest_httpx2  # noqa: F401
    import respx

    with respx.mock(using="httpcore2") as router:
        yield router


async def ask(
    name: str, model: str, environ: dict[str, str], request: Object | None = None, **settings: Any
) -> Message:
    """The reply of a provider that is opened in an environment with these variables of clouds."""
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in environ.items():
            patch.setenv(variable, value)
        provider = open_provider(name, model, **settings)
        try:
            return await provider.reply(Request(**{**HI, **(request or {})}), no_emit)
        finally:
            await provider.aclose()


def body_of(route: Any) -> Object:
    body: Object = json.loads(route.calls.last.request.content)
    return body


TEMPERED = {"tools": (READ,), "conversation": "a-session", "small": True, "max_output_tokens": 50}


@for_each(
    ("name", "model", "api", "path", "trace", "fields"),
    [
        ("openai", "gpt-4o", "chat", f"{OPENAI}/chat/completions", "openai_parallel_tools",
         {"stream_options": {"include_usage": True}, "max_completion_tokens": 50,
          "max_tokens": None, "prompt_cache_key": "a-session"}),
        ("openai", GPT, None, f"{OPENAI}/responses", "responses_tools_stream", {"store": False}),
        ("anthropic", "claude-sonnet-4-5", None, "https://api.anthropic.com/v1/messages",
         "anthropic_tools_auto_stream", {}),
    ],
)  # fmt: skip
async def test_a_vendor_gets_its_key_its_tools_and_no_temperature(
    hosts: Any, name: str, model: str, api: Any, path: str, trace: str, fields: Any
) -> None:
    content = "".join(traced(trace)["wire"]["frames"]).encode()
    route = hosts.post(path).respond(200, headers=STREAM, content=content)

    message = await ask(name, model, {}, TEMPERED, api=api, api_key=KEY)

    body = body_of(route)
    assert {call.name for call in calls_of(message)} == {"read_file"}
    assert route.calls.last.request.headers["authorization"] == f"Bearer {KEY}"
    assert '"read_file"' in json.dumps(body["tools"])
    assert "temperature" not in body
    assert {key: body.get(key) for key in fields} == fields


REGION = {"AWS_DEFAULT_REGION": "us-east-1"}
SIGNED = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "nobodys"}
PROJECT = {"CLOUD_ML_REGION": "global", "ANTHROPIC_VERTEX_PROJECT_ID": "mine"}
MINE = {"ANTHROPIC_FOUNDRY_RESOURCE": "mine", "ANTHROPIC_FOUNDRY_API_KEY": "key"}


@pytest.mark.parametrize(
    ("name", "model", "environ", "settings", "url", "header", "value"),
    [
        ("bedrock", f"anthropic.{CLAUDE}", REGION | {"AWS_BEARER_TOKEN_BEDROCK": "token"}, {},
         f"{AWS}/anthropic/v1/messages", "authorization", "Bearer token"),
        pytest.param("bedrock", f"anthropic.{CLAUDE}", {"AWS_REGION": "us-east-1"} | SIGNED, {},
                     f"{AWS}/anthropic/v1/messages", "authorization", "AWS4-HMAC-SHA256",
                     marks=needs("boto3")),
        ("bedrock", "openai.gpt-5.4", REGION | {"AWS_BEARER_TOKEN_BEDROCK": "token"}, {},
         f"{AWS}/openai/v1/responses", "authorization", "Bearer token"),
        ("vertex", CLAUDE, PROJECT, {"api_key": "token"},
         f"{GOOGLE}/models/{CLAUDE}:streamRawPredict", "authorization", "Bearer token"),
        ("foundry", CLAUDE, MINE, {}, f"{AZURE}/anthropic/v1/messages", "x-api-key", "key"),
        ("azure", GPT, {}, {"base_url": "https://mine.openai.azure.com/openai/v1/",
                            "api_key": "azure-key"},
         "https://mine.openai.azure.com/openai/v1/responses", "authorization", "Bearer azure-key"),
    ],
)  # fmt: skip
async def test_a_cloud_is_found_with_the_credentials_of_the_environment(
    hosts: Any,
    *,
    name: str, model: str, environ: Any, settings: Any, url: str, header: str, value: str,
) -> None:  # fmt: skip
    content = (ANSWERED if url.endswith("responses") else SPOKEN).encode()
    route = hosts.post(url).respond(200, headers=STREAM, content=content)

    message = await ask(name, model, environ, **settings)

    body, request = body_of(route), route.calls.last.request
    assert text_of(message) == "Hi"
    assert request.headers[header].startswith(value)
    assert "é" in request.content.decode()
    assert body.get("model") == (None if name == "vertex" else model)
    assert ("anthropic_version" in body) == (name == "vertex")


@for_each(
    ("name", "model", "environ", "settings", "error", "named"),
    [
        ("bedrock", f"anthropic.{CLAUDE}", {}, {"api_key": "token"}, ConfigError, "AWS_REGION"),
        ("bedrock", "openai.gpt-5.4", {}, {"api_key": "token"}, ConfigError, "AWS_REGION"),
        ("bedrock", "openai.gpt-5.4", {}, {}, ConfigError, "AWS_BEARER_TOKEN_BEDROCK"),
        ("vertex", CLAUDE, {}, {"api_key": "token"}, ConfigError, "CLOUD_ML_REGION"),
        ("vertex", CLAUDE, {"CLOUD_ML_REGION": "global"}, {}, ConfigError, "_PROJECT_ID"),
        ("foundry", CLAUDE, {}, {}, AuthenticationError, "ANTHROPIC_FOUNDRY_API_KEY"),
        ("foundry", CLAUDE, {}, {"api_key": "k"}, ConfigError, "ANTHROPIC_FOUNDRY_RESOURCE"),
        ("azure", GPT, {}, {"api_key": "k"}, ConfigError, "AZURE_OPENAI_BASE_URL"),
    ],
)
async def test_a_missing_setting_of_a_cloud_is_named(
    name: str, model: str, environ: Any, settings: Any, error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named):
        await ask(name, model, environ, **settings)


@pytest.mark.parametrize("name", ["bedrock", "vertex"])
async def test_a_missing_extra_of_a_cloud_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(ConfigError, match=rf"kode\[{name}\]"):
        await ask(name, f"anthropic.{CLAUDE}", dict.fromkeys(("AWS_REGION", *PROJECT), "x"))


async def test_errors_of_clouds_are_read_as_the_vendors(hosts: Any) -> None:
    missing = {"error": {"type": "not_found_error", "message": f"model: {CLAUDE}"}}
    hosts.post(host="mine.services.ai.azure.com").respond(404, json=missing)

    with pytest.raises(RefusedError, match=CLAUDE):
        await ask("foundry", CLAUDE, MINE)
