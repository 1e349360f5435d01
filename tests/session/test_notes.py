"""What the next message tells the model follows from the entries alone."""

from dataclasses import replace
from pathlib import Path

import pytest

from kode.messages import text_of, user_message
from kode.session.entries import (
    Entry,
    JobEntry,
    MessageEntry,
    NoteEntry,
    RestoreEntry,
    RewindEntry,
    UndoEntry,
)
from kode.session.messages import conversation_messages, find_unreported, note_of
from tests.session.stories import answer, new_session, reopened


def asks(id: str, *notes_of: str) -> MessageEntry:
    return MessageEntry(role="user", parts=user_message(id).parts, id=id, notes_of=notes_of)


FIRST, SECOND, THIRD = map(asks, ("m1", "m2", "m3"))
UNDO = UndoEntry(turn=1, files=("/p/a.py",), of="m1", id="u")
REDO = UndoEntry(turn=1, files=("/p/a.py",), of="m1", id="r", redo=True)
BEGUN = JobEntry(name="bg1", title="serve", id="b")
ENDED = JobEntry(name="bg1", title="serve", outcome="exit status 1", of="b", id="e")
NOTE = NoteEntry(text="[a note]", id="n")
BACK = RewindEntry(to="m2", id="back")
STORIES: dict[str, tuple[list[Entry], list[Entry]]] = {
    "nothing": ([FIRST, BEGUN], []),
    "each kind": ([FIRST, UNDO, REDO, BEGUN, ENDED, NOTE], [UNDO, REDO, ENDED, NOTE]),
    "a message that tells nothing": ([FIRST, UNDO, SECOND], [UNDO]),
    "told": ([FIRST, UNDO, NOTE, asks("m2", "u", "n"), REDO], [REDO]),
    "told by a message that was rewound": ([FIRST, UNDO, asks("m2", "u"), BACK], [UNDO]),
    "the rewind undone": ([FIRST, UNDO, asks("m2", "u"), BACK, RestoreEntry(of="back")], []),
    "undone, then rewound further down": ([FIRST, SECOND, UNDO, BACK], [UNDO]),
    "undone with what was rewound": ([FIRST, SECOND, replace(UNDO, of="m2"), BACK], []),
    "a job whose beginning was rewound": ([FIRST, SECOND, BEGUN, BACK, ENDED], []),
    "a job that ended in what was rewound": ([FIRST, BEGUN, SECOND, ENDED, BACK], [ENDED]),
    "a note about what was rewound": ([FIRST, SECOND, NOTE, BACK], []),
}


@pytest.mark.parametrize(("entries", "expected"), STORIES.values(), ids=STORIES)
def test_the_model_is_told_what_it_does_not_know(
    tmp_path: Path, entries: list[Entry], expected: list[Entry]
) -> None:
    session = new_session(tmp_path)
    for entry in entries:
        session.append(entry)
        assert session.unreported == find_unreported(session.entries)
    session.close()
    for recorded in (entries, session.entries, reopened(tmp_path, session.id)[0].entries):
        assert find_unreported(recorded) == expected


def test_undo_and_redo_can_be_read_as_messages() -> None:
    done = MessageEntry(role="assistant", parts=answer("done").parts, id="d")
    messages = conversation_messages([FIRST, done, UNDO, REDO, SECOND])

    texts = [text_of(one) or one.parts[0].text for one in messages]  # type: ignore[union-attr]
    assert texts == ["m1", "done", note_of(UNDO), note_of(REDO), "m2"]
    assert [one.role for one in messages] == ["user", "assistant", "user", "user", "user"]
