"""Whole conversations with servers that refuse what the vendors' refuse: nothing is refused, what
came goes back unchanged, and only what is new is billed."""

import contextlib
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from kode.errors import ThinkingRefused
from kode.events import Event, ThinkingDelta
from kode.messages import Message, ServerItem, Text, calls_of, text_of
from kode.provider import Provider, Request
from kode.registry import PROVIDERS
from tests.providers.line import READ, from_disk, kinds_in, open_at, results_of
from tests.providers.test_chat_dialects import FOREIGN
from tests.strict_server import StrictServer

SYSTEM = "You are kode. " * 2_000
CLAUDES = (
    "claude-sonnet-5-5 claude-haiku-5-5 claude-opus-4-8 claude-opus-4-6 claude-opus-4-5 "
    "claude-sonnet-4-5 claude-haiku-4-5"
).split()


def reading(*paths: str, **more: Any) -> dict[str, Any]:
    return {**more, "calls": [{"name": "read_file", "arguments": {"path": p}} for p in paths]}


TWO_ROUNDS = [
    reading("a.py", "b.py", thinking="Two files, then.", text="Reading both."),
    reading("c.py", thinking="And a third: é 🦊."),
    {"thinking": "That is all.", "text": "Done."},
    {"text": "You are welcome."},
]


class Talk:
    """A conversation whose calls are answered at once, and whose messages come from disk."""

    def __init__(self, provider: Provider, **request: Any) -> None:
        self.provider = provider
        self.request = {"system": SYSTEM, "tools": (READ,), "conversation": "c", **request}
        self.messages: list[Message] = []
        self.events: list[Event] = []

    async def ask(self) -> Message:
        request = Request(messages=self.messages, **self.request)
        reply = await self.provider.reply(request, self.events.append)
        self.messages.append(from_disk(reply))
        return reply

    async def say(self, *parts: Text | str) -> Message:
        texts = tuple(Text(text=part) if isinstance(part, str) else part for part in parts)
        self.messages.append(Message(role="user", parts=texts))
        reply = await self.ask()
        while reply.stop in ("tool_calls", "paused"):
            if calls_of(reply):
                self.messages.append(results_of(reply, "é" * 20))
            reply = await self.ask()
        return reply


@asynccontextmanager
async def talking(
    model: str,
    script: Any,
    *,
    vendor: str = "anthropic",
    request: Any = (),
    faulty: bool = False,
    **opened: Any,
) -> AsyncIterator[tuple[Talk, StrictServer]]:
    """Nothing may be refused, but where `faulty`."""
    with StrictServer(script, vendor=vendor) as server:
        provider = open_at(server, vendor, model, **opened)
        async with contextlib.aclosing(provider):  # type: ignore[type-var]
            yield Talk(provider, **dict(request)), server
    assert faulty or (server.refusals, server.soft_faults) == ([], [])


def bodies(server: StrictServer) -> list[dict[str, Any]]:
    return [request.json for request in server.requests]


def kinds(body: dict[str, Any]) -> list[list[str]]:
    return [kinds_in(turn["content"]) for turn in body["messages"]]


# ── Claude ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", CLAUDES)
async def test_a_turn_with_two_rounds_of_calls_thinks_throughout(model: str) -> None:
    async with talking(model, TWO_ROUNDS) as (talk, server):
        done = await talk.say("Read them.")
        await talk.say("Thanks.")

    first, _, third, last = bodies(server)
    assert text_of(done) == "Done."
    assert kinds(third) == [
        ["text"],
        ["thinking", "text", "tool_use", "tool_use"],
        ["tool_result", "tool_result"],
        ["thinking", "tool_use"],
        ["tool_result"],
    ]
    shown = "".join(event.text for event in talk.events if isinstance(event, ThinkingDelta))
    assert shown.startswith("Two files, then.And a third: é 🦊.That is all.")
    assert (first.get("thinking"), first["max_tokens"]) == (last["thinking"], last["max_tokens"])


@pytest.mark.parametrize("model", CLAUDES)
async def test_no_level_of_effort_is_refused_by_any_model(model: str) -> None:
    request = {"answer_schema": {"type": "object", "properties": {}}}
    async with talking(model, [{"text": "{}"}] * 7, request=request) as (talk, _):
        for effort in ("none", "minimal", "low", "medium", "high", "xhigh", "max"):
            talk.request["effort"] = effort
            await talk.say("Hello")


async def test_only_new_text_is_billed_however_many_results() -> None:
    many = [f"file-{number}.py" for number in range(30)]
    script = [reading(*many, thinking="All of them."), reading(*many), {"text": "Done."}]
    async with talking("claude-sonnet-5-5", script) as (talk, server):
        await talk.say("Read them.")

    for was, now in itertools.pairwise(request.usage for request in server.requests):
        written = was["cache_read_input_tokens"] + was["cache_creation_input_tokens"]
        assert now["cache_read_input_tokens"] == written
    assert max(request.body.count(b"cache_control") for request in server.requests) <= 4


async def test_thinking_of_a_changed_past_is_left_out() -> None:
    async with talking("claude-sonnet-5-5", TWO_ROUNDS, faulty=True) as (talk, server):
        await talk.say("Read them.")
        talk.request["system"] = "Another. " * 2_000
        with pytest.raises(ThinkingRefused):
            await talk.say("Thanks.")
        talk.messages = [replace(message, moved=True) for message in talk.messages[:-1]]
        await talk.say("Thanks.")

    assert len(server.refusals) == 1
    assert "thinking" not in str(kinds(bodies(server)[-1]))


async def test_a_paused_search_goes_on_with_what_it_had() -> None:
    search = {"query": "kode", "results": [{"url": "https://kode.example", "title": "Kode"}]}
    script = [
        {"parts": [{"thinking": "Look."}, {"search": search}], "stop": "pause_turn"},
        {"parts": [{"thinking": "Found."}, {"text": "It is kode."}]},
        {"text": "Yes."},
    ]
    async with talking("claude-sonnet-5-5", script, request={"search": True}) as (talk, server):
        done = await talk.say("What is it?")
        await talk.say("Sure?")

    items = [part for part in talk.messages[1].parts if isinstance(part, ServerItem)]
    asked, found = "server_tool_use", "web_search_tool_result"
    assert (text_of(done), talk.messages[1].stop) == ("It is kode.", "paused")
    assert [item.own["type"] for item in items] == [asked, found]
    assert "https://kode.example" in items[1].text
    assert kinds(bodies(server)[2])[1] == ["thinking", asked, found, "thinking", "text"]


# ── OpenAI's Responses ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", ["gpt-6.1-sol", "gpt-5.4", "gpt-5.3-codex", "gpt-4.1"])
async def test_a_session_reaches_openai_as_it_expects(model: str) -> None:
    search = {"search": {"query": "q", "results": [{"url": "https://a.example"}]}}
    script = [
        reading("a", "a", thinking="Hm.", text="Reading.", extra={"x_new": [1]}),
        {"parts": [{"thinking": "Look."}, search, {"text": "It says so."}]},
        {"thinking": "Never mind.", "text": "Half", "stop": "length"},
        {"thinking": "Only thought.", "stop": "length"},
        {"text": "{}"},
    ]
    facts = {"max_output_tokens": 30_000}
    opened = {"vendor": "openai", "official": True, "facts": facts, "request": {"search": True}}
    async with talking(model, script, **opened) as (talk, _):
        await talk.say(Text(text="[folder]", source="opening"), Text(text="x" * 6_000))
        for question in ("And?", "Go on."):
            await talk.say(question)
        schema = {"type": "object", "properties": {}, "additionalProperties": False}
        talk.request["answer_schema"] = schema
        await talk.say("As JSON.")

    replies = [message for message in talk.messages if message.role == "assistant"]
    assert [reply.stop for reply in replies] == ["tool_calls", "end", "length", "length", "end"]
    assert any(isinstance(part, ServerItem) for part in replies[1].parts)
    # The last differs: the schema of an answer is read ahead of the prompt.
    for was, now in itertools.pairwise(reply.usage for reply in replies[:-1]):
        assert was is not None and now is not None  # noqa: PT018
        assert now.cached_tokens > was.input_tokens - 128


# ── every host of Chat Completions ───────────────────────────────────────────────────────────

MODELS = {
    "openai": "gpt-4.1",
    "gemini": "gemini-3.1-pro-preview",
    "openrouter": "anthropic/claude-sonnet-5.5",
    "deepseek": "deepseek-v4-pro",
    "mistral": "devstral-latest",
    "moonshot": "kimi-k2.6",
    "groq": "openai/gpt-oss-120b",
}
HOSTS = [
    (row.name, effort)
    for row in PROVIDERS
    if "chat" in row.apis and row.name not in ("azure", "bedrock")
    for effort in (None, "high", "none")
    if row.name != "openai" or not effort  # its models with an effort are not served here
]


@pytest.mark.parametrize(("name", "effort"), HOSTS)
async def test_a_session_passes_with_each_host(name: str, effort: Any) -> None:
    """Two steps with calls and a further turn, behind a history of other models."""
    is_open = next(row.dialect.is_open for row in PROVIDERS if row.name == name)
    extra = {"extra": {"x_new": {"a": [1, None, "é"]}, "y_new": "s"}} if is_open else {}
    extra = {} if name == "openai" else extra
    script = [
        reading("a", "b", thinking="I look. é", text="Reading.", **extra),
        reading("a"),
        {"thinking": "Done.", "text": "It says hi."},
        {"text": "Bye."},
    ]
    opened = {"vendor": name, "official": True, "api": "chat", "request": {"effort": effort}}
    async with talking(MODELS.get(name, "some-model"), script, **opened) as (talk, server):
        talk.messages = list(FOREIGN[:-1])
        await talk.say("Thanks.")
        await talk.say("Next.")

    assert len(server.requests) == len(script)
