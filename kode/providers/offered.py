"""The models to choose from without asking a server: those in the config, and those that kode knows
(see `models`). `listing` asks."""

import contextlib
import os
from collections.abc import Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING

from kode.config.choice import resolve_provider
from kode.errors import UserError
from kode.providers.models import names_of
from kode.registry import provider_names

if TYPE_CHECKING:
    from kode.config.model import Config


def model_names(provider: str | None, configured: Iterable[str]) -> list[str]:
    """The models to choose from for a provider (None: for all): those in the config, then those
    that kode knows for it."""
    vendors = provider_names() if provider is None else (provider,)
    known = [name for vendor in vendors for name in names_of(vendor, date.today())]
    return list(dict.fromkeys(name for name in (*configured, *known) if name))


def offers(served: Sequence[str], model: str) -> bool:
    """Whether a server with this list has the model: longer names with the same beginning count
    (tags, dates), and a proxy's wildcard."""
    return any(known.startswith(model) or "*" in known for known in served)


def base_url_of(config: "Config") -> str:
    """Where requests go, if not to the provider's own address; "" otherwise."""
    with contextlib.suppress(UserError):
        return resolve_provider(config, os.environ).base_url or ""
    return ""
