"""Windows and prices."""

import pytest

from kode.errors import ConfigError
from kode.messages import Usage
from kode.providers.models import MODELS, UNKNOWN, cost_usd, info_of
from kode.registry import PROVIDERS


@pytest.mark.parametrize(
    ("model", "prefix"),
    [
        ("gpt-5-mini", "gpt-5-mini"),
        ("gpt-5-mini-2025-08-07", "gpt-5-mini"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4"),
        ("claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("anthropic/claude-sonnet-5-5", "claude-sonnet-5-5"),
        ("openrouter/qwen/Qwen3-Coder:free", "qwen3-coder"),
        ("qwen2.5-coder:7b", "qwen2.5-coder"),
        ("/models/llama-3.1-8b-instruct.Q4_K_M.gguf", "llama-3.1"),
        ("models/gemini-2.5-pro", "gemini-2.5"),
        ("deepseek-chat", "deepseek-chat"),
        ("scripted-model", "scripted"),
    ],
)
def test_the_longest_prefix_that_ends_at_a_border_serves(model: str, prefix: str) -> None:
    assert info_of(model) == MODELS[prefix]


@pytest.mark.parametrize("model", ["gpt-5.9", "o35", "llamafile", "my-own-model", ""])
def test_an_unknown_model_gets_a_cautious_window_and_no_price(model: str) -> None:
    info = info_of(model)

    assert info == UNKNOWN
    assert not info.known
    assert cost_usd(info, Usage(input_tokens=1000)) is None


@pytest.mark.parametrize("model", [row.default_model for row in PROVIDERS])
def test_the_default_models_are_known_with_prices(model: str) -> None:
    info = info_of(model)

    assert info.known
    assert info.input_price is not None


def test_no_model_promises_more_output_than_its_window() -> None:
    assert all(info.max_output_tokens <= info.context_window for info in MODELS.values())


def test_cached_and_written_tokens_have_their_own_prices() -> None:
    usage = Usage(
        input_tokens=1_000_000,
        cached_tokens=600_000,
        cache_write_tokens=300_000,
        output_tokens=100_000,
    )

    cost = cost_usd(info_of("claude-opus-4-5"), usage)

    assert cost == pytest.approx(0.1 * 5.00 + 0.6 * 0.50 + 0.3 * 6.25 + 0.1 * 25.00)


def test_an_unknown_cache_price_is_the_price_of_input() -> None:
    usage = Usage(input_tokens=1_000_000, cached_tokens=1_000_000)

    assert cost_usd(info_of("gpt-4-turbo"), usage) == pytest.approx(10.00)


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


@pytest.mark.parametrize(
    "override",
    [{"window": 5}, {"context_window": 0}, {"context_window": "big"}, {"input_price": -1}],
)
def test_a_bad_figure_names_the_key(override: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(override))):
        info_of("m", {"m": override})
