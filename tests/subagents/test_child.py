"""What a child is told and says."""

import asyncio
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from kode.cli.commands.subagent import ChildTurn
from kode.events import TurnEnded
from kode.messages import Message, Text, ToolCall, user_message
from kode.subagents import child
from kode.subagents.child import ChildPipes, partial_summary, request_text
from kode.subagents.task import (
    Clock,
    Result,
    Snapshot,
    Task,
    encode_line,
    memory_text,
    parse_file_content,
)
from tests.tools.conftest import until


def test_the_request_names_limits_goal_guidance_and_context() -> None:
    text = request_text(Task(goal="g", context="c", guidance="u"), 60, 1800)

    limits, _, rest = text.partition("\n\n")
    assert "60 steps" in limits
    assert "1800 s" in limits
    assert rest == "# Goal\ng\n\n# Guidance\nu\n\n# Context\nc"


def test_a_partial_summary_tells_what_was_said_and_called() -> None:
    call = ToolCall(id="1", name="shell", arguments='{"command": "make"}')
    messages = [
        user_message("go"),
        Message(role="assistant", parts=(Text(text="I look first."), call)),
    ]
    ended = TurnEnded(status="timeout", error="The time limit was reached.")

    assert partial_summary(ended, messages).splitlines() == [
        "Not finished: The time limit was reached.",
        "Last said: I look first.",
        "Last calls:",
        '- shell {"command": "make"}',
    ]


def test_the_result_is_saved_before_it_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[bytes, bool]] = []
    file = tmp_path / "result.json"
    monkeypatch.setattr(child, "_write_stdout", lambda data: written.append((data, file.exists())))
    pipes = ChildPipes(lambda: None, folder=tmp_path)
    summary = "é" * 60_000

    pipes.write_result(Result(status="success", summary=summary + "\udcff"))
    pipes.write_result(Result(status="error", error="late"))
    pipes.send({})

    ((line, on_disk),) = written
    assert on_disk
    assert line == file.read_bytes()
    assert json.loads(line)["summary"].startswith(summary)


async def test_figures_of_the_parent_are_taken_until_it_is_gone() -> None:
    gone, (read, written) = asyncio.Event(), os.pipe()
    spend = SimpleNamespace(rest_of_tree_usd=0.0, rest_of_tree_steps=0)
    with os.fdopen(read, "rb") as stdin:
        pipes = ChildPipes(gone.set, stdin=stdin)
        pipes.conversation = SimpleNamespace(agent=SimpleNamespace(spend=spend), delegation=None)
        pipes.listen()
        figures = encode_line({"type": "rest_of_tree", "cost_usd": 1.5, "steps": 4})
        os.write(written, figures + b'{"type":"rest_of_tree","cost_usd":3}\nhalf a')
        os.close(written)
        await until(gone.is_set)

    assert (spend.rest_of_tree_usd, spend.rest_of_tree_steps) == (1.5, 4)


def test_a_process_that_ignores_its_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = threading.Event()
    monkeypatch.setattr(ChildTurn, "_kill_tree", lambda turn: killed.set())
    turn = ChildTurn(ChildPipes(lambda: None), Task(goal="g"), Clock(1), timeout_s=1)

    turn.stop("timeout", "It is late.", within_s=600)
    turn.stop("interrupted", "The parent is gone.", within_s=0.01)
    turn.end_within(600)

    assert killed.wait(30)
    assert (turn.status, turn.error) == ("timeout", "It is late.")


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

    text = memory_text(parse_file_content(Snapshot, json.dumps(data).encode(), "f").sections)

    assert text.startswith("# Memory Context (read-only)\n── User Profile ──\nlikes tea\n")
    assert "Environment" not in text
