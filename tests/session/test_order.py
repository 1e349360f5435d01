"""Which session is the one used last, whatever the clock says and wherever a file was cut."""

import os
import sys
import zlib
from collections import Counter
from pathlib import Path

import pytest

from kode import paths
from kode.errors import SessionError
from kode.session import index
from tests.session.stories import new_session, plain_turn, session_of


def line_of(number: int) -> bytes:
    id = f"20260101-000000-{number:06x}".encode()
    return b"%s %08x\n" % (id, zlib.crc32(id))


def test_a_clock_set_back_changes_no_order(tmp_path: Path) -> None:
    before = session_of(tmp_path, "before", cwd=tmp_path, age_s=-3600)
    after = session_of(tmp_path, "after", cwd=tmp_path)

    assert index.find_newest(tmp_path, tmp_path) == (after, ())
    assert [one.id for one in index.list_sessions(tmp_path)] == [after, before]


def test_a_task_makes_an_open_session_the_newest(tmp_path: Path) -> None:
    first = new_session(tmp_path, tmp_path)
    second = session_of(tmp_path, "second")
    plain_turn(first, "first")
    first.close()

    assert [one.id for one in index.list_sessions(tmp_path)] == [first.id, second]


@pytest.mark.parametrize("cut_bytes", [1, 10, 60])
def test_a_torn_end_of_a_turn_hides_no_session(tmp_path: Path, cut_bytes: int) -> None:
    session_of(tmp_path, "older")
    newest = session_of(tmp_path, "newest")
    path = paths.session_file(tmp_path, newest)
    os.truncate(path, path.stat().st_size - cut_bytes)

    assert index.find_newest(tmp_path, tmp_path) == (newest, ())
    assert index.list_sessions(tmp_path)[0].turns == 1


def test_sessions_passed_over_are_told(tmp_path: Path) -> None:
    older = session_of(tmp_path, "older")
    damaged = session_of(tmp_path, "damaged")
    paths.session_file(tmp_path, damaged).write_bytes(b"\0" * 100)
    empty = new_session(tmp_path, tmp_path)

    newest, passed = index.find_newest(tmp_path, tmp_path)
    empty.close()

    assert newest == older
    assert [one.id for one in passed] == [empty.id, damaged]
    with pytest.raises(SessionError, match=f"{damaged} is damaged"):
        index.find_newest(tmp_path, tmp_path / "elsewhere")


def test_sessions_outside_the_list_come_last_by_time(tmp_path: Path) -> None:
    old = [session_of(tmp_path, str(age_s), age_s=age_s) for age_s in (100, 200)]
    (paths.sessions_folder(tmp_path) / index.ORDER).unlink()
    new = session_of(tmp_path, "new")

    assert [one.id for one in index.list_sessions(tmp_path)] == [new, *old]


@pytest.mark.parametrize("many", [10, 1_000])
def test_a_message_adds_one_line_whatever_there_is(tmp_path: Path, many: int) -> None:
    session = new_session(tmp_path, tmp_path)
    folder = paths.sessions_folder(tmp_path)
    for number in range(many):
        os.close(os.open(folder / f"20260101-000000-{number:06x}.jsonl", os.O_CREAT))
    path = folder / index.ORDER
    path.write_bytes(b"".join(map(line_of, range(many))))
    before, calls = path.read_bytes(), Counter[str]()

    def count(_: object, event: str, what: object) -> None:
        if event == "c_call" and getattr(what, "__module__", "") == "posix":
            calls[what.__name__] += 1

    sys.setprofile(count)
    try:
        plain_turn(session, "hello")
    finally:
        sys.setprofile(None)
    plain_turn(session, "again")
    session.close()

    added = path.read_bytes().removeprefix(before)
    assert added.split()[0].decode() == session.id
    assert len(added.split()) == 2
    assert calls.total() < 200


@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
def test_a_damaged_list_leaves_the_order_to_times(tmp_path: Path, damage: str) -> None:
    first, second = (session_of(tmp_path, str(age_s), age_s=age_s) for age_s in (200, 100))
    folder = paths.sessions_folder(tmp_path)
    path = folder / index.ORDER
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    if damage == "gone":
        path.unlink()
    else:
        changed = whole[:-13] + bytes([whole[-13] ^ 1]) + whole[-12:]
        path.write_bytes(changed if damage == "flipped" else b"".join(lines[:2]))

    assert index.find_newest(tmp_path, tmp_path)[0] == second
    said = index.repair_order(tmp_path)
    (aside,) = [path.name for path in folder.glob("order.damaged-*")] or [""]
    assert str(path) in said
    assert aside in said
    assert bool(aside) == (damage != "gone")
    assert index.repair_order(tmp_path) == ""
    assert index.find_newest(tmp_path, tmp_path)[0] == second != first
