"""What each model takes and refuses, in November 2026: Anthropic's and OpenAI's from the vendors'
notes and the public data of litellm 1.103 (`thinking_always_on`, `prompt_cache_min_tokens`, ...),
others' as far as a rule of this server depends on it.
"""

from dataclasses import dataclass, replace
from typing import Any

LOW_TO_HIGH = ("low", "medium", "high")
LOW_TO_XHIGH = (*LOW_TO_HIGH, "xhigh")
ALL = (*LOW_TO_XHIGH, "max")


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

    # Anthropic
    thinking: tuple[str, ...] = ("adaptive", "disabled")
    """The `thinking.type` it takes."""
    thinks: bool = False
    """Whether it thinks where `thinking` is left out."""
    omits: bool = True
    """Whether a thinking block's text is empty unless asked for."""
    binds: bool = False
    """Whether a thinking block is bound to the conversation before it."""

    # OpenAI
    reasons: bool = True
    responses_only: bool = False
    chat_tools: str = "any"
    """Function tools on Chat Completions: with `any` effort, not with a `given` one but none, or
    not where the `default` counts for one either."""
    breakpoints: bool = False
    """`prompt_cache_breakpoint`."""


def _old(name: str, **rest: Any) -> Model:
    known = {"window": 200_000, "max_output": 64_000, "omits": False, "cache_min": 4096}
    return Model(name, "anthropic", thinking=("enabled", "disabled"), **(known | rest))


def _new(name: str, **rest: Any) -> Model:
    return Model(name, "anthropic", **({"efforts": ALL, "cache_min": 512} | rest))


BOUND: dict[str, Any] = {"thinks": True, "binds": True}
ALWAYS: dict[str, Any] = {**BOUND, "thinking": ("adaptive",)}
ANTHROPIC = (
    *(_new(f"claude-{name}", **ALWAYS) for name in ("opus-5-5", "sonnet-5-5")),
    _new("claude-haiku-5-5", **BOUND),
    _new("claude-opus-4-8", cache_min=1024),
    _new("claude-opus-4-6", efforts=(*LOW_TO_HIGH, "max"), omits=False, cache_min=4096,
         thinking=("adaptive", "enabled", "disabled")),
    _old("claude-opus-4-5", efforts=LOW_TO_HIGH),
    _old("claude-sonnet-4-5", cache_min=1024),
    _old("claude-haiku-4-5"),
)  # fmt: skip


def _gpt(name: str, efforts: tuple[str, ...], **rest: Any) -> Model:
    return Model(name, efforts=efforts, **({"window": 272_000} | rest))


def _marked(name: str, *efforts: str) -> Model:
    return _gpt(name, efforts, chat_tools="default", window=922_000, breakpoints=True)


OPENAI = (
    _marked("gpt-6.1-sol", *ALL),
    _marked("gpt-6-sol", "none", *ALL),
    _gpt("gpt-5.4", ("none", *LOW_TO_XHIGH), chat_tools="given", window=1_050_000,
         default_effort="none"),
    _gpt("gpt-5.3-codex", ("none", *LOW_TO_XHIGH), responses_only=True),
    _gpt("gpt-5.1", ("none", *LOW_TO_HIGH), default_effort="none"),
    _gpt("gpt-5", ("minimal", *LOW_TO_HIGH)),
    Model("gpt-4.1", window=1_047_576, max_output=32_768, reasons=False, default_effort="none"),
)  # fmt: skip

OTHERS = (
    Model("deepseek-chat", "deepseek", window=128_000, reasons=False),
    Model("moonshot-v1-128k", "moonshot", window=128_000, reasons=False),
)
PREFIXES = {"gemini": ("gemini-",), "deepseek": ("deepseek-",), "moonshot": ("kimi-", "moonshot-")}
"""What the names of these vendors' models begin with; any such name is taken."""


def find(name: str, vendor: str) -> Model | None:
    """The model of that name; None where the vendor has none such. Vendors that serve many models
    (openrouter, groq, ...) take every name."""
    known = {model.name: model for model in (*ANTHROPIC, *OPENAI, *OTHERS)}
    base = known.get(name)
    if vendor in ("anthropic", "openai") or (base is not None and base.vendor == vendor):
        return base if base is not None and base.vendor == vendor else None
    claude = known.get(name.rpartition("/")[2].replace(".", "-"))
    is_claude = claude is not None and claude.vendor == "anthropic"
    base = claude if claude is not None and is_claude else Model(name, vendor)
    is_served = name.startswith(PREFIXES.get(vendor, ""))
    return replace(base, name=name, vendor=vendor) if is_served else None
