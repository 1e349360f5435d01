"""What is known of a model: the table, families, overrides, retirement, prices."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.messages import Usage
from kode.provider import EFFORTS, ModelInfo
from kode.providers import models, open_provider
from kode.providers.models import (
    UNKNOWN,
    cost_usd,
    info_of,
    is_retired,
    names_of,
    open_weights,
    recommended_effort,
    refine_info,
    retirement_note,
)
from kode.registry import PROVIDERS, ProviderRow
from tests.tables import for_each

PRICES = ("input_price", "output_price", "cached_price", "cache_write_price")
TODAY = date(2026, 11, 24)


def prices_of(info: ModelInfo) -> tuple[float | None, ...]:
    return tuple(getattr(info, name) for name in PRICES)


# ── the table ────────────────────────────────────────────────────────────────────────────────


@for_each(
    ("provider", "model", "window", "output", "prices"),
    [
        ("anthropic", "claude-sonnet-5-5", 1_000_000, 128_000, (2.0, 10.0, 0.1, 2.5)),
        ("anthropic", "claude-haiku-4-5", 200_000, 64_000, (1.0, 5.0, 0.1, 1.25)),
        ("openai", "gpt-6.1-sol", 922_000, 128_000, (2.0, 10.0, 0.1, 2.5)),
        ("openai", "gpt-5", 272_000, 128_000, (1.25, 10.0, 0.125, None)),
        ("gemini", "gemini-3.8-flash", 1_048_576, 65_536, (0.75, 3.75, 0.075, None)),
        ("deepseek", "deepseek-v4-pro", 1_000_000, 393_216, (1.32, 3.96, 0.044, None)),
        ("mistral", "mistral-medium-latest", 262_144, 65_536, (1.5, 7.5, 0.15, None)),
        ("xai", "grok-4.7", 500_000, 125_000, (2.0, 6.0, 0.5, None)),
        ("groq", "openai/gpt-oss-120b", 131_072, 65_536, (0.15, 0.6, 0.075, None)),
        ("together", "zai-org/GLM-5.3", 1_048_575, 128_000, (1.4, 4.4, 0.26, None)),
        (
            "fireworks",
            "accounts/fireworks/models/kimi-k2p6",
            262_144,
            32_768,
            (0.95, 4.0, 0.16, None),
        ),
        ("cerebras", "gpt-oss-120b", 131_072, 32_768, (0.35, 0.75, None, None)),
        ("moonshot", "kimi-k3", 1_048_576, 128_000, (3.0, 15.0, 0.3, 3.0)),
        ("zai", "glm-5.3", 1_000_000, 128_000, (1.4, 4.4, 0.26, None)),
    ],
)
def test_a_vendors_model_has_the_figures_of_the_source(
    provider: str, model: str, window: int, output: int, prices: tuple[float | None, ...]
) -> None:
    info = info_of(model, provider=provider)

    assert (info.context_window, info.max_output_tokens, prices_of(info)) == (
        window,
        output,
        prices,
    )
    assert info.known


@for_each(
    ("model", "same"),
    [
        ("gpt-5-mini-2025-08-07", "gpt-5-mini"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("anthropic/claude-sonnet-5.5", "claude-sonnet-5-5"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
        ("Claude-Sonnet-5-5", "claude-sonnet-5-5"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("openrouter/openai/gpt-6.1-sol:nitro", "gpt-6.1-sol"),
    ],
)
def test_an_edition_or_vendor_does_not_change_a_model(model: str, same: str) -> None:
    assert info_of(model) == info_of(same)
    assert info_of(model).known


@for_each(
    ("model", "prefix"),
    [
        ("openrouter/qwen/Qwen3-Coder:free", "qwen3-coder"),
        ("qwen2.5-coder:7b", "qwen2.5-coder"),
        ("/models/llama-3.1-8b-instruct.Q4_K_M.gguf", "llama-3.1"),
        ("deepseek-chat", "deepseek-chat"),
        ("deepseek-r1:8b", "deepseek-r1"),
        ("gpt-oss:20b", "gpt-oss"),
        ("scripted-model", "scripted"),
    ],
)
def test_open_weights_have_their_own_windows(model: str, prefix: str) -> None:
    assert info_of(model) == open_weights()[prefix]


def test_open_weights_have_a_price_only_at_a_known_vendor() -> None:
    anybody, vendor = info_of("kimi-k3"), info_of("kimi-k3", provider="moonshot")

    assert anybody.context_window == vendor.context_window
    assert (anybody.input_price, vendor.input_price) == (None, 3.0)
    assert info_of("deepseek-chat").retires_on == ""
    assert info_of("deepseek-chat", provider="deepseek").retires_on == "2026-07-24"


def test_settings_that_each_claude_takes_are_known() -> None:
    newest, older, before = map(
        info_of, ("claude-opus-5-5", "claude-sonnet-4-6", "claude-haiku-4-5")
    )

    assert (newest.thinking, newest.takes_temperature) == (("adaptive",), False)
    assert newest.efforts == ("low", "medium", "high", "xhigh", "max")
    assert newest.later_system
    assert older.thinking == ("adaptive", "enabled", "disabled")
    assert older.efforts == ("low", "medium", "high", "max")
    assert not older.later_system
    assert (before.thinking, before.efforts) == (("enabled", "disabled"), ())
    assert "enabled" not in info_of("claude-opus-4-7").thinking
    assert all(info_of(name).sees_pdf for name in names_of("anthropic", TODAY))


def test_settings_that_models_of_openai_take_are_known() -> None:
    newest, older, plain = map(info_of, ("gpt-6.1-sol", "gpt-5", "gpt-4.1"))

    assert newest.apis == ("responses",)
    assert (newest.cache_marks, newest.takes_temperature) == (True, False)
    assert "none" not in newest.efforts
    assert older.apis == ("responses", "chat")
    assert older.efforts == ("minimal", "low", "medium", "high")
    assert (plain.efforts, plain.takes_temperature) == ((), True)
    assert info_of("gpt-5.4-mini").apis == ("responses",)
    assert info_of("gpt-5.2").apis == ("responses", "chat")
    assert info_of("gpt-5-pro").apis == ("responses",)
    assert info_of("gpt-5-pro").efforts == ("high",)


@for_each("row", [row for row in PROVIDERS if row.default_model])
def test_the_default_models_are_known_with_prices(row: ProviderRow) -> None:
    info = info_of(row.default_model, provider=row.name)

    assert info.known
    assert info.input_price is not None
    assert not is_retired(info, TODAY)


def test_every_row_of_the_table_makes_sense() -> None:
    for vendor, rows in models._table().items():
        for name in rows:
            info = info_of(name, provider=vendor)
            assert info.known, name
            assert 0 < info.max_output_tokens <= info.context_window, name
            assert set(info.efforts) <= set(EFFORTS), name
            assert info.default_effort is None or info.default_effort in info.efforts, name
            is_retired(info, TODAY)


def test_models_are_offered_newest_first_and_without_the_retired() -> None:
    names = names_of("anthropic", TODAY)

    assert names.index("claude-sonnet-5-5") < names.index("claude-sonnet-5")
    assert "gpt-5-codex" not in names_of("openai", TODAY)
    assert "claude-sonnet-4-5" in names
    assert "claude-sonnet-4-5" not in names_of("anthropic", date(2026, 11, 30))
    assert names_of("nobody", TODAY) == []


# ── families ─────────────────────────────────────────────────────────────────────────────────


@for_each(
    ("model", "newest"),
    [
        ("claude-opus-5-7", "claude-opus-5-5"),
        ("claude-opus-5-7-20270101", "claude-opus-5-5"),
        ("claude-sonnet-6", "claude-sonnet-5-5"),
        ("claude-fable-5-2", "claude-fable-5-1"),
        ("anthropic/claude-haiku-6.5", "claude-haiku-5-5"),
        ("gpt-6.3-sol", "gpt-6.1-sol"),
        ("gpt-6.2-astra", "gpt-6-astra"),
        ("gpt-7-luna", "gpt-6-luna"),
        ("gpt-5.9", "gpt-5.6"),
        ("gpt-5.6-sol-fast", "gpt-5.6-sol"),
        ("gemini-3.7-pro", "gemini-3.1-pro-preview"),
        ("gemini-3.9-flash", "gemini-3.8-flash"),
        ("grok-5", "grok-4.7"),
        ("deepseek-v5-pro", "deepseek-v4-pro"),
        ("kimi-k4", "kimi-k3"),
    ],
)
def test_an_unknown_model_of_a_family_resembles_its_newest(model: str, newest: str) -> None:
    info, row = info_of(model), info_of(newest)

    for field in ("context_window", "max_output_tokens", "efforts", "thinking", "sees_images"):
        assert getattr(info, field) == getattr(row, field), field
    assert info.default_effort == row.default_effort
    assert prices_of(info) == (None, None, None, None)
    assert (info.known, info.retires_on, info.successor) == (False, "", "")


@for_each("model", ["o35", "llamafile", "my-own-model", "", "glm-4-9b", "kimi-k1", "gpt-neo-2.7b"])
def test_an_unknown_family_gets_a_cautious_window_and_no_price(model: str) -> None:
    info = info_of(model)

    assert info == UNKNOWN
    assert not info.known
    assert cost_usd(info, Usage(input_tokens=1000)) is None


@given(
    st.one_of(
        st.text(),
        st.text(alphabet="gptclaudeo-.:@/#0123456789v"),
        st.lists(
            st.sampled_from(["claude", "gpt", "opus", "5", "5.5", "-", ":", "@", "20250101", "v"])
        ).map("-".join),
    ),
    st.sampled_from(["", "openai", "anthropic", "groq", "nobody"]),
)
def test_any_name_has_an_answer(model: str, provider: str) -> None:
    info = info_of(model, provider=provider)

    assert 0 < info.max_output_tokens <= info.context_window
    assert info.known or info.input_price is None


# ── prices ───────────────────────────────────────────────────────────────────────────────────


def test_cached_and_written_tokens_have_their_own_prices() -> None:
    usage = Usage(
        input_tokens=1_000_000,
        cached_tokens=600_000,
        cache_write_tokens=300_000,
        hour_write_tokens=100_000,
        output_tokens=100_000,
    )

    cost = cost_usd(info_of("claude-opus-4-5"), usage)

    written = 0.2 * 6.25 + 0.1 * 10.00
    assert cost == pytest.approx(0.1 * 5.00 + 0.6 * 0.50 + written + 0.1 * 25.00)


def test_an_unknown_cache_price_is_the_price_of_input() -> None:
    usage = Usage(input_tokens=1_000_000, cached_tokens=1_000_000)

    assert cost_usd(info_of("gpt-4-turbo"), usage) == pytest.approx(10.00)


def test_old_sessions_of_retired_models_keep_their_cost() -> None:
    usage = Usage(input_tokens=1_000_000)

    assert cost_usd(info_of("claude-3-7-sonnet-20250219"), usage) == pytest.approx(3.00)
    assert cost_usd(info_of("claude-opus-4-20250514"), usage) == pytest.approx(15.00)


@for_each(
    ("provider", "base_url", "is_known"),
    [
        ("openai", None, True),
        ("openai", "https://api.openai.com/v1", True),
        ("azure", "https://me.openai.azure.com/openai/v1", True),
        ("openai", "http://127.0.0.1:9000/v1", False),
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


# ── the user's figures, and the server's ─────────────────────────────────────────────────────


def test_the_users_figures_win() -> None:
    overrides = {
        "my-own": {"context_window": 9_000, "input_price": 1, "output_price": 2},
        "my-own-model-2": {"context_window": 10_000, "max_output_tokens": 7_000},
    }

    info = info_of("My-Own-Model", overrides)

    assert (info.context_window, info.max_output_tokens, info.known) == (9_000, 4_096, True)
    assert cost_usd(info, Usage(input_tokens=1_000_000)) == 1.0
    longer = info_of("my-own-model-2", overrides)
    assert (longer.context_window, longer.max_output_tokens, longer.input_price) == (
        10_000,
        7_000,
        1,
    )


def test_a_smaller_window_leaves_room_for_the_request() -> None:
    info = info_of("claude-sonnet-5-5", {"claude-sonnet-5-5": {"context_window": 10_000}})

    assert (info.max_output_tokens, info.input_price) == (5_000, 2.00)


def test_the_server_beats_the_table_and_loses_to_users() -> None:
    info = info_of("claude-opus-5-5", {"claude-opus-5-5": {"sees_pdf": False}})
    facts = {"context_window": 50_000, "efforts": ("low", "high"), "sees_pdf": True}

    told = refine_info(info, facts, "claude-opus-5-5", {"sees_pdf"})

    assert (told.context_window, told.max_output_tokens) == (50_000, 25_000)
    assert (told.efforts, told.default_effort) == (("low", "high"), "high")
    assert told.sees_pdf is False
    assert told.input_price == info.input_price
    assert refine_info(info, {}, "claude-opus-5-5") == info


def test_a_window_from_the_server_makes_a_model_known() -> None:
    told = refine_info(UNKNOWN, {"context_window": 8_192, "max_output_tokens": 9_000}, "m")

    assert (told.context_window, told.max_output_tokens, told.known) == (8_192, 8_192, True)
    assert not refine_info(UNKNOWN, {"sees_images": True}, "m").known


@for_each(
    ("model", "effort"),
    [
        ("claude-opus-5-5", "xhigh"),
        ("claude-opus-4-5", "high"),
        ("claude-haiku-4-5", None),
        ("gpt-6.1-sol", "high"),
        ("openai/gpt-5.4-mini", "medium"),
        ("gpt-6-luna", "medium"),
        ("gpt-4.1", None),
        ("gemini-3.8-flash", None),
        ("kimi-k3", None),
    ],
)
def test_the_effort_is_what_the_vendor_recommends_for_coding(
    model: str, effort: str | None
) -> None:
    info = info_of(model)

    assert info.default_effort == effort
    assert recommended_effort(model, info.efforts) == effort


# ── retirement ───────────────────────────────────────────────────────────────────────────────


def test_a_retired_model_names_its_date_and_its_successor() -> None:
    info = info_of("gpt-5-pro")

    assert (info.retires_on, info.successor) == ("2026-12-11", "gpt-5.6-sol")
    assert retirement_note(info, "gpt-5-pro", date(2026, 12, 10)) is None
    note = retirement_note(info, "gpt-5-pro", date(2026, 12, 11))
    assert note is not None
    assert note.startswith("gpt-5-pro ")
    assert "2026-12-11" in note
    assert "gpt-5.6-sol" in note


def test_a_model_without_a_date_is_not_retired() -> None:
    assert retirement_note(info_of("my-own"), "my-own", TODAY) is None


def test_a_retired_model_without_a_successor_names_the_setting() -> None:
    note = retirement_note(info_of("claude-3-opus-20240229"), "claude-3-opus-20240229", TODAY)

    assert note is not None
    assert "--model" in note


def test_a_date_holds_only_for_its_vendor() -> None:
    for provider, retires_on in (("", "2026-11-30"), ("anthropic", "2026-11-30"), ("bedrock", "")):
        info = info_of("anthropic.claude-sonnet-4-5-20250929-v1:0", provider=provider)
        assert info.retires_on == retires_on
        assert info.input_price == 3.0
