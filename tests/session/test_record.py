"""A session as memory sums it up."""

from pathlib import Path

from kode.messages import Message, Text, user_message
from kode.session.entries import Header, TaintEntry, UndoEntry
from kode.session.log import create
from kode.session.record import session_record


def test_a_record_says_who_typed_and_undid_what(tmp_path: Path) -> None:
    session = create(tmp_path, Header(cwd=str(tmp_path), model="m", provider="scripted"))
    session.append_message(user_message("Use tabs"))
    answer = Message(role="assistant", parts=(Text(text="done"),), stop="end")
    session.append_message(answer)
    pasted = Text(text="See: the API is on 7000", typed="See: [pasted 5 lines]")
    session.append_message(Message(role="user", parts=(Text(text="m", source="memory"), pasted)))
    session.append_message(answer)
    session.append(UndoEntry(turn=2, files=("a.py",)), TaintEntry(source="https://example.com"))
    session.record_prompt("not begun")
    assert session.id
    session.close()

    record = session_record(tmp_path, session.id)

    assert record
    assert record.typed == ("Use tabs", "See: [pasted 5 lines]")
    assert "undid your changes to: a.py" in text_of_notes(record.messages)
    assert (record.turns, record.tainted_by) == (2, "https://example.com")
    assert record.started_at <= record.ended_at
    assert record.project.root == tmp_path.resolve()


def text_of_notes(messages: object) -> str:
    parts = [part for message in messages for part in message.parts]
    return "\n".join(part.text for part in parts if getattr(part, "source", "") == "note")


def test_a_session_that_is_gone_has_no_record(tmp_path: Path) -> None:
    assert session_record(tmp_path, "20260301-120000-abcdef") is None
