"""Providers: one model behind one wire format each. `kode.registry` lists them.

A request goes from `provider.py` through `request.py`, which prepares it, to the module of its
format, and the answer through `stream.py` (bytes to events) and `draft.py` (events to a message).
Only the chosen format's module is imported; its SDK is imported on the first request, or by
`warm_up`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from kode.errors import ConfigError, Setting
from kode.provider import Api, ModelInfo, Provider
from kode.providers.models import info_of, overrides_of
from kode.registry import (
    AZURE,
    ProviderRow,
    ProviderSettings,
    host_of,
    no_such_provider,
    opener_of,
    provider_row,
    sells,
)


def open_provider(
    name: str | ProviderRow,
    model: str | None = None,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    api: Api | None = None,
    headers: Mapping[str, str] | None = None,
    cache: Literal["auto", "short", "long", "none"] = "auto",
    script: Path | str | None = None,
    idle_timeout_s: float | None = None,
    total_timeout_s: float | None = None,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    used: Mapping[str, Setting] | None = None,
) -> Provider:
    """Opens a provider by name, or by its row. Connects and imports the SDK only on the first
    request.

    `model` None or "" is the provider's default; `api` None is `api_of`; limits of None are the
    config's defaults. `overrides` are the user's figures for models, see `models.info_of`; `used`
    is as in `ProviderSettings`.

    Raises: ConfigError for an unknown name, a missing model or a bad script.
    """
    row = provider_row(name) if isinstance(name, str) else name
    if row is None:
        raise ConfigError(no_such_provider(str(name)))
    # Imported here: a caller that only lists providers should not wait for pydantic.
    from kode.config.model import Retry

    limits = Retry()
    model = model or row.default_model
    if not model:
        raise ConfigError(
            f"{row.shown} has no default model. Name one with --model, or as "
            f"`providers.{row.name}.model` in the config."
        )
    info = info_of(model, overrides, row.name, sold=sells(row, base_url))
    settings = ProviderSettings(
        row=row,
        model=model,
        info=info,
        fixed=frozenset(overrides_of(model, overrides)),
        base_url=base_url or None,
        api_key=api_key or None,
        headers=headers or {},
        cache=cache,
        script=str(script) if script else None,
        used=used or {},
        idle_timeout_s=limits.idle_timeout_s if idle_timeout_s is None else idle_timeout_s,
        total_timeout_s=limits.total_timeout_s if total_timeout_s is None else total_timeout_s,
    )
    provider: Provider = opener_of(api or api_of(row, base_url, model, info))(settings)
    return provider


def api_of(row: ProviderRow, base_url: str | None, model: str, info: ModelInfo) -> Api:
    """The wire format for a model where the config leaves it open: the vendor's own at its own
    address; elsewhere, behind OpenAI's name, Chat Completions, which all others imitate, unless the
    model's vendor serves it only in another (a proxy then has to as well)."""
    if row.client == "bedrock":
        return "messages" if "anthropic." in model else "responses"
    first = row.apis[0]
    if first != "responses" or base_url is None:
        return first
    host = host_of(base_url)
    if row.name == "azure" or host == host_of(row.own_url) or host.endswith(AZURE):
        return first
    if info.apis and "chat" not in info.apis:
        return info.apis[0]
    return "chat"


def warm_up(provider: Provider) -> None:
    """Imports what the first request of a provider needs; call it in a thread."""
    from kode.providers.provider import HttpProvider

    if isinstance(provider, HttpProvider):
        provider.warm_up()
