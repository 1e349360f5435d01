"""Words in what was said, over all sessions."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode import paths
from kode.messages import Message, Text, ToolCall, ToolResult, user_message
from kode.session import log
from kode.session.search import CONTEXT_CHARS, line_with, search


def said(home: Path, *messages: Message, changed: float | None = None) -> str:
    """A session of these messages."""
    session = log.create(home, cwd=home, model="m", provider="p")
    for message in messages:
        session.append_message(message)
    assert session.id is not None
    session.close()
    if changed is not None:
        os.utime(paths.session_file(home, session.id), (changed, changed))
    return session.id


def answer(text: str) -> Message:
    return Message(role="assistant", parts=(Text(text=text),), stop="end")


def test_prompts_answers_calls_and_results_are_found_with_their_turn(tmp_path: Path) -> None:
    call = ToolCall(id="c", name="shell", arguments='{"command": "grep walrus"}')
    result = ToolResult(call_id="c", name="shell", text="one\nthe Walrus is here\nthree")
    session = said(
        tmp_path,
        user_message("first"),
        answer("a walrus answer"),
        user_message("where is the walrus?"),
        Message(role="assistant", parts=(call,), stop="tool_calls"),
        Message(role="tool", parts=(result,)),
    )

    found = search(tmp_path, ["WALRUS"])

    assert {place.session for place in found} == {session}
    assert sorted((place.turn, place.who, place.line) for place in found) == [
        (1, "kode", "a walrus answer"),
        (2, "tool shell", "the Walrus is here"),
        (2, "tool shell", '{"command": "grep walrus"}'),
        (2, "you", "where is the walrus?"),
    ]
    assert all(place.cwd == str(tmp_path) for place in found)


def test_all_words_must_match_and_phrases_are_whole(tmp_path: Path) -> None:
    said(tmp_path, user_message("red apples"), answer("green pears, and red ones"))
    assert [place.who for place in search(tmp_path, ["red", "pears"])] == ["kode"]
    assert search(tmp_path, ["apples", "pears"]) == []
    assert [place.who for place in search(tmp_path, ["red apples"])] == ["you"]
    assert search(tmp_path, [" "]) == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('say "hello" twice', '"HELLO"'),
        ("C:\\new\\folder", "\\new"),
        ("ÄRGER", "ärger"),
        ("привет мир", "ПРИВЕТ"),
    ],
)
def test_words_are_found_however_they_are_written(tmp_path: Path, text: str, word: str) -> None:
    said(tmp_path, user_message(text))
    assert len(search(tmp_path, [word])) == 1


def test_additions_by_memory_or_attachments_are_not_found(tmp_path: Path) -> None:
    parts = (Text(text="a walrus", source="memory"), Text(text="hello"))
    said(tmp_path, Message(role="user", parts=parts))
    assert search(tmp_path, ["walrus"]) == []


def test_newest_come_first_and_a_limit_keeps_them(tmp_path: Path) -> None:
    ids = [said(tmp_path, user_message(f"walrus {n}")) for n in range(5)]
    # A file that was touched later says nothing about when its words were said.
    os.utime(paths.session_file(tmp_path, ids[0]))
    everything = [place.at for place in search(tmp_path, ["walrus"])]
    assert everything == sorted(everything, reverse=True)
    assert [place.at for place in search(tmp_path, ["walrus"], 2)] == everything[:2]


def test_damage_is_passed_over(tmp_path: Path) -> None:
    session = said(tmp_path, user_message("a walrus"), answer("a walrus too"))
    with paths.session_file(tmp_path, session).open("ab") as file:
        file.write(
            b'{"type":"message","walrus"\n[1, "walrus"]\n{"type":"message","parts":"walrus"}\n'
        )
    assert len(search(tmp_path, ["walrus"])) == 2


@given(text=st.text(max_size=600), at=st.integers(0, 500), word=st.text(min_size=1, max_size=8))
def test_a_line_is_short_and_holds_the_word(text: str, at: int, word: str) -> None:
    line = " ".join((text[:at] + word + text[at:]).split())
    wanted = " ".join(word.split()).lower()
    shown = line_with(line, [wanted]) if line else ""
    assert len(shown) <= CONTEXT_CHARS + 2
