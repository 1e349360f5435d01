"""A session as text: the transcript, and the record that needs no model."""

import json

import pytest
from hypothesis import given, strategies as st

from kode.memory.digest import record_of, render_transcript, summarize_turn
from kode.messages import Message, Refusal, Text, ToolCall, ToolResult, user_message

SECRET = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def said(text: str, **more) -> Message:
    return Message(role="assistant", parts=(Text(text=text),), stop=more.get("stop", "end"))


def did(name: str, result: str = "ok", *, cut="", exit_status=None, refusals=(), **arguments):
    """A call and its result, as two messages."""
    id = f"{name}{json.dumps(arguments)}"
    call = ToolCall(id=id, name=name, arguments=json.dumps(arguments))
    outcome = ToolResult(
        call_id=id, name=name, text=result, cut=cut, exit_status=exit_status, refusals=refusals
    )
    return (
        Message(role="assistant", parts=(call,), stop="tool_calls"),
        Message(role="tool", parts=(outcome,)),
    )


UNDONE = Message(
    role="user", parts=(Text(text="[The person undid your changes to: a.py.]", source="note"),)
)
SESSION = (
    user_message("Fix the parser"),
    *did("read_file", path="a.py"),
    *did("edit_file", path="a.py", old="x", new="y"),
    *did("shell", "1 failed", command="pytest -q", exit_status=1),
    *did("shell", "refused", command="rm -rf /", refusals=(Refusal(by="person"),)),
    said("The parser is fixed, one test still fails."),
    UNDONE,
)


def test_a_record_says_what_was_asked_done_and_undone():
    record = record_of(SESSION)

    assert len(record) <= 500
    for part in (
        "Fix the parser",
        "edited a.py",
        "ran pytest -q (exit status 1)",
        "undid your changes to: a.py",
        "one test still fails",
    ):
        assert part in record
    assert "rm -rf" not in record
    assert record.index("edited") < record.index("read")


@pytest.mark.parametrize("stop", ["interrupted", "length"])
def test_a_session_that_was_cut_off_did_not_end_well(stop):
    record = record_of((user_message("Fix it"), *did("shell"), said("I will", stop=stop)))
    assert stop in record


def test_a_patch_names_the_files_that_it_changes():
    patch = "*** Begin Patch\n*** Update File: a/b.py\n*** Add File: c.py\n*** End Patch"
    assert "edited a/b.py, c.py" in record_of(
        (user_message("Go"), *did("apply_patch", input=patch))
    )


@pytest.mark.parametrize(
    "messages",
    [(), (user_message("Hi"), said("Hello")), did("shell", cut="not_run", command="make")],
)
def test_a_session_in_which_no_tool_ran_has_no_record(messages):
    assert record_of(messages) == ""


def test_a_turn_is_two_lines():
    user, agent = summarize_turn(SESSION, "12:34", 160)
    assert user == '12:34  user  "Fix the parser"'
    assert agent.startswith("12:34  agent  edited a.py; ran pytest -q (exit status 1)")
    assert summarize_turn((user_message("Hi"), said("Hello")), "1:00", 160)[1].endswith("Hello")


def test_a_transcript_tells_of_calls_undo_and_failure():
    messages = (
        Message(role="user", parts=(Text(text="remembered", source="memory"), Text(text="Go"))),
        *SESSION[1:],
    )
    text = render_transcript(messages)

    assert "remembered" not in text
    assert "User: Go" in text
    assert "shell failed: 1 failed" in text
    assert text.endswith("Note: [The person undid your changes to: a.py.]")


def test_a_long_transcript_keeps_its_last_turn():
    messages = [user_message(f"Request {number} " + "x" * 900) for number in range(60)]
    text = render_transcript(messages)
    assert len(text) <= 24_000
    assert "Request 0 " in text
    assert "Request 59" in text


def test_credentials_are_in_neither():
    messages = (user_message(f"Use {SECRET}"), *did("shell", command=f"curl {SECRET}"))
    assert SECRET not in render_transcript(messages)
    assert SECRET not in record_of(messages)
    assert SECRET not in "".join(summarize_turn(messages, "12:34", 160))


@given(st.lists(st.text(max_size=400), max_size=8), st.text(max_size=400))
def test_a_record_has_its_limit_whatever_was_said(texts, answer):
    record = record_of([*map(user_message, texts), *did("shell", command=answer), said(answer)])
    assert 0 < len(record) <= 500
    record.encode()
