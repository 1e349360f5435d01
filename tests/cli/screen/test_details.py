import pytest

from kode.cli.screen.render import MAX_CHARS, MAX_ENTRIES, Details
from kode.events import Replied, ThinkingDelta, ToolFinished
from kode.messages import Message, Thinking, Usage
from tests.cli.terminals import make_screen


@pytest.fixture
def screen():
    return make_screen(60)


def replied(thinking=""):
    parts = (Thinking(text=thinking),) if thinking else ()
    return Replied(
        message=Message(role="assistant", parts=parts, stop="tool_calls"),
        usage=Usage(),
        cost_usd=None,
        context_tokens=10,
        context_window=100,
    )


def finished(subject="pytest -q", **more):
    values = {"call_id": "c1", "name": "shell", "is_error": False, "text": "", "duration_ms": 1500}
    return ToolFinished(**{**values, "subject": subject, "summary": "exit status 0", **more})


def rendered(screen, *events):
    details = Details()
    for event in events:
        details.take(event)
    return details.render(screen)


def test_a_call_shows_its_whole_command_and_output(screen):
    output = "\n".join(f"line {n}" for n in range(200))

    text = rendered(screen, finished(text=output))
    assert text.startswith("── Ran pytest -q · exit status 0 · 1.5s ─")
    assert output in text
    assert "x" * 200 in rendered(screen, finished("echo " + "x" * 200))


def test_an_edit_shows_its_diff(screen):
    diff = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n"

    assert "1 - x\n  1 + y" in rendered(screen, finished(name="edit_file", diff=diff))


def test_thinking_is_whole_and_streamed_thinking_is_there_once(screen):
    deltas = ThinkingDelta(text="First.\n"), ThinkingDelta(text="Second.")

    text = rendered(screen, *deltas, replied("First. S"))

    assert "First.\nSecond." in text
    assert text.count("First.") == 1


def test_no_detail_controls_the_terminal(screen):
    evil = "\x1b[2J\x1b]0;t\x07\x9b1m"

    text = rendered(screen, ThinkingDelta(text=evil), replied(), finished(evil, text=evil))

    assert not {"\x1b", "\x9b"} & {*text}


def test_details_stay_bounded(screen):
    long = "y" * 3 * MAX_CHARS
    events = [ThinkingDelta(text=long), *[finished(text="t")] * 3 * MAX_ENTRIES, replied(long)]

    text = rendered(screen, *events)

    assert text.count("── ") == MAX_ENTRIES
    assert len(text) < MAX_CHARS + MAX_ENTRIES * 200
