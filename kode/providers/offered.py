"""The models to choose from: those in the config, and those of a local server, else those that kode
knows (see `models`)."""

import contextlib
import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kode.config.choice import resolve_provider
from kode.errors import UserError
from kode.providers.models import names_of
from kode.registry import provider_names

if TYPE_CHECKING:
    from kode.config import Config
    from kode.contracts import Provider

SERVER_TIMEOUT_S = 1.0  # on this machine or beside it
SERVER_FRESH_S = 60.0  # a person may load another model
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")


def offered_models(config: "Config", provider: "Provider", server: "ServedModels") -> list[str]:
    """The models that a conversation could switch to; asks a local server, so call it in a
    thread."""
    named = [provider.model, config.model or "", *config.prices]
    return model_names(provider.name, named, server.of(base_url_of(config)))


def model_names(
    provider: str | None, configured: Iterable[str], served: Sequence[str] = ()
) -> list[str]:
    """The models to choose from for a provider: those in the config, those of a local server, else
    those that kode knows for the provider."""
    vendors = () if served else provider_names() if provider is None else (provider,)
    known = [name for vendor in vendors for name in names_of(vendor, date.today())]
    return list(dict.fromkeys(name for name in (*configured, *served, *known) if name))


def offers(served: Sequence[str], model: str) -> bool:
    """Whether a server with this list has the model: longer names with the same beginning count
    (tags, dates), and a proxy's wildcard."""
    return any(known.startswith(model) or "*" in known for known in served)


def base_url_of(config: "Config") -> str:
    """Where requests go, if not to the provider's own address; "" otherwise."""
    with contextlib.suppress(UserError):
        return resolve_provider(config, os.environ).base_url or ""
    return ""


@dataclass
class ServedModels:
    """The models of a local server; completion does not query others."""

    _known: dict[str, tuple[float, tuple[str, ...]]] = field(default_factory=dict)

    def of(self, base_url: str) -> tuple[str, ...]:
        """Their names, () if the server cannot say; asked at most once a minute."""
        at, names = self._known.get(base_url, (float("-inf"), ()))
        if time.monotonic() - at > SERVER_FRESH_S:
            names = models_at(base_url) or ()
            self._known[base_url] = (time.monotonic(), names)
        return names


def models_at(base_url: str) -> tuple[str, ...] | None:
    """The names of a local server's models; None for another server, and one that lists none."""
    url = urlsplit(base_url)
    if url.scheme != "http" or url.hostname not in LOCAL_HOSTS:
        return None
    import http.client

    faults = (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, RecursionError)
    with contextlib.suppress(*faults):
        port = url.port or 80
        connection = http.client.HTTPConnection(url.hostname, port, timeout=SERVER_TIMEOUT_S)
        with contextlib.closing(connection):
            # Addresses of the one format end in /v1, those of the other need not.
            connection.request("GET", f"{url.path.rstrip('/') or '/v1'}/models")
            data = json.loads(connection.getresponse().read(1 << 20))["data"]
            names = [str(model["id"]) for model in data]
            return tuple(name for name in names if name.isprintable() and name)
    return None
