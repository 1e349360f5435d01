"""What is known of a model: the table, families, overrides, retirement, prices."""

from typing import Any

import pytest

from kode.messages import Usage
from kode.provider import EFFORTS
from kode.providers import open_provider
from kode.providers.models import (
    UNKNOWN,
    cost_usd,
    model_info_of,
    recommended_effort,
    refine_info,
    vendor_models,
)
from kode.registry import PROVIDERS
from tests.tables import for_each

SONNET, HAIKU = "claude-sonnet-5-5", "claude-haiku-4-5"


@for_each(
    ("model", "same"),
    [
        ("gpt-5-mini-2025-08-07", "gpt-5-mini"),
        ("claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("anthropic/claude-sonnet-5.5", SONNET),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", HAIKU),
        ("Claude-Sonnet-5-5", SONNET),
        ("openrouter/openai/gpt-6.1-sol:nitro", "gpt-6.1-sol"),
        # Open weights, whose names begin so.
        ("openrouter/qwen/Qwen3-Coder:free", "qwen3-coder"),
        ("qwen2.5-coder:7b", "qwen2.5-coder"),
        ("/models/llama-3.1-8b-instruct.Q4_K_M.gguf", "llama-3.1"),
        ("gpt-oss:20b", "gpt-oss"),
    ],
)
def test_an_edition_or_vendor_does_not_change_a_model(model: str, same: str) -> None:
    assert model_info_of(model) == model_info_of(same)
    assert model_info_of(model).known


@for_each(
    ("model", "provider", "fields"),
    [
        (SONNET, "anthropic", {"context_window": 1_000_000, "max_output_tokens": 128_000,
                               "input_price": 2.0, "output_price": 10.0, "cached_price": 0.1,
                               "cache_write_price": 2.5, "known": True}),
        # Open weights have a price and a date only at a known vendor.
        ("kimi-k3", "", {"input_price": None}),
        ("kimi-k3", "moonshot", {"input_price": 3.0}),
        # The settings that a model takes.
        ("claude-opus-5-5", "", {"thinking": ("adaptive",),
                                 "efforts": EFFORTS[2:]}),
        (HAIKU, "", {"thinking": ("enabled", "disabled"), "efforts": (), "sees_pdf": True}),
        ("gpt-6.1-sol", "", {"apis": ("responses",), "cache_marks": True}),
        ("gpt-4.1", "", {"efforts": (), "apis": ("responses", "chat")}),
        # Which models see.
        *((model, "", {"sees_images": sees}) for model, sees in {
            SONNET: True, "gpt-5-mini-2025-08-07": True, "qwen2.5-vl:7b": True,
            "gpt-3.5-turbo": False, "deepseek-chat": False, "my-own-model": None}.items()),
        # The effort that the vendor recommends for coding.
        *((model, "", {"default_effort": effort}) for model, effort in {
            "claude-opus-5-5": "xhigh", "claude-opus-4-5": "high", HAIKU: None,
            "gpt-6.1-sol": "high", "openai/gpt-5.4-mini": "medium", "gpt-6-luna": "medium",
            "gpt-4.1": None, "gemini-3.8-flash": None, "kimi-k3": None}.items()),
    ],
)  # fmt: skip
def test_the_table_knows_what_a_model_takes(
    model: str, provider: str, fields: dict[str, Any]
) -> None:
    info = model_info_of(model, provider=provider)

    assert {name: getattr(info, name) for name in fields} == fields
    assert recommended_effort(model, info.efforts) == info.default_effort


def test_every_model_of_a_vendor_makes_sense() -> None:
    for row in PROVIDERS:
        default = row.default_model if row.needs_key else ""
        for name in filter(None, (*vendor_models(row.name), default)):
            info = model_info_of(name, provider=row.name)
            assert info.known, name
            assert 0 < info.max_output_tokens <= info.context_window, name
            assert set(info.efforts) <= set(EFFORTS), name
            assert info.default_effort is None or info.default_effort in info.efforts, name
            assert info.input_price is not None or name != default, row.name


@for_each(
    ("model", "newest"),
    [
        ("claude-sonnet-6", SONNET),
        ("gpt-6.3-sol", "gpt-6.1-sol"),
        ("gemini-3.7-pro", "gemini-3.1-pro-preview"),
    ],
)
def test_an_unknown_model_of_a_family_resembles_its_newest(model: str, newest: str) -> None:
    info, row = model_info_of(model), model_info_of(newest)

    for field in ("context_window", "max_output_tokens", "efforts", "thinking", "sees_images"):
        assert getattr(info, field) == getattr(row, field), field
    assert (info.input_price, info.known) == (None, False)


@for_each("model", ["o35", "my-own-model", "", "glm-4-9b", "gpt-neo-2.7b"])
def test_an_unknown_family_gets_a_cautious_window_and_no_price(model: str) -> None:
    assert model_info_of(model) == UNKNOWN
    assert cost_usd(model_info_of(model), Usage(input_tokens=1000)) is None


# ── prices ───────────────────────────────────────────────────────────────────────────────────


@for_each(
    ("model", "usage", "cost"),
    [
        ("claude-opus-4-5", {"cached_tokens": 600_000, "cache_write_tokens": 300_000,
                             "hour_write_tokens": 100_000, "output_tokens": 100_000},
         0.1 * 5.00 + 0.6 * 0.50 + 0.2 * 6.25 + 0.1 * 10.00 + 0.1 * 25.00),
        # An unknown price of the cache is that of input; retired models keep theirs.
        ("gpt-4-turbo", {"cached_tokens": 1_000_000}, 10.00),
        ("claude-opus-4-20250514", {}, 15.00),
    ],
)  # fmt: skip
def test_cached_and_written_tokens_have_their_own_prices(
    model: str, usage: dict[str, int], cost: float
) -> None:
    used = Usage(input_tokens=1_000_000, **usage)

    assert cost_usd(model_info_of(model), used) == pytest.approx(cost)


@for_each(
    ("provider", "base_url", "is_known"),
    [
        ("openai", None, True),
        ("openai", "https://api.openai.com/v1", True),
        ("openai", "https://proxy.example/v1", False),
        ("vllm", None, False),
    ],
)
def test_only_the_vendors_own_address_has_its_prices(
    provider: str, base_url: str | None, is_known: bool
) -> None:
    prices = {"gpt-4o": {"input_price": 1, "output_price": 2}}

    found = open_provider(provider, "gpt-4o", base_url=base_url, api_key="k").info
    priced = open_provider(provider, "gpt-4o", base_url=base_url, overrides=prices).info

    assert (found.input_price is not None, found.known) == (is_known, True)
    assert (priced.input_price, priced.output_price) == (1, 2)


# ── the user's figures, the server's, and retirement ─────────────────────────────────────────

OWN: dict[str, dict[str, Any]] = {
    "my-own": {"context_window": 9_000, "input_price": 1, "output_price": 2},
    "my-own-model-2": {"context_window": 10_000, "max_output_tokens": 7_000},
    SONNET: {"context_window": 10_000},
    "gpt-5": {"sees_images": False},
}


@for_each(
    ("model", "window", "output", "price", "sees"),
    [
        ("My-Own-Model", 9_000, 4_096, 1, None),
        ("my-own-model-2", 10_000, 7_000, 1, None),
        (SONNET, 10_000, 5_000, 2.0, True),  # a smaller window leaves room for the request
        ("gpt-5", 272_000, 128_000, 1.25, False),
    ],
)
def test_the_users_figures_win(
    model: str, window: int, output: int, price: float, sees: bool | None
) -> None:
    info = model_info_of(model, OWN)

    figures = (info.context_window, info.max_output_tokens, info.input_price, info.sees_images)
    assert figures == (window, output, price, sees)
    assert info.known


def test_the_server_beats_the_table_and_loses_to_users() -> None:
    info = model_info_of("claude-opus-5-5", {"claude-opus-5-5": {"sees_pdf": False}})
    facts = {"context_window": 50_000, "efforts": ("low", "high"), "sees_pdf": True}

    told = refine_info(info, facts, "claude-opus-5-5", {"sees_pdf"})
    small = refine_info(UNKNOWN, {"context_window": 8_192, "max_output_tokens": 9_000}, "m")

    assert (told.context_window, told.max_output_tokens) == (50_000, 25_000)
    assert (told.efforts, told.default_effort, told.sees_pdf) == (("low", "high"), "high", False)
    assert told.input_price == info.input_price
    assert refine_info(info, {}, "claude-opus-5-5") == info
    assert (small.context_window, small.max_output_tokens, small.known) == (8_192, 8_192, True)
    assert not refine_info(UNKNOWN, {"sees_images": True}, "m").known
