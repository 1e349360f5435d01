"""What a server says of a model, in its list of models or about the one → fields of `ModelInfo`.

    Anthropic    GET /v1/models/ID: limits, lifecycle, capabilities; complete
    OpenRouter   limits, prices, modalities, supported parameters, levels of reasoning
    others       the window, under a name of their own; some say whether the model sees images

Pure functions over what came; a value that makes no sense is left out.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any, get_args

from kode.provider import EFFORTS, ThinkingType

Facts = dict[str, Any]
"""Fields of `ModelInfo` with their values."""

_WINDOWS = ("max_model_len", "context_length", "context_window", "max_context_length")
"""Keys for the window in lists: of vLLM; Together, Fireworks, Moonshot; Groq; Mistral."""
_LOADED = ("loaded_context_length", "context_length")
"""LM Studio's; its `max_context_length` is what a model could have if it were loaded so."""
_SEES = ("supports_image_in", "supports_image_input")

_PRICES = {
    "prompt": "input_price",
    "completion": "output_price",
    "input_cache_read": "cached_price",
    "input_cache_write": "cache_write_price",
}
"""OpenRouter's names, each in dollars per token as text."""

_ROUTED = tuple(level for level in EFFORTS if level != "max")
"""The levels that OpenRouter takes for a model without a list of its own."""


def entry_of(answer: Any, model: str) -> Mapping[str, Any] | None:
    """The entry in a list of models: the one with this name, or the only one."""
    listed = [item for item in items(at(answer, "data")) if isinstance(item, Mapping)]
    plain = model.partition(":")[0]  # OpenRouter's `:nitro` and `:floor` are in no list
    for name in dict.fromkeys((model, plain)):
        for one in listed:
            if name in (one.get("id"), *items(one.get("aliases"))):
                return one
    return listed[0] if len(listed) == 1 else None


def is_complete(entry: Mapping[str, Any]) -> bool:
    """Whether an entry is about what this server offers, even of a model that others made."""
    return _is_of_openrouter(entry) or _is_of_anthropic(entry)


def facts_in(entry: Mapping[str, Any], today: date) -> Facts:
    """What an entry says of its model."""
    if _is_of_anthropic(entry):
        return sound(_of_anthropic(entry, today))
    if _is_of_openrouter(entry):
        return sound(_of_openrouter(entry))
    return sound(_of_others(entry))


def _is_of_anthropic(entry: Mapping[str, Any]) -> bool:
    return entry.get("type") == "model" and ("capabilities" in entry or "lifecycle" in entry)


def _is_of_openrouter(entry: Mapping[str, Any]) -> bool:
    return isinstance(entry.get("architecture"), Mapping) and "supported_parameters" in entry


def _of_anthropic(entry: Mapping[str, Any], today: date) -> Facts:
    facts: Facts = {
        "context_window": entry.get("max_input_tokens"),
        "max_output_tokens": entry.get("max_tokens"),
    }
    capabilities = entry.get("capabilities")
    for field, key in (
        ("sees_images", "image_input"),
        ("sees_pdf", "pdf_input"),
        ("answers_by_schema", "structured_outputs"),
    ):
        facts[field] = at(capabilities, key, "supported")
    facts["searches"] = at(capabilities, "server_tools", "web_search", "supported")
    facts["efforts"] = _supported(at(capabilities, "effort"), EFFORTS, lambda effort: effort)
    types = get_args(ThinkingType)
    facts["thinking"] = _supported(
        at(capabilities, "thinking"), types, lambda way: way.get("types")
    )
    if entry.get("lifecycle") in ("active", "deprecated", "retired"):
        facts["retires_on"] = _retirement(entry, today)
    return facts


def _supported(
    given: Any, names: Iterable[str], inside: Callable[[Mapping[str, Any]], Any]
) -> tuple[str, ...] | None:
    """The names that a capability supports; () if it is not supported, None if it does not say."""
    if not isinstance(given, Mapping) or not isinstance(given.get("supported"), bool):
        return None
    if not given["supported"]:
        return ()
    return tuple(name for name in names if at(inside(given), name, "supported") is True)


def _retirement(entry: Mapping[str, Any], today: date) -> str:
    """The date on which the model stops; only `lifecycle` says that it has, whatever the date."""
    said = str(entry.get("retires_at") or "")[:10]
    planned = said if _is_date(said) else ""
    if entry["lifecycle"] == "retired":
        return min(planned or today.isoformat(), today.isoformat())
    is_ahead = entry["lifecycle"] == "deprecated" and planned > today.isoformat()
    return planned if is_ahead else ""


def _of_openrouter(entry: Mapping[str, Any]) -> Facts:
    windows = (entry.get("context_length"), at(entry, "top_provider", "context_length"))
    inputs = items(at(entry, "architecture", "input_modalities"))
    takes = items(entry.get("supported_parameters"))
    facts: Facts = {
        "context_window": min((one for one in map(tokens, windows) if one), default=None),
        "max_output_tokens": at(entry, "top_provider", "max_completion_tokens"),
        "sees_images": "image" in inputs,
        "sees_pdf": "file" in inputs,
        "answers_by_schema": "structured_outputs" in takes,
        "takes_temperature": "temperature" in takes,
        "efforts": _routed_efforts(entry) if "reasoning" in takes else (),
        "retires_on": str(entry.get("expiration_date") or "")[:10],
    }
    for key, field in _PRICES.items():
        per_token = _number(at(entry, "pricing", key))
        facts[field] = None if per_token is None else round(per_token * 1_000_000, 6)
    return facts


def _routed_efforts(entry: Mapping[str, Any]) -> tuple[str, ...]:
    listed = at(entry, "reasoning", "supported_efforts")
    levels = listed if isinstance(listed, list) else _ROUTED
    forced = at(entry, "reasoning", "mandatory") is True
    return tuple(one for one in EFFORTS if one in levels and not (forced and one == "none"))


def _of_others(entry: Mapping[str, Any]) -> Facts:
    is_lm_studio = "state" in entry
    keys = _LOADED if is_lm_studio else _WINDOWS
    values = (at(entry, "meta", "n_ctx"), *(entry.get(key) for key in keys))
    sees = [one for one in map(entry.get, _SEES) if isinstance(one, bool)]
    facts: Facts = {
        "context_window": next((one for one in map(tokens, values) if one), None),
        "max_output_tokens": entry.get("max_completion_tokens"),
        "sees_images": sees[0] if sees else at(entry, "capabilities", "vision"),
    }
    if is_lm_studio and entry.get("type") in ("llm", "vlm"):
        facts["sees_images"] = entry["type"] == "vlm"
    return facts


# ── checking ─────────────────────────────────────────────────────────────────────────────────

_TOKENS = ("context_window", "max_output_tokens")
_SWITCHES = ("sees_images", "sees_pdf", "answers_by_schema", "takes_temperature", "searches")


def sound(facts: Mapping[str, Any]) -> Facts:
    """The facts whose values are possible; lists become tuples."""
    return {key: value for key, given in facts.items() if (value := _sound(key, given)) is not None}


def _sound(key: str, value: Any) -> Any:
    """The value if it is possible for the field; None otherwise."""
    if key in _TOKENS:
        return tokens(value)
    if key in _SWITCHES:
        return value if isinstance(value, bool) else None
    if key in _PRICES.values():
        return _number(value)
    if key == "retires_on":
        return value if value == "" or _is_date(value) else None
    known = {"efforts": EFFORTS, "thinking": get_args(ThinkingType)}.get(key)
    if known is None or not isinstance(value, list | tuple):
        return None
    return tuple(value) if all(one in known for one in value) else None


def tokens(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and value > 0 else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _is_date(value: Any) -> bool:
    try:
        return isinstance(value, str) and date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def at(value: Any, *keys: str) -> Any:
    """What lies under the keys; None where there is no such key."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
