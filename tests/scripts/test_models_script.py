"""The script that makes the table of models: what it keeps, and that it is reproducible."""

import json
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from kode.providers import models as known
from scripts import models as script
from tests.tables import for_each

TODAY = date(2026, 11, 24)


def row(vendor: str, **fields: Any) -> dict[str, Any]:
    return {
        "litellm_provider": vendor,
        "mode": "chat",
        "max_input_tokens": 100_000,
        "max_output_tokens": 10_000,
        "supports_function_calling": True,
        **fields,
    }


def only(name: str, one: dict[str, Any]) -> dict[str, Any]:
    (fields,) = script.rows({name: one}).values()
    return fields


SAMPLE = {
    "sample_spec": {"litellm_provider": "one of", "mode": "one of"},
    "gpt-9": row("openai", input_cost_per_token=2e-06, output_cost_per_token=1e-05),
    "together_ai/Maker/Model-1": row("together_ai"),
}


def test_the_same_source_gives_the_same_bytes(tmp_path: Path) -> None:
    source, first, second = (tmp_path / name for name in ("in.json", "1.json", "2.json"))
    source.write_text(json.dumps(SAMPLE))
    command = (sys.executable, "-m", "scripts.models", "--version", "1.2.3", "--from", str(source))
    for target in (first, second):
        subprocess.run((*command, "--to", str(target)), check=True, capture_output=True)

    assert first.read_bytes() == second.read_bytes()
    data = json.loads(first.read_bytes())
    assert list(data["models"]) == ["openai/gpt-9", "together/maker/model-1"]
    assert "1.2.3" in data["source"]
    assert date.fromisoformat(data["made_on"])


def test_a_model_is_one_line() -> None:
    text = script.table(SAMPLE, "1.2.3", TODAY)

    assert sum('"context_window"' in line for line in text.splitlines()) == 2
    assert text.count('"context_window"') == 2
    assert json.loads(text)["made_on"] == "2026-11-24"


def test_the_table_that_is_shipped_is_of_this_form() -> None:
    text = script.TARGET.read_text()
    data = json.loads(text)

    assert len(text) < 150_000
    assert sum('"context_window"' in line for line in text.splitlines()) == len(data["models"])
    assert list(data["models"]) == sorted(data["models"])
    assert {name.partition("/")[0] for name in data["models"]} <= set(script.VENDORS.values())
    assert set(script.CORRECTIONS) <= set(data["models"])


@for_each(
    ("name", "one"),
    [
        ("dall-e", row("openai", mode="image_generation")),
        ("gpt-9-audio", row("openai")),
        ("ft:gpt-9", row("openai")),
        ("gpt-9", row("openai", supports_function_calling=False)),
        ("gpt-9", row("openai", max_input_tokens=None)),
        ("gpt-9", row("somebody")),
    ],
)
def test_models_of_other_kinds_or_vendors_are_left_out(name: str, one: dict[str, Any]) -> None:
    assert script.rows({name: one}) == {}


def test_prices_are_per_million_tokens() -> None:
    fields = only(
        "claude-9",
        row(
            "anthropic",
            input_cost_per_token=3e-06,
            input_cost_per_token_above_200k_tokens=6e-06,
            output_cost_per_token=1.5e-05,
            cache_read_input_token_cost=3e-07,
            cache_creation_input_token_cost=3.75e-06,
        ),
    )

    assert [fields[name] for name in known._PRICES] == [3.0, 15.0, 0.3, 3.75]
    assert "input_price" not in only("gpt-9", row("openai", input_cost_per_token=1e-06))


def test_a_whole_window_is_no_limit_of_input() -> None:
    fields = only("gpt-9", row("openai", max_input_tokens=400_000, max_output_tokens=128_000))

    assert (fields["context_window"], fields["max_output_tokens"]) == (272_000, 128_000)


def test_a_window_repeated_as_the_limit_of_output_is_none() -> None:
    one = row("xai", max_input_tokens=1_000_000, max_output_tokens=1_000_000)
    small = row("xai", max_input_tokens=100_000, max_output_tokens=100_000)

    assert only("xai/grok-9", one)["max_output_tokens"] == 128_000
    assert only("xai/grok-9", small)["max_output_tokens"] == 25_000


@pytest.mark.parametrize(
    ("said", "thinking"),
    [
        ({}, None),
        ({"supports_reasoning": True}, ["enabled", "disabled"]),
        (
            {
                "supports_reasoning": True,
                "supports_adaptive_thinking": True,
                "supports_legacy_thinking": True,
            },
            ["adaptive", "enabled", "disabled"],
        ),
        (
            {"supports_reasoning": True, "supports_adaptive_thinking": True},
            ["adaptive", "disabled"],
        ),
        (
            {
                "supports_reasoning": True,
                "supports_adaptive_thinking": True,
                "thinking_always_on": True,
            },
            ["adaptive"],
        ),
    ],
)
def test_the_ways_of_thinking_follow_from_what_the_source_says(
    said: dict[str, Any], thinking: list[str] | None
) -> None:
    assert only("claude-9", row("anthropic", **said)).get("thinking") == thinking
    assert "thinking" not in only("gpt-9", row("openai", **said))


@for_each(
    ("vendor", "name", "said", "efforts"),
    [
        ("openai", "gpt-9", {"supports_reasoning": True}, ["low", "medium", "high"]),
        (
            "openai",
            "gpt-9",
            {
                "supports_reasoning": True,
                "supports_none_reasoning_effort": True,
                "supports_minimal_reasoning_effort": False,
                "supports_low_reasoning_effort": False,
                "supports_xhigh_reasoning_effort": True,
            },
            ["none", "medium", "high", "xhigh"],
        ),
        ("openai", "gpt-9-chat-latest", {"supports_reasoning": True}, None),
        ("openai", "gpt-9", {}, None),
        ("anthropic", "claude-9", {"supports_reasoning": True}, None),
        (
            "anthropic",
            "claude-9",
            {"supports_reasoning": True, "supports_output_config": True},
            ["low", "medium", "high"],
        ),
        ("xai", "xai/grok-9", {"supports_reasoning": True}, None),
        (
            "moonshot",
            "moonshot/kimi-k9",
            {"reasoning_effort_levels": ["max", "low"]},
            ["low", "max"],
        ),
    ],
)
def test_levels_of_effort_are_those_that_the_vendor_takes(
    vendor: str, name: str, said: dict[str, Any], efforts: list[str] | None
) -> None:
    assert only(name, row(vendor, **said)).get("efforts") == efforts


@for_each(
    ("name", "said", "apis"),
    [
        ("gpt-5.3", {"supports_reasoning": True}, ["responses", "chat"]),
        ("gpt-5.4", {"supports_reasoning": True}, ["responses"]),
        ("gpt-10", {"supports_reasoning": True}, ["responses"]),
        ("o3", {"supports_reasoning": True}, ["responses", "chat"]),
        ("new-latest", {"supports_reasoning": True}, ["responses"]),
        ("gpt-5.4", {}, ["responses", "chat"]),
        ("gpt-5", {"mode": "responses"}, ["responses"]),
        ("gpt-5", {"supported_endpoints": ["/v1/responses"]}, ["responses"]),
        ("gpt-4", {"supported_endpoints": None}, None),
    ],
)
def test_formats_are_those_that_take_tools(
    name: str, said: dict[str, Any], apis: list[str] | None
) -> None:
    both = {"supported_endpoints": ["/v1/chat/completions", "/v1/responses"]}

    assert only(name, row("openai", **{**both, **said})).get("apis") == apis


def test_a_missing_field_means_no_in_complete_sources() -> None:
    assert only("gpt-9", row("openai"))["sees_images"] is False
    assert "sees_images" not in only("together_ai/m", row("together_ai"))


def test_an_edition_is_kept_only_where_it_differs() -> None:
    price = {"input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06}
    dearer = {"input_cost_per_token": 3e-06, "output_cost_per_token": 4e-06}
    rows = script.rows(
        {
            "gpt-9": row("openai", **price),
            "gpt-9-2027-01-01": row("openai", **dearer),
            "gpt-9-2027-02-02": row("openai", **price, supports_vision=True),
        }
    )

    assert list(rows) == ["openai/gpt-9", "openai/gpt-9-2027-01-01"]
    assert rows["openai/gpt-9"]["sees_images"] is True
    assert rows["openai/gpt-9-2027-01-01"]["sees_images"] is False
