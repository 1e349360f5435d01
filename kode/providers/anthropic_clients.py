"""The clients of the Messages API: Anthropic's own, and those of the clouds that serve it.

Each cloud has its own address and credentials, which the SDK's client finds in the environment. The
SDK imports what it needs for them only with the first request, and then fails with an import error
or worse; so what is missing is named here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kode import extras
from kode.errors import ConfigError, Setting
from kode.providers.errors import Endpoint, check_key, missing_key
from kode.providers.provider import client_settings

if TYPE_CHECKING:
    from anthropic import (
        AsyncAnthropic,
        AsyncAnthropicBedrockMantle,
        AsyncAnthropicFoundry,
        AsyncAnthropicVertex,
    )


def open_client(cloud: str, endpoint: Endpoint, *, needs_key: bool) -> Any:
    """The client for a row's `client`; `needs_key` is False for a server of one's own.

    Raises: UserError for a missing or impossible key, region, project or package.
    """
    check_key(endpoint)
    return CLIENTS[cloud](endpoint, needs_key)


def _anthropic(endpoint: Endpoint, needs_key: bool) -> AsyncAnthropic:
    from anthropic import AsyncAnthropic

    client = AsyncAnthropic(
        base_url=endpoint.base_url,
        # None: the SDK looks for another credential, a token or a profile.
        api_key=endpoint.api_key or (None if needs_key else "none"),
        **_settings(endpoint),
    )
    if not (client.api_key or client.auth_token or client.credentials):
        raise missing_key(endpoint)
    return client


def _bedrock(endpoint: Endpoint, needs_key: bool) -> AsyncAnthropicBedrockMantle:
    """A bearer token, or the credentials of AWS's own tools, which sign each request."""
    from anthropic import AsyncAnthropicBedrockMantle

    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    address = endpoint.base_url or os.environ.get("ANTHROPIC_BEDROCK_MANTLE_BASE_URL")
    if not region and not (address and endpoint.api_key):
        region = _required("AWS_REGION", "Amazon Bedrock", "us-east-1")
    if not endpoint.api_key:
        extras.require("bedrock")
    return AsyncAnthropicBedrockMantle(
        aws_region=region,
        api_key=endpoint.api_key or None,
        base_url=address or None,
        **_settings(endpoint),
    )


def _vertex(endpoint: Endpoint, needs_key: bool) -> AsyncAnthropicVertex:
    """A key is an access token; without one, Google's default credentials."""
    from anthropic import AsyncAnthropicVertex

    region = _required("CLOUD_ML_REGION", "Vertex AI", "global")
    project = _required("ANTHROPIC_VERTEX_PROJECT_ID", "Vertex AI", "my-project")
    if not endpoint.api_key:
        extras.require("vertex")
    return AsyncAnthropicVertex(
        region=region,
        project_id=project,
        access_token=endpoint.api_key or None,
        base_url=endpoint.base_url or None,
        **_settings(endpoint),
    )


def _foundry(endpoint: Endpoint, needs_key: bool) -> AsyncAnthropicFoundry:
    from anthropic import AsyncAnthropicFoundry

    if not endpoint.api_key:
        raise missing_key(endpoint)
    if endpoint.base_url:
        return AsyncAnthropicFoundry(
            base_url=endpoint.base_url, api_key=endpoint.api_key, **_settings(endpoint)
        )
    resource = _required("ANTHROPIC_FOUNDRY_RESOURCE", "Microsoft Foundry", "my-resource")
    return AsyncAnthropicFoundry(resource=resource, api_key=endpoint.api_key, **_settings(endpoint))


CLIENTS: Mapping[str, Callable[[Endpoint, bool], Any]] = {
    "": _anthropic,
    "bedrock": _bedrock,
    "vertex": _vertex,
    "foundry": _foundry,
}


def _settings(endpoint: Endpoint) -> dict[str, Any]:
    from anthropic import DefaultAsyncHttpxClient

    return client_settings(DefaultAsyncHttpxClient, endpoint)


def _required(variable: str, cloud: str, example: str) -> str:
    """The value of an environment variable. Raises: ConfigError."""
    value = os.environ.get(variable)
    if not value:
        text = f"{cloud} needs {variable}, as in {variable}={example}."
        raise ConfigError(text).about(Setting(variable, variable))
    return value
