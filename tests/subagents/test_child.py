"""What a child is told and says."""

import asyncio
import json
import os
import threading
from pathlib import Path

import pytest

from kode.events import Replied, TurnEnded
from kode.messages import Message, Text, ToolCall, Usage, user_message
from kode.session.entries import Header
from kode.session.log import create
from kode.subagents import child
from kode.subagents.child import ChildOutput, ParentLink, Stop, partial_summary, request_text
from kode.subagents.task import (
    ParentMessage,
    Result,
    Snapshot,
    Task,
    line_of,
    parse_file,
)
from tests.tools.conftest import until


def test_the_request_names_limits_goal_guidance_and_context() -> None:
    text = request_text(Task(goal="g", context="c", guidance="u"), 60, 1800)

    limits, _, rest = text.partition("\n\n")
    assert "60 steps" in limits
    assert "1800 s" in limits
    assert rest == "# Goal\ng\n\n# Guidance\nu\n\n# Context\nc"


def test_a_partial_summary_tells_what_was_said_and_changed() -> None:
    call = ToolCall(id="1", name="shell", arguments='{"command": "make"}')
    messages = [
        user_message("go"),
        Message(role="assistant", parts=(Text(text="I look first."), call)),
    ]
    ended = TurnEnded(
        status="timeout",
        result="",
        error="The time limit was reached.",
        steps=1,
        usage=Usage(),
        cost_usd=None,
        files_changed=(),
        duration_ms=1,
    )

    summary = partial_summary(ended, messages, ("a.py",))

    assert summary.splitlines() == [
        "Not finished: The time limit was reached.",
        "Last said: I look first.",
        "Last calls:",
        '- shell {"command": "make"}',
        "Files changed: a.py",
    ]


def test_the_result_is_saved_before_it_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[bytes, bool]] = []
    file = tmp_path / "result.json"
    monkeypatch.setattr(child, "_write_stdout", lambda data: written.append((data, file.exists())))
    output = ChildOutput(result_file=file)
    summary = "é" * 60_000

    output.conclude(Result(status="success", summary=summary + "\udcff", error=None))
    output.conclude(Result(status="error", summary="", error="late"))
    output.write(b"{}")

    ((line, on_disk),) = written
    assert on_disk
    assert line == file.read_bytes()
    assert json.loads(line)["summary"].startswith(summary)


def test_a_process_that_ignores_its_end_is_ended_elsewhere() -> None:
    stuck = threading.Event()
    stop = Stop(on_stuck=stuck.set)
    stop("timeout", "over", within_s=600)
    taken_back = stop.timer.finished

    stop.allow_more()
    stop.end_within(0.01)

    assert stuck.wait(30)
    assert taken_back.is_set()


async def test_messages_of_the_parent_wait_for_the_next_step() -> None:
    gone, (read, written) = asyncio.Event(), os.pipe()
    session = create(None, Header(cwd="/", model="m", provider="p"))
    link = ParentLink(ChildOutput(), on_gone=gone.set, session=session)
    messages = (ParentMessage(text="one", tainted=False), ParentMessage(text="two", tainted=True))
    with os.fdopen(read, "rb") as stdin:
        link.listen(stdin)
        os.write(written, b"".join(map(line_of, messages)) + b'{"type":"message","text":3}\nhalf a')
        os.close(written)
        await until(gone.is_set)

    assert [text.text for text in link.take_messages()] == ["one", "two"]
    assert session.tainted
    assert link.take_messages() == []


def test_the_snapshot_becomes_a_section_with_titles() -> None:
    data = {
        "version": 1,
        "system": "tiered",
        "created_at": "now",
        "sections": [
            {"title": "User Profile", "content": "likes tea"},
            {"title": "Environment", "content": "  "},
        ],
    }

    text = parse_file(Snapshot, json.dumps(data).encode(), "f").text()

    assert text.startswith("# Memory Context (read-only)\n── User Profile ──\nlikes tea\n")
    assert "Environment" not in text


def test_a_childs_line_has_its_words_without_secrets() -> None:
    text = f"The key is sk-proj-{'A1b2C3d4' * 6}."
    reply = Message(role="assistant", parts=(Text(text=text),))
    event = Replied(message=reply, usage=Usage(), cost_usd=None, context_tokens=0, context_window=0)

    line = child.event_line(event)

    assert line["event"]["said"].startswith("The key is ")
    assert "A1b2C3d4" not in line["event"]["said"]
    assert "message" not in line["event"]
