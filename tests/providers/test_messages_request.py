"""The parameters of a Messages request: thinking, effort, what may be cached, what is shown."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kode.messages import (
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    user_message,
)
from kode.provider import Request, ToolSpec
from kode.providers.provider import HttpProvider
from tests import pictures
from tests.providers.claudes import CLAUDES, claude
from tests.tables import for_each

URL = "http://127.0.0.1:1"
MARK = {"type": "ephemeral"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
TOOL = ToolSpec(name="read", description="Reads.", parameters={"type": "object"})


def body(
    model: str, *messages: Message, info: dict[str, Any] | None = None, **request: Any
) -> dict[str, Any]:
    given = {"system": "s", "conversation": "a-session", **request}
    asked = Request(messages=messages or (user_message("hi"),), **given)
    decoded: dict[str, Any] = json.loads(claude(model, URL, **(info or {})).encode(asked))
    return decoded


def answered(*results: ToolResult | Image | Text, moved: bool = False) -> tuple[Message, ...]:
    """A request in the middle of calls that thinking began."""
    made = [result for result in results if isinstance(result, ToolResult)]
    calls = [ToolCall(id=result.call_id, name="read", arguments="{}") for result in made]
    reply = Message(
        role="assistant",
        parts=(Thinking(text="Hm.", signature="s"), *calls),
        stop="tool_calls",
        origin="messages:anthropic/claude-haiku-4-5",
        moved=moved,
    )
    return user_message("go"), reply, Message(role="tool", parts=results)


ADAPTIVE = {"type": "adaptive", "display": "summarized"}


@for_each(
    ("model", "effort", "thinking", "level"),
    [
        ("claude-sonnet-5-5", None, ADAPTIVE, None),
        ("claude-sonnet-5-5", "xhigh", ADAPTIVE, "xhigh"),
        ("claude-sonnet-5-5", "minimal", ADAPTIVE, "low"),
        ("claude-sonnet-5-5", "none", ADAPTIVE, "low"),
        ("claude-haiku-5-5", "none", {"type": "disabled"}, None),
        ("claude-opus-4-6", "xhigh", ADAPTIVE, "high"),
        ("claude-opus-4-5", "max", {"type": "enabled", "budget_tokens": 32_000}, "high"),
        ("claude-haiku-4-5", None, {"type": "enabled", "budget_tokens": 16_000}, None),
        ("claude-haiku-4-5", "low", {"type": "enabled", "budget_tokens": 4_000}, None),
        ("claude-haiku-4-5", "none", {"type": "disabled"}, None),
        ("some-model", "high", None, None),
    ],
)
def test_a_model_thinks_as_it_can(
    model: str, effort: Any, thinking: dict[str, Any] | None, level: str | None
) -> None:
    sent = body(model, effort=effort)

    assert sent.get("thinking") == thinking
    assert sent.get("output_config", {}).get("effort") == level


def test_the_default_level_is_the_vendors() -> None:
    sent = body("claude-sonnet-5-5", info={"default_effort": "xhigh"})

    assert sent["output_config"] == {"effort": "xhigh"}


def test_a_schema_and_a_level_share_their_parameter() -> None:
    sent = body("claude-sonnet-5-5", effort="low", answer_schema=SCHEMA, tools=(TOOL,))

    assert sent["output_config"]["effort"] == "low"
    assert sent["output_config"]["format"]["type"] == "json_schema"
    assert sent["tool_choice"] == {"type": "none"}


@pytest.mark.parametrize(
    ("asked", "limit"), [(300, 16_300), (12_000, 24_192), (40_000, 40_000), (64_000, 64_000)]
)
def test_the_limit_leaves_room_for_the_answer_beside_the_budget(asked: int, limit: int) -> None:
    assert body("claude-haiku-4-5", max_output_tokens=asked)["max_tokens"] == limit


def test_a_budget_fits_into_what_the_model_can_say() -> None:
    small = body("claude-haiku-4-5", info={"max_output_tokens": 8_000})
    tiny = body("claude-haiku-4-5", info={"max_output_tokens": 2_000})

    assert small["thinking"]["budget_tokens"] < small["max_tokens"] <= 8_000
    assert "thinking" not in tiny


@pytest.mark.parametrize("thinks", [True, False])
def test_an_older_model_thinks_where_thinking_began_its_calls(thinks: bool) -> None:
    begun = answered(ToolResult(call_id="c", name="read", text="x"))
    more = replace(begun[1], parts=begun[1].parts[1:])
    if not thinks:
        begun = [begun[0], more, begun[2]]

    sent = body("claude-haiku-4-5", *begun, more, begun[2])

    assert ("thinking" in sent) is thinks
    assert "thinking" in body("claude-haiku-4-5", *begun, user_message("And?"), more, *begun[:1])


def test_a_weak_model_that_thinks_is_sent_no_temperature() -> None:
    assert "temperature" not in body("claude-haiku-4-5", small=True)
    assert body("claude-haiku-4-5", small=True, effort="none")["temperature"] == 0
    assert body("some-model", small=True)["temperature"] == 0
    assert "temperature" not in body("some-model", small=True, info={"takes_temperature": False})


def test_search_is_declared_where_wanted_and_supported() -> None:
    found = body("claude-opus-4-8", search=True, tools=(TOOL,))["tools"]

    assert [tool["name"] for tool in found] == ["read", "web_search"]
    assert found[1]["type"] == "web_search_20260318"
    assert len(body("claude-opus-4-8", search=True)["tools"]) == 1
    assert "tools" not in body("claude-opus-4-8")
    assert "tools" not in body("some-model", search=True)


def marks(sent: dict[str, Any]) -> list[tuple[int, int]]:
    """Where marks stand: the turn and the block."""
    return [
        (at, number)
        for at, turn in enumerate(sent["messages"])
        for number, block in enumerate(turn["content"])
        if "cache_control" in block
    ]


def said(text: str, model: str = "claude-opus-4-8") -> Message:
    parts = (Thinking(text="Hm.", signature="s"), Text(text=text))
    origin = f"messages:anthropic/{model}"
    return Message(role="assistant", parts=parts, stop="end", origin=origin)


def test_marks_end_the_last_request_and_this_one() -> None:
    own, other = said("one"), said("two", "another-model")
    talk = (user_message("a"), own, user_message("b"), other, user_message("c"), other)

    sent = body("claude-opus-4-8", *talk, user_message("d"))

    assert marks(sent) == [(0, 0), (6, 0)]
    assert sent["system"][0]["cache_control"] == MARK
    assert marks(body("claude-opus-4-8", *talk[:5], own, user_message("d"))) == [(4, 0), (6, 0)]


def test_an_hour_is_marked_at_the_last_answer() -> None:
    hour = {**MARK, "ttl": "1h"}
    steps = answered(ToolResult(call_id="c1", name="read", text="x"))
    talk = (*steps, said("done", "claude-haiku-4-5"), user_message("more"), *steps[1:])

    first = body("claude-haiku-4-5", *steps, info={"cache": "long"})
    later = body("claude-haiku-4-5", *talk, info={"cache": "long"})

    assert (first["system"][0]["cache_control"], marks(first)) == (MARK, [(0, 0), (2, 0)])
    assert (later["system"][0]["cache_control"], marks(later)) == (hour, [(2, 0), (4, 0), (6, 0)])
    blocks = [later["messages"][at]["content"][0]["cache_control"] for at in (2, 4, 6)]
    assert blocks == [hour, MARK, MARK]
    assert "cache_control" not in str(body("claude-haiku-4-5", *talk, info={"cache": "none"}))


def test_no_mark_stands_on_an_empty_result() -> None:
    filled = ToolResult(call_id="c1", name="read", text="x")
    empty = ToolResult(call_id="c2", name="read", text=" ")

    assert marks(body("claude-haiku-4-5", *answered(filled, empty))) == [(0, 0), (2, 0)]


def test_a_mark_moves_to_a_closing_system_message() -> None:
    news = Message(role="user", parts=(Text(text="N", source="news"), Text(text="on")))

    sent = body("claude-opus-4-8", user_message("a"), said("one"), news)

    assert [turn["role"] for turn in sent["messages"]] == ["user", "assistant", "user", "system"]
    assert marks(sent) == [(0, 0), (3, 0)]


@pytest.mark.parametrize("results", [True, False])
def test_news_beside_results_or_alone_stays_in_the_users_turn(results: bool) -> None:
    done = ToolResult(call_id="c", name="read", text="x")
    news = Message(role="user", parts=(Text(text="N", source="news"),))
    begun = answered(done) if results else (user_message("a"), said("one"))

    last = body("claude-opus-4-8", *begun, news)["messages"][-1]

    kinds = ["tool_result", "text"] if results else ["text"]
    assert (last["role"], [block["type"] for block in last["content"]]) == ("user", kinds)


def picture(tmp_path: Path, kind: str, call_id: str = "") -> Image:
    data = b"%PDF-1.7" if kind == "application/pdf" else pictures.png()
    kept = tmp_path / hashlib.sha256(data).hexdigest()[:32]
    kept.write_bytes(data)
    return Image(
        name="a.x",
        media_type=kind,
        width=1,
        height=1,
        size_bytes=len(data),
        kept_in=str(kept),
        call_id=call_id,
    )


@pytest.mark.parametrize(
    ("kind", "block"), [("image/png", "image"), ("application/pdf", "document")]
)
def test_pictures_a_call_showed_are_in_its_result(tmp_path: Path, kind: str, block: str) -> None:
    first, second = (ToolResult(call_id=c, name="read", text="see") for c in ("c1", "c2"))
    shown, loose = picture(tmp_path, kind, "c2"), picture(tmp_path, kind)

    sent = body("claude-haiku-4-5", *answered(first, second, shown, loose))

    content = sent["messages"][2]["content"]
    assert [one["type"] for one in content] == ["tool_result", "tool_result", block]
    assert content[0]["content"] == "see"
    assert [one["type"] for one in content[1]["content"]] == ["text", block]
    assert content[1]["content"][1]["source"]["media_type"] == kind


def test_a_model_that_reads_no_pdf_is_told_of_it(tmp_path: Path) -> None:
    shown = Message(role="user", parts=(picture(tmp_path, "application/pdf"),))

    sent = body("claude-haiku-4-5", shown, info={"sees_pdf": False})

    (block,) = sent["messages"][0]["content"]
    assert block["type"] == "text"
    assert "a.x" in block["text"]


def betas_of(provider: HttpProvider) -> str | None:
    return provider._format.headers(provider.target).get("anthropic-beta")


def test_the_header_for_interleaved_thinking_joins_the_users() -> None:
    provider = claude("claude-haiku-4-5", URL, is_official=True)
    provider._settings = replace(provider._settings, headers={"Anthropic-Beta": "mine"})

    assert betas_of(provider) == "mine,interleaved-thinking-2025-05-14"
    assert betas_of(claude("claude-haiku-4-5", URL)) is None
    assert not any(
        betas_of(claude(model, URL, is_official=True))
        for model, info in CLAUDES.items()
        if "adaptive" in info.thinking
    )
