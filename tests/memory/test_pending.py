"""The sessions that have yet to be summed up: marks survive kills, and one process at a time works
on each. Locks belong to open files, so another object is as good as another process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kode.memory.pending import Pending

SESSION = "20260301-123400-abcdef"


def test_an_open_session_is_left_to_nobody_else(tmp_path: Path) -> None:
    pending = Pending(tmp_path)
    pending.mark(SESSION)
    pending.mark(SESSION)

    other = Pending(tmp_path)
    assert other.sessions() == [SESSION]
    assert not other.claim(SESSION)
    pending.release(SESSION)
    assert other.claim(SESSION)
    other.update(SESSION, answer="an answer")
    pending.mark(SESSION)
    assert other.progress(SESSION).answer == "an answer"


def test_a_kill_gives_a_session_to_the_next_process(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from kode.memory.pending import Pending; "
        f"Pending(Path(sys.argv[1])).mark({SESSION!r}); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=60, check=False)

    pending = Pending(tmp_path)
    assert pending.sessions() == [SESSION]
    assert pending.claim(SESSION)


class Killed(Exception):
    pass


STEPS = [
    lambda pending: pending.update(SESSION, attempts=1),
    lambda pending: pending.update(SESSION, answer="the answer", shown=("s1", "s2")),
    lambda pending: pending.finish(SESSION),
]


@pytest.mark.parametrize("step", range(len(STEPS)))
@pytest.mark.parametrize("call", ["replace", "rename", "unlink", "fsync"])
def test_a_kill_leaves_what_was_before_or_after_a_step(
    tmp_path: Path, monkeypatch, step, call
) -> None:
    pending = Pending(tmp_path)
    pending.mark(SESSION)
    for before in STEPS[:step]:
        before(pending)
    known = pending.progress(SESSION)

    def kill(*args, **more):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, call, kill)
        try:
            STEPS[step](pending)
        except Killed:
            pass
    for descriptor in pending._locks.values():  # as the end of the process does
        os.close(descriptor)

    left = Pending(tmp_path)
    if SESSION in left.sessions():
        assert left.claim(SESSION)
        assert left.progress(SESSION).attempts >= known.attempts
        assert left.progress(SESSION).answer in (known.answer, "the answer")
    else:
        assert step == 2
        left.mark(SESSION)  # when it is continued, nothing of it is left
        assert left.progress(SESSION).answer == ""


def test_an_answer_outlives_its_process(tmp_path: Path) -> None:
    pending = Pending(tmp_path)
    pending.mark(SESSION)
    pending.update(SESSION, attempts=3)
    pending.update(SESSION, answer="the answer", shown=("s1", "s2"))
    pending.release(SESSION)

    left = Pending(tmp_path)
    progress = left.progress(SESSION)
    assert (progress.attempts, progress.answer, progress.shown) == (3, "the answer", ("s1", "s2"))
    left.mark(SESSION)  # it was continued: the answer is about a part of it
    assert left.progress(SESSION).answer == ""
    left.finish(SESSION)
    assert Pending(tmp_path).sessions() == []
    assert [path.name for path in tmp_path.iterdir()] == []


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", json.dumps({"attempts": "x"})])
def test_a_damaged_answer_costs_a_repeated_question(tmp_path: Path, data) -> None:
    pending = Pending(tmp_path)
    pending.mark(SESSION)
    path = tmp_path / f"{SESSION}.json"
    path.write_bytes(data.encode() if isinstance(data, str) else data)

    assert pending.progress(SESSION).answer == ""
    pending.update(SESSION, attempts=1)
    assert pending.progress(SESSION).attempts == 1


@pytest.mark.parametrize("session", ["../x", "", "a/b", "a\0b", ".hidden", "x.json", "a..b"])
def test_an_id_that_is_no_file_name_is_refused(tmp_path: Path, session) -> None:
    assert not Pending(tmp_path / "pending").mark(session)
    assert list(tmp_path.iterdir()) == []


def test_sessions_are_listed_oldest_first(tmp_path: Path) -> None:
    for session in ("20260302-0", "20260301-0"):
        Pending(tmp_path).mark(session)
    assert Pending(tmp_path).sessions() == ["20260301-0", "20260302-0"]
    assert Pending(tmp_path / "none").sessions() == []
