"""Providers: one model behind one wire format each. This module knows which there are.

    boundary.py            faults of servers and SDKs → kode's errors
    stream.py              the bytes of an answer → events, within limits of time and size
    exchange.py            one request and its answer through an SDK's client
    draft.py               events → a whole message, mended
    wire.py                messages → bytes, made once
    openai_chat.py         Chat Completions
    anthropic_messages.py  the Messages API
    scripted.py            plays a script
    models.py              windows, prices, default models

Only the chosen provider's module is imported, and its SDK with the first request or by `warm_up`.
"""

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from kode.contracts import Provider
from kode.errors import ConfigError
from kode.providers.models import DEFAULT_MODELS, info_of

PROVIDERS: Mapping[str, str] = {
    "openai": "kode.providers.openai_chat:OpenAIChat",
    "anthropic": "kode.providers.anthropic_messages:AnthropicMessages",
    "scripted": "kode.providers.scripted:Scripted",
}
"""Name → "module:Class"."""


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
    """A provider by its name. No connection is made, and no SDK imported, before the first request.

    `model` None or "" is the provider's default. `base_url` and `api_key` None are taken from the
    SDK's own environment variables. `script` is the file that `scripted` plays. An answer may pause
    for `idle_timeout_s` and take `total_timeout_s` in all; None: as the config has it. `overrides`
    are the user's figures for models, see `models.info_of`.

    Raises: ConfigError for an unknown name, a bad script or a bad override.
    """
    module = _module(name)
    model = model or DEFAULT_MODELS[name]
    info = info_of(model, overrides)
    if name == "scripted":
        return _open_scripted(module, model, info, script)
    # Here, since who only asks which providers there are should not wait for pydantic.
    from kode.config.model import Retry

    limits = Retry()
    provider: Provider = getattr(module, _class_name(name))(
        model,
        info,
        base_url=base_url or None,
        api_key=api_key or None,
        idle_timeout_s=limits.idle_timeout_s if idle_timeout_s is None else idle_timeout_s,
        total_timeout_s=limits.total_timeout_s if total_timeout_s is None else total_timeout_s,
    )
    return provider


def warm_up(name: str) -> None:
    """Imports what the first request of a provider will need; for a thread that has time."""
    module = _module(name)
    if hasattr(module, "warm_up"):
        module.warm_up()


def _open_scripted(module: ModuleType, model: str, info: Any, script: Any) -> Provider:
    if not script:
        raise ConfigError(
            "The provider `scripted` needs a script to play: set `script` in the config, "
            "or run `kode demo`, which brings its own."
        )
    provider: Provider = module.Scripted(model, info, module.load_script(Path(script)))
    return provider


def _module(name: str) -> ModuleType:
    if name not in PROVIDERS:
        raise ConfigError(
            f"There is no provider {name!r}. Allowed are: {', '.join(PROVIDERS)}. "
            "For another server that speaks one of their formats set --base-url."
        )
    return importlib.import_module(PROVIDERS[name].partition(":")[0])


def _class_name(name: str) -> str:
    return PROVIDERS[name].partition(":")[2]
