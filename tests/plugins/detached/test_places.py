"""What is on disk of a session in the background, and what its frames and answers mean."""

import fcntl
import os
import time

import pytest

from kode.errors import ConfigError, SessionError, StorageError
from kode.plugins.detached import holder, places
from kode.plugins.detached.command import parse_answer
from kode.plugins.detached.places import SessionState, Spec
from tests.session.stories import story


def make(home, id, state=None):
    spec = Spec(id=id, words=(), title="do it", task="do it", cwd="/", at=time.time())
    folder, lock = places.create_folder(home, spec)
    os.close(lock)
    if state is not None:
        places.write_state(folder, state)
    return folder


def test_a_session_lives_as_long_as_its_lock(tmp_path):
    folder = make(tmp_path, "one", SessionState(doing="works"))
    with (folder / holder.LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert places.find_background(tmp_path, "one").life == "alive"

    assert places.find_background(tmp_path, "one").life == "killed"
    places.write_state(folder, SessionState(doing="ended"))
    assert places.find_background(tmp_path, "one").life == "ended"


def test_a_session_is_resumed_in_one_process(tmp_path):
    folder = make(tmp_path, "one", SessionState(doing="works"))

    lock = places.take_lock(folder)
    assert places.find_background(tmp_path, "one").life == "alive"
    with pytest.raises(SessionError):
        places.take_lock(folder)
    os.close(lock)
    assert places.find_background(tmp_path, "one").life == "killed"


def test_an_id_is_found_by_its_beginning_or_end(tmp_path):
    for id in ("20260101-aaa", "20260101-bbb"):
        make(tmp_path, id)

    assert places.find_background(tmp_path, "bbb").id == "20260101-bbb"
    for part in ("2026", "ccc", ""):
        with pytest.raises(SessionError):
            places.find_background(tmp_path, part)


def test_a_name_stands_for_the_id(tmp_path):
    for id in ("20260101-000000-aaaaaa", "20260101-000000-bbbbbb"):
        make(tmp_path, id)
    session = story(tmp_path, "user a", is_open=True)
    session.give_name("login-page")
    session.close()
    places.write_state(places.background_folder(tmp_path) / id, SessionState(session=session.id))

    named = places.find_background(tmp_path, "login-page")

    assert (named.id, named.title) == (id, "login-page · do it")


def test_a_damaged_file_is_named_and_kept(tmp_path):
    one = make(tmp_path, "one")
    (one / places.STATE).write_text("{")
    living, ended = make(tmp_path, "two"), make(tmp_path, "three")
    for folder in (living, ended):
        (folder / places.SPEC).write_text("{")
    faults: list[str] = []

    with (living / holder.LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert [one.id for one in places.list_background(tmp_path, faults)] == ["one"]

    assert len(faults) == 3
    assert ["fuser" in fault for fault in faults if str(living) in fault] == [True]
    assert (living / places.SPEC).exists()
    assert [path.read_text() for path in one.glob(f"{places.STATE}.damaged-*")] == ["{"]


def test_a_session_of_another_user_is_named_and_not_read(tmp_path, monkeypatch):
    make(tmp_path, "one", SessionState(doing="asks"))
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    faults: list[str] = []

    assert places.list_background(tmp_path, faults) == []
    assert "to another user" in faults[0]


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path):
    assert places.list_background(tmp_path / "missing", []) == []
    places.background_folder(tmp_path).write_text("a file")

    with pytest.raises(StorageError, match="detached"):
        places.list_background(tmp_path, [])


def test_an_answer_is_yes_or_no_and_never_lasting():
    for line, choice in (("yes", "once"), ("Y", "once"), ("no", "no")):
        assert parse_answer(line) == (choice, "")
    for words in ("use b.txt", "a1"):
        assert parse_answer(f"no {words}") == parse_answer(f"no, {words}") == ("no", words)
    for line in ("a1", "always", "", "yes always", "nothing of that"):
        with pytest.raises(ConfigError):
            parse_answer(line)
