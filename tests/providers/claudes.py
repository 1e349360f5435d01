"""What tests know of Claude models, as the Models API says it."""

from dataclasses import replace
from typing import Any

from kode.provider import ModelInfo
from kode.providers.messages import open_messages
from kode.providers.provider import HttpProvider
from tests.providers.opened import settings_of

LOW_TO_MAX = ("low", "medium", "high", "xhigh", "max")
NEW = ModelInfo(
    context_window=1_000_000,
    max_output_tokens=128_000,
    known=True,
    efforts=LOW_TO_MAX,
    takes_temperature=False,
    later_system=True,
    searches=True,
)
OLD = ModelInfo(
    context_window=200_000,
    max_output_tokens=64_000,
    known=True,
    thinking=("enabled", "disabled"),
    searches=True,
)
CLAUDES = {
    "claude-sonnet-5-5": replace(NEW, thinking=("adaptive",)),
    "claude-haiku-5-5": replace(NEW, thinking=("adaptive", "disabled")),
    "claude-opus-4-8": replace(NEW, thinking=("adaptive", "disabled")),
    "claude-opus-4-6": replace(
        NEW,
        efforts=("low", "medium", "high", "max"),
        thinking=("adaptive", "enabled", "disabled"),
        later_system=False,
    ),
    "claude-opus-4-5": replace(OLD, efforts=("low", "medium", "high")),
    "claude-sonnet-4-5": OLD,
    "claude-haiku-4-5": OLD,
}


def claude(
    model: str, url: str, *, is_official: bool = False, cache: str = "auto", **info: Any
) -> HttpProvider:
    """A provider of one of these models at a server on the loopback, which is taken for the
    vendor's own where `is_official`. `info` changes what is known of the model."""
    settings = settings_of("anthropic", model, base_url=url, api_key="k", cache=cache)
    row = replace(settings.row, own_url=url) if is_official else settings.row
    known = replace(CLAUDES.get(model, settings.info), **info)
    return open_messages(replace(settings, row=row, info=known))
