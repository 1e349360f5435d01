"""Chooses the provider to ask, with its address, key and model."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from kode.config.model import Config
from kode.credentials import keep_secret, redact
from kode.errors import ConfigError, Setting, UserError
from kode.provider import Api, Effort
from kode.registry import (
    COMPATIBLE,
    PROVIDERS,
    ProviderRow,
    describe_unknown,
    plugin_rows,
    provider_of_key,
    provider_of_model,
    provider_row,
    settings_to_set,
)
from kode.values import Value, field, replace

LOCAL_KEY = "none"
"""Sent to servers without keys; the SDK requires one."""


class ProviderChoice(Value):
    """The chosen provider, and how to ask it. None leaves a value to the provider's default."""

    row: ProviderRow
    model: str | None = None
    base_url: str | None = None
    api_key: str | None = None
    api: Api | None = None
    """The wire format; None: chosen by server and model, see `kode.providers.api_of`."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    effort: Effort | None = None
    used: Mapping[str, Setting] = field(default_factory=dict)
    """What set each value, as in `ProviderSettings`."""

    @property
    def name(self) -> str:
        return self.row.name


def resolve_provider(
    config: Config, environ: Mapping[str, str], origins: Mapping[str, str] = {}
) -> ProviderChoice:
    """Chooses the provider. If none is named, the one with a key; with two keys the one that the
    model's name belongs to, else the first of the table; with only a base URL, one that uses
    OpenAI's format. Its key and headers are masked from then on, whatever they look like. `origins`
    is as in `Loaded`.

    Raises: UserError that says how to get a key, or that model and provider do not fit.
    """
    row = row_of(config, config.provider) if config.provider else _choose_unnamed(config, environ)
    if config.model is not None and not (config.base_url or _find_address(config, environ, row)):
        provider, resolved = resolve_model(config, environ, row, config.model)
        if resolved != config.model and provider != row.name:
            config = switch_provider(config, environ, provider, resolved)
            row = row_of(config, provider)
        config = replace(config, model=resolved)
    part = config.part(row.name)
    alone = ("script", "retry.idle_timeout_s")  # these are never set per provider
    used = {key: Setting(key, origins.get(key, "default")) for key in alone}

    def choose(name: str, variable: str = "") -> str | None:
        """Returns the value of a setting, and records its origin in `used`."""
        key_of_part = f"providers.{row.name}.{name}"
        for key, value in ((name, getattr(config, name)), (key_of_part, getattr(part, name))):
            if value:
                # `switch_provider` moves a general value to the part of its provider.
                used[name] = Setting(key, origins.get(key) or origins.get(name, "default"))
                return str(value)
        used[name] = Setting(key_of_part, variable or "default")
        return environ.get(variable) or None

    model, effort = choose("model"), config.effort or part.effort
    choice = ProviderChoice(row=row, model=model, effort=effort, used=used)
    if not {"responses", "chat", "messages"} & {*row.apis}:  # no server with address and key
        return choice
    base_url = choose("base_url", row.url_variable)
    if base_url is not None and not is_url(base_url):
        text = f"The base URL {redact(base_url)} cannot be used. Give one like https://host/v1."
        raise ConfigError(text).about(used["base_url"])
    if base_url is None and not row.own_url and not row.client:
        raise UserError(
            f"{row.shown} has an address of its own for each account, like {row.url_example}."
        ).about(used["base_url"])
    key = choose("api_key", row.key_variable)
    owner = provider_of_model(model)
    if base_url is None and row.models and owner is not None and owner is not row:
        raise UserError(
            f"The model {model} is one of {owner.name}, but the provider is {row.name}. "
            f"Set {owner.key_variable} and --provider {owner.name}, or choose another model."
        ).about(used["model"])
    if key is None and base_url is None and row.needs_key:
        raise _missing_key_error(row)
    for value in (key or LOCAL_KEY, *part.headers.values()):
        keep_secret(value)
    key = key or (None if row.client else LOCAL_KEY)
    api = None if part.api == "auto" else part.api
    return replace(choice, base_url=base_url, api_key=key, api=api, headers=part.headers)


def row_of(config: Config, name: str) -> ProviderRow:
    """The row of a provider: one of the table, or one that the config describes.

    Raises: ConfigError for a name that neither has.
    """
    if (row := provider_row(name)) is not None:
        return row
    part = config.part(name)
    base_url = part.base_url or (config.base_url if name == config.provider else None)
    if base_url is None:
        raise ConfigError(describe_unknown(name, _list_described(config)))
    apis: tuple[Api, ...] = ("chat" if part.api == "auto" else part.api,)
    return ProviderRow(name=name, apis=apis, own_url=base_url, needs_key=False)


def _missing_key_error(row: ProviderRow, why: str = "") -> UserError:
    text = f"There is no key for {row.name}{why}. Run `kode init`; `kode demo` works without one."
    return UserError(text).about(settings_to_set(row)["api_key"])


def _list_described(config: Config) -> list[str]:
    """The providers that only the config knows."""
    with_address = (name for name, part in config.providers.items() if part.base_url is not None)
    return [name for name in with_address if provider_row(name) is None]


def _find_address(config: Config, environ: Mapping[str, str], row: ProviderRow) -> str | None:
    return config.part(row.name).base_url or environ.get(row.url_variable)


def _choose_unnamed(config: Config, environ: Mapping[str, str]) -> ProviderRow:
    """Chooses the provider by all other settings, if none is named."""
    if config.script is not None:
        return row_of(config, "scripted")
    compatible, owner = row_of(config, COMPATIBLE), provider_of_model(config.model)
    if config.base_url is not None:
        return compatible
    if config.api_key is not None:
        # The key first: a repository may name a model, and must not send a key to another host.
        return provider_of_key(config.api_key) or owner or compatible
    local = [row for row in list_configured(config, environ) if row.is_local]
    if local and ":" in (config.model or ""):
        return local[0]  # only servers like Ollama have tags
    for rows in (PROVIDERS, plugin_rows()):
        with_key = [
            row for row in rows if config.part(row.name).api_key or environ.get(row.key_variable)
        ]
        if len(with_key) > 1 and config.model is not None:
            return owner or (compatible if compatible in with_key else with_key[0])
        if with_key:
            return with_key[0]
    for row in reversed(PROVIDERS):
        if _find_address(config, environ, row):
            return row
    if described := _list_described(config):
        if len(described) == 1:
            return row_of(config, described[0])
        raise UserError(
            f"The config describes {len(described)} providers and names none. Set `provider` to "
            f"one of: {', '.join(described)}, or give --provider."
        )
    if owner is not None:
        raise _missing_key_error(owner, f", which has the model {config.model}")
    raise UserError(
        "There is no model to work with yet. Run `kode init` to set one up, or set "
        "OPENAI_API_KEY or ANTHROPIC_API_KEY, or name a local server with --base-url. "
        "`kode demo` needs none of them."
    )


def list_configured(config: Config, environ: Mapping[str, str]) -> tuple[ProviderRow, ...]:
    """The providers that could be asked now: named in the config, or with a key or an address in
    the environment."""
    named = {config.provider, *config.providers}
    rows = (
        row
        for row in PROVIDERS
        if row.name in named or environ.get(row.key_variable) or environ.get(row.url_variable)
    )
    return (*rows, *(row_of(config, name) for name in _list_described(config)))


def switch_provider(
    config: Config, environ: Mapping[str, str], provider: str, model: str | None
) -> Config:
    """Returns the settings for another model, perhaps of another provider. An address and a key set
    without a provider's name stay with the provider in use, so that no other one gets that key.

    Raises: UserError as `resolve_provider`.
    """
    current = config.provider or _choose_unnamed(config, environ).name
    part = config.part(current)
    url, key = config.base_url or part.base_url, config.api_key or part.api_key
    providers = {**config.providers, current: replace(part, base_url=url, api_key=key)}
    return replace(
        config, provider=provider, model=model, providers=providers, base_url=None, api_key=None
    )


def choose_small_model(
    config: Config, environ: Mapping[str, str], named: str | None, origins: Mapping[str, str] = {}
) -> ProviderChoice:
    """Chooses the model for small work: the model `named`, as `MODEL` or `PROVIDER/MODEL`; else the
    vendor's small one, if its own server is asked; else the session's.

    Raises: UserError as `resolve_provider`.
    """
    choice = resolve_provider(config, environ, origins)
    if named is None:
        small = choice.row.small_model if choice.base_url is None else ""
        return replace(choice, model=small or choice.model)
    key = "memory.model" if named == config.memory.model else "small_model"
    provider, model = resolve_model(config, environ, choice.row, named)
    if provider != choice.name:
        config = switch_provider(config, environ, provider, model)
        choice = resolve_provider(config, environ, origins)
    setting = Setting(key, origins.get(key, "default"))
    return replace(choice, model=model, used={**choice.used, "model": setting})


def resolve_model(
    config: Config, environ: Mapping[str, str], current: ProviderRow, text: str
) -> tuple[str, str]:
    """Resolves what a person calls a model to (provider, model): an alias such as `sonnet`,
    `PROVIDER/MODEL` or `MODEL`. `current` is the provider in use; the part before the first slash
    names another one if that is configured. A provider without models of its own passes on those
    of others under names like `openai/gpt-oss-20b`, where the maker's name is part of the model's.

    Raises: UserError for an alias of a provider without a key.
    """
    others = [row for row in list_configured(config, environ) if row.name != current.name]
    first, _, model = text.partition("/")
    for row in (current, *others):
        if model and row.name == first and (row is current or current.models or not row.models):
            return first, row.aliases.get(model, model)
    for row in (current, *others):
        if text in row.aliases:
            return row.name, row.aliases[text]
    # At a custom address, the same name may mean another model.
    if not current.models or config.base_url or _find_address(config, environ, current):
        return current.name, text
    for row in PROVIDERS:
        if text in row.aliases:
            raise _missing_key_error(row, f", which has the model {row.aliases[text]}")
    return (provider_of_model(text) or current).name, text


def is_url(text: str) -> bool:
    """Whether a text is an http(s) address that requests can be sent to."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port out of range, a broken IPv6 address
        return False
