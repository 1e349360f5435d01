"""Events for tests of what is shown of them."""

from kode.events import (
    AgentFinished,
    AgentProgress,
    ContextReduced,
    MemoryChanged,
    Notice,
    Replied,
    RetryScheduled,
    SessionStarted,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Working,
)
from kode.messages import Message, Text, Usage


def replied(text, *calls):
    return Replied(
        message=Message(role="assistant", parts=(Text(text=text), *calls), stop="end"),
        usage=Usage(),
        cost_usd=None,
        context_tokens=10,
        context_window=100,
    )


def ended(status="success", error=None, files=()):
    return TurnEnded(
        status=status,
        result="",
        error=error,
        steps=2,
        usage=Usage(input_tokens=1200, output_tokens=30),
        cost_usd=0.01,
        files_changed=files,
        duration_ms=2500,
    )


def tool(name="shell", subject="pytest -q", *, is_error=False, text="", diff=""):
    return ToolFinished(
        call_id="1",
        name=name,
        subject=subject,
        is_error=is_error,
        summary="exit 1" if is_error else "exit 0",
        text=text,
        diff=diff,
        duration_ms=1500,
    )


ALL_EVENTS = (
    SessionStarted(session_id="s", cwd="/", provider="p", model="m"),
    TurnStarted(text="do it"),
    StepStarted(step=1),
    ThinkingDelta(text="hm\n\nwell"),
    TextDelta(text="Hello *you*, this is a line that is longer than twenty columns.\n\n- a\n"),
    RetryScheduled(attempt=1, max_attempts=3, delay_s=2.0, reason="overloaded"),
    TextDelta(text="| a | b |\n|---|---|\n| 1 | 2 |\n"),
    replied("x"),
    ToolStarted(call_id="1", name="shell", subject="pytest -q"),
    ToolOutput(call_id="1", text="some output\n"),
    tool(is_error=True, text="E assert\n" * 20),
    tool("edit_file", "a.py", diff="--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"),
    Working(what="Compacting the conversation"),
    ContextReduced(tokens_before=90_000, tokens_after=9_000),
    MemoryChanged(text='merged into env "a"', change_id="c"),
    AgentProgress(index=0, goal="g", activity="reading", elapsed_s=1.0, tokens=10),
    AgentFinished(index=0, goal="g", status="error", summary="no", elapsed_s=1.0, tokens=10),
    Notice(text="careful"),
    ended("error", "The key was refused. Run `kode init`."),
)
