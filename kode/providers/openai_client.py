"""The client of the official `openai` SDK, shared by both of OpenAI's wire formats: for a server of
the format at any address, and for Amazon Bedrock, which signs its requests.

The SDK is imported when a client is opened, or by `warm_up`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kode import extras
from kode.errors import ConfigError
from kode.providers.errors import Endpoint, check_key, missing_key
from kode.providers.provider import client_settings
from kode.registry import ProviderRow, ProviderSettings

if TYPE_CHECKING:
    from openai import AsyncOpenAI


def warm_up() -> None:
    """Imports the SDK, which takes a while; call it in a thread."""
    import openai  # noqa: F401


def stream_class() -> Any:
    """The SDK's class for a stream that kode reads itself; see `HttpProvider._post`."""
    import openai

    return openai.AsyncStream[object]


def url_of(settings: ProviderSettings) -> str:
    """The base URL: the given one, the environment's, or the row's own. Bedrock's depends on the
    region, which the SDK finds: there it is a name for error texts. "" if there is none."""
    row = settings.row
    given = settings.base_url or os.environ.get(row.url_variable) or row.own_url
    return given or (row.shown if row.client else "")


def open_client(
    row: ProviderRow, endpoint: Endpoint, base_url: str | None, *, is_official: bool
) -> AsyncOpenAI:
    """Opens the client for a row. `base_url` is the one in the settings.

    Raises: AuthenticationError for a missing or impossible key; ConfigError if there is no address,
    or nothing to sign with.
    """
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    if not endpoint.base_url:
        text = f"{row.shown} has no address of its own."
        raise ConfigError(text).about(endpoint.setting("base_url"))
    if not endpoint.api_key and is_official and row.needs_key:
        raise missing_key(endpoint)
    check_key(endpoint)
    settings = client_settings(DefaultAsyncHttpxClient, endpoint)
    if row.client == "bedrock":
        return _open_bedrock(endpoint, base_url, settings)
    return AsyncOpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key or "none", **settings)


def _open_bedrock(
    endpoint: Endpoint, base_url: str | None, settings: dict[str, Any]
) -> AsyncOpenAI:
    from openai import AsyncOpenAI, OpenAIError
    from openai.providers.bedrock import bedrock

    if not endpoint.api_key:
        extras.require("bedrock")
    given: dict[str, Any] = {"base_url": base_url} if base_url else {}
    if endpoint.api_key:
        given["api_key"] = endpoint.api_key
    try:
        return AsyncOpenAI(provider=bedrock(**given), **settings)
    except OpenAIError as error:
        raise ConfigError(
            f"The client for Amazon Bedrock could not be opened: {error} Set AWS_REGION (as in "
            "`us-east-1`), and a key or AWS credentials."
        ).about(endpoint.setting("api_key")) from None
