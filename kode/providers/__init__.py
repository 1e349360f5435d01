"""Providers: one model behind one wire format each. `kode.registry` lists them.

A request goes from `provider.py` through `request.py`, which prepares it, to the module of its
format, and the answer through `stream.py` (bytes to events) and `draft.py` (events to a message).
Only the chosen format's module is imported; its SDK is imported on the first request, or by
`warm_up`.
"""

import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from kode import installed
from kode.config.model import Retry
from kode.errors import ConfigError, Setting
from kode.provider import Api, ModelInfo, Provider
from kode.providers.models import model_info_of, overrides_of
from kode.registry import (
    COMPATIBLE,
    PROVIDERS,
    Dialect,
    ProviderRow,
    describe_unknown,
    host_of,
    provider_row,
)
from kode.values import Value, field, replace

FORMATS: Mapping[Api, str] = {
    "responses": "kode.providers.responses:open_responses",
    "chat": "kode.providers.chat:open_chat",
    "messages": "kode.providers.messages:open_messages",
    "scripted": "kode.providers.scripted:Scripted",
}
"""Wire format → "module:function", called with a `ProviderSettings`."""


class ProviderSettings(Value):
    """Settings that a provider is built from."""

    row: ProviderRow
    model: str
    info: ModelInfo
    fixed: frozenset[str] = frozenset()
    """The fields of `info` that the user has set, which no server's answer may change."""
    base_url: str | None = None
    """None: the row's own URL."""
    api_key: str | None = None
    """None: the key in the row's environment variable, or the credential that the SDK finds."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request."""
    cache: Literal["auto", "short", "long", "none"] = "auto"
    """How long a server should keep a conversation in a cache that needs marks: five minutes
    ("auto" and "short"), an hour, or not at all."""
    script: Path | str | None = None
    """The file that the `scripted` provider plays."""
    used: Mapping[str, Setting] = field(default_factory=dict)
    """Where `api_key`, `base_url`, `model` and `script` were set, for error texts."""
    retry: Retry = Retry()


def open_provider(
    name: str | ProviderRow,
    model: str | None = None,
    *,
    api: Api | None = None,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    **settings: Any,
) -> Provider:
    """Opens a provider by name, or by its row. Connects and imports the SDK only on the first
    request.

    Without `model` the provider's default is used, without `api` that of `api_of`. `overrides` are
    the user's figures for models, see `models.model_info_of`. `settings` are further fields of
    `ProviderSettings`; None or "" stands for the default.

    Raises: ConfigError for an unknown name, a missing model or a bad script.
    """
    row = provider_row(name) if isinstance(name, str) else name
    if row is None:
        raise ConfigError(describe_unknown(str(name)))
    model = model or row.default_model
    if not model:
        raise ConfigError(
            f"{row.shown} has no default model. Name one with --model, or as "
            f"`providers.{row.name}.model` in the config."
        )
    base_url = settings.get("base_url")
    # The vendors' prices apply neither on the user's own machine nor behind a proxy.
    is_vendor = not (url := base_url or row.own_url) or _vendor_at(url) is not None
    info = model_info_of(model, overrides, row.name, sold=is_vendor or bool(row.url_example))
    fixed = frozenset(overrides_of(model, overrides))
    values = {key: value for key, value in settings.items() if value not in (None, "")}
    made = ProviderSettings(row=row, model=model, info=info, fixed=fixed, **values)
    api = api or api_of(row, base_url, model, info)
    added = {} if api in FORMATS else installed.find_additions("formats")
    if api not in (*FORMATS, *added):
        raise ConfigError(f"There is no format {api!r}. Known are {', '.join((*FORMATS, *added))}.")
    code = installed.load_part(*added[api]) if added else pkgutil.resolve_name(FORMATS[api])
    provider: Provider = code(made)
    return provider


def api_of(row: ProviderRow, base_url: str | None, model: str, info: ModelInfo) -> Api:
    """The wire format for a model if the config names none: the row's first (on Bedrock the model
    decides). Away from a vendor's own address, Chat Completions, which other servers imitate,
    replaces Responses, unless the vendor serves the model only in other formats."""
    if row.client == "bedrock":
        return "messages" if "anthropic." in model else "responses"
    first = row.apis[0]
    if first != "responses" or base_url is None:
        return first
    if row.name == "azure" or getattr(_vendor_at(base_url), "name", "") in ("azure", row.name):
        return first
    if info.apis and "chat" not in info.apis:
        return info.apis[0]
    return "chat"


def row_at(row: ProviderRow, base_url: str | None) -> ProviderRow:
    """The row with the dialect of the server at this URL: at a vendor's own address that vendor's,
    whatever the row; elsewhere the row's own, or the default one for `COMPATIBLE`."""
    vendor = _vendor_at(base_url or row.own_url)
    if vendor is not None:
        return replace(row, dialect=vendor.dialect)
    return replace(row, dialect=Dialect()) if base_url and row.name == COMPATIBLE else row


def _vendor_at(url: str) -> ProviderRow | None:
    """The vendor whose own server this is; None for any other server."""
    host = host_of(url)
    if host.endswith(".azure.com"):  # an account has an address of its own
        return provider_row("azure")
    far = (row for row in PROVIDERS if host and not row.is_local)
    return next((row for row in far if host_of(row.own_url) == host), None)


def warm_up(provider: Provider) -> None:
    """Imports what the first request of a provider needs; call it in a thread."""
    from kode.providers.provider import HttpProvider, import_sdk

    if isinstance(provider, HttpProvider):
        import_sdk(provider.api)
