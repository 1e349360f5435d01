"""What each model takes and refuses, in November 2026: Anthropic's and OpenAI's from the vendors'
notes and the public data of litellm 1.103 (`thinking_always_on`, `prompt_cache_min_tokens`, ...),
others' as far as a rule of this server depends on it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
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
    kinds = ("enabled", "disabled")
    known = {"window": 200_000, "max_output": 64_000, "omits": False, "prefill": True}
    return _claude(name, **({"thinking": kinds, "cache_min": 4096} | known | rest))


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


BOUND = {"binds": True, "forced_tool": False}

ANTHROPIC = (
    _always("claude-fable-5-2", **BOUND),
    _always("claude-mythos-5-2", **BOUND),
    _always("claude-fable-5-1", **BOUND),
    _always("claude-mythos-5-1", **BOUND),
    _always("claude-opus-5-5", **BOUND),
    _always("claude-sonnet-5-5", **BOUND),
    _five("claude-haiku-5-5", binds=True),
    _always("claude-fable-5"),
    _always("claude-mythos-5"),
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
    _gpt_5_6("gpt-6.2-astra", ALL),
    _gpt_5_6("gpt-6-astra", ALL),
    _gpt_5_6("gpt-6.2-sol", ALL),
    _gpt_5_6("gpt-6.1-sol", ALL),
    _gpt_5_6("gpt-6-sol", ("none", *ALL)),
    _gpt_5_6("gpt-6.1-terra", ("none", *ALL)),
    _gpt_5_6("gpt-6-luna", ("none", *ALL)),
    *(_gpt_5_6(f"gpt-5.6{kind}") for kind in ("", "-sol", "-terra", "-luna")),
    _gpt_5_4("gpt-5.5"),
    _gpt("gpt-5.5-pro", ("medium", "high", "xhigh"), responses_only=True, window=1_050_000),
    _gpt_5_4("gpt-5.4", default_effort="none"),
    _gpt_5_4("gpt-5.4-mini", default_effort="none", window=272_000),
    _gpt_5_4("gpt-5.4-nano", default_effort="none", window=272_000),
    _gpt("gpt-5.4-pro", ("medium", "high", "xhigh"), responses_only=True, window=1_050_000),
    _gpt("gpt-5.3-codex", ("none", *LOW_TO_XHIGH), responses_only=True),
    _gpt("gpt-5.2", ("none", *LOW_TO_XHIGH), default_effort="none"),
    _gpt("gpt-5.1", ("none", *LOW_TO_HIGH), default_effort="none"),
    _gpt("gpt-5.1-codex-max", ("none", *LOW_TO_XHIGH), responses_only=True, window=400_000),
    *(_gpt(f"gpt-5{kind}", ("minimal", *LOW_TO_HIGH)) for kind in ("", "-mini", "-nano")),
    _gpt("gpt-5-pro", ("high",), responses_only=True, default_effort="high", window=400_000),
    _gpt("gpt-5-codex", LOW_TO_HIGH, responses_only=True),
    _gpt("o3", LOW_TO_HIGH, window=200_000, max_output=100_000),
    _gpt("o4-mini", LOW_TO_HIGH, window=200_000, max_output=100_000),
    _gpt("o3-pro", LOW_TO_HIGH, responses_only=True, window=200_000, max_output=100_000),
    Model("gpt-4.1", window=1_047_576, max_output=32_768, reasons=False, default_effort="none"),
    Model("gpt-4.1-mini", window=1_047_576, max_output=32_768, reasons=False),
)

OTHERS = (
    *(Model(f"gemini-{kind}", "gemini") for kind in ("3.8-flash", "3.1-pro-preview")),
    Model("gemini-2.5-pro", "gemini"),
    *(Model(f"deepseek-{kind}", "deepseek") for kind in ("v4-pro", "v4-flash", "reasoner")),
    Model("deepseek-chat", "deepseek", window=128_000, reasons=False),
    *(Model(f"kimi-{kind}", "moonshot") for kind in ("k3", "k2.7-code", "k2.6")),
    Model("moonshot-v1-128k", "moonshot", window=128_000, reasons=False),
)
PREFIXES = {"gemini": ("gemini-",), "deepseek": ("deepseek-",), "moonshot": ("kimi-", "moonshot-")}
"""What the names of these vendors' models begin with; any such name is taken."""


def find(name: str, vendor: str, changes: Mapping[str, Mapping[str, Any]]) -> Model | None:
    """The model of that name with the test's own changes; None where the vendor has none such.
    Vendors that serve many models (openrouter, groq, ...) take every name."""
    known = {model.name: model for model in (*ANTHROPIC, *OPENAI, *OTHERS)}
    change = dict(changes.get(name, {}))
    like = change.pop("like", name)
    base = _undated(like, {n: m for n, m in known.items() if m.vendor == vendor})
    if base is None and vendor not in ("anthropic", "openai"):
        base = _undated(like.rpartition("/")[2].replace(".", "-"), known)
        base = base if base and base.vendor == "anthropic" else Model(name, vendor)
        base = base if name.startswith(PREFIXES.get(vendor, "")) else None
    if base is None and name in changes:
        base = Model(name, vendor)
    if base is None or base.retired:
        return None
    unknown = set(change) - {field.name for field in fields(Model)}
    if unknown:
        raise ValueError(f"models[{name!r}] has {sorted(unknown)}: no fields of a model")
    return replace(base, **{"name": name, "vendor": vendor} | change)


def _undated(name: str, known: Mapping[str, Model]) -> Model | None:
    """With or without the date that a snapshot's name ends with."""
    if name in known:
        return known[name]
    for model in known.values():
        rest = name.removeprefix(model.name)
        if (
            rest != name
            and rest[:1] == "-"
            and len(rest) > 8
            and rest[1:].replace("-", "").isdigit()
        ):
            return model
    return None


def info_of(model: Model) -> dict[str, Any]:
    """What the vendor's list says of a model."""
    if model.vendor == "openrouter":
        return {
            "id": model.name,
            "context_length": model.window,
            "architecture": {"input_modalities": ["text", "image", "file"]},
            "pricing": {"prompt": "0.000003", "completion": "0.000015"},
            "top_provider": {"context_length": model.window, "max_completion_tokens": 64_000},
            "supported_parameters": ["max_tokens", "temperature", "tools", "reasoning"],
        }
    if model.vendor != "anthropic":
        return {"id": model.name, "object": "model", "owned_by": model.vendor}

    def capable(yes: bool) -> dict[str, bool]:
        return {"supported": yes}

    types = ("adaptive", "between_tools", "disabled", "enabled")
    levels = {level: capable(level in model.efforts) for level in ALL}
    thinking = {"types": {kind: capable(kind in model.thinking) for kind in types}}
    names = ("image_input", "pdf_input", "structured_outputs")
    return {
        "type": "model",
        "id": model.name,
        "display_name": model.name.replace("-", " ").title(),
        "max_input_tokens": model.window,
        "max_tokens": model.max_output,
        "capabilities": {
            **{name: capable(True) for name in names},
            "effort": capable(bool(model.efforts)) | levels,
            "server_tools": capable(True) | {"web_search": capable(True)},
            "thinking": capable(True) | thinking,
        },
    }


OPENROUTER = (
    "anthropic/claude-opus-5.5",
    "anthropic/claude-sonnet-4.6",
    "openai/gpt-6-sol",
    "moonshotai/kimi-k3",
    "deepseek/deepseek-v4-pro",
)


def listed(vendor: str, changes: Mapping[str, Mapping[str, Any]]) -> list[Model]:
    """The models that the vendor's list has, the test's own among them."""
    names = [m.name for m in (*ANTHROPIC, *OPENAI, *OTHERS) if m.vendor == vendor]
    names += OPENROUTER if vendor == "openrouter" else ()
    names += [name for name in changes if name not in names]
    found = [find(name, vendor, changes) for name in names]
    return [model for model in found if model is not None]
