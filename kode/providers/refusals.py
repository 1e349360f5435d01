"""Vendors' words → what is wrong with a request: the key, the model, the size, or one part of it to
leave out or to change.

Rows are in the words of the vendors' own servers and of those that imitate them, which stand in
`faults.jsonl` and `refusals.jsonl` of `tests/providers/data`. A new one is a pattern here and a
line there.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kode.contracts import Api
from kode.errors import RefusedError, ThinkingRefused

Fault = Literal["overflow", "no_credit", "bad_key", "loading", "thinking", "no_model"]
"""`overflow`: the request is larger than the window. `thinking`: a server does not take back the
thinking it sent."""


@dataclass(frozen=True)
class Wording:
    """How servers word a fault."""

    fault: Fault
    statuses: Collection[int | None]
    """With which they report it; None: in the middle of a stream."""
    patterns: tuple[str, ...]


WORDINGS = (
    # OpenAI, Anthropic, llama.cpp, vLLM, LM Studio, Ollama, SGLang, TGI, Gemini, Bedrock, Mistral,
    # Groq, xAI and OpenRouter.
    Wording(
        "overflow",
        (None, 200, 400, 422, *range(500, 1000)),
        (
            r"context[ _-]?length",
            r"context[ _-]?size",
            r"context[ _-]?window",
            r"context limit",
            r"max(imum)? context",
            r"exceeds? context",
            r"greater than the context",
            r"prompt (is )?too long",
            r"input (is )?too (long|large)",
            r"longer than the model'?s",
            r"too large for model with \d+ maximum",
            r"maximum (prompt|model|sequence|input) length",
            r"exceeds? the (model'?s )?(maximum|available|limit).{0,40}(token|context|length)",
            r"(input|prompt)( token)?( count)?( \(?\d+\)?)?( tokens?)? exceeds the (maximum|limit)",
            r"too many (input |prompt )?tokens",
            r"inputs? tokens? \+ .{0,40}max_(new_)?tokens",
            r"input validation error.{0,80}tokens",
            r"reduce the length of",
            r"max_model_len",
            r"exceed_context_size",
            r"n_ctx\b|n_keep",
            r"request too large for|request_too_large",
        ),
    ),
    # A 429 is mostly about rates ("too many tokens"): only these words are about the size.
    Wording(
        "overflow",
        (429,),
        (
            r"request too large for",
            r"context_length_exceeded",
            r"maximum context length",
            r"prompt is too long",
        ),
    ),
    Wording(
        "no_credit",
        (400, 403, 429),
        (
            r"insufficient_quota",
            r"exceeded your current quota",
            r"billing",
            r"credit balance",
            r"insufficient (balance|credits?|funds)",
            r"out of credits?",
            r"payment required",
            r"spend(ing)? limit",
        ),
    ),
    Wording(
        "bad_key",
        (400,),
        (
            r"(invalid|incorrect|missing|wrong|no|expired) (x-)?api[ -_]?key",
            r"api[ _-]?key (is )?(not valid|invalid|missing|required|expired)",
            r"invalid_api_key",
            r"could not resolve authentication",
            r"authentication_error",
        ),
    ),
    Wording(
        "loading",
        (503,),
        (r"\bloading (the )?model", r"\bmodel\b[^\n]{0,120}\bloading"),
    ),
    # Responses of OpenAI, and of proxies whose accounts change.
    Wording(
        "thinking",
        (400, 404, 422),
        (
            r"invalid_encrypted_content",
            r"encrypted.content\b.{0,400}\b(verified|decrypted|issued to this)",
            r"was provided without its required",
            r"items are not persisted when",
        ),
    ),
    Wording(
        "no_model",
        (400, 404, 422),
        (
            r"model_not_found",
            r"unknown model",
            r"no such model",
            r"invalid model",
            r"not a valid model",
            r"model.{0,120}(not found|(does )?not exist)",
            r"model.{0,120}(is not available|not supported|not loaded)",
            r"^model: ",
        ),
    ),
)
"""The first that fits counts."""

STATUS_OF_TYPE = {
    "overloaded_error": 529,
    "overloaded": 529,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "too_many_requests": 429,
    "insufficient_quota": 429,
    "resource_exhausted": 429,
    "timeout_error": 504,
    "api_error": 500,
    "server_error": 500,
    "internal_error": 500,
    "internal_server_error": 500,
    "internalservererror": 500,
    "service_unavailable": 503,
    "unavailable": 503,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "unauthenticated": 401,
    "permission_error": 403,
    "permission_denied": 403,
    "billing_error": 402,
    "invalid_request_error": 400,
    "invalid_argument": 400,
    "badrequesterror": 400,
    "context_length_exceeded": 400,
    "exceed_context_size_error": 400,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "slow_down": 429,
    "server_is_overloaded": 529,
    "upstream_error": 502,
    "vector_store_timeout": 504,
}
"""The status for a word in an error object that has no number."""

STATUSES = (400, 403, 404, 422)
"""With which servers refuse a part of a request."""


@dataclass(frozen=True)
class Setting:
    """Something in a request that a model or server may not take."""

    pattern: str
    what: str
    """It, for a person."""
    change: str
    """What to change, with the setting's name."""


ANOTHER_MODEL = "If it happens again, use another model with /model"

SETTINGS: Mapping[str, Setting] = {
    "api": Setting(
        r"function tools with reasoning_effort.{0,200}/v1/responses"
        r"|only (supported|available) (in|on|through|via) .{0,20}(v1/)?responses"
        r"|not a chat model|not supported in the v1/chat/completions",
        "tools in Chat Completions",
        "Set `providers.{name}.api` in the config to `responses`, or leave it out",
    ),
    "signatures": Setting(
        r"missing a `?thought_?signature|thought_?signature.{0,40}(missing|required)"
        r"|corrupted thought signature",
        "calls without its signature, as after another model",
        ANOTHER_MODEL,
    ),
    "thoughts": Setting(
        r"reasoning_content.{0,80}must be passed back|in the thinking mode must be passed back"
        r"|reasoning_content is missing",
        "replies without the thinking that belongs to them, as after another model",
        ANOTHER_MODEL,
    ),
    "later_system": Setting(
        r"unexpected role .?.?system|a system message must|mid-conversation system"
        r"|use the top-level .?system.? parameter"
        r"|messages\.\d+\.role: input should be 'user' or 'assistant'",
        "instructions within a conversation",
        "Nothing is to be done: kode can tell them in the user's messages",
    ),
    "temperature": Setting(
        r"(unsupported|unknown|invalid).{0,60}temperature"
        r"|temperature\W.{0,80}(deprecated|not supported|unsupported|does not support|only be set)",
        "a temperature",
        "kode sends none with `profile` set to `full` in the config",
    ),
    "thinking": Setting(
        r"thinking.{0,40}(not supported|unsupported|not available)"
        r"|not support (adaptive |extended |interleaved )?thinking"
        r"|thinking\.\w+\.\w+: (input should|extra inputs)|thinking: (input tag|extra inputs)"
        r"|greater than .?thinking\.budget_tokens|(unknown|unrecognized).{0,60}\bthinking\b",
        "this way of thinking",
        "Set `effort` in the config, or /effort, to another level",
    ),
    "effort": Setting(
        r"not support (the )?.?(effort|reasoning[._ ]effort)"
        r"|effort\W.{0,80}(not supported|unsupported|not available|not valid|invalid value)"
        r"|effort\W.{0,40}does not support|output_config\.effort"
        r"|(unsupported|invalid|unrecognized|unknown).{0,80}(reasoning[._]?effort|\beffort\b)"
        r"|reasoning[._]effort$",
        "this level of effort",
        "Set `effort` in the config, or /effort, to another",
    ),
    "search": Setting(
        r"web[_ ]search.{0,80}(not enabled|not available|not supported|disabled|not allowed)"
        r"|not support.{0,40}web[_ ]search|tools\.\d+\.type.{0,80}web_search"
        r"|not support programmatic tool calling",
        "web search",
        "Set `web_search` to false in the config, or enable it in the provider's console",
    ),
    "cache": Setting(
        r"cache_control.{0,60}(extra inputs|not permitted|not supported|unsupported)"
        r"|not support prompt caching|prompt caching is not",
        "marks for its cache",
        "Nothing is to be done: kode can do without",
    ),
}
"""By the name under which `exchange.LEFT_OUT` knows it. The first that fits counts: a refusal of a
way of thinking may name the level of effort as the better one."""

_NOT_TAKEN_BACK = (
    r"bound to a different conversation"
    r"|thinking.? blocks .{0,60}cannot be modified"
    r"|invalid .?(signature|data).? in .?(redacted_)?thinking.? block"
    r"|expected .?thinking.? or .?redacted_thinking.?, but found"
    r"|final block in an assistant message cannot be .?(redacted_)?thinking"
    r"|message in the final position cannot contain .?(redacted_)?thinking"
    r"|thinking\.signature: field required"
    r"|invalid_encrypted_content|encrypted content .{0,200}could not be (verified|decrypted)"
    r"|was provided without its required .{0,40}(reasoning|item)"
    r"|item '?rs_\w+'?.{0,60}(not found|without)|with id '?rs_\w+'? not found"
)


def _any(*patterns: str) -> str:
    return "|".join(patterns)


MISSING = ("signatures", "thoughts")
"""What a server wants back with the replies in a conversation."""

_REFUSES = (
    r"(unsupported|not supported|not permitted|unknown|unrecognized|unexpected|extra|invalid"
    r"|not allowed|does not support|cannot specify|only the default)"
)

_OF_FORMAT: Mapping[Api, tuple[tuple[int | None, ...], Mapping[str, str]]] = {
    "chat": (
        (400, 422),
        {
            # Before `thinking`: a field of a message, not a parameter.
            "own_fields": _any(
                r"reasoning_content|reasoning_details|extra_content",
                r"messages?\W{1,3}\d+\b.{0,120}"
                r"(unsupported|not permitted|unknown(?! variant)|extra_forb)",
                r"(unsupported|not permitted|unknown|extra).{0,120}messages?\W{1,3}\d+\W+\w",
            ),
            "limit": _any(
                r"(unsupported|not supported|unknown|unrecognized).{0,80}max_(completion_)?tok"
            ),
            "usage": _any(
                rf"stream_options.{{0,80}}{_REFUSES}", rf"{_REFUSES}.{{0,80}}stream_options"
            ),
            "temperature": _any(
                rf"temperature.{{0,80}}{_REFUSES}", rf"{_REFUSES}.{{0,80}}temperature"
            ),
            "search": _any("web_search"),
            "thinking": _any(
                r"reasoning_?effort|enable_thinking|chat_template_kwargs",
                r"thinking_(config|level|budget)",
                rf"\b(thinking|reasoning)\b.{{0,80}}{_REFUSES}",
                rf"{_REFUSES}.{{0,80}}\b(thinking|reasoning)\b",
            ),
        },
    ),
    "responses": (
        (None, 400, 404, 422),  # None: in the middle of a stream
        {
            "summary": _any(r"reasoning\.summary|reasoning summar"),
            "thinking_back": _any(
                r"encrypted content is not supported|reasoning\.encrypted_content"
            ),
            "cache_key": _any("prompt_cache_key"),
            "cache_marks": _any("prompt_cache_"),
            "temperature": _any(r"'temperature'|\btemperature$"),
            "search": _any("web_search"),
            "free_text": _any(
                r"\bcustom tool", r"tools\[\d+\]\.(type|format)", "['\"`]custom['\"`]"
            ),
            "pictures_in_results": _any(r"output of tool call should be|input\[\d+\]\.output"),
            "later_system": _any(r"\bdeveloper\b|system (message|role)"),
        },
    ),
}
"""Format → the statuses of its refusals, and words for what only it has, or words otherwise. They
come before `SETTINGS`; the first that fits counts."""


def _holds(words: str, pattern: str) -> bool:
    """Compiled when it is needed: a start without a refusal should not wait for it."""
    return re.search(pattern, words, re.IGNORECASE | re.DOTALL) is not None


def fault_of(status: int | None, words: str) -> Fault | None:
    """What the words of an answer with this status mean; None for nothing that is known."""
    return next((row.fault for row in WORDINGS if _fits(row, status, words)), None)


def _fits(row: Wording, status: int | None, words: str) -> bool:
    return status in row.statuses and _holds(words, "|".join(row.patterns))


def says(words: str, fault: Fault) -> bool:
    """Whether words name a fault, whatever the status."""
    return any(row.fault == fault and _holds(words, "|".join(row.patterns)) for row in WORDINGS)


def refuses_thinking(words: str) -> bool:
    """Whether a server did not take back thinking that it had sent."""
    return _holds(words, _NOT_TAKEN_BACK)


def refused_setting(words: str) -> str:
    """The key of `SETTINGS` for what a server refused; "" for something else."""
    return next((name for name, row in SETTINGS.items() if _holds(words, row.pattern)), "")


def refused_tool(refused: RefusedError, names: Sequence[str]) -> str:
    """The tool of a request, of all in order, whose schema a refusal is about; "" for none."""
    if refused.status not in STATUSES or not _holds(refused.said, "schema|parameters|declarations"):
        return ""
    quoted = re.findall(r"['`\"]([\w-]+)['`\"]", refused.said)
    if named := next((name for name in quoted if name in names), ""):
        return named
    places = (r"function_declarations\[(\d+)", r"tools[.\[](\d+)")
    place = next(filter(None, (re.search(place, refused.said) for place in places)), None)
    return names[int(place[1])] if place and int(place[1]) < len(names) else ""


def setting_to_leave_out(api: Api, refused: RefusedError) -> str:
    """The key of `exchange.LEFT_OUT` for what a refusal is about; "" where leaving something out
    does not help."""
    if isinstance(refused, ThinkingRefused):
        return refused.part if api == "chat" else ""
    statuses, own = _OF_FORMAT.get(api, (STATUSES, {}))
    if refused.status not in statuses or refused.part == "api":  # that a person has to change
        return ""
    named = (name for name, pattern in own.items() if _holds(refused.said, pattern))
    return next(named, refused.part)
