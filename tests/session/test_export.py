import json
from dataclasses import replace
from pathlib import Path

import pytest

from kode.messages import Message, Text, ToolCall, user_message
from kode.session import index
from kode.session.entries import CompactionEntry, StateEntry, SystemEntry
from kode.session.export import as_json, as_markdown
from kode.session.transcript import Transcript
from tests.session.stories import (
    answer,
    asks,
    new_session,
    plain_turn,
    results,
    turn_entry,
    whole_story,
)


def test_the_document_has_system_prompt_and_messages_of_three_turns(
    tmp_path: Path,
) -> None:
    session = new_session(tmp_path)
    session.append(SystemEntry(text="sys"))
    for task in ("one", "two", "three"):
        plain_turn(session, task)
    session.append(StateEntry(system="tiered", state={"buffer": ["10:00  user  one"]}))
    session.append(StateEntry(system="vault", state={"shown": True}))
    session.close()

    document = as_json(Transcript(header=session.header, entries=session.entries))

    assert [m["role"] for m in document["messages"]] == ["system"] + ["user", "assistant"] * 3
    assert document["messages"][1] == {"role": "user", "content": "one"}
    assert document["turns"] == 3
    assert document["buffer"] == ["10:00  user  one"]
    assert document["usage"] == {"input_tokens": 30, "output_tokens": 15, "cached_tokens": 0}
    assert document["cost_usd"] == 1.5
    assert document["id"] == session.id
    assert document["updated_at"] >= document["created_at"]


def test_a_compaction_shortens_what_is_told_and_not_the_document(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    plain_turn(session, "one")
    session.append(CompactionEntry(summary="sum"))
    plain_turn(session, "two")
    session.close()

    document = as_json(Transcript(header=session.header, entries=session.entries))

    assert [m["content"] for m in document["messages"]] == ["one", "re: one", "two", "re: two"]


def test_calls_and_results_are_told_plainly(tmp_path: Path) -> None:
    session = whole_story(tmp_path)

    messages = as_json(Transcript(header=session.header, entries=session.entries))["messages"]

    assert messages[2]["tool_calls"][0] == {
        "id": "c1",
        "name": "shell",
        "arguments": '{"command":"ls"}',
    }
    assert [m["tool_call_id"] for m in messages if m["role"] == "tool"] == ["c1", "c2", "c3"]


def test_additions_to_a_persons_words_stay_apart(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    parts = (Text(text="recalled", source="memory"), Text(text="do it"))
    session.append_message(Message(role="user", parts=parts))
    session.append_message(answer("done"))
    session.close()

    message = as_json(Transcript(header=session.header, entries=session.entries))["messages"][0]

    assert message["content"] == "do it"
    assert message["added"] == [{"source": "memory", "text": "recalled"}]


def transcript_of(folder: Path, arguments: str) -> str:
    session = new_session(folder)
    session.append_message(user_message("go"))
    call = ToolCall(id="a", name="edit_file", arguments=arguments)
    session.append_message(Message(role="assistant", parts=(call,), stop="tool_calls"))
    session.close()
    return as_markdown(Transcript(header=session.header, entries=session.entries))


def test_a_call_in_a_transcript_can_be_read(tmp_path: Path) -> None:
    edits = [{"old_text": "a\n  b\n", "new_text": "é"}, {"old_text": "", "all": True}]
    arguments = {"path": "a.py", "edits": edits, "empty": [], "n": 1.5}

    assert """`edit_file`
```
path: a.py
edits:
    - old_text:
          a
            b
      new_text: é
    - old_text:
      all: true
empty:
n: 1.5
```
""" in transcript_of(tmp_path, json.dumps(arguments)).replace(": \n", ":\n")


@pytest.mark.parametrize("arguments", ["{}", "no json", '["a"]', "[" * 20_000, '{"a": "```"}'])
def test_arguments_of_any_kind_have_their_place_in_a_transcript(
    tmp_path: Path, arguments: str
) -> None:
    text = transcript_of(tmp_path, arguments)

    assert "`edit_file`\n```" in text
    assert ("a: ```" if 'a"' in arguments and ":" in arguments else arguments) in text


def test_deep_arguments_end_as_json(tmp_path: Path) -> None:
    assert '[["end"]]' in transcript_of(tmp_path, '{"a": ' + "[" * 8 + '"end"' + "]" * 8 + "}")


def test_an_output_cannot_close_its_fence_in_markdown(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    session.append_message(user_message("go"))
    call = ToolCall(id="a", name="shell", arguments="{}")
    session.append_message(Message(role="assistant", parts=(call,), stop="tool_calls"))
    session.append_message(results("a", text="```\nnot out"))
    session.close()

    text = as_markdown(Transcript(header=session.header, entries=session.entries))

    assert "````\n```\nnot out\n````" in text
    assert f"# Session {session.id}" in text


def test_one_unpriced_turn_makes_the_cost_unknown(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    session.append_message(user_message("one"))
    session.append_message(answer("done"))
    session.append(replace(turn_entry(1, session), cost_usd=None, total_cost_usd=0.0))
    session.close()

    assert as_json(Transcript(header=session.header, entries=session.entries))["cost_usd"] is None
    assert index.list_sessions(tmp_path)[0].cost_usd is None


def test_results_are_headed_by_the_last_to_arrive(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    session.append_message(user_message("go"))
    session.append_message(asks("a", "b"))
    session.append_message(results("b"))
    session.append_message(results("a"))
    session.close()
    *_, last = session.entries

    text = as_markdown(Transcript(header=session.header, entries=session.entries))

    assert [line for line in text.splitlines() if line.endswith(last.id)] == [
        f"## Results · {last.at} · {last.id}"
    ]


def test_a_transcript_controls_no_terminal_and_hides_nothing(tmp_path: Path) -> None:
    evil = "\x1b]52;c;ZXZpbA==\x07\x9b2J\u202e\u200b\U000e0041"
    session = new_session(tmp_path)
    plain_turn(session, evil)
    session.append_message(asks("1"))
    session.append_message(results("1", text=evil))
    session.close()

    text = as_markdown(Transcript(header=session.header, entries=session.entries))

    assert {c for c in text if not c.isprintable()} == {"\n"}
