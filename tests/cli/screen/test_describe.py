from typing import Any

import pytest
from hypothesis import given, strategies as st

from kode.cli.screen.describe import describe_event
from kode.cli.screen.lines import cell_width
from kode.events import (
    AgentFinished,
    AgentProgress,
    ContextReduced,
    Event,
    MemoryChanged,
    Notice,
    RetryScheduled,
    StepStarted,
    ToolFinished,
    ToolStarted,
)
from kode.messages import Refusal


def finished(subject: str = "kode/cli/render.py", **changed: Any) -> ToolFinished:
    usual = {"name": "read_file", "is_error": False, "summary": "142 lines", "duration_ms": 400}
    return ToolFinished(call_id="1", subject=subject, text="", **{**usual, **changed})


def line_of(event: Event, width: int = 78) -> str:
    line = describe_event(event, width)
    return f"{line.mark} {line.text}".strip() if line is not None else ""


DENIED = Refusal(by="rule", message="A rule denies it. Ask the person.")
AGENT = {"index": 0, "goal": "find it all", "elapsed_s": 3.0, "tokens": 1200}
LINES: dict[str, Event] = {
    "● Read kode/cli/render.py · 142 lines · 0.4s": finished(),
    "✗ Failed: reading a.py": finished("a.py", is_error=True, summary="", duration_ms=3),
    "✗ Ran make · exit 2": finished(
        "make", name="shell", failed=True, exit_status=2, summary="exit 2", duration_ms=3
    ),
    "● weather Rome · sunny": finished("Rome", name="weather", summary="sunny", duration_ms=3),
    "– Denied: reading a.py · A rule denies it.": finished(
        "a.py", refused=True, refusals=(DENIED,)
    ),
    "… Running make": ToolStarted(call_id="1", name="shell", subject="make"),
    "● Agent 1: find it all · success · 3.0s · 1.2k tokens": AgentFinished(
        **AGENT, status="success", summary=""
    ),
    "… Agent 1: find it all · reading · 3.0s · 1.2k tokens": AgentProgress(
        **AGENT, activity="reading"
    ),
    "It broke off. Retrying in 2.0s (2 of 3).": RetryScheduled(
        attempt=1, max_attempts=3, delay_s=2, reason="It broke off."
    ),
    "context: compacted, 9k → 100 tokens": ContextReduced(tokens_before=9000, tokens_after=100),
    "memory: merged": MemoryChanged(text="merged"),
    "Warning: the disk is nearly full": Notice(text="the disk is\nnearly full"),
    "": StepStarted(step=1),
}


@pytest.mark.parametrize("text", LINES)
def test_an_event_has_one_line(text: str) -> None:
    assert line_of(LINES[text]) == text


@given(st.text(), st.text(), st.integers(10, 100), st.booleans())
def test_each_line_fits_its_width(subject: str, summary: str, width: int, refused: bool) -> None:
    for event in (
        finished(subject, summary=summary, refused=refused),
        ToolStarted(call_id="1", name="shell", subject=subject),
        AgentFinished(**{**AGENT, "goal": subject}, status="error", summary=""),
        AgentProgress(**{**AGENT, "goal": subject}, activity=summary),
    ):
        line = describe_event(event, width)
        assert line is not None
        assert cell_width(line.text) <= width
        assert "\n" not in line.text
