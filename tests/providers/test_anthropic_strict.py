"""The Messages API against a server that refuses what Anthropic's refuses."""

import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from kode.errors import ThinkingRefused
from kode.events import Event, Notice, ThinkingDelta
from kode.messages import (
    Message,
    ServerItem,
    Text,
    Thinking,
    ToolResult,
    calls_of,
    text_of,
    user_message,
)
from kode.provider import Request, ToolSpec
from kode.providers.provider import HttpProvider
from kode.session.entries import MessageEntry, line_of, parse_line
from tests.providers.claudes import CLAUDES, claude
from tests.strict_server import StrictServer

SYSTEM = "You are kode. " * 2_000
READ = ToolSpec(
    name="read_file",
    description="Reads a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
)
MARK = {"type": "ephemeral"}


def reading(*paths: str, **rest: Any) -> dict[str, Any]:
    return {**rest, "calls": [{"name": "read_file", "arguments": {"path": p}} for p in paths]}


TWO_ROUNDS = [
    reading("a.py", "b.py", thinking="Two files, then.", text="Reading both."),
    reading("c.py", thinking="And a third: é 🦊."),
    {"thinking": "That is all.", "text": "Done."},
    {"text": "You are welcome."},
]


class Talk:
    """A conversation whose calls are answered at once, and whose messages come from disk."""

    def __init__(self, provider: HttpProvider, **rest: Any) -> None:
        self.provider = provider
        self.rest = {"system": SYSTEM, "tools": (READ,), "conversation": "a-session", **rest}
        self.messages: list[Message] = []
        self.events: list[Event] = []

    def add(self, message: Message) -> None:
        loaded = parse_line(line_of(MessageEntry(**vars(message))))
        assert isinstance(loaded, MessageEntry)
        self.messages.append(loaded)

    async def ask(self) -> Message:
        request = Request(messages=self.messages, **self.rest)
        reply = await self.provider.reply(request, self.events.append)
        self.add(reply)
        return reply

    async def say(self, *parts: Text | str) -> Message:
        texts = tuple(Text(text=part) if isinstance(part, str) else part for part in parts)
        self.add(Message(role="user", parts=texts))
        reply = await self.ask()
        while reply.stop in ("tool_calls", "paused"):
            if calls := calls_of(reply):
                results = (
                    ToolResult(call_id=call.id, name=call.name, text=f"{call.arguments} é")
                    for call in calls
                )
                self.add(Message(role="tool", parts=tuple(results)))
            reply = await self.ask()
        return reply


Opener = Callable[..., Any]


@asynccontextmanager
async def talking(
    model: str, script: Any, *, is_official: bool = False, request: Any = (), **info: Any
) -> AsyncIterator[tuple[Talk, StrictServer]]:
    with StrictServer(script) as server:
        provider = claude(model, server.url, is_official=is_official, **info)
        async with contextlib.aclosing(provider):
            yield Talk(provider, **dict(request)), server


def kinds(body: dict[str, Any]) -> list[list[str]]:
    return [[block["type"] for block in turn["content"]] for turn in body["messages"]]


@pytest.mark.parametrize("model", CLAUDES)
async def test_a_turn_with_two_rounds_of_calls_thinks_throughout(model: str) -> None:
    async with talking(model, TWO_ROUNDS) as (talk, server):
        done = await talk.say("Read them.")
        await talk.say("Thanks.")

    assert (text_of(done), server.refusals, server.soft_faults) == ("Done.", [], [])
    assert kinds(server.requests[2].json) == [
        ["text"],
        ["thinking", "text", "tool_use", "tool_use"],
        ["tool_result", "tool_result"],
        ["thinking", "tool_use"],
        ["tool_result"],
    ]
    shown = "".join(event.text for event in talk.events if isinstance(event, ThinkingDelta))
    assert shown.startswith("Two files, then.And a third: é 🦊.That is all.")
    first, last = server.requests[0].json, server.requests[-1].json
    assert (first.get("thinking"), first["max_tokens"]) == (last["thinking"], last["max_tokens"])


@pytest.mark.parametrize("model", CLAUDES)
@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high", "xhigh", "max"])
async def test_no_level_of_effort_is_refused_by_any_model(model: str, effort: Any) -> None:
    request = {"effort": effort, "answer_schema": {"type": "object", "properties": {}}}
    async with talking(model, [{"text": "{}"}], request=request) as (talk, server):
        await talk.say("Hello")

    assert server.refusals == []


async def test_only_new_text_is_billed_however_many_results() -> None:
    many = [f"file-{number}.py" for number in range(30)]
    script = [reading(*many, thinking="All of them."), reading(*many), {"text": "Done."}]
    async with talking("claude-sonnet-5-5", script) as (talk, server):
        await talk.say("Read them.")

    assert server.refusals == []
    for earlier, later in itertools.pairwise(server.requests):
        was, now = earlier.usage, later.usage
        written = was["cache_read_input_tokens"] + was["cache_creation_input_tokens"]
        assert now["cache_read_input_tokens"] == written
    assert max(request.body.count(b"cache_control") for request in server.requests) <= 4


async def test_omitted_and_redacted_thinking_come_back_as_they_were() -> None:
    parts = [
        {"thinking": "", "omitted": True, "extra": {"depth": 3}},
        {"redacted": "hidden", "extra": {"depth": [3]}},
        {"text": "Reading.", "extra": {"tone": {"calm": True}}},
        {"call": {"name": "read_file", "arguments": {"path": "a"}, "extra": {"caller": "me"}}},
    ]
    async with talking("claude-opus-4-8", [{"parts": parts}, {"text": "Done."}]) as (talk, server):
        await talk.say("Read it.")

    assert (server.refusals, server.soft_faults) == ([], [])
    assert server.requests[1].json["messages"][1]["content"] == server.requests[0].reply["content"]


async def test_thinking_of_a_past_that_has_changed_is_left_out() -> None:
    async with talking("claude-sonnet-5-5", TWO_ROUNDS) as (talk, server):
        await talk.say("Read them.")
        talk.messages = [replace(message, moved=True) for message in talk.messages]
        talk.rest["system"] = "Another. " * 2_000
        await talk.say("Thanks.")

    assert server.refusals == []
    assert "thinking" not in str(kinds(server.requests[-1].json))


async def test_thinking_sent_with_a_changed_past_is_refused() -> None:
    async with talking("claude-sonnet-5-5", TWO_ROUNDS) as (talk, _):
        await talk.say("Read them.")
        talk.rest["system"] = "Another. " * 2_000

        with pytest.raises(ThinkingRefused):
            await talk.say("Thanks.")


async def test_an_older_model_does_not_start_thinking_amid_calls() -> None:
    script = [reading("a.py", thinking="Let me see."), {"text": "Done."}]
    async with talking("claude-haiku-4-5", script) as (talk, server):
        talk.add(user_message("Read it."))
        asked = await talk.ask()
        unthought = tuple(p for p in asked.parts if not isinstance(p, Thinking))
        talk.messages[-1] = replace(talk.messages[-1], parts=unthought)
        (call,) = calls_of(asked)
        result = ToolResult(call_id=call.id, name=call.name, text="x")
        talk.add(Message(role="tool", parts=(result,)))
        await talk.ask()

    assert server.refusals == []
    assert "thinking" not in server.requests[1].json


async def test_an_older_model_keeps_thinking_amid_its_calls() -> None:
    script = [reading("a.py", thinking="Let me see."), {"text": "Done."}]
    async with talking("claude-haiku-4-5", script) as (talk, server):
        talk.add(user_message("Read it."))
        asked = await talk.ask()
        talk.messages[0] = user_message("Read it, please.")
        talk.messages[-1] = replace(talk.messages[-1], moved=True)
        (call,) = calls_of(asked)
        result = ToolResult(call_id=call.id, name=call.name, text="x")
        talk.add(Message(role="tool", parts=(result,)))
        await talk.ask()

    assert server.refusals == []
    assert "Let me see." in json.dumps(server.requests[1].json["messages"])


@pytest.mark.parametrize("model", ["claude-opus-4-8", "claude-opus-4-6"])
async def test_news_is_a_system_message_where_models_allow(model: str) -> None:
    news = Text(text="Memory has changed.", source="news")
    script = [{"thinking": "Hm.", "text": "Hello."}, {"text": "I see."}, {"text": "Bye."}]
    async with talking(model, script) as (talk, server):
        await talk.say(Text(text="Folder: /x", source="opening"), "Hello")
        await talk.say(news, "Go on")
        await talk.say("Bye")

    assert server.refusals == []
    roles = [turn["role"] for turn in server.requests[2].json["messages"]]
    later = ["system"] if CLAUDES[model].later_system else []
    assert roles == ["user", "assistant", "user", *later, "assistant", "user"]
    assert json.dumps(server.requests[2].json).count("Memory has changed.") == 1
    read = [request.usage["cache_read_input_tokens"] for request in server.requests]
    written = [request.usage["cache_creation_input_tokens"] for request in server.requests]
    assert read[1] == written[0]
    assert read[2] == read[1] + written[1]


async def test_a_refused_setting_stays_out_with_one_notice() -> None:
    script = [{"text": "One."}, {"text": "Two."}]
    info = {"later_system": True, "efforts": ("low", "high", "xhigh"), "default_effort": "xhigh"}
    async with talking("claude-opus-4-6", script, **info) as (talk, server):
        talk.add(user_message("Hello"))
        talk.add(Message(role="assistant", parts=(Text(text="Hi."),), stop="end"))
        await talk.say(Text(text="News.", source="news"), "Go on")
        await talk.say("More")

    assert len(server.refusals) == 2
    notices = [event.text for event in talk.events if isinstance(event, Notice)]
    assert len(notices) == 2
    assert any("`effort`" in text for text in notices)
    last = server.requests[-1].json
    assert "output_config" not in last
    assert "system" not in [turn["role"] for turn in last["messages"]]


async def test_a_paused_search_goes_on_with_what_it_had() -> None:
    search = {"query": "kode", "results": [{"url": "https://kode.example", "title": "Kode"}]}
    script = [
        {"parts": [{"thinking": "Look."}, {"search": search}], "stop": "pause_turn"},
        {"parts": [{"thinking": "Found."}, {"text": "It is kode."}]},
        {"text": "Yes."},
    ]
    request = {"search": True}
    async with talking("claude-sonnet-5-5", script, request=request) as (talk, server):
        done = await talk.say("What is it?")
        await talk.say("Sure?")

    assert (server.refusals, server.soft_faults) == ([], [])
    assert (text_of(done), talk.messages[1].stop) == ("It is kode.", "paused")
    items = [part for part in talk.messages[1].parts if isinstance(part, ServerItem)]
    assert [item.own["type"] for item in items] == ["server_tool_use", "web_search_tool_result"]
    assert "https://kode.example" in items[1].text
    assert kinds(server.requests[2].json)[1] == [
        "thinking",
        "server_tool_use",
        "web_search_tool_result",
        "thinking",
        "text",
    ]


async def test_another_model_gets_the_plain_form() -> None:
    with StrictServer(TWO_ROUNDS) as server:
        first, second = (claude(m, server.url) for m in ("claude-sonnet-5-5", "claude-opus-4-8"))
        talk = Talk(first)
        await talk.say("Read them.")
        talk.provider = second
        await talk.say("Thanks.")
        for provider in (first, second):
            await provider.aclose()

    assert (server.refusals, server.soft_faults) == ([], [])
    assert "thinking" not in str(kinds(server.requests[-1].json))


async def test_a_header_asks_the_vendor_for_interleaved_thinking() -> None:
    async with talking("claude-sonnet-4-5", TWO_ROUNDS, is_official=True) as (talk, server):
        await talk.say("Read them.")
    async with talking("claude-sonnet-5-5", TWO_ROUNDS, is_official=True) as (new, other):
        await new.say("Read them.")

    assert (server.refusals, other.refusals) == ([], [])
    assert "interleaved-thinking" in server.requests[0].headers["anthropic-beta"]
    assert "anthropic-beta" not in other.requests[0].headers


async def test_a_reply_that_only_thinks_is_not_sent_back() -> None:
    script = [{"thinking": "Hm."}, {"text": "Hello."}]
    async with talking("claude-opus-4-8", script) as (talk, server):
        await talk.say("Hello")
        await talk.say("Well?")

    assert server.refusals == []
    assert isinstance(talk.messages[1].parts[0], Thinking)
    assert kinds(server.requests[1].json) == [["text", "text"]]
