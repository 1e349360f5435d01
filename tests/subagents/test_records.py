"""What is on disk of children, and what the model is told of it."""

import re
from pathlib import Path
from typing import Any

import pytest

from kode.messages import Text, ToolCall, ToolResult
from kode.session.entries import MessageEntry
from kode.subagents import records
from kode.subagents.task import Result, Task

NAMES = ("20260101-000000-1-aaaaaa", "20260101-000000-2-bbbbbb", "20260101-000000-3-cccccc")


def create(agents: Path, name: str, result: Result | None, mark: str = "f" * 24) -> None:
    records.create_record(agents / name, Task(goal="g " + name), mark=mark, call_id="c")
    if result is not None:
        records.write_result(agents / name, result)


def done(summary: str = "all good", **more: Any) -> Result:
    about = {"status": "success", "error": None, "steps": 2, "tokens_used": 30}
    return Result(summary=summary, **about, **more)


def test_results_that_no_message_names_are_unseen(tmp_path: Path) -> None:
    for name in NAMES:
        create(tmp_path, name, done())
    result = ToolResult(call_id="c", name="delegate_tasks", text=f"[agent {NAMES[0]}: …]")
    note = Text(text=f"[agent {NAMES[2]}: success]", source="note")
    entries = [MessageEntry(role="tool", parts=(result,)), MessageEntry(role="user", parts=(note,))]

    unseen = records.find_unseen(tmp_path, entries)

    assert [record.id for record in unseen] == [NAMES[1]]
    assert NAMES[1] in records.describe_unseen(unseen, tmp_path / "outputs")


def test_a_resumed_child_has_a_new_result_to_show(tmp_path: Path) -> None:
    create(tmp_path, "one", done())
    result = ToolResult(call_id="c", name="delegate_tasks", text="[agent one: error]")
    again = ToolCall(id="d", name="delegate_tasks", arguments='{"tasks": [{"resume": "one"}]}')
    entries = [
        MessageEntry(role="tool", parts=(result,)),
        MessageEntry(role="assistant", parts=(again,)),
    ]

    assert records.find_unseen(tmp_path, entries[:1]) == []
    assert [record.id for record in records.find_unseen(tmp_path, entries)] == ["one"]


def test_a_tainted_childs_late_result_comes_fenced(tmp_path: Path) -> None:
    for name in ("1-clean", "2-tainted"):
        create(tmp_path, name, done(f"from {name}", untrusted=name == "2-tainted"))

    note = records.describe_unseen(records.find_unseen(tmp_path, []), tmp_path / "outputs")

    inside = re.search(r'<outside-(\w+) source="a subagent">(?s:(.*))</outside-\1>', note)
    assert "from 2-tainted" in inside[2]
    assert "from 1-clean" in note.replace(inside[0], "")


async def test_remains_of_a_child_that_never_ran_go(tmp_path: Path) -> None:
    for name, file in (("one", "agent.json"), ("two", "result.json")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text("{}")

    await records.end_unfinished(tmp_path)

    assert [folder.name for folder in tmp_path.iterdir()] == ["two"]


@pytest.mark.parametrize("mark", ["a", "0123456789abcdef0123", "0" * 23 + "\0", "x" * 24])
def test_an_invalid_mark_is_never_searched_for(tmp_path: Path, mark: str) -> None:
    create(tmp_path, "one", None, mark=mark)

    assert records.read_records(tmp_path)[0].mark == ""
    assert not records.read_records(tmp_path)[0].is_alive


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"status": "splendid"}', "\x00"])
async def test_a_vanished_child_without_a_whole_result_becomes_interrupted(
    tmp_path: Path, content: str | None
) -> None:
    create(tmp_path, "one", None)
    if content is not None:
        (tmp_path / "one" / "result.json").write_text(content)
    assert records.read_records(tmp_path)[0].result is None

    await records.end_unfinished(tmp_path)

    aside = [path.read_text() for path in (tmp_path / "one").glob("result.json.damaged-*")]
    assert aside == [content] * (content is not None)
    assert records.read_records(tmp_path)[0].status == "interrupted"


def test_a_long_report_is_clipped_and_kept_in_a_file(tmp_path: Path) -> None:
    text = records.describe_result("id-1", "g", done("x" * 9_000), tmp_path / "outputs", 8_000)

    assert len(text) < 8_400
    assert str(tmp_path / "outputs" / "agent-id-1.md") in text
    assert (tmp_path / "outputs" / "agent-id-1.md").read_text() == "x" * 9_000


def test_eight_long_results_fit_one_tool_result() -> None:
    assert records.share_of_chars(8) * 8 < 60_000 - 8 * 500
