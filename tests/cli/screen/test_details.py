import io
import json

import pytest

from kode.cli.screen.details import MAX_CHARS, MAX_ENTRIES, Details
from kode.cli.screen.screen import Screen
from kode.events import (
    Replied,
    ThinkingDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnStarted,
)
from kode.messages import Message, Thinking, ToolCall, Usage


@pytest.fixture
def screen():
    return Screen(
        stream=io.StringIO(),
        rich_terminal=False,
        color=False,
        columns=lambda: 60,
        rows=lambda: 24,
    )


def replied(*calls, thinking=""):
    parts = (*((Thinking(text=thinking),) if thinking else ()), *calls)
    return Replied(
        message=Message(role="assistant", parts=parts, stop="tool_calls"),
        usage=Usage(),
        cost_usd=None,
        context_tokens=10,
        context_window=100,
    )


def call(call_id="c1", name="shell", **arguments):
    return ToolCall(id=call_id, name=name, arguments=json.dumps(arguments, ensure_ascii=False))


def finished(call_id="c1", name="shell", subject="pytest -q", text="", diff="", is_error=False):
    return ToolFinished(
        call_id=call_id,
        name=name,
        subject=subject,
        is_error=is_error,
        summary="exit status 0",
        text=text,
        diff=diff,
        duration_ms=1500,
    )


def details(*events):
    kept = Details()
    for event in events:
        kept.take(event)
    return kept


def test_a_call_shows_all_arguments_and_its_whole_output(screen):
    output = "\n".join(f"line {n}" for n in range(200))
    asked = call(command="cd x\npytest -q", timeout_s=300)

    text = details(replied(asked), finished(text=output)).render(screen)

    assert text.startswith("── Ran pytest -q · exit status 0 · 1.5s ─")
    assert "command: \n    cd x\n    pytest -q\ntimeout_s: 300\n" in text
    assert output in text


def test_an_edit_shows_its_diff_instead_of_the_texts(screen):
    asked = call(name="edit_file", path="a.py", old_text="x\n", new_text="y\n")
    diff = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n"

    text = details(replied(asked), finished(name="edit_file", diff=diff)).render(screen)

    assert "path: a.py" in text
    assert "old_text" not in text
    assert "1 - x\n  1 + y" in text


def test_thinking_is_whole_and_streamed_thinking_is_there_once(screen):
    kept = details(
        ThinkingDelta(text="First.\n"), ThinkingDelta(text="Second."), replied(thinking="First. S")
    )

    text = kept.render(screen)

    assert "First.\nSecond." in text
    assert text.count("First.") == 1


def test_a_running_call_shows_what_has_come_so_far(screen):
    started = ToolStarted(call_id="c1", name="shell", subject="make")
    output = ToolOutput(call_id="c1", text="compiling\n")

    text = details(replied(call(command="make")), started, output).render(screen)

    assert "── Running make" in text
    assert "compiling" in text


def test_thinking_since_the_last_call_stands_below_it(screen):
    kept = details(
        replied(call(command="one"), call("c2", command="two")),
        finished(subject="one", text="1"),
        finished("c2", subject="two", text="2\n3"),
        ThinkingDelta(text="So it is."),
    )

    text = kept.render(screen, only_last=True)

    assert text.startswith("── Ran two")
    assert text.endswith("So it is.")


def test_arguments_that_are_no_json_are_shown_as_they_are(screen):
    asked = ToolCall(id="c1", name="shell", arguments='{"command": "ls')

    assert '{"command": "ls' in details(replied(asked), finished()).render(screen)


def test_no_detail_controls_the_terminal(screen):
    evil = "\x1b[2J\x1b]0;t\x07\x9b1m"
    kept = details(
        ThinkingDelta(text=evil), replied(call(command=evil)), finished(subject=evil, text=evil)
    )

    text = kept.render(screen)

    assert "\x1b" not in text
    assert "\x9b" not in text


def test_details_stay_bounded(screen):
    kept = details(TurnStarted(text="x"), ThinkingDelta(text="y" * 3 * MAX_CHARS))
    kept.take(replied(call(command="z" * 3 * MAX_CHARS)))
    for number in range(3 * MAX_ENTRIES):
        kept.take(ToolStarted(call_id=str(number), name="shell", subject="x"))
        kept.take(ToolOutput(call_id=str(number), text="o" * 3 * MAX_CHARS))
        kept.take(finished(str(number), text="t"))

    assert len(kept.entries) == MAX_ENTRIES
    assert len(kept.render(screen)) < MAX_ENTRIES * 200
