import pytest

from kode.errors import StorageError
from kode.memory.change import Change
from kode.memory.history import History


@pytest.fixture
def history(tmp_path):
    return History(tmp_path / "memory" / "history.jsonl")


def change(text, **more):
    values = {"kind": "add", "target": "facts/user.md", "system": "tiered", "who": "user"}
    return Change(after=(text,), **{**values, **more})


def test_appended_changes_are_read_back_newest_first(history):
    written = [history.append(change(f"fact {n}", session="s", turn=n)) for n in range(3)]

    tail = history.tail(2)

    assert tail.changes == (written[2], written[1])
    assert tail.damaged == 0


def test_damaged_lines_are_passed_over_and_counted(history):
    first = history.append(change("one"))
    with history.path.open("ab") as file:
        file.write(b'garbage\n[1]\n{"id": 3}\n\xff\xfe\n')
    second = history.append(change("two"))
    with history.path.open("ab") as file:
        file.write(b'{"id": "torn", "at"')

    tail = history.tail(10)

    assert tail.changes == (second, first)
    assert tail.damaged == 5


def test_the_tail_of_a_long_file_is_read_alone(history, monkeypatch):
    import os

    history.append(change("first"))
    line = history.path.read_bytes()
    with history.path.open("ab") as file:
        file.write(line * 20_000)
    read = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, n, at: read.append(n) or pread(fd, n, at))

    assert len(history.tail(20).changes) == 20
    assert sum(read) < 200_000 < history.path.stat().st_size


def test_lines_longer_than_a_block_are_read_whole(history):
    long = history.append(change("x" * 200_000))
    short = history.append(change("y"))

    assert history.tail(5).changes == (short, long)


def test_a_credential_is_masked_before_it_reaches_the_disk(history):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"

    written = history.append(change(f"token {secret}", before=(f"old {secret}",), reason=secret))

    assert secret not in history.path.read_text()
    assert written.redacted


def test_the_change_to_undo_is_the_newest_that_stands(history):
    first = history.append(change("one"))
    second = history.append(change("two"))
    undo = history.append(change("", kind="undo", undoes=second.id))

    assert next(history.standing("tiered"), None) == first
    history.append(change("", kind="undo", undoes=undo.id))
    assert next(history.standing("tiered"), None) == second
    assert next(history.standing("vault"), None) is None


def test_an_id_may_be_shortened_while_it_is_unique(history):
    one = history.append(change("one", id="aabb0011"))
    history.append(change("two", id="aacc0011"))

    assert history.find("aabb") == [one]
    assert len(history.find("aa")) == 2
    assert history.find("aabb0011") == [one]


def test_a_missing_history_is_empty(history):
    assert history.tail(5).changes == ()
    assert next(history.standing("tiered"), None) is None


def test_a_history_that_cannot_be_read_says_so(history):
    history.path.mkdir(parents=True)

    with pytest.raises(StorageError):
        history.tail(1)
