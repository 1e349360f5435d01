"""The order in which conversations wait."""

import itertools
from pathlib import Path

from kode.memory.journal.queue import Item, Queue, new_id

EARLIER = "20260301-123400-ffffff"
LATER = "20260301-123400-000000"
"""They began within one second: their names say nothing about which was first."""


def put_down(queue: Queue, session: str) -> str:
    id = new_id(session, queue.ids(session))
    queue.write(Item(id=id, session=session, turn=1, at="", keys=(), text="what was said", raw=()))
    return id


def test_what_waits_is_taken_in_the_order_it_was_put_down_whatever_the_sessions_are_called(
    tmp_path: Path,
) -> None:
    queue = Queue(tmp_path)

    ids = [put_down(queue, session) for session in (EARLIER, LATER, EARLIER)]

    assert queue.ids() == ids
    assert queue.ids(EARLIER) == [ids[0], ids[2]]


def test_a_clock_that_goes_back_does_not_turn_a_session_round(tmp_path: Path, monkeypatch) -> None:
    clock = itertools.count(2_000_000_000_000_000_000, -1_000_000_000)
    monkeypatch.setattr("time.time_ns", lambda: next(clock))
    queue = Queue(tmp_path)

    ids = [put_down(queue, EARLIER) for _ in range(3)]

    assert queue.ids() == ids
