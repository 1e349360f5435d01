from dataclasses import replace
from pathlib import Path
from typing import Any

from kode.messages import Message, Text, ToolCall
from kode.session import index
from kode.session.entries import CompactionEntry, Entry, StateEntry, SystemEntry
from kode.session.log import Session
from kode.session.transcript import Transcript, as_json, as_markdown
from tests.session.stories import plain_turn, results, story, turn_entry
from tests.tables import for_each


def document(session: Session) -> dict[str, Any]:
    return as_json(Transcript(header=session.header, entries=session.entries))


def markdown(home: Path, *steps: str | Message | Entry) -> str:
    session = story(home, *steps)
    return as_markdown(Transcript(header=session.header, entries=session.entries))


def call_of(name: str, arguments: str) -> Message:
    call = ToolCall(id="a", name=name, arguments=arguments)
    return Message(role="assistant", parts=(call,), stop="tool_calls")


def test_the_document_has_all_messages_whatever_was_compacted(tmp_path: Path) -> None:
    session = story(tmp_path, SystemEntry(sections={"kode": "sys"}), is_open=True)
    for task in ("one", "two", "three"):
        plain_turn(session, task)
        session.append(CompactionEntry(summary="sum"))
    session.append(StateEntry(system="tiered", state={"buffer": ["10:00  user  one"]}))
    session.append(StateEntry(system="vault", state={"shown": True}))
    session.close()

    exported = document(session)

    assert [m["role"] for m in exported["messages"]] == ["system"] + ["user", "assistant"] * 3
    assert exported["messages"][1] == {"role": "user", "content": "one"}
    assert exported["turns"] == 3
    assert exported["buffer"] == ["10:00  user  one"]
    assert exported["usage"].items() >= {"input_tokens": 30, "output_tokens": 15}.items()
    assert exported["cost_usd"] == 1.5
    assert exported["id"] == session.id
    assert exported["updated_at"] >= exported["created_at"]


def test_calls_results_and_additions_are_told_plainly(tmp_path: Path) -> None:
    parts = (Text(text="recalled", source="memory"), Text(text="do it"))
    steps = Message(role="user", parts=parts), "asks c1 c2", "results c2", "results c1"
    messages = document(story(tmp_path, *steps))["messages"]

    added = [{"source": "memory", "text": "recalled"}]
    assert messages[0] == {"role": "user", "content": "do it", "added": added}
    call = {"id": "c1", "name": "shell", "arguments": '{"command":"ls"}'}
    assert messages[1]["tool_calls"][0] == call
    assert [m["tool_call_id"] for m in messages[2:]] == ["c1", "c2"]


@for_each(
    ("arguments", "lines"),
    [
        (
            '{"path": "a.py", "new": "a\\n b", "n": [1, "é"]}',
            'path: a.py\nnew:\na\n b\nn: [1, "é"]',
        ),
        *((text, text) for text in ("{}", "no json", '["a"]', "[" * 20_000)),
    ],
)
def test_the_arguments_of_a_call_can_be_read(tmp_path: Path, arguments: str, lines: str) -> None:
    text = markdown(tmp_path, "user go", call_of("edit_file", arguments))
    assert f"`edit_file`\n```\n{lines}\n```\n" in text


def test_one_unpriced_turn_makes_the_cost_unknown(tmp_path: Path) -> None:
    session = story(tmp_path, "user one", "answer done", is_open=True)
    session.append(replace(turn_entry(1, session), cost_usd=None, total_cost_usd=0.0))
    session.close()

    assert document(session)["cost_usd"] is None
    assert index.list_sessions(tmp_path)[0].cost_usd is None


def test_a_transcript_controls_no_terminal_and_hides_nothing(tmp_path: Path) -> None:
    evil = "\x1b]52;c;ZXZpbA==\x07\x9b2J\u202e\u200b\U000e0041"
    output = results("1", text=f"{evil}\n```\nnot out")

    text = markdown(tmp_path, f"user {evil}", f"answer {evil}", "asks 1", output)

    assert text.startswith("# Session ")
    assert text.endswith("\n```\nnot out\n````\n")
    assert {c for c in text if not c.isprintable()} == {"\n"}
