"""Providers: one model behind one wire format each. `kode.registry` lists them.

    boundary.py            faults of servers and SDKs → kode's errors
    stream.py              the bytes of an answer → events, within limits of time and size
    exchange.py            one request and its answer through an SDK's client
    draft.py               events → a complete, repaired message
    wire.py                messages → bytes, encoded once
    openai_chat.py         Chat Completions
    anthropic_messages.py  the Messages API
    scripted.py            plays a script
    models.py              what is known of a model: limits, prices, abilities (models.json)
    asked.py               what its server says of it, asked once a day
    served.py              the same of a local server, which depends on how it was started
    catalogue.py           one model in a server's list → what it says
    offered.py             the models to choose from

Only the chosen provider's module is imported; its SDK is imported on the first request, or by
`warm_up`.
"""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kode.contracts import Provider, ProviderSettings
from kode.errors import ConfigError
from kode.providers.models import info_of, overrides_of
from kode.registry import ProviderRow, provider_names, provider_row


def open_provider(
    name: str,
    model: str | None = None,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    script: Path | str | None = None,
    idle_timeout_s: float | None = None,
    total_timeout_s: float | None = None,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
) -> Provider:
    """Opens a provider by name. Connects and imports the SDK only on the first request.

    `model` None or "" is the provider's default; limits of None are the config's defaults.
    `overrides` are the user's figures for models, see `models.info_of`.

    Raises: ConfigError for an unknown name, a bad script or a bad override.
    """
    row = _row(name)
    # Imported here: a caller that only lists providers should not wait for pydantic.
    from kode.config.model import Retry

    limits = Retry()
    model = model or row.default_model
    settings = ProviderSettings(
        model=model,
        info=info_of(model, overrides, row.name),
        given=frozenset(overrides_of(model, overrides)),
        base_url=base_url or None,
        api_key=api_key or None,
        script=str(script) if script else None,
        idle_timeout_s=limits.idle_timeout_s if idle_timeout_s is None else idle_timeout_s,
        total_timeout_s=limits.total_timeout_s if total_timeout_s is None else total_timeout_s,
    )
    module, _, opens = row.opens.partition(":")
    provider: Provider = getattr(importlib.import_module(module), opens)(settings)
    return provider


def warm_up(name: str) -> None:
    """Imports what the first request of a provider needs; call it in a thread."""
    module = importlib.import_module(_row(name).opens.partition(":")[0])
    if hasattr(module, "warm_up"):
        module.warm_up()


def _row(name: str) -> ProviderRow:
    row = provider_row(name)
    if row is None:
        raise ConfigError(
            f"There is no provider {name!r}. Allowed are: {', '.join(provider_names())}. "
            "For another server that speaks one of their formats set --base-url."
        )
    return row
