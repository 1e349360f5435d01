import os
from pathlib import Path

from kode import paths
from kode.messages import user_message
from kode.session import log, upkeep
from kode.session.content_store import FOLDER, drop_oldest_of_all
from tests.session.stories import contents_in


def test_the_oldest_contents_go_first_in_a_full_session(tmp_path: Path) -> None:
    contents = contents_in(tmp_path / "kept", max_bytes=1000)
    states = []
    for number in range(8):
        states.append(contents.put(bytes([number]) * 150))
        os.utime(contents.folder / states[-1], ns=(number, number))
    contents.put(b"x" * 150)
    left = [contents.data(state) is not None for state in states]
    assert left == sorted(left)
    assert not left[0]
    assert left[-1]
    assert sum(file.stat().st_size for file in contents.folder.iterdir()) <= 1000


def test_contents_kept_again_are_not_among_the_oldest(tmp_path: Path) -> None:
    contents = contents_in(tmp_path / "kept", max_bytes=500)
    first = contents.put(b"a" * 200)
    os.utime(contents.folder / first, ns=(1, 1))
    contents.put(b"b" * 200)
    contents.put(b"a" * 200)
    contents.put(b"c" * 200)
    assert contents.data(first) is not None


def test_the_oldest_of_all_sessions_go_first(tmp_path: Path) -> None:
    kept = {}
    for age, session in enumerate(("20260101-000000-aaaaaa", "20260102-000000-bbbbbb")):
        contents = contents_in(tmp_path / "sessions" / session / "checkpoints")
        kept[session] = (contents, contents.put(session.encode() * 100))
        os.utime(contents.folder / kept[session][1], ns=(age, age))
    drop_oldest_of_all(tmp_path, 3000)
    left = [contents.data(state) is not None for contents, state in kept.values()]
    assert left == [False, True]


def test_kept_contents_go_with_their_session(tmp_path: Path) -> None:
    made = log.create(tmp_path, cwd=tmp_path, model="m", provider="openai")
    made.append_message(user_message("hi"))
    made.close()
    contents = contents_in(paths.checkpoints_folder(paths.session_folder(tmp_path, made.header.id)))
    contents.put(b"kept")
    upkeep.delete(tmp_path, made.header.id)
    left = {path.name for path in (tmp_path / "sessions").rglob("*") if path.is_file()}
    assert left == {"order", "order.end"}


def test_a_damaged_content_is_not_given_out(tmp_path: Path) -> None:
    contents = contents_in(tmp_path / "kept")
    state = contents.put(b"one")
    (contents.folder / state).write_bytes(b"two")
    assert contents.data(state) is None
    assert contents.data("../../etc/passwd") is None


def test_a_folder_is_known_as_one_and_let_go_of(tmp_path: Path) -> None:
    contents = contents_in(tmp_path / "kept")
    free = os.dup(0)
    os.close(free)
    assert contents.see(tmp_path).state == FOLDER
    assert contents.keep(tmp_path).state == FOLDER
    again = os.dup(0)
    os.close(again)
    assert again == free


def test_an_oversized_content_is_kept_until_the_next(tmp_path: Path) -> None:
    contents = contents_in(tmp_path / "kept", max_bytes=100)
    assert contents.data(contents.put(b"a" * 150)) is not None
