"""What kode knows about models: limits, prices, and what a request may ask of them.

`models.json` has the models of vendors. `make models` generates it from a public source, whose
version and date it records; it is not edited by hand. `more_models.json` is, and adds what that
source lacks: in `open`, by prefix of the name, the windows that open weights, which anybody may
host, were trained for, and whether they see images, if known; also the scripted model, which is
free. `retired` has old Claude models, for the cost of old sessions. What the server says (see
`server.py`) takes precedence over both, and the user's config over everything.

A name matches a row exactly, or without its edition (`gpt-5-2025-08-07`), tag (`:free`) and vendor
(`anthropic/`). An unknown model of a known family gets the row of a relative without its price; one
of no family gets a cautious window.

`context_window` is the most tokens of a request's input. Where a vendor counts output apart, as
OpenAI and Gemini do, kode counts it in all the same, which errs on the safe side. Prices are US
dollars per million tokens at the standard tier and the shortest prompt length: some vendors charge
more above 200,000 or 272,000 tokens.
"""

import functools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from posixpath import commonprefix
from typing import Any

from kode.messages import Usage
from kode.provider import Effort, ModelInfo
from kode.values import replace

UNKNOWN = ModelInfo(context_window=32_768, max_output_tokens=4_096)
"""Small enough for nearly every model of today; a larger one is only compacted too early."""

_CLOSED = ("openai", "anthropic", "gemini", "xai")
"""Vendors whose models nobody else hosts: the name identifies such a model at any provider."""
_MAKERS = ("deepseek", "mistral", "moonshot", "zai")
"""Vendors of open weights: their prices and formats do not apply where others host the models."""

Fields = Mapping[str, Any]

_PRICES = ("input_price", "output_price", "cached_price", "cache_write_price")


def model_info_of(
    model: str,
    overrides: Mapping[str, Fields] | None = None,
    provider: str = "",
    *,
    sold: bool = True,
) -> ModelInfo:
    """What is known about a model.

    `overrides` maps a model name, or a prefix of one, to any of `context_window`,
    `max_output_tokens` (tokens), `input_price`, `output_price`, `cached_price`, `cache_write_price`
    (dollars per million tokens), `sees_images` and `sees_pdf` (true or false). If several prefixes
    match, the longest wins, key by key. A window given there counts as known.

    `provider` is the name of the row in `kode.registry`, since vendors of open weights have prices
    of their own; "" is any. If not `sold`, only the prices in `overrides` apply.
    """
    names = _possible_names(model)
    info = _find_info(names, provider) or _guess_relative(names) or UNKNOWN
    if not sold:
        free: dict[str, Any] = dict.fromkeys(_PRICES)
        info = replace(info, **free)
    fixed = overrides_of(model, overrides)
    if "context_window" in fixed:
        # A smaller window must leave room for the request too.
        half = max(1, fixed["context_window"] // 2)
        fixed.setdefault("max_output_tokens", min(info.max_output_tokens, half))
    info = replace(info, **fixed, known=info.known or "context_window" in fixed)
    return replace(info, default_effort=recommended_effort(model, info.efforts))


def overrides_of(model: str, overrides: Mapping[str, Fields] | None) -> dict[str, Any]:
    """The user's figures for a model."""
    lower = {prefix.lower(): values for prefix, values in (overrides or {}).items()}
    rows = _matching_rows(_possible_names(model), lower)
    return {key: value for _, values in rows for key, value in values.items()}


def refine_info(
    info: ModelInfo, facts: Fields, model: str, fixed: Collection[str] = frozenset()
) -> ModelInfo:
    """The info updated with a server's `facts`, fields of `ModelInfo`, except for the user's own,
    `fixed`. If a window comes without an output limit, output gets at most half of it."""
    news = {key: value for key, value in facts.items() if key not in fixed}
    window = news.get("context_window", info.context_window)
    if "max_output_tokens" in news:
        news["max_output_tokens"] = min(news["max_output_tokens"], window)
    elif "context_window" in news and "max_output_tokens" not in fixed:
        news["max_output_tokens"] = min(info.max_output_tokens, max(1, window // 2))
    if "efforts" in news and "default_effort" not in fixed:
        news["default_effort"] = recommended_effort(model, news["efforts"])
    return replace(info, **news, known=info.known or "context_window" in news)


def recommended_effort(model: str, efforts: Collection[str]) -> Effort | None:
    """What the vendor recommends for coding, if the model has that level: Anthropic `xhigh`, which
    its own agent uses, else `high`; OpenAI `high` for hard coding, and `medium`, its default, for
    the small models. None for others, whose servers choose."""
    for name in _possible_names(model):
        if name.startswith("claude"):
            return "xhigh" if "xhigh" in efforts else "high" if "high" in efforts else None
        if re.match(r"gpt-\d|o\d", name):
            small = re.search(r"-(mini|nano|luna)\b", name)
            effort: Effort = "medium" if small else "high"
            return effort if effort in efforts else None
    return None


def vendor_models(provider: str) -> list[str]:
    """The models that a vendor serves now, newest first; [] for a vendor that the table lacks."""
    names = _table().get(provider, {}).keys() - _read_json("more_models.json")["retired"].keys()
    return sorted(names, key=lambda name: (-_split_name(name)[1], name))


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
        + (usage.cache_write_tokens - usage.hour_write_tokens) * write_price
        + usage.hour_write_tokens * 2 * info.input_price
        + usage.output_tokens * info.output_price
    )
    return dollars_per_million / 1_000_000


@functools.cache
def _read_json(name: str) -> Mapping[str, Any]:
    data: Mapping[str, Any] = json.loads(Path(__file__).with_name(name).read_bytes())
    return data


@functools.cache
def _table() -> Mapping[str, Mapping[str, Fields]]:
    """Vendor → name → fields."""
    table = {"anthropic": dict(_read_json("more_models.json")["retired"])}
    for name, fields in _read_json("models.json")["models"].items():
        vendor, _, model = name.partition("/")
        table.setdefault(vendor, {})[model] = fields
    return table


@functools.cache
def _read_rows(vendors: tuple[str, ...]) -> Mapping[str, Fields]:
    """Name → fields of these vendors' models; for the makers of open weights, without the fields
    that hold only for the maker's own server."""
    left_out = {*_PRICES, "apis", "searches"} if vendors == _MAKERS else ()
    return {
        name: {key: value for key, value in fields.items() if key not in left_out}
        for vendor in vendors
        for name, fields in _table().get(vendor, {}).items()
    }


def _make_info(fields: Fields, known: bool = True) -> ModelInfo:
    lists = {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
    return ModelInfo(**{**fields, **lists}, known=known)


_EDITION = re.compile(r"(?::[\w.-]+|@[\w.-]+|-v\d+|-(?:20\d\d-?\d\d-?\d\d|\d{4}|latest))$")
"""The ending of a model's name that denotes one edition or variant of the model."""
_MAX_EDITIONS = 4  # dates and sizes at the end of a name
_VERSION = re.compile(r"(?<!\d)\d{1,3}(?:[.-]\d{1,2})?(?![\da-z])")
_CLAUDE = re.compile(r"(?:^|\.)(claude[\w.:@-]*)$")
"""As Bedrock names it: `us.anthropic.claude-opus-5-5`."""


def _possible_names(model: str) -> tuple[str, ...]:
    """The name as given, and without prefixes: `openrouter/qwen/qwen3-coder`,
    `models/gemini-2.5-pro`, a path to a file of weights. Claude's also with dashes in the version,
    which others write with a dot."""
    name = model.strip().lower()
    last = name.rsplit("/", 1)[-1]
    claude = _CLAUDE.search(last)
    dashed = (re.sub(r"(?<=\d)\.(?=\d)", "-", claude[1]),) if claude else ()
    return tuple(dict.fromkeys((name, last, *dashed)))


def _shorten(name: str) -> Iterator[str]:
    """Yields the name, then the name with one more ending removed each time."""
    yield name
    for _ in range(_MAX_EDITIONS):
        match = _EDITION.search(name)
        if match is None:
            return
        name = name[: match.start()]
        yield name


def _find_key(names: tuple[str, ...], rows: Mapping[str, Fields]) -> str | None:
    """The key of the row for a model of this name."""
    return next((edition for name in names for edition in _shorten(name) if edition in rows), None)


def _find_info(names: tuple[str, ...], provider: str) -> ModelInfo | None:
    for rows in (_table().get(provider, {}), _read_rows(_CLOSED)):
        if (name := _find_key(names, rows)) is not None:
            return _make_info(rows[name])
    fitting = _matching_rows(names, _read_json("more_models.json")["open"])
    maker_key = _find_key(names, _read_rows(_MAKERS))
    # The longer match is more exact; if equal, the weights' own window holds at any host.
    if fitting and (maker_key is None or len(fitting[-1][0]) >= len(maker_key)):
        return _make_info(fitting[-1][1])
    return None if maker_key is None else _make_info(_read_rows(_MAKERS)[maker_key])


def _guess_relative(names: tuple[str, ...]) -> ModelInfo | None:
    """The row of the closest relative, without its price, in a family that nobody else hosts: the
    same ending counts most, then the longest common beginning, then the newest version. For open
    weights there is no guess: relatives come in all sizes."""
    rows = _read_rows(_CLOSED)
    for name in names:
        stem, _, ending = _split_name(name)
        related = [
            (other_ending == ending, len(commonprefix((name, key))), version, key)
            for key, (other_stem, version, other_ending) in zip(
                rows, map(_split_name, rows), strict=True
            )
            if stem and other_stem == stem
        ]
        if related:
            fields = rows[max(related)[-1]]
            lasting = {key: value for key, value in fields.items() if key not in _PRICES}
            return _make_info(lasting, known=False)
    return None


@functools.cache
def _split_name(name: str) -> tuple[str, float, str]:
    """A name as the stem of its family, its version (`4-20` and `4.20` are 4.2) and its ending; a
    name without a version, or too short to be a family's, has no stem."""
    *_, bare = _shorten(name)
    bare = bare.removesuffix("-preview")
    match = _VERSION.search(bare)
    if match is None or not bare[:2].isalpha():
        return "", 0.0, ""
    return bare[: match.start()], float(match[0].replace("-", ".")), bare[match.end() :]


def _matching_rows(names: tuple[str, ...], table: Mapping[str, Fields]) -> list[tuple[str, Fields]]:
    """The rows whose prefix matches, the longest prefix last."""
    begun = [p for p in table if any(name.startswith(p) for name in names)]
    # Only at a boundary in the name: `llama-3` does not match `llama-3.1`, nor `phi4` `phi45`.
    ends = {p: re.compile(re.escape(p) + r"(?:$|[-:@_ ]|\.gguf)") for p in begun}
    fitting = [p for p in begun if any(map(ends[p].match, names))]
    return [(prefix, table[prefix]) for prefix in sorted(fitting, key=len)]
