"""Words in what was said, over all sessions."""

import os
from pathlib import Path

from hypothesis import given, strategies as st

from kode import paths
from kode.messages import Message, Text, ToolCall, ToolResult
from kode.session.index import CONTEXT_CHARS, line_with, search_sessions
from tests.session.stories import story
from tests.tables import for_each


def test_prompts_answers_calls_and_results_are_found_with_their_turn(tmp_path: Path) -> None:
    call = ToolCall(id="c", name="shell", arguments='{"command": "grep walrus"}')
    result = ToolResult(call_id="c", name="shell", text="one\nthe Walrus is here\nthree")
    session = story(
        tmp_path,
        "user first",
        "answer a walrus answer",
        Message(role="user", parts=(Text(text="a walrus", source="memory"), Text(text="Walrus?"))),
        Message(role="assistant", parts=(call,), stop="tool_calls"),
        Message(role="tool", parts=(result,)),
    )

    places = search_sessions(tmp_path, ["WALRUS"])

    assert {(place.session, place.cwd) for place in places} == {(session.id, str(tmp_path))}
    assert sorted((place.turn, place.who, place.line) for place in places) == [
        (1, "kode", "a walrus answer"),
        (2, "tool shell", "the Walrus is here"),
        (2, "tool shell", '{"command": "grep walrus"}'),
        (2, "you", "Walrus?"),
    ]


def test_all_words_must_match_and_phrases_are_whole(tmp_path: Path) -> None:
    story(tmp_path, "user red apples", "answer green pears, and red ones")
    assert [place.who for place in search_sessions(tmp_path, ["red", "pears"])] == ["kode"]
    assert search_sessions(tmp_path, ["apples", "pears"]) == []
    assert [place.who for place in search_sessions(tmp_path, ["red apples"])] == ["you"]
    assert search_sessions(tmp_path, [" "]) == []


@for_each(
    ("text", "word"),
    [
        ('say "hello" twice', '"HELLO"'),
        ("C:\\new\\folder", "\\new"),
        ("ÄRGER", "ärger"),
        ("привет мир", "ПРИВЕТ"),
    ],
)
def test_words_are_found_however_they_are_written(tmp_path: Path, text: str, word: str) -> None:
    story(tmp_path, f"user {text}")
    assert len(search_sessions(tmp_path, [word])) == 1


def test_newest_come_first_and_a_limit_keeps_them(tmp_path: Path) -> None:
    ids = [story(tmp_path, f"user walrus {n}").header.id for n in range(5)]
    # A file that was touched later says nothing about when its words were said.
    os.utime(paths.session_file(tmp_path, ids[0]))
    everything = [place.at for place in search_sessions(tmp_path, ["walrus"])]
    assert everything == sorted(everything, reverse=True)
    assert [place.at for place in search_sessions(tmp_path, ["walrus"], 2)] == everything[:2]


def test_damage_is_passed_over(tmp_path: Path) -> None:
    session = story(tmp_path, "user a walrus", "answer a walrus too")
    with paths.session_file(tmp_path, session.header.id).open("ab") as file:
        file.write(
            b'{"type":"message","walrus"\n[1, "walrus"]\n{"type":"message","parts":"walrus"}\n'
        )
    assert len(search_sessions(tmp_path, ["walrus"])) == 2


@given(text=st.text(max_size=600), at=st.integers(0, 500), word=st.text(min_size=1, max_size=8))
def test_a_line_is_short_and_holds_the_word(text: str, at: int, word: str) -> None:
    line = " ".join((text[:at] + word + text[at:]).split())
    wanted = " ".join(word.split()).lower()
    shown = line_with(line, [wanted]) if line else ""
    assert len(shown) <= CONTEXT_CHARS + 2
