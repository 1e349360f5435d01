"""Makes `kode/providers/models.json`, what kode knows about the models of vendors.

    make models                                          from the newest litellm on PyPI
    python -m scripts.models --from FILE --version 1.2.3  from its file, unpacked before

The source is `model_prices_and_context_window_backup.json` in the package `litellm` (MIT), whose
maintainers collect it from the vendors' own pages. Only what kode uses is kept: chat models that
call tools, of vendors that kode knows by name, with the fields of `kode.provider.ModelInfo`; a
field that has its default is left out. The same source gives the same bytes on the same day.

What the source has wrong stands in `CORRECTIONS`, each with where it is from. Open weights
that anybody may host are in `kode/providers/more_models.json`.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from kode.provider import EFFORTS

TARGET = Path(__file__).parent.parent / "kode" / "providers" / "models.json"
SOURCE = "model_prices_and_context_window_backup.json"

VENDORS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "deepseek": "deepseek",
    "mistral": "mistral",
    "xai": "xai",
    "groq": "groq",
    "together_ai": "together",
    "fireworks_ai": "fireworks",
    "cerebras": "cerebras",
    "moonshot": "moonshot",
    "zai": "zai",
}
"""The source's name of a vendor → kode's. Azure, Bedrock and Vertex sell the models of others; of
OpenRouter the source has nothing, and its server says all of it."""

COMPLETE = frozenset("openai anthropic gemini deepseek mistral xai moonshot zai".split())
"""Vendors whose rows name every kind of input; of the others a missing field is unknown."""
READS_PDF = frozenset(("openai", "anthropic", "gemini"))
"""Vendors whose servers take a PDF at all."""

LEFT_OUT = re.compile(
    r"audio|search|research|realtime|tts|robotics|omni|computer-use|guard|voxtral|learnlm|lyria"
    r"|gemma|exp-|-exp|experimental|-beta|-fim|/routers/|^ft:|^together-ai-"
)
"""Other kinds of model, and experiments."""

WHOLE_WINDOWS = {400_000: 272_000, 1_050_000: 922_000}
"""OpenAI's rows give the most input, but some the whole window: input and 128,000 of output."""
MOST_OUTPUT = 128_000
"""The limit of a reply where the source repeats the window as the limit, because the vendor states
none: a longer one is a model that repeats itself."""

CORRECTIONS: Mapping[str, Mapping[str, Any]] = {
    # The reference of `reasoning.effort`: "defaults to (and only supports) high".
    "openai/gpt-5-pro": {"efforts": ["high"]},
    # Their pages in the list of models: medium, high, xhigh.
    "openai/gpt-5.2-pro": {"efforts": ["medium", "high", "xhigh"]},
    "openai/gpt-5.4-pro": {"efforts": ["medium", "high", "xhigh"]},
    # Their server refuses a picture; deepseek-v4.1-flash, whose row the source repeats, sees.
    "deepseek/deepseek-v4-flash": {"sees_images": False},
}

EDITION = re.compile(r"-(20\d\d-?\d\d-?\d\d|\d{4}|latest)$")
"""The end of a name that names one edition of a model; `kode.providers.models` looks for the name
without it too."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Updates the table of models.")
    parser.add_argument("--from", dest="file", type=Path, metavar="FILE")
    parser.add_argument("--version", default="", help="of litellm, with --from")
    parser.add_argument("--to", type=Path, default=TARGET, metavar="FILE")
    arguments = parser.parse_args()
    if arguments.file is None:
        version, source = newest()
    else:
        version, source = arguments.version or "of unknown version", arguments.file.read_bytes()
    text = table(json.loads(source), version, date.today())
    arguments.to.write_text(text, encoding="utf-8")
    size = f"{text.count(chr(10))} lines, {len(text):,} characters"
    print(f"{arguments.to}: litellm {version}, {size}")


def newest() -> tuple[str, bytes]:
    """The version of litellm that pip finds, and its file."""
    with tempfile.TemporaryDirectory() as folder:
        pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder)
        subprocess.run((*pip, "--only-binary=:all:", "litellm"), check=True)
        (wheel,) = Path(folder).glob("litellm-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            return wheel.name.split("-")[1], archive.read(f"litellm/{SOURCE}")


def table(source: Mapping[str, Mapping[str, Any]], version: str, made_on: date) -> str:
    """The content of the data file: JSON with one line per model."""
    models = rows(source)
    for name, corrected in CORRECTIONS.items():
        if name in models:
            models[name] = {**models[name], **corrected}
    head = {"source": f"{SOURCE} of litellm {version} (PyPI)", "made_on": made_on.isoformat()}
    lines = [f"{_json(key)}: {_json(value)}" for key, value in head.items()]
    named = [f"{_json(name)}:{_json(models[name])}" for name in sorted(models)]
    lines.append('"models": {\n' + ",\n".join(named) + "\n}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def rows(source: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """`VENDOR/NAME` in lower case → the fields of its `ModelInfo`."""
    given: dict[str, Mapping[str, Any]] = {}
    for name, row in source.items():
        vendor = VENDORS.get(row.get("litellm_provider", ""))
        if vendor is None or not _is_usable(name, row):
            continue
        given.setdefault(f"{vendor}/{_own_name(name)}", row)
    alias_of = {name: EDITION.sub("", name) for name in given}
    dated = sorted(name for name in given if alias_of[name] != name and name[-1].isdigit())
    newest_of = {alias_of[name]: name for name in dated}
    # An alias may lack what the row of its newest edition says.
    made = {
        name: dict(fields_of(name, {**given[newest_of.get(name, name)], **row}))
        for name, row in given.items()
    }
    return {
        name: fields
        for name, fields in made.items()
        if (alias := alias_of[name]) == name
        or alias not in made
        or not (
            fields == made[alias]
            or (newest_of.get(alias) == name and _cost_the_same(fields, made[alias]))
        )
    }


def _cost_the_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one.get(key) == other.get(key) for key in ("input_price", "output_price"))


def _is_usable(name: str, row: Mapping[str, Any]) -> bool:
    return bool(
        row.get("mode") in ("chat", "responses")
        and row.get("supports_function_calling")
        and row.get("max_input_tokens")
        and not LEFT_OUT.search(name)
    )


def _own_name(name: str) -> str:
    """The name as requests to the vendor have it, in lower case."""
    if name.partition("/")[0] in VENDORS:
        name = name.partition("/")[2]
    return name.removeprefix("accounts/fireworks/models/").lower()


def fields_of(name: str, row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields of a row that differ from `ModelInfo`'s defaults."""
    vendor = name.partition("/")[0]
    window = row["max_input_tokens"]
    window = WHOLE_WINDOWS.get(window, window) if vendor == "openai" else window
    output = row.get("max_output_tokens") or window
    yield "context_window", window
    yield "max_output_tokens", output if output < window else min(MOST_OUTPUT, window // 4)
    yield from _prices(row)
    for field, key in (("sees_images", "supports_vision"), ("sees_pdf", "supports_pdf_input")):
        said = row.get(key)
        if said is None and vendor in (COMPLETE if field == "sees_images" else READS_PDF):
            said = False
        if said is not None:
            yield field, said
    if efforts := _efforts(vendor, name, row):
        yield "efforts", efforts
    if thinking := _thinking(vendor, row):
        yield "thinking", thinking
    if row.get("supports_prompt_cache_breakpoint"):
        yield "cache_marks", True
    if apis := _apis(vendor, name, row):
        yield "apis", apis
    if row.get("supports_web_search"):
        yield "searches", True


def _prices(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Dollars per million tokens, of the shortest prompts and the standard tier."""
    if "input_cost_per_token" not in row or "output_cost_per_token" not in row:
        return
    for field, key in (
        ("input_price", "input_cost_per_token"),
        ("output_price", "output_cost_per_token"),
        ("cached_price", "cache_read_input_token_cost"),
        ("cache_write_price", "cache_creation_input_token_cost"),
    ):
        # Some rows say 0 for writing, where reading costs: what is written costs as other input.
        if (price := row.get(key)) is not None and (price or field != "cache_write_price"):
            yield field, round(price * 1_000_000, 6)


def _efforts(vendor: str, name: str, row: Mapping[str, Any]) -> list[str]:
    """The levels that requests may name, least first; none where the source does not say that the
    vendor's server takes any."""
    if levels := row.get("reasoning_effort_levels"):
        return [level for level in EFFORTS if level in levels]
    # Anthropic's `output_config` holds the effort; a model without it thinks by a budget.
    has_setting = (
        row.get("supports_output_config") if vendor == "anthropic" else "-chat" not in name
    )
    if vendor not in ("openai", "anthropic", "gemini") or not has_setting:
        return []
    if not row.get("supports_reasoning"):
        return []
    usual = {"low": True, "medium": True, "high": True}
    said = {level: row.get(f"supports_{level}_reasoning_effort") for level in EFFORTS}
    return [
        level for level in EFFORTS if (said[level] if said[level] is not None else level in usual)
    ]


def _thinking(vendor: str, row: Mapping[str, Any]) -> list[str]:
    """`thinking.type` that the Messages API takes. Before 4.6 models think by a budget, 4.6 both
    ways, later ones as they see fit."""
    if vendor != "anthropic" or not row.get("supports_reasoning"):
        return []
    if not row.get("supports_adaptive_thinking"):
        return ["enabled", "disabled"]
    both = ["adaptive", "enabled"] if row.get("supports_legacy_thinking") else ["adaptive"]
    return both if row.get("thinking_always_on") else [*both, "disabled"]


def _apis(vendor: str, name: str, row: Mapping[str, Any]) -> list[str]:
    """OpenAI refuses function tools with reasoning in Chat Completions from gpt-5.4 on."""
    endpoints = row.get("supported_endpoints") or ()
    if row["mode"] == "responses" or (endpoints and "/v1/chat/completions" not in endpoints):
        return ["responses"]
    if vendor != "openai":
        return []
    version = re.match(r"openai/(?:gpt-(\d+(?:\.\d+)?)|o\d)", name)
    is_older = version is not None and float(version[1] or 0) < 5.4
    if row.get("supports_reasoning") and not is_older:
        return ["responses"]
    return ["responses", "chat"] if "/v1/responses" in endpoints else []


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


if __name__ == "__main__":
    main()
