"""The strict server refuses what the vendors refuse, takes what they take, and bills as they do.
That its streams are whole replies is proven where kode reads them: `tests/providers`."""

import copy
import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.pictures import pdf, png
from tests.strict_server import StrictServer
from tests.tables import for_each

Body = dict[str, Any]
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
PATHS = {"messages": "messages", "chat": "chat/completions", "responses": "responses"}
FIXED: dict[str, Body] = {
    "messages": {"stream": True, "max_tokens": 9000, "system": "Be brief.",
                 "tools": [{"name": "read", "description": "Reads", "input_schema": SCHEMA}]},
    "chat": {"stream": True, "stream_options": {"include_usage": True},
             "tools": [{"type": "function", "function": {"name": "read", "parameters": SCHEMA}}]},
    "responses": {"stream": True, "store": False,
                  "reasoning": {"effort": "high", "summary": "auto"},
                  "tools": [{"type": "function", "name": "read", "parameters": SCHEMA,
                             "strict": False}, {"type": "custom", "name": "patch"}]},
}  # fmt: skip
READ_A, READ_B = ({"name": "read", "arguments": {"path": path}} for path in "ab")
PATCH = {"name": "patch", "arguments": "+ x"}
USER = {"role": "user", "content": "Hello"}
VENDORS = {"messages": "anthropic", "responses": "openai"}


class Client:
    """Asks a server, with what every request of its format has."""

    def __init__(self, server: StrictServer, api: str, model: str) -> None:
        self.server, self.api, self.model = server, api, model

    def ask(self, items: Any = None, **body: Any) -> str:
        """What is answered; "" where that is no refusal. The status is its beginning."""
        name = "input" if self.api == "responses" else "messages"
        given = {"model": self.model, **FIXED[self.api], name: items or [USER], **body}
        headers = {"x-api-key": "k", "authorization": "Bearer k", "anthropic-version": "1"}
        headers |= given.pop("headers", {})
        url = f"{self.server.root_url}/v1/{PATHS[self.api]}"
        given = {key: value for key, value in given.items() if value is not ...}
        try:
            urlopen(Request(url, json.dumps(given).encode(), headers), timeout=30).read()
        except HTTPError as error:
            with error:
                return f"{error.code} {json.loads(error.read())}"
        return ""

    @property
    def reply(self) -> Any:
        return copy.deepcopy(self.server.requests[-1].reply)

    @property
    def usage(self) -> Any:
        return self.server.requests[-1].usage

    def begin(self, **body: Any) -> list[Any]:
        """A conversation up to the results of two calls, as a good client sends it."""
        assert self.ask(**body) == ""
        if self.api == "messages":
            content = self.reply["content"]
            ids = [block["id"] for block in content if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": i, "content": "x"} for i in ids]
            said = {"role": "assistant", "content": content}
            return [USER, said, {"role": "user", "content": results}]
        if self.api == "responses":
            items = self.reply["output"]
            made = [item for item in items if "call_id" in item]
            return [USER, *items, *({"type": f"{item['type']}_output", "call_id": item["call_id"],
                                     "output": "x"} for item in made)]  # fmt: skip
        whole = self.reply["choices"][0]["message"]
        names = ("role", "content", "tool_calls", "reasoning_content", "reasoning_details")
        kept = {name: whole[name] for name in names if name in whole}
        return [USER, kept, *({"role": "tool", "tool_call_id": call["id"], "content": "x"}
                              for call in kept["tool_calls"])]  # fmt: skip


@contextmanager
def client(api: str, model: str, vendor: str = "", **given: Any) -> Iterator[Client]:
    calls = [READ_A, PATCH if api == "responses" else READ_B]
    script = [{"thinking": "I need both", "text": "Reading", "calls": calls}, {"text": "Done"}]
    given = {"vendor": vendor or VENDORS[api], "repeat_last": True, **given}
    with StrictServer(given.pop("script", script), **given) as server:
        yield Client(server, api, model)


# ── one request ──────────────────────────────────────────────────────────────────────────────


def said(*blocks: Any) -> Body:
    return {"items": [{"role": "user", "content": list(blocks)}]}


def text(words: str, **more: Any) -> Body:
    return {"type": "text", "text": words, **more}


def part(words: str = "x", **more: Any) -> Body:
    return {"items": [{**USER, "content": [{"type": "input_text", "text": words, **more}]}]}


def tool(api: str, name: str = "odd", **schema: Any) -> Body:
    schema = {"type": "object", "properties": {}, **schema}
    flat = {"name": name, "parameters": schema}
    if api == "chat":
        return {"tools": [{"type": "function", "function": flat}]}
    if api == "responses":
        return {"tools": [{"type": "function", **flat, "strict": False}]}
    return {"tools": [{"name": name, "input_schema": schema}]}


def budget(tokens: int) -> Body:
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


def thinking(kind: str, **more: Any) -> Body:
    return {"thinking": {"type": kind, **more}}


def effort(level: str, api: str = "messages") -> Body:
    key = {"messages": "output_config", "responses": "reasoning"}.get(api)
    return {key: {"effort": level}} if key else {"reasoning_effort": level}


MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
BREAK = {"prompt_cache_breakpoint": {"mode": "explicit"}}
SHOWN = {"type": "base64", "media_type": "image/png", "data": b64encode(png(2_001)).decode()}
PAGES = {"type": "base64", "media_type": "application/pdf"}
PAGES |= {"data": b64encode(pdf(*"x" * 101)).decode()}
STRICT = {"name": "x", "schema": SCHEMA, "strict": True}
FORMAT = {"type": "json_schema", "schema": SCHEMA}
SAY = {"role": "assistant", "content": "A", "reasoning_content": "B"}
EMPTY = {"role": "assistant", "content": ""}
NEW, OLDER, OLD = "claude-opus-5-5", "claude-opus-4-8", "claude-haiku-4-5"
SOL, GPT_5_4 = "gpt-6.1-sol", "gpt-5.4"
GEMINI, DEEPSEEK, KIMI = "gemini-3.8-flash", "deepseek-v4-pro", "kimi-k3"
OPUS, MISTRAL = "anthropic/claude-opus-5.5", "mistral-large-4"
FOREIGN = {"items": [USER, SAY, USER]}

REQUESTS: list[tuple[str, str, str, Body, str]] = [
    ("messages", "", NEW, {"top": 1}, "400 top: Extra inputs"),
    ("messages", "", "claude-9", {}, "404 model: claude-9"),
    ("messages", "", OLD, {"max_tokens": 64_001}, "400 max_tokens: 64001 > 64000"),
    ("messages", "", OLDER, budget(2000), "thinking.type.en"),
    ("messages", "", NEW, thinking("disabled"), "thinking.type.disabled"),
    ("messages", "", NEW, thinking("adaptive", block_binding={}), "block_binding: Extra"),
    ("messages", "", "claude-opus-4-6", effort("xhigh"), "Supported levels"),
    ("messages", "", NEW, {"output_config": {"format": FORMAT}}, "additionalProperties"),
    ("messages", "", NEW, tool("messages", oneOf=[]), "at the top level"),
    ("messages", "", NEW, tool("messages", properties={"a": {"required": True}}), "2020-12"),
    ("messages", "", NEW, tool("messages", properties={"a b": {}}), "Property keys"),
    ("messages", "", NEW, said(*[text("x", **MARK)] * 5), "Found 5"),
    ("messages", "", NEW, said(text(" ")), "non-whitespace"),
    ("messages", "", NEW, said(text("x", **MARK), text("y", **HOUR)), "'1h' must not"),
    ("messages", "", NEW, {"items": [USER, {**EMPTY, "content": "A"}]}, "prefill"),
    ("messages", "", NEW, {"items": [USER, {"role": "system", "content": "A"}]}, "Unexpected role"),
    ("messages", "", OLD, said(text("x" * 800_100)), "> 200000 maximum"),
    ("messages", "", NEW, {"headers": {"x-api-key": "", "authorization": ""}}, "401 key"),
    ("responses", "", SOL, effort("none", "responses"), "'gpt-6.1-sol' model"),
    ("responses", "", SOL, {"store": True}, "Store must be set to false"),
    ("responses", "", SOL, {"text": {"format": {**FORMAT, **STRICT}}}, "'additionalProperties'"),
    ("responses", "", GPT_5_4, part(**BREAK), "prompt_cache_breakpoint"),
    ("responses", "", "gpt-5.1", part("x" * 1_100_000), "context window"),
    ("chat", "openai", GPT_5_4, effort("low", "chat"), "use /v1/responses"),
    ("chat", "openai", GPT_5_4, {"items": [USER, SAY]}, "reasoning_content: Extra"),
    ("chat", "openai", GPT_5_4, tool("chat", properties={"a": {"required": True}}), "context="),
    ("chat", "openai", GPT_5_4, tool("chat", properties={"a": {"type": "array"}}), "items"),
    ("chat", "gemini", GEMINI, tool("chat", **{"$schema": "x"}), "$schema"),
    ("chat", "gemini", GEMINI, tool("chat", properties={"a": {"type": ["string", "null"]}}),
     "not repeating"),
    ("chat", "gemini", GEMINI, tool("chat", properties={
        "a": {"title": "A", "anyOf": [{"type": "string"}]}}), "only field set"),
    ("chat", "gemini", GEMINI, tool("chat", properties={"a": {"type": "number", "enum": [1]}}),
     "only allowed for STRING"),
    ("chat", "mistral", MISTRAL, FOREIGN, "[1].reasoning_content"),
    ("messages", "", NEW, said(*[{"type": "image", "source": SHOWN}] * 21), "many-image"),
    ("messages", "", OLD, said({"type": "document", "source": PAGES}), "maximum of 100 PDF pages"),
    ("messages", "", NEW, said(*[text("x" * 1_600_000)] * 21), "413 Request exceeds"),
    # Taken: no words.
    ("messages", "", OLD, budget(2000), ""),
    ("messages", "", NEW, said(*[text("x", **MARK)] * 4), ""),
    ("chat", "deepseek", DEEPSEEK, {**thinking("enabled"), "other": 1}, ""),
]  # fmt: skip


@for_each(("api", "vendor", "model", "body", "words"), REQUESTS)
def test_a_request_is_refused_in_the_vendors_words_or_taken(
    api: str, vendor: str, model: str, body: Body, words: str
) -> None:
    with client(api, model, vendor) as asked:
        refusal = asked.ask(**body)

        status, _, rest = words.partition(" ")
        expected, words = (status, rest) if status.isdigit() else ("400", words)
        assert bool(refusal) is bool(words)
        assert refusal.startswith(expected * bool(words))
        assert words in refusal.replace("\\'", "'")
        assert len(asked.server.refusals) == bool(words)


# ── what comes back ──────────────────────────────────────────────────────────────────────────


def change(path: str, value: Any) -> Callable[[list[Any]], None]:
    """Sets what is at a dotted path; ... removes it."""

    def changed(items: list[Any]) -> None:
        *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        at: Any = items
        for step in way:
            at = at[step]
        if value is ...:
            del at[last]
        else:
            at[last] = value

    return changed


def drop(*places: int) -> Callable[[list[Any]], None]:
    def dropped(items: list[Any]) -> None:
        for place in sorted(places, reverse=True):
            del items[place]

    return dropped


def rename(name: str) -> Callable[[list[Any]], None]:
    def renamed(messages: list[Any]) -> None:
        del messages[1]["tool_calls"][1], messages[3]
        messages[1]["tool_calls"][0]["id"] = messages[2]["tool_call_id"] = name

    return renamed


TWO = "2.content"
SEALED = "1.tool_calls.0.extra_content"
TAMPERED: list[tuple[str, str, str, Callable[[list[Any]], Any], str]] = [
    ("messages", "", NEW, change("1.content.0.thinking", "Other"), "cannot be modified"),
    ("messages", "", OLDER, lambda m: m[1]["content"].insert(1, m[1]["content"].pop(0)),
     "cannot be modified"),
    ("messages", "", NEW, change("1.content.0.signature", "made up"), "Invalid `signature`"),
    ("messages", "", NEW, lambda m: m[1]["content"][0].update(MARK), "Extra inputs"),
    ("messages", "", NEW, change("0.content", "Read a"), "different conversation"),
    ("messages", "", OLDER, change(f"{TWO}.1", ...), "without `tool_result`"),
    ("messages", "", OLDER, lambda m: m[2]["content"].insert(0, text("So:")), "without `tool_"),
    ("messages", "", OLDER, change(TWO, "Go on"), "without `tool_result`"),
    ("messages", "", OLDER, lambda m: m[2]["content"].append(
        {"type": "tool_result", "tool_use_id": "toolu_1"}), "unexpected `tool_use_id`"),
    # The items: user, reasoning, message, function call, custom call, two outputs.
    ("responses", "", SOL, drop(1), "without its required 'reasoning' item"),
    ("responses", "", SOL, drop(2, 3, 4, 5, 6), "without its required following item"),
    ("responses", "", SOL, change("1.encrypted_content", "gAAAAAx"), "could not be verified"),
    ("responses", "", SOL, change("1.encrypted_content", ...), "not persisted"),
    ("responses", "", SOL, drop(5), "No tool output found for function call"),
    ("responses", "", SOL, change("3.id", "toolu_1"), "Expected an ID that begins with 'fc'"),
    ("chat", "openai", GPT_5_4, drop(3), "did not have response messages"),
    ("chat", "xai", "grok-5", change("2.tool_call_id", "call_1"), "preceeding message"),
    ("chat", "openai", GPT_5_4, rename("x" * 41), "maximum length 40"),
    ("chat", "gemini", GEMINI, change(SEALED, ...), "thought_signature"),
    ("chat", "gemini", GEMINI, change(f"{SEALED}.google.thought_signature", "x"), "Corrupted"),
    ("chat", "deepseek", DEEPSEEK, change("1.reasoning_content", ...), "at index 1"),
    ("chat", "moonshot", KIMI, change("1.reasoning_content", ...), "at index 1"),
    ("chat", "moonshot", KIMI, change("1.reasoning_content", ""), "at index 1"),
    ("chat", "mistral", MISTRAL, lambda m: m.append(USER), "after role 'tool'"),
    ("chat", "mistral", MISTRAL, rename("call_123456"), "with a length of 9"),
]  # fmt: skip


@for_each(("api", "vendor", "model", "tamper", "words"), TAMPERED)
def test_a_reply_that_comes_back_otherwise_is_refused(
    api: str, vendor: str, model: str, tamper: Callable[[list[Any]], Any], words: str
) -> None:
    body = thinking("adaptive") if api == "messages" else {}
    with client(api, model, vendor) as asked:
        items = asked.begin(**body)
        changed = copy.deepcopy(items)
        tamper(changed)
        assert words in asked.ask(changed, **body).replace("\\'", "'")
        asked.server.soft_faults.clear()
        assert asked.ask(items, **body) == ""  # as it came, it is taken
        assert (len(asked.server.refusals), asked.server.soft_faults) == (1, [])


@for_each(
    ("api", "vendor", "model", "lost"),
    [
        ("messages", "", NEW, "1.content.1.x_new"),
        ("responses", "", SOL, "2.phase"),
        ("responses", "", SOL, "3.x_new"),
        ("chat", "openrouter", "some/model", "1.reasoning_details"),
        ("chat", "zai", "some/model", "1.reasoning_content"),
    ],
)
def test_lost_thinking_is_noted(api: str, vendor: str, model: str, lost: str) -> None:
    calls = [READ_A, READ_B]
    reply = {"thinking": "Hm", "text": "Reading", "calls": calls, "extra": {"x_new": [1]}}
    with client(api, model, vendor, script=[reply]) as asked:
        items = asked.begin()
        if api == "chat":
            items[1]["x_new"] = [1]
        change(lost, ...)(items)
        asked.ask(items)
        assert len(asked.server.soft_faults) == 1


# ── the cache ────────────────────────────────────────────────────────────────────────────────


def cached(usage: Body) -> tuple[int, int]:
    """The tokens read from the cache and written to it, in any format."""
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    read = usage.get("cache_read_input_tokens", details.get("cached_tokens"))
    return read, usage.get("cache_creation_input_tokens", details.get("cache_write_tokens", 0))


LONG, MARKED = text("x" * 8000), text("x" * 8000, **MARK)
FIXED_PART = {"type": "input_text", "text": "x" * 8000}


@for_each(
    ("api", "vendor", "model", "first", "second", "is_read"),
    [
        ("messages", "", NEW, [MARKED], [MARKED, text("y" * 400)], True),
        ("messages", "", NEW, [MARKED], [LONG, *[text("y")] * 18, text("z", **MARK)], True),
        ("messages", "", NEW, [MARKED], [LONG, *[text("y")] * 19, text("z", **MARK)], False),
        ("messages", "", OLD, [text("x" * 1000, **MARK)], [text("x" * 1000, **MARK)], False),
        ("chat", "openrouter", OPUS, [MARKED], [MARKED], True),
        ("chat", "deepseek", DEEPSEEK, [LONG], [LONG], True),
        ("responses", "", GPT_5_4, [FIXED_PART], [FIXED_PART], True),
        ("responses", "", SOL, [{**FIXED_PART, **BREAK}], [{**FIXED_PART, **BREAK}], True),
    ],
)  # fmt: skip
def test_a_prefix_is_cached_as_the_vendor_does(
    api: str, vendor: str, model: str, first: list[Any], second: list[Any], is_read: bool
) -> None:
    with client(api, model, vendor, script=[{"text": "Yes"}]) as asked:
        usages = []
        for parts in (first, second):
            assert asked.ask([{**USER, "content": parts}]) == ""
            usages.append(cached(asked.usage))
        assert usages[0][0] == 0
        assert (usages[1][0] > 1900) is is_read
