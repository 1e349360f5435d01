"""An undo that was killed is completed by whoever starts next in the folder."""

from pathlib import Path

import pytest

from kode.session.entries import UndoEntry
from kode.undo.store import Contents
from tests.conversation.conftest import Killed, calling, notices, writing


@pytest.fixture
async def killed(opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a session whose undo was killed before it restored anything."""
    path = tmp_path / "project" / "a.txt"
    path.write_text("before")
    read = calling("read_file", path="a.txt")
    talk = await opened(read, writing("a.txt", "after"), {"text": "done"})
    await talk.turn("go")

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Contents, "restore", die)
        with pytest.raises(Killed):
            talk.agent.undo.undo()
    await talk.close()
    assert path.read_text() == "after"
    return str(talk.session.id)


async def test_the_same_session_completes_it_and_keeps_a_record(opened, events, killed, tmp_path):
    talk = await opened(session_id=killed)
    await talk.start()

    assert (tmp_path / "project" / "a.txt").read_text() == "before"
    assert any(isinstance(entry, UndoEntry) for entry in talk.session.entries)
    assert any("a.txt" in text for text in notices(events))


async def test_a_new_session_of_the_folder_completes_it(opened, events, killed, tmp_path):
    talk = await opened()
    await talk.start()

    assert (tmp_path / "project" / "a.txt").read_text() == "before"
    assert any(killed in text for text in notices(events))
    await talk.close()
    again = await opened({"text": "I see"}, session_id=killed)
    await again.turn("go on")
    assert any("undid" in part.text for part in again.session.messages[-2].parts)
    await again.redo()
    assert (tmp_path / "project" / "a.txt").read_text() == "after"
