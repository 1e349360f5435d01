"""What each model takes and refuses, in November 2026: Anthropic's and OpenAI's from the vendors'
notes and the public data of litellm 1.103 (`thinking_always_on`, `prompt_cache_min_tokens`, ...),
others' as far as a rule of this server depends on it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

LOW_TO_HIGH = ("low", "medium", "high")
LOW_TO_MAX = (*LOW_TO_HIGH, "max")
LOW_TO_XHIGH = (*LOW_TO_HIGH, "xhigh")
ALL = (*LOW_TO_HIGH, "xhigh", "max")


@dataclass(frozen=True)
class Model:
    """One model. The first part counts for every vendor."""

    name: str
    vendor: str = "openai"
    window: int = 1_000_000
    """Tokens of a prompt; more is refused."""
    max_output: int = 128_000
    efforts: tuple[str, ...] = ()
    """Which it takes; none: it knows no effort."""
    default_effort: str = "medium"
    cache_min: int = 1024
    """Tokens below which a prefix is not cached."""
    sampling: bool = True
    """Whether a temperature other than 1 is taken."""
    retired: bool = False

    # Anthropic
    thinking: tuple[str, ...] = ("adaptive", "disabled")
    """The `thinking.type` it takes."""
    thinks: bool = False
    """Whether it thinks where `thinking` is left out."""
    omits: bool = True
    """Whether a thinking block's text is empty unless asked for."""
    binds: bool = False
    """Whether a thinking block is bound to the conversation before it."""
    prefill: bool = False
    mid_system: bool = False
    """Whether `messages` may hold a later `system` message."""
    forced_tool: bool = True

    # OpenAI
    reasons: bool = True
    responses_only: bool = False
    chat_tools: str = "any"
    """Function tools on Chat Completions: with `any` effort, not with a `given` one but none, or
    not where the `default` counts for one either."""
    breakpoints: bool = False
    """`prompt_cache_options` and `prompt_cache_breakpoint`."""


def _claude(name: str, **rest: Any) -> Model:
    return Model(name, "anthropic", **rest)


def _old(name: str, **rest: Any) -> Model:
    known = {"window": 200_000, "max_output": 64_000, "omits": False, "prefill": True}
    known |= {"thinking": ("enabled", "disabled"), "cache_min": 4096}
    return _claude(name, **(known | rest))


def _four_six(name: str, cache_min: int) -> Model:
    kinds = ("adaptive", "enabled", "disabled")
    return _claude(name, efforts=LOW_TO_MAX, thinking=kinds, omits=False, cache_min=cache_min)


def _new(name: str, **rest: Any) -> Model:
    return _claude(name, **({"efforts": ALL, "sampling": False, "cache_min": 512} | rest))


def _five(name: str, **rest: Any) -> Model:
    kinds = ("adaptive", "disabled", "between_tools")
    return _new(name, **({"thinking": kinds, "thinks": True, "mid_system": True} | rest))


def _always(name: str, **rest: Any) -> Model:
    return _five(name, **({"thinking": ("adaptive",)} | rest))


BOUND_MODELS = "fable-5-2 mythos-5-2 fable-5-1 mythos-5-1 opus-5-5 sonnet-5-5".split()

ANTHROPIC = (
    *(_always(f"claude-{name}", binds=True, forced_tool=False) for name in BOUND_MODELS),
    _five("claude-haiku-5-5", binds=True),
    *(_always(f"claude-{name}") for name in ("fable-5", "mythos-5")),
    _five("claude-opus-5"),
    _five("claude-sonnet-5", cache_min=1024),
    _new("claude-opus-4-8", cache_min=1024, mid_system=True),
    _new("claude-opus-4-7", cache_min=2048),
    _four_six("claude-opus-4-6", 4096),
    _four_six("claude-sonnet-4-6", 1024),
    _old("claude-opus-4-5", efforts=LOW_TO_HIGH),
    _old("claude-sonnet-4-5", cache_min=1024),
    _old("claude-haiku-4-5"),
    _always("claude-mythos-preview", retired=True, mid_system=False),
)


def _gpt(name: str, efforts: tuple[str, ...], **rest: Any) -> Model:
    return Model(name, efforts=efforts, sampling=False, **({"window": 272_000} | rest))


def _gpt_5_4(name: str, **rest: Any) -> Model:
    known: dict[str, Any] = {"chat_tools": "given", "window": 1_050_000}
    return _gpt(name, ("none", *LOW_TO_XHIGH), **(known | rest))


def _gpt_5_6(name: str, efforts: tuple[str, ...] = ("none", *LOW_TO_XHIGH)) -> Model:
    return _gpt(name, efforts, chat_tools="default", window=922_000, breakpoints=True)


OPENAI = (
    *(_gpt_5_6(f"gpt-{name}", ALL) for name in ("6.2-astra", "6-astra", "6.2-sol", "6.1-sol")),
    *(_gpt_5_6(f"gpt-{name}", ("none", *ALL)) for name in ("6-sol", "6.1-terra", "6-luna")),
    *(_gpt_5_6(f"gpt-5.6{kind}") for kind in ("", "-sol", "-terra", "-luna")),
    _gpt_5_4("gpt-5.5"),
    _gpt_5_4("gpt-5.4", default_effort="none"),
    *(_gpt_5_4(f"gpt-5.4-{n}", default_effort="none", window=272_000) for n in ("mini", "nano")),
    *(_gpt(f"gpt-5.{n}-pro", ("medium", "high", "xhigh"), responses_only=True, window=1_050_000)
      for n in (4, 5)),
    _gpt("gpt-5.3-codex", ("none", *LOW_TO_XHIGH), responses_only=True),
    _gpt("gpt-5.2", ("none", *LOW_TO_XHIGH), default_effort="none"),
    _gpt("gpt-5.1", ("none", *LOW_TO_HIGH), default_effort="none"),
    _gpt("gpt-5.1-codex-max", ("none", *LOW_TO_XHIGH), responses_only=True, window=400_000),
    *(_gpt(f"gpt-5{kind}", ("minimal", *LOW_TO_HIGH)) for kind in ("", "-mini", "-nano")),
    _gpt("gpt-5-pro", ("high",), responses_only=True, default_effort="high", window=400_000),
    _gpt("gpt-5-codex", LOW_TO_HIGH, responses_only=True),
    *(_gpt(name, LOW_TO_HIGH, window=200_000, max_output=100_000) for name in ("o3", "o4-mini")),
    _gpt("o3-pro", LOW_TO_HIGH, responses_only=True, window=200_000, max_output=100_000),
    *(Model(f"gpt-4.1{kind}", window=1_047_576, max_output=32_768, reasons=False,
            default_effort="none") for kind in ("", "-mini")),
)  # fmt: skip

OTHERS = (
    Model("deepseek-chat", "deepseek", window=128_000, reasons=False),
    Model("moonshot-v1-128k", "moonshot", window=128_000, reasons=False),
)
PREFIXES = {"gemini": ("gemini-",), "deepseek": ("deepseek-",), "moonshot": ("kimi-", "moonshot-")}
"""What the names of these vendors' models begin with; any such name is taken."""


def find(name: str, vendor: str, changes: Mapping[str, Mapping[str, Any]]) -> Model | None:
    """The model of that name with the test's own changes; None where the vendor has none such.
    Vendors that serve many models (openrouter, groq, ...) take every name."""
    known = {model.name: model for model in (*ANTHROPIC, *OPENAI, *OTHERS)}
    base = _undated(name, {n: m for n, m in known.items() if m.vendor == vendor})
    if base is None and vendor not in ("anthropic", "openai"):
        claude = _undated(name.rpartition("/")[2].replace(".", "-"), known)
        is_claude = claude is not None and claude.vendor == "anthropic"
        base = claude if is_claude else Model(name, vendor)
        base = base if name.startswith(PREFIXES.get(vendor, "")) else None
    if base is None or base.retired:
        return None
    return replace(base, **{"name": name, "vendor": vendor} | changes.get(name, {}))


def _undated(name: str, known: Mapping[str, Model]) -> Model | None:
    """With or without the date that a snapshot's name ends with."""
    return known.get(name) or known.get(re.sub(r"-\d{4}-?\d\d-?\d\d$", "", name))
