"""Chooses the provider to ask, with its address, key and model."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from kode.config.model import Config, ProviderPart
from kode.credentials import keep_secret, redact
from kode.errors import ConfigError, UserError
from kode.registry import (
    COMPATIBLE,
    PROVIDERS,
    ProviderRow,
    owner_of,
    owner_of_key,
    provider_names,
    provider_row,
)

LOCAL_KEY = "none"
"""Sent to servers without keys; the SDK requires one."""


@dataclass(frozen=True, kw_only=True)
class ProviderChoice:
    """The chosen provider, and how to ask it. None leaves it to the provider's default."""

    name: str
    model: str | None
    base_url: str | None
    api_key: str | None


def resolve_provider(config: Config, environ: Mapping[str, str]) -> ProviderChoice:
    """Chooses the provider. If none is named, the one with a key; with two keys the one that the
    model's name belongs to, else Anthropic; with only a base URL, one that uses OpenAI's format.
    Its key is masked from then on, whatever it looks like.

    Raises: UserError that says how to get a key, or that model and provider do not fit.
    """
    row = _named(config.provider) if config.provider else _unnamed(config, environ)
    name = row.name
    part = config.providers.get(name, ProviderPart())
    if not row.key_variable:
        model = config.model or part.model
        return ProviderChoice(name=name, model=model, base_url=None, api_key=None)
    base_url = config.base_url or part.base_url or environ.get(row.url_variable) or None
    if base_url is not None and not is_url(base_url):
        raise ConfigError(
            f"The base URL {redact(base_url)} cannot be used. Give one like https://host/v1 with "
            f"--base-url, in the config or as {row.url_variable}."
        )
    model = config.model or part.model
    key = config.api_key or part.api_key or environ.get(row.key_variable) or None
    owner = owner_of(model)
    if base_url is None and owner is not None and owner is not row:
        raise UserError(
            f"The model {model} is one of {owner.name}, but the provider is {name}. "
            f"Set {owner.key_variable} and --provider {owner.name}, or choose another model."
        )
    if key is None and base_url is None:
        raise UserError(
            f"There is no key for {name}. Set {row.key_variable}, or run `kode init`. "
            "`kode demo` works without one."
        )
    keep_secret(key or LOCAL_KEY)
    return ProviderChoice(name=name, model=model, base_url=base_url, api_key=key or LOCAL_KEY)


def _named(name: str) -> ProviderRow:
    row = provider_row(name)
    if row is None:
        raise ConfigError(
            f"There is no provider {name!r}. Allowed are: {', '.join(provider_names())}."
        )
    return row


def _unnamed(config: Config, environ: Mapping[str, str]) -> ProviderRow:
    """The provider, determined by everything but its name."""
    if config.script is not None:
        return _named("scripted")
    owner = owner_of(config.model)
    if config.base_url is not None:
        return _named(COMPATIBLE)
    if config.api_key is not None:
        # The key first: a repository may name a model, and must not send a key to another host.
        return owner_of_key(config.api_key) or owner or _named(COMPATIBLE)
    with_key = [
        row
        for row in PROVIDERS
        if environ.get(row.key_variable) or config.providers.get(row.name, ProviderPart()).api_key
    ]
    if len(with_key) > 1 and config.model is not None:
        return owner or _named(COMPATIBLE)
    if with_key:
        return with_key[0]
    with_url = [
        row
        for row in PROVIDERS
        if environ.get(row.url_variable) or config.providers.get(row.name, ProviderPart()).base_url
    ]
    if with_url:
        return with_url[-1]
    raise UserError(
        "There is no model to work with yet. Run `kode init` to set one up, or set "
        f"{' or '.join(_key_variables())}, or name a local server with --base-url. "
        "`kode demo` needs none of them."
    )


def _key_variables() -> list[str]:
    return sorted((row.key_variable for row in PROVIDERS if row.key_variable), reverse=True)


def is_url(text: str) -> bool:
    """Whether requests can be sent there."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port out of range, a broken IPv6 address
        return False
