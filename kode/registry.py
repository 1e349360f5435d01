"""The tables of providers and memory systems, read by config, flags, `init` and `doctor`.

A row is data: the module it names is imported when it is opened. `kode.providers` and `kode.memory`
say how one works.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class ProviderRow:
    name: str
    opens: str
    """ "module:Class", called with a `contracts.ProviderSettings`."""
    default_model: str
    """The model used when only the provider is named."""
    models: tuple[str, ...] = ()
    """Prefixes of model names that only this provider's own server has."""
    key_variable: str = ""
    """The SDK's own environment variable for the key; "" for a provider without keys."""
    url_variable: str = ""
    own_url: str = ""
    """The address of the provider's own server."""
    keys_begin: tuple[str, ...] = ()
    """Prefixes of its own keys."""
    models_path: str = "/models"
    """Where a server lists its models, after the base URL."""
    key_header: str = ""
    """The header that carries the key; "" for a bearer token."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers that listing models requires."""


PROVIDERS: tuple[ProviderRow, ...] = (
    ProviderRow(
        name="anthropic",
        opens="kode.providers.anthropic_messages:AnthropicMessages",
        default_model="claude-sonnet-5-5",
        models=("claude",),
        key_variable="ANTHROPIC_API_KEY",
        url_variable="ANTHROPIC_BASE_URL",
        own_url="https://api.anthropic.com",
        keys_begin=("sk-ant-",),
        models_path="/v1/models",
        key_header="x-api-key",
        headers={"anthropic-version": "2023-06-01"},
    ),
    ProviderRow(
        name="openai",
        opens="kode.providers.openai_chat:OpenAIChat",
        default_model="gpt-6.1-sol",
        models=("gpt-", "chatgpt-", "o1", "o3", "o4"),
        key_variable="OPENAI_API_KEY",
        url_variable="OPENAI_BASE_URL",
        own_url="https://api.openai.com/v1",
        keys_begin=("sk-",),
    ),
    ProviderRow(
        name="scripted",
        opens="kode.providers.scripted:Scripted",
        default_model="scripted-model",
    ),
)
"""With several keys set and nothing else to decide, the first of these is used."""

SYSTEMS: Mapping[str, str] = {
    "tiered": "kode.memory.tiered.system:Tiered",
    "notes": "kode.memory.notes.system:Notes",
    "vault": "kode.memory.vault.system:Vault",
    "journal": "kode.memory.journal.system:Journal",
}
"""Name → module:Class; the class takes the memory section of the config. Only the chosen system's
module is imported."""

COMPATIBLE = "openai"
"""The provider whose wire format compatible servers speak."""

NOT_ITS_OWN = ("sk-or-",)
"""Prefixes of other services' keys that look like a provider's."""


def provider_row(name: str) -> ProviderRow | None:
    """The row of a provider; None for an unknown name."""
    return next((row for row in PROVIDERS if row.name == name), None)


def provider_names() -> tuple[str, ...]:
    return tuple(row.name for row in PROVIDERS)


def owner_of(model: str | None) -> ProviderRow | None:
    """The provider whose own server alone has this model; None if the name does not show it."""
    if model is None:
        return None
    return next((row for row in PROVIDERS if row.models and model.startswith(row.models)), None)


def owner_of_key(key: str) -> ProviderRow | None:
    """The provider whose keys look like this one; None for a compatible service."""
    if key.startswith(NOT_ITS_OWN):
        return None
    return next(
        (row for row in PROVIDERS if row.keys_begin and key.startswith(row.keys_begin)), None
    )
