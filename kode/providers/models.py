"""What kode knows about models: windows, output limits, prices, and each provider's default.

A frozen table, matched by the longest prefix that ends at a word border of the model's name
(`gpt-5` does not serve `gpt-5.9`). An unknown model works too, with a cautious window and no price.

Prices are US dollars per million tokens, as published in November 2026, at the standard tier and
the shortest prompt length. The user's `overrides` in the config take precedence. Models that
anybody may host have no price here, and their windows are the models' own.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from kode.contracts import ModelInfo
from kode.errors import ConfigError
from kode.messages import Usage

UNKNOWN = ModelInfo(context_window=32_768, max_output_tokens=4_096)
"""Small enough for nearly every model of today; a larger one is only compacted too early."""

# Columns: window, output limit, then dollars per million tokens: input, output, cached input,
# written to the cache (None: as other input).
_PRICED: dict[str, tuple[int, int, float, float, float | None, float | None]] = {
    # OpenAI
    "gpt-6.1-sol": (872_000, 128_000, 2.00, 10.00, 0.10, 2.50),
    "gpt-6-sol": (872_000, 128_000, 2.00, 10.00, 0.20, 2.50),
    "gpt-6-luna": (1_000_000, 128_000, 0.10, 0.50, 0.01, 0.125),
    "gpt-5.4": (1_050_000, 128_000, 2.50, 15.00, 0.25, None),
    "gpt-5.4-mini": (400_000, 128_000, 0.75, 4.50, 0.075, None),
    "gpt-5.4-nano": (400_000, 128_000, 0.20, 1.25, 0.02, None),
    "gpt-5.2": (400_000, 128_000, 1.75, 14.00, 0.175, None),
    "gpt-5.2-pro": (400_000, 128_000, 21.00, 168.00, None, None),
    "gpt-5.1": (400_000, 128_000, 1.25, 10.00, 0.125, None),
    "gpt-5": (400_000, 128_000, 1.25, 10.00, 0.125, None),
    "gpt-5-pro": (400_000, 272_000, 15.00, 120.00, None, None),
    "gpt-5-mini": (400_000, 128_000, 0.25, 2.00, 0.025, None),
    "gpt-5-nano": (400_000, 128_000, 0.05, 0.40, 0.005, None),
    "gpt-4.1": (1_047_576, 32_768, 2.00, 8.00, 0.50, None),
    "gpt-4.1-mini": (1_047_576, 32_768, 0.40, 1.60, 0.10, None),
    "gpt-4.1-nano": (1_047_576, 32_768, 0.10, 0.40, 0.025, None),
    "gpt-4o": (128_000, 16_384, 2.50, 10.00, 1.25, None),
    "gpt-4o-mini": (128_000, 16_384, 0.15, 0.60, 0.075, None),
    "gpt-4-turbo": (128_000, 4_096, 10.00, 30.00, None, None),
    "gpt-4": (8_192, 4_096, 30.00, 60.00, None, None),
    "gpt-3.5-turbo": (16_385, 4_096, 0.50, 1.50, None, None),
    "o1": (200_000, 100_000, 15.00, 60.00, 7.50, None),
    "o3": (200_000, 100_000, 2.00, 8.00, 0.50, None),
    "o3-mini": (200_000, 100_000, 1.10, 4.40, 0.55, None),
    "o4-mini": (200_000, 100_000, 1.10, 4.40, 0.275, None),
    # Anthropic
    "claude-fable-5-1": (1_000_000, 128_000, 10.00, 50.00, 0.25, 12.50),
    "claude-fable-5": (1_000_000, 128_000, 10.00, 50.00, 1.00, 12.50),
    "claude-mythos-5-1": (1_000_000, 128_000, 10.00, 50.00, 0.25, 12.50),
    "claude-mythos-5": (1_000_000, 128_000, 10.00, 50.00, 1.00, 12.50),
    "claude-opus-5-5": (1_000_000, 128_000, 4.00, 20.00, 0.20, 5.00),
    "claude-opus-5": (1_000_000, 128_000, 5.00, 25.00, 0.50, 6.25),
    "claude-opus-4-8": (1_000_000, 128_000, 5.00, 25.00, 0.50, 6.25),
    "claude-opus-4-7": (1_000_000, 128_000, 5.00, 25.00, 0.50, 6.25),
    "claude-opus-4-6": (200_000, 128_000, 5.00, 25.00, 0.50, 6.25),
    "claude-opus-4-5": (200_000, 64_000, 5.00, 25.00, 0.50, 6.25),
    "claude-opus-4": (200_000, 32_000, 15.00, 75.00, 1.50, 18.75),
    "claude-sonnet-5-5": (1_000_000, 128_000, 2.00, 10.00, 0.10, 2.50),
    "claude-sonnet-5": (1_000_000, 128_000, 2.00, 10.00, 0.20, 2.50),
    "claude-sonnet-4": (200_000, 64_000, 3.00, 15.00, 0.30, 3.75),
    "claude-3-7-sonnet": (200_000, 64_000, 3.00, 15.00, 0.30, 3.75),
    "claude-3-5-sonnet": (200_000, 8_192, 3.00, 15.00, 0.30, 3.75),
    "claude-haiku-5-5": (1_000_000, 128_000, 0.10, 0.50, 0.01, 0.125),
    "claude-haiku-4-5": (200_000, 64_000, 1.00, 5.00, 0.10, 1.25),
    "claude-3-5-haiku": (200_000, 8_192, 0.80, 4.00, 0.08, 1.00),
    "claude-3-haiku": (200_000, 4_096, 0.25, 1.25, 0.03, 0.30),
    "claude-3-opus": (200_000, 4_096, 15.00, 75.00, 1.50, 18.75),
    # Free, but the token counts of a session show that it was counted.
    "scripted": (128_000, 8_192, 0.0, 0.0, 0.0, 0.0),
}

# Windows only: prices depend on the host, or are not in this table.
_UNPRICED: dict[str, tuple[int, int]] = {
    "gpt-5.4-pro": (1_050_000, 128_000),
    "gpt-6-astra": (872_000, 128_000),
    "gpt-6": (400_000, 128_000),
    "gpt-5.6": (400_000, 128_000),
    "gpt-5.5": (400_000, 128_000),
    "gpt-5.3": (400_000, 128_000),
    "gpt-oss": (131_072, 32_768),
    "claude": (200_000, 8_192),
    "gemini-3": (1_048_576, 65_536),
    "gemini-2.5": (1_048_576, 65_536),
    "gemini-2.0": (1_048_576, 8_192),
    "gemini-1.5": (1_048_576, 8_192),
    "gemma3": (131_072, 8_192),
    "gemma-3": (131_072, 8_192),
    "gemma": (8_192, 4_096),
    "qwen3-coder": (262_144, 65_536),
    "qwen3": (40_960, 8_192),
    "qwen2.5-coder": (32_768, 8_192),
    "qwen2.5": (32_768, 8_192),
    "qwq": (40_960, 8_192),
    "llama4": (1_048_576, 8_192),
    "llama-4": (1_048_576, 8_192),
    "llama3.1": (131_072, 8_192),
    "llama3.2": (131_072, 8_192),
    "llama3.3": (131_072, 8_192),
    "llama-3.1": (131_072, 8_192),
    "llama-3.2": (131_072, 8_192),
    "llama-3.3": (131_072, 8_192),
    "llama3": (8_192, 4_096),
    "llama-3": (8_192, 4_096),
    "deepseek-chat": (131_072, 8_192),
    "deepseek-reasoner": (131_072, 65_536),
    "deepseek-v3": (131_072, 8_192),
    "deepseek-r1": (131_072, 32_768),
    "deepseek-coder": (131_072, 8_192),
    "devstral": (131_072, 32_768),
    "codestral": (262_144, 32_768),
    "mistral-large": (131_072, 32_768),
    "mistral-medium": (131_072, 32_768),
    "mistral-small": (131_072, 32_768),
    "ministral": (131_072, 32_768),
    "mistral-nemo": (131_072, 32_768),
    "mistral": (32_768, 8_192),
    "kimi-k2": (262_144, 32_768),
    "glm-4.5": (131_072, 65_536),
    "glm-4.6": (204_800, 65_536),
    "grok-code": (262_144, 32_768),
    "grok-4": (262_144, 32_768),
    "phi4": (16_384, 4_096),
    "phi-4": (16_384, 4_096),
    "qwen3-vl": (262_144, 32_768),
    "qwen2.5-vl": (131_072, 8_192),
    "qwen2.5vl": (131_072, 8_192),
    "llama3.2-vision": (131_072, 8_192),
    "llava": (32_768, 4_096),
    "pixtral": (131_072, 32_768),
}

_SEEING = frozenset(
    "gpt-6.1-sol gpt-6-sol gpt-6-luna gpt-6-astra gpt-6 gpt-5.6 gpt-5.5 gpt-5.4 gpt-5.4-mini "
    "gpt-5.4-nano gpt-5.4-pro gpt-5.3 gpt-5.2 gpt-5.2-pro gpt-5.1 gpt-5 gpt-5-pro gpt-5-mini "
    "gpt-5-nano gpt-4.1 gpt-4.1-mini gpt-4.1-nano gpt-4o gpt-4o-mini gpt-4-turbo o1 o3 o4-mini "
    "gemini-3 gemini-2.5 gemini-2.0 gemini-1.5 gemma3 gemma-3 llama4 llama-4 llama3.2-vision llava "
    "pixtral qwen3-vl qwen2.5-vl qwen2.5vl mistral-medium scripted".split()
)
"""Models that accept images; all of Claude's do."""
_BLIND = frozenset(
    "gpt-4 gpt-3.5-turbo o3-mini gpt-oss gemma qwen3-coder qwen2.5-coder qwen2.5 qwq llama3.1 "
    "llama3.3 llama-3.1 llama-3.3 llama3 llama-3 deepseek-chat deepseek-reasoner deepseek-v3 "
    "deepseek-r1 deepseek-coder codestral mistral-nemo grok-code phi4 phi-4".split()
)
"""Models that do not. For others it is unknown."""


def _sees_images(row: str) -> bool | None:
    if row in _SEEING or row.startswith("claude"):
        return True
    return False if row in _BLIND else None


MODELS: Mapping[str, ModelInfo] = {
    **{
        prefix: ModelInfo(
            context_window=window,
            max_output_tokens=output,
            known=True,
            sees_images=_sees_images(prefix),
        )
        for prefix, (window, output) in _UNPRICED.items()
    },
    **{
        prefix: ModelInfo(
            context_window=window,
            max_output_tokens=output,
            input_price=given,
            output_price=said,
            cached_price=cached,
            cache_write_price=written,
            known=True,
            sees_images=_sees_images(prefix),
        )
        for prefix, (window, output, given, said, cached, written) in _PRICED.items()
    },
}

Row = TypeVar("Row")

_OVERRIDABLE = tuple(f.name for f in fields(ModelInfo) if f.name != "known")


def info_of(model: str, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> ModelInfo:
    """What is known about a model.

    `overrides` maps a model name, or a prefix of one, to any of `context_window`,
    `max_output_tokens` (tokens), `input_price`, `output_price`, `cached_price`, `cache_write_price`
    (dollars per million tokens), `sees_images` (true or false). If several prefixes match, the
    longest wins, key by key. A window given there counts as known.

    Raises: ConfigError for an unknown key, or a value that is not a number.
    """
    names = _names(model)
    fitting = _matching_rows(names, MODELS)
    info = fitting[-1] if fitting else UNKNOWN
    given: dict[str, Any] = {}
    for values in _matching_rows(names, {k.lower(): v for k, v in (overrides or {}).items()}):
        given.update(values)
    for key, value in given.items():
        _check_override(model, key, value)
    if "context_window" in given:
        # A smaller window must leave room for the request too.
        half = max(1, given["context_window"] // 2)
        given.setdefault("max_output_tokens", min(info.max_output_tokens, half))
    return replace(info, **given, known=info.known or "context_window" in given)


def cost_usd(info: ModelInfo, usage: Usage) -> float | None:
    """The cost of a request in dollars; None if a price is unknown.

    Cached and cache-written tokens are part of `usage.input_tokens` and are charged at their own
    prices, or, if those are unknown, as other input.
    """
    if info.input_price is None or info.output_price is None:
        return None
    cached_price = info.input_price if info.cached_price is None else info.cached_price
    write_price = info.input_price if info.cache_write_price is None else info.cache_write_price
    dollars_per_million = (
        usage.uncached_tokens * info.input_price
        + usage.cached_tokens * cached_price
        + usage.cache_write_tokens * write_price
        + usage.output_tokens * info.output_price
    )
    return dollars_per_million / 1_000_000


def pricing(
    overrides: Mapping[str, Mapping[str, Any]] | None,
) -> Callable[[str, Usage], float | None]:
    """(model, usage) → dollars, using `info_of` and `cost_usd`."""
    return lambda model, usage: cost_usd(info_of(model, overrides), usage)


def _names(model: str) -> tuple[str, ...]:
    """The name as given, and without prefixes: `openrouter/qwen/qwen3-coder`,
    `models/gemini-2.5-pro`, a path to a file of weights."""
    name = model.strip().lower()
    return (name, name.rsplit("/", 1)[-1])


def _matching_rows(names: tuple[str, ...], table: Mapping[str, Row]) -> list[Row]:
    """The rows whose prefix matches, the longest prefix last."""
    fitting = [prefix for prefix in table if any(_begins(name, prefix) for name in names)]
    return [table[prefix] for prefix in sorted(fitting, key=len)]


def _begins(name: str, prefix: str) -> bool:
    """Whether `prefix` ends at a border of `name`: `gpt-5` does not match `gpt-5.9`, nor `o3`
    `o35`; `claude-opus-4` matches `claude-opus-4-20250514`."""
    if not name.startswith(prefix):
        return False
    return re.match(r"$|[-:@_ ]|\.gguf", name[len(prefix) :]) is not None


def _check_override(model: str, key: str, value: Any) -> None:
    if key not in _OVERRIDABLE:
        raise ConfigError(
            f"The settings for the model {model} have no key `{key}`. "
            f"Allowed are: {', '.join(_OVERRIDABLE)}."
        )
    if key == "sees_images":
        if not isinstance(value, bool):
            raise ConfigError(f"`{key}` for the model {model} is {value!r}; it must be a boolean.")
        return
    whole = key in ("context_window", "max_output_tokens")
    number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not number or value < (1 if whole else 0):
        allowed = "a whole number of tokens above 0" if whole else "dollars per million tokens"
        raise ConfigError(f"`{key}` for the model {model} is {value!r}; it must be {allowed}.")
