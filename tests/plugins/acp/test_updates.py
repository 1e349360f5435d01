import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from acp.helpers import update_tool_call

from kode.events import (
    AgentFinished,
    AgentProgress,
    ContextReduced,
    MemoryChanged,
    Notice,
    Replied,
    RetryScheduled,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
)
from kode.messages import Message, ToolCall, Usage
from kode.plugins.acp.live import Outbox
from kode.plugins.acp.updates import Updates, message_update, text_content, thought_update
from tests.plugins.acp.conftest import preview


@pytest.fixture
def updates():
    updates = Updates()
    place = SimpleNamespace(cwd=Path("/p"))
    updates.conversation = SimpleNamespace(place=place, preview_call=preview, cost_usd=1.0)
    return updates


@pytest.fixture
def wire(updates):
    """What a client gets of an event."""

    def of(event):
        shown = updates.convert_event(event)
        return [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in shown]

    return of


def replied(name="shell", arguments='{"command": "x"}', cost_usd=None):
    call = ToolCall(id="1", name=name, arguments=arguments)
    answer = Message(role="assistant", parts=(call,), stop="tool_calls")
    spent = {"usage": Usage(input_tokens=10), "cost_usd": cost_usd}
    return Replied(message=answer, **spent, context_tokens=10, context_window=100)


def output(text, **more):
    return ToolOutput(call_id="1", text=text, **more)


def content_of(update):
    return update["content"][0]["content"]["text"]


async def test_updates_wait_for_the_session_and_skip_stale_output():
    read = []

    async def send(update):
        read.append(update)

    outbox = Outbox(send)
    states = [update_tool_call("c", content=[text_content("x" * n)]) for n in range(1, 50)]
    others = [
        message_update("one", "a"),
        thought_update("two", "a"),
        update_tool_call("c", status="completed"),
    ]
    outbox.put(*others[:2], *states, others[2])
    await asyncio.sleep(0)
    assert read == []

    await outbox.wait_until_sent()

    assert read == [*others[:2], states[-1], others[2]]


def test_a_notice_of_kode_is_a_thought_and_no_answer(updates, wire):
    for event, words in (
        (Notice(text="the disk is nearly full"), "disk"),
        (ContextReduced(tokens_before=9000, tokens_after=100), "9k"),
    ):
        (one,) = wire(event)
        assert one["sessionUpdate"] == "agent_thought_chunk"
        assert words in one["content"]["text"]
    assert updates.convert_event(MemoryChanged(text="the note", of_session=True)) == []


def test_a_text_that_is_said_again_is_another_message(wire):
    wire(StepStarted(step=1))
    (broken,) = wire(TextDelta(text="The ans"))
    limits = {"attempt": 1, "max_attempts": 3, "delay_s": 2}

    (said,) = wire(RetryScheduled(**limits, reason="It broke off.", discards_text=True))
    (again,) = wire(TextDelta(text="The answer"))

    assert "2 of 3" in said["content"]["text"]
    assert broken["messageId"] != again["messageId"]


def test_the_cost_counts_the_turn_that_runs(wire):
    costs = [wire(replied(cost_usd=0.25))[-1]["cost"] for _ in range(2)]

    assert costs == [{"amount": usd, "currency": "USD"} for usd in (1.25, 1.5)]


def test_values_of_keys_are_masked_in_what_a_call_shows(wire):
    shown = str(wire(replied(arguments='{"command": "echo sk-secret"}')))

    assert "sk-secret" not in shown
    assert "echo [redacted]" in shown


def test_a_call_that_no_reply_asked_for_is_shown_too(updates, wire):
    call = {"call_id": "prepared-1", "name": "shell", "subject": "git status"}
    begun = wire(ToolStarted(**call))
    done = ToolFinished(**call, is_error=False, summary="", text="clean")

    (ended,) = wire(done)

    assert [one["sessionUpdate"] for one in begun] == ["tool_call", "tool_call_update"]
    assert begun[0]["title"] == "git status"
    assert ended["status"] == "completed"
    assert wire(replace(done, failed=True))[-1]["status"] == "failed"
    assert updates.calls == {}


def test_output_is_shown_by_its_end_with_the_unfinished_line(wire):
    wire(replied())
    wire(output("one\n"))
    (shown,) = wire(output("two\n", partial="50%"))
    assert content_of(shown) == "one\ntwo\n50%"
    for number in range(20_000):
        (last,) = wire(output(f"line {number}\n"))
    assert content_of(last).endswith("line 19999\n")
    assert len(content_of(last)) <= 16_000


def test_subagents_are_shown_in_the_call_that_started_them(updates, wire):
    usual = {"elapsed_s": 1, "tokens": 1}
    working = AgentProgress(index=1, goal="read b", activity="reading", **usual)
    assert updates.convert_event(working) == []
    wire(replied("delegate_tasks", "{}"))
    wire(working)

    (shown,) = wire(AgentFinished(index=0, goal="read a", status="success", summary="", **usual))

    text = content_of(shown)
    assert shown["toolCallId"] == "1"
    assert text.index("Agent 1: read a · success") < text.index("Agent 2: read b · reading")
