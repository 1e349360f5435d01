from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

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
from kode.plugins.acp.updates import Updates
from tests.plugins.acp.conftest import preview


@pytest.fixture
def updates() -> Updates:
    return Updates(Path("/p"), preview)


def replied(*calls: ToolCall, cost_usd: float | None = None) -> Replied:
    return Replied(
        message=Message(role="assistant", parts=calls, stop="tool_calls"),
        usage=Usage(input_tokens=10),
        cost_usd=cost_usd,
        context_tokens=10,
        context_window=100,
    )


def wire(updates: list[Any]) -> list[dict[str, Any]]:
    return [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in updates]


def test_a_notice_of_kode_is_a_thought_and_no_answer(updates: Updates) -> None:
    for event, words in (
        (Notice(text="the disk is nearly full"), "disk"),
        (ContextReduced(kind="compaction", tokens_before=9000, tokens_after=100), "9k"),
    ):
        (one,) = wire(updates.of(event))
        assert one["sessionUpdate"] == "agent_thought_chunk"
        assert words in one["content"]["text"]
    assert updates.of(MemoryChanged(text="the note", of_session=True)) == []


def test_a_text_that_is_said_again_is_another_message(updates: Updates) -> None:
    updates.of(StepStarted(step=1))
    (broken,) = wire(updates.of(TextDelta(text="The ans")))
    retry = RetryScheduled(
        attempt=1, max_attempts=3, delay_s=2, reason="It broke off.", discards_text=True
    )

    (said,) = wire(updates.of(retry))
    (again,) = wire(updates.of(TextDelta(text="The answer")))

    assert "attempt 2 of 3" in said["content"]["text"]
    assert broken["messageId"] != again["messageId"]


def test_the_cost_counts_the_turn_that_runs(updates: Updates) -> None:
    updates.cost_usd = lambda: 1.0

    (first,) = wire(updates.of(replied(cost_usd=0.25)))
    (second,) = wire(updates.of(replied(cost_usd=0.25)))

    assert first["cost"] == {"amount": 1.25, "currency": "USD"}
    assert second["cost"]["amount"] == 1.5


def test_values_of_keys_are_masked_in_what_a_call_shows(updates: Updates) -> None:
    call = ToolCall(id="1", name="shell", arguments='{"command": "echo sk-secret"}')

    shown = str(wire(updates.of(replied(call))))

    assert "sk-secret" not in shown
    assert "echo [redacted]" in shown


def test_a_call_that_no_reply_asked_for_is_shown_too(updates: Updates) -> None:
    begun = wire(updates.of(ToolStarted(call_id="prepared-1", name="shell", subject="git status")))
    call: dict[str, Any] = {"call_id": "prepared-1", "name": "shell", "subject": "git status"}
    done = ToolFinished(**call, is_error=False, summary="", text="clean")

    (ended,) = wire(updates.of(done))
    (failed,) = wire(updates.of(replace(done, failed=True))[-1:])

    assert [one["sessionUpdate"] for one in begun] == ["tool_call", "tool_call_update"]
    assert failed["status"] == "failed"
    assert begun[0]["title"] == "git status"
    assert ended["status"] == "completed"
    assert updates.calls == {}


def test_output_is_shown_by_its_end_with_the_unfinished_line(updates: Updates) -> None:
    updates.of(replied(ToolCall(id="1", name="shell", arguments='{"command": "x"}')))
    updates.of(ToolOutput(call_id="1", text="one\n"))
    (shown,) = wire(updates.of(ToolOutput(call_id="1", text="two\n", partial="50%")))
    assert shown["content"][0]["content"]["text"] == "one\ntwo\n50%"
    for number in range(20_000):
        last = updates.of(ToolOutput(call_id="1", text=f"line {number}\n"))
    text = wire(last)[0]["content"][0]["content"]["text"]
    assert text.endswith("line 19999\n")
    assert len(text) <= 16_000


def test_subagents_are_shown_in_the_call_that_started_them(updates: Updates) -> None:
    working = AgentProgress(index=1, goal="read b", activity="reading", elapsed_s=1, tokens=1)
    assert updates.of(working) == []
    updates.of(replied(ToolCall(id="1", name="delegate_tasks", arguments="{}")))
    updates.of(working)

    usual: dict[str, Any] = {"summary": "", "elapsed_s": 1, "tokens": 1}
    ended = AgentFinished(index=0, goal="read a", status="success", **usual)
    (shown,) = wire(updates.of(ended))

    text = shown["content"][0]["content"]["text"]
    assert shown["toolCallId"] == "1"
    assert text.index("Agent 1: read a · success") < text.index("Agent 2: read b · reading")
