"""Which provider to ask, at which address, with which key and model."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from kode.config.model import Config, ProviderName, ProviderPart
from kode.credentials import keep_secret, redact
from kode.errors import ConfigError, UserError

SDK_VARIABLES: Mapping[ProviderName, tuple[str, str]] = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
}
"""The SDKs' own variables of key and base URL. Where both have a key, the first is asked."""

OWN_MODELS: Mapping[ProviderName, tuple[str, ...]] = {
    "anthropic": ("claude",),
    "openai": ("gpt-", "chatgpt-", "o1", "o3", "o4"),
}
"""How the names of models begin that only this provider's own server has."""

LOCAL_KEY = "none"
"""Sent to servers that want no key; the SDK insists on having one."""


@dataclass(frozen=True, kw_only=True)
class ProviderChoice:
    """Which provider to ask, and how. None leaves it to the provider's default."""

    name: ProviderName
    model: str | None
    base_url: str | None
    api_key: str | None


def resolve_provider(config: Config, environ: Mapping[str, str]) -> ProviderChoice:
    """The provider to ask. With none named it is the one with a key; with two keys the one that
    the model's name belongs to, else Anthropic; with a base URL alone, one that speaks OpenAI's
    format. Its key is masked from then on, whatever it looks like.

    Raises: UserError that says how to get a key, or that model and provider do not fit.
    """
    name = config.provider or _unnamed(config, environ)
    if name == "scripted":
        return ProviderChoice(name=name, model=config.model, base_url=None, api_key=None)
    part = config.providers.get(name, ProviderPart())
    key_variable, url_variable = SDK_VARIABLES[name]
    base_url = config.base_url or part.base_url or environ.get(url_variable) or None
    if base_url is not None and not is_url(base_url):
        raise ConfigError(
            f"The base URL {redact(base_url)} cannot be used. Give one like https://host/v1 with "
            f"--base-url, in the config or as {url_variable}."
        )
    model = config.model or part.model
    key = config.api_key or part.api_key or environ.get(key_variable) or None
    owner = owner_of(model)
    if base_url is None and owner not in (None, name):
        assert owner is not None
        raise UserError(
            f"The model {model} is one of {owner}, but the provider is {name}. "
            f"Set {SDK_VARIABLES[owner][0]} and --provider {owner}, or choose another model."
        )
    if key is None and base_url is None:
        raise UserError(
            f"There is no key for {name}. Set {key_variable}, or run `kode init`. "
            "`kode demo` shows kode without one."
        )
    keep_secret(key or LOCAL_KEY)
    return ProviderChoice(name=name, model=model, base_url=base_url, api_key=key or LOCAL_KEY)


def _unnamed(config: Config, environ: Mapping[str, str]) -> ProviderName:
    """The provider that everything but its name tells."""
    if config.script is not None:
        return "scripted"
    owner = owner_of(config.model)
    if config.base_url is not None:
        return "openai"
    if config.api_key is not None:
        return owner or ("anthropic" if config.api_key.startswith("sk-ant-") else "openai")
    with_key: list[ProviderName] = [
        name
        for name, (variable, _) in SDK_VARIABLES.items()
        if environ.get(variable) or config.providers.get(name, ProviderPart()).api_key
    ]
    if len(with_key) > 1 and config.model is not None:
        return owner or "openai"
    if with_key:
        return with_key[0]
    with_url: list[ProviderName] = [
        name
        for name, (_, variable) in SDK_VARIABLES.items()
        if environ.get(variable) or config.providers.get(name, ProviderPart()).base_url
    ]
    if with_url:
        return with_url[-1]
    raise UserError(
        "There is no model to work with yet. Run `kode init` to set one up, or set "
        "OPENAI_API_KEY or ANTHROPIC_API_KEY, or name a local server with --base-url. "
        "`kode demo` needs none of them."
    )


def is_url(text: str) -> bool:
    """Whether requests can be sent there."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port out of range, a broken IPv6 address
        return False


def owner_of(model: str | None) -> ProviderName | None:
    """The provider whose own server alone has this model; None when its name does not tell."""
    for name, beginnings in OWN_MODELS.items():
        if model is not None and model.startswith(beginnings):
            return name
    return None
