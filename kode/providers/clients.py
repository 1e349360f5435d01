"""The clients of the official SDKs: OpenAI's for Chat Completions and Responses, Anthropic's for
Messages, and those of the clouds that serve them.

An SDK is imported when a client is opened, or by `warm_up`. Each cloud has its own address and
credentials, which the SDK finds in the environment. It imports what it needs for them only with the
first request, and then fails with an import error or worse; so what is missing is named here.
"""

from __future__ import annotations

import functools
import importlib
import os
from typing import TYPE_CHECKING, Any

from kode import extras
from kode.errors import ConfigError, RefusedError, Setting
from kode.providers.errors import Endpoint, missing_key
from kode.providers.stream import refuse
from kode.registry import ProviderRow

if TYPE_CHECKING:
    import ssl

CONNECT_TIMEOUT_S = 15.0  # a slow network, but no dead one


def sdk_of(api: str) -> Any:
    """The module of the SDK that has the client for a format; its import takes a while."""
    return importlib.import_module("anthropic" if api == "messages" else "openai")


def open_client(
    api: str, row: ProviderRow, endpoint: Endpoint, base_url: str | None, *, is_official: bool
) -> Any:
    """Opens the client for a row. `base_url` is the one in the settings; a server that is not
    official may need no key.

    Raises: UserError for a missing or impossible key, address, region, project or package.
    """
    if not (endpoint.api_key.isascii() and endpoint.api_key.isprintable()):
        raise missing_key(endpoint)
    options = _options(sdk_of(api).DefaultAsyncHttpxClient, endpoint)
    if api == "messages":
        return _open_anthropic(row, endpoint, options, needs_key=is_official)
    if not endpoint.base_url:
        text = f"{row.shown} has no address of its own."
        raise ConfigError(text).about(endpoint.setting("base_url"))
    if not endpoint.api_key and is_official and row.needs_key:
        raise missing_key(endpoint)
    if row.client == "bedrock":
        return _open_bedrock(endpoint, base_url, options)
    from openai import AsyncOpenAI

    return AsyncOpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key or "none", **options)


def _options(http_client_class: Any, endpoint: Endpoint) -> dict[str, Any]:
    """Arguments for an SDK's client that leave retries, time limits and faults to kode."""
    import httpx2

    return {
        "max_retries": 0,
        # `Deadline` limits pauses and the total; the client's own limits are per read.
        "timeout": httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),
        "http_client": http_client_class(
            event_hooks={"response": [lambda response: refuse(response, endpoint)]},
            verify=tls_context(endpoint.base_url.startswith("https")),
        ),
    }


@functools.cache
def tls_context(is_encrypted: bool) -> ssl.SSLContext:
    """The trusted certificates, read once: per client they would take most of a conversation's
    memory, and reading blocks the event loop. For an address without encryption, of which reading
    would be a tenth of the way to the first answer, none is trusted, wherever it redirects to."""
    import ssl

    import httpx2

    if is_encrypted:
        return httpx2.create_ssl_context()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _open_bedrock(endpoint: Endpoint, base_url: str | None, options: dict[str, Any]) -> Any:
    from openai import AsyncOpenAI, OpenAIError
    from openai.providers.bedrock import bedrock

    if not endpoint.api_key:
        extras.require("bedrock")
    account = {"base_url": base_url, "api_key": endpoint.api_key}
    try:
        provider = bedrock(**{key: value for key, value in account.items() if value})  # type: ignore[arg-type]
        return AsyncOpenAI(provider=provider, **options)
    except OpenAIError as error:
        raise ConfigError(
            f"The client for Amazon Bedrock could not be opened: {error} Set AWS_REGION (as in "
            "`us-east-1`), and a key or AWS credentials."
        ).about(endpoint.setting("api_key")) from None


def _open_anthropic(
    row: ProviderRow, endpoint: Endpoint, options: dict[str, Any], *, needs_key: bool
) -> Any:
    """Anthropic's client, or a cloud's. A key is the bearer token of Bedrock and Foundry, and the
    access token of Vertex; without one the clouds' own credentials are used."""
    import anthropic

    key, url = endpoint.api_key or None, endpoint.base_url or None
    if row.client == "bedrock":
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        url = url or os.environ.get("ANTHROPIC_BEDROCK_MANTLE_BASE_URL") or None
        if not region and not (url and key):
            region = _require_variable("AWS_REGION", "Amazon Bedrock", "us-east-1")
        if not key:
            extras.require("bedrock")
        account: dict[str, Any] = {"aws_region": region, "api_key": key, "base_url": url}
        return anthropic.AsyncAnthropicBedrockMantle(**account, **options)
    if row.client == "vertex":
        region = _require_variable("CLOUD_ML_REGION", "Vertex AI", "global")
        project = _require_variable("ANTHROPIC_VERTEX_PROJECT_ID", "Vertex AI", "my-project")
        if not key:
            extras.require("vertex")
        account = {"region": region, "project_id": project, "access_token": key, "base_url": url}
        return anthropic.AsyncAnthropicVertex(**account, **options)
    if row.client == "foundry":
        if not key:
            raise missing_key(endpoint)
        resource = ("ANTHROPIC_FOUNDRY_RESOURCE", "Microsoft Foundry", "my-resource")
        place: dict[str, Any] = (
            {"base_url": url} if url else {"resource": _require_variable(*resource)}
        )
        return anthropic.AsyncAnthropicFoundry(api_key=key, **place, **options)
    # None: the SDK looks for another credential, a token or a profile.
    key = key or (None if needs_key else "none")
    client = anthropic.AsyncAnthropic(base_url=endpoint.base_url, api_key=key, **options)
    if not (client.api_key or client.auth_token or client.credentials):
        raise missing_key(endpoint)
    return client


def _require_variable(variable: str, cloud: str, example: str) -> str:
    """The value of an environment variable. Raises: ConfigError."""
    value = os.environ.get(variable)
    if not value:
        text = f"{cloud} needs {variable}, as in {variable}={example}."
        raise ConfigError(text).about(Setting(variable, variable))
    return value


def transform_schema(schema: dict[str, Any]) -> Any:
    """A schema for an answer as the Messages API supports it; other constraints become part of a
    description. Raises: RefusedError for an unsupported schema."""
    import anthropic

    try:
        return anthropic.transform_schema(schema)
    except (ValueError, TypeError, AssertionError) as error:
        raise RefusedError(f"The Messages API cannot hold an answer to it: {error}.") from None
