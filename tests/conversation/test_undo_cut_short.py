"""An undo that was killed is completed by whoever starts next in the folder."""

from pathlib import Path
from typing import Any

import pytest

from kode.events import Notice
from kode.session.entries import UndoEntry
from kode.undo.store import Contents
from tests.conversation.test_conversation import writing


def reading(path: str) -> dict[str, Any]:
    return {"calls": [{"name": "read_file", "arguments": {"path": path}}]}


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
async def killed(opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a session whose undo was killed before it restored anything."""
    path = tmp_path / "project" / "a.txt"
    path.write_text("before")
    talk = await opened(reading("a.txt"), writing("a.txt", "after"), {"text": "done"})
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
    assert any(isinstance(event, Notice) and "a.txt" in event.text for event in events)


async def test_a_new_session_of_the_folder_completes_it(opened, events, killed, tmp_path):
    talk = await opened()
    await talk.start()

    assert (tmp_path / "project" / "a.txt").read_text() == "before"
    assert any(isinstance(event, Notice) and killed in event.text for event in events)
    await talk.close()
    again = await opened(session_id=killed)
    await again.redo()
    assert (tmp_path / "project" / "a.txt").read_text() == "after"
