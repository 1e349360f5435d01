"""The Messages API at the clouds that serve Claude: addresses, credentials, the body as sent."""

import json
from dataclasses import replace
from typing import Any

import httpx2
import pytest
import respx

from kode.errors import AuthenticationError, ConfigError, RefusedError
from kode.events import silent
from kode.messages import Message, Text, text_of, user_message
from kode.provider import Request
from kode.providers.messages import open_messages
from kode.providers.provider import HttpProvider
from tests.needs import needs
from tests.providers.claudes import CLAUDES
from tests.providers.opened import settings_of

MODEL = "claude-sonnet-5-5"
REQUEST = Request(system="Be brief — é.", messages=(user_message("hi 🦊"),), effort="high")
VARIABLES = (
    *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_BEARER_TOKEN_BEDROCK", "ANTHROPIC_AWS_API_KEY"),
    *("CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID", "ANTHROPIC_VERTEX_BASE_URL"),
    *("ANTHROPIC_FOUNDRY_API_KEY", "ANTHROPIC_FOUNDRY_RESOURCE", "ANTHROPIC_FOUNDRY_BASE_URL"),
    *("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_BEDROCK_MANTLE_BASE_URL"),
)
STREAM = (
    'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hi"}}\n\n'
    'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{}}\n\n'
    'data: {"type":"message_stop"}\n\n'
)


@pytest.fixture(autouse=True)
def _no_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def cloud(name: str, **given: Any) -> HttpProvider:
    settings = settings_of(name, MODEL, **given)
    return open_messages(replace(settings, info=CLAUDES[MODEL]))


async def ask(provider: HttpProvider) -> Message:
    try:
        return await provider.reply(REQUEST, silent)
    finally:
        await provider.aclose()


def answers(mock: respx.Router, url: str) -> respx.Route:
    headers = {"content-type": "text/event-stream"}
    return mock.post(url).respond(200, headers=headers, content=STREAM.encode())


def body_of(route: respx.Route) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(route.calls.last.request.content)
    return body


def plain_body() -> dict[str, Any]:
    body: dict[str, Any] = json.loads(cloud("anthropic", api_key="k").encode(REQUEST))
    return body


async def test_bedrock_takes_token_and_region_from_the_environment(
    httpx2_mock: respx.Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "token")
    url = "https://bedrock-mantle.eu-west-1.api.aws/anthropic/v1/messages"
    route = answers(httpx2_mock, url)

    message = await ask(cloud("bedrock"))

    assert text_of(message) == "Hi"
    assert route.calls.last.request.headers["authorization"] == "Bearer token"
    assert body_of(route) == plain_body()


@needs("boto3")
async def test_bedrock_signs_the_body_with_the_credentials_of_aws(
    httpx2_mock: respx.Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nobodys")
    route = answers(httpx2_mock, "https://bedrock-mantle.us-east-1.api.aws/anthropic/v1/messages")

    await ask(cloud("bedrock"))

    assert route.calls.last.request.headers["authorization"].startswith("AWS4-HMAC-SHA256")
    assert body_of(route) == plain_body()


async def test_vertex_gets_the_model_in_its_address(
    httpx2_mock: respx.Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUD_ML_REGION", "global")
    monkeypatch.setenv("ANTHROPIC_VERTEX_PROJECT_ID", "my-project")
    place = "projects/my-project/locations/global/publishers/anthropic/models"
    url = f"https://aiplatform.googleapis.com/v1/{place}/{MODEL}:streamRawPredict"
    route = answers(httpx2_mock, url)

    message = await ask(cloud("vertex", api_key="token"))

    expected, sent = plain_body(), body_of(route)
    del expected["model"]
    assert text_of(message) == "Hi"
    assert sent.pop("anthropic_version")
    assert sent == expected
    assert "é" in route.calls.last.request.content.decode()


async def test_foundry_is_found_by_the_name_of_its_resource(
    httpx2_mock: respx.Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_FOUNDRY_RESOURCE", "mine")
    monkeypatch.setenv("ANTHROPIC_FOUNDRY_API_KEY", "key")
    route = answers(httpx2_mock, "https://mine.services.ai.azure.com/anthropic/v1/messages")

    message = await ask(cloud("foundry"))

    assert text_of(message) == "Hi"
    assert route.calls.last.request.headers["x-api-key"] == "key"
    assert body_of(route) == plain_body()


async def test_an_error_names_the_address_a_region_decides(
    httpx2_mock: respx.Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "mars-1")
    httpx2_mock.post(host="bedrock-mantle.mars-1.api.aws").mock(
        side_effect=httpx2.ConnectError("no such host")
    )

    with pytest.raises(Exception, match=r"bedrock-mantle\.mars-1\.api\.aws"):
        await ask(cloud("bedrock", api_key="token"))


@pytest.mark.parametrize(
    ("name", "given", "error", "names"),
    [
        ("bedrock", {"api_key": "token"}, ConfigError, "AWS_REGION"),
        ("vertex", {"api_key": "token"}, ConfigError, "CLOUD_ML_REGION"),
        ("foundry", {}, AuthenticationError, "ANTHROPIC_FOUNDRY_API_KEY"),
        ("foundry", {"api_key": "key"}, ConfigError, "ANTHROPIC_FOUNDRY_RESOURCE"),
    ],
)
async def test_a_missing_setting_of_a_cloud_is_named(
    name: str, given: dict[str, Any], error: type[Exception], names: str
) -> None:
    with pytest.raises(error, match=names):
        await ask(cloud(name, **given))


async def test_a_missing_project_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUD_ML_REGION", "global")

    with pytest.raises(ConfigError, match="ANTHROPIC_VERTEX_PROJECT_ID"):
        await ask(cloud("vertex"))


@pytest.mark.parametrize("name", ["bedrock", "vertex"])
async def test_a_missing_extra_of_a_cloud_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = ("AWS_REGION", "CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID")
    for variable in variables:
        monkeypatch.setenv(variable, "x")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(ConfigError, match=rf"kode\[{name}\]"):
        await ask(cloud(name))


async def test_news_join_user_messages_where_clouds_refuse_system(
    httpx2_mock: respx.Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    words = 'messages: Unexpected role "system".'
    refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": words}}
    route = httpx2_mock.post(host="bedrock-mantle.us-east-1.api.aws").mock(
        side_effect=[
            respx.MockResponse(400, json=refusal),
            respx.MockResponse(
                200, headers={"content-type": "text/event-stream"}, content=STREAM.encode()
            ),
        ]
    )
    news = Message(role="user", parts=(Text(text="News.", source="news"), Text(text="Go on")))
    said = Message(role="assistant", parts=(Text(text="Hello"),), stop="end")
    provider = cloud("bedrock", api_key="token")

    await provider.reply(replace(REQUEST, messages=(user_message("hi"), said, news)), silent)
    await provider.aclose()

    bodies = [json.loads(call.request.content) for call in route.calls]
    assert [[turn["role"] for turn in body["messages"]] for body in bodies] == [
        ["user", "assistant", "user", "system"],
        ["user", "assistant", "user"],
    ]


async def test_a_refusal_of_a_cloud_is_read_as_anthropics(
    httpx2_mock: respx.Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_FOUNDRY_RESOURCE", "mine")
    httpx2_mock.post(host="mine.services.ai.azure.com").respond(
        404, json={"error": {"type": "not_found_error", "message": f"model: {MODEL}"}}
    )

    with pytest.raises(RefusedError, match=MODEL):
        await ask(cloud("foundry", api_key="key"))
