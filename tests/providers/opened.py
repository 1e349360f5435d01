"""Providers for tests, opened by the name of their row."""

from typing import Any

from kode.providers.models import info_of
from kode.registry import ProviderSettings, provider_row


def settings_of(name: str, model: str, **given: Any) -> ProviderSettings:
    """The settings of a row's provider, with short limits."""
    row = provider_row(name)
    assert row is not None
    limits = {"idle_timeout_s": 5.0, "total_timeout_s": 30.0}
    return ProviderSettings(row=row, model=model, info=info_of(model), **{**limits, **given})
