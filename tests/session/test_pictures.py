"""Pictures in a session: beside its file, wherever that goes; in no export."""

import base64
import json
import shutil
from pathlib import Path

import pytest

from kode import paths
from kode.images import read_image, save_picture
from kode.messages import Message, Text, images_of
from kode.session import log
from kode.session.entries import Header
from kode.session.log import read, session_path
from kode.session.transcript import Transcript, as_json, as_markdown
from kode.session.upkeep import delete_session, fork_session
from tests import pictures


@pytest.fixture
def session_id(tmp_path: Path) -> str:
    session = log.create(tmp_path, Header(cwd=str(tmp_path), model="m", provider="p"))
    folder = paths.images_folder(paths.session_folder(tmp_path, session.id))
    image = save_picture(folder, "shot.png", pictures.png())
    session.append_message(Message(role="user", parts=(image, Text(text="What is on it?"))))
    session.close()
    return session.id


def test_a_picture_lies_beside_the_file_wherever_that_goes(tmp_path, session_id):
    copy = fork_session(tmp_path, session_id)
    text = session_path(tmp_path, session_id).read_text()
    assert base64.b64encode(pictures.png()).decode()[:40] not in text
    delete_session(tmp_path, session_id)
    assert not paths.session_folder(tmp_path, session_id).exists()
    shutil.move(tmp_path / "sessions", tmp_path / "moved" / "sessions")

    _, entries, faults = read(session_path(tmp_path / "moved", copy))

    [image] = [i for entry in entries if isinstance(entry, Message) for i in images_of(entry)]
    assert (read_image(image), faults) == (pictures.png(), [])


def test_a_session_that_was_never_used_leaves_no_picture(tmp_path):
    session = log.create(tmp_path, Header(cwd=str(tmp_path), model="m", provider="p"))
    folder = paths.session_folder(tmp_path, session.id)
    save_picture(paths.images_folder(folder), "shot.png", pictures.png())

    session.close()

    assert not folder.exists()


def test_an_export_names_the_picture_without_holding_it(tmp_path, session_id):
    transcript = Transcript.read(session_path(tmp_path, session_id))

    [message] = as_json(transcript)["messages"]
    assert message["content"] == "What is on it?"
    assert message["images"] == [
        {"name": "shot.png", "media_type": "image/png", "width": 4, "height": 3}
    ]
    assert "(image: shot.png, 4×3, 1 KB)" in as_markdown(transcript)
    assert str(tmp_path) not in json.dumps(message)
