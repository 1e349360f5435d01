"""The order in which conversations wait."""

import itertools
from pathlib import Path

from kode.memory.journal.said import Queue, new_id
from kode.memory.queue import Item

EARLIER = "20260301-123400-ffffff"
LATER = "20260301-123400-000000"
"""They began within one second: their names say nothing about which was first."""


def put_down(queue: Queue, session: str) -> str:
    id = new_id(session, queue.ids(session))
    more = {"keys": [], "raw": []}
    queue.write(Item(id=id, session=session, turn=1, at="", text="what was said", more=more))
    return id


def test_the_queue_keeps_its_order_whatever_the_sessions_are_called(
    tmp_path: Path,
) -> None:
    queue = Queue(tmp_path)

    ids = [put_down(queue, session) for session in (EARLIER, LATER, EARLIER)]

    assert queue.ids() == ids
    assert queue.ids(EARLIER) == [ids[0], ids[2]]


def test_a_clock_set_back_does_not_reorder_a_session(tmp_path: Path, monkeypatch) -> None:
    clock = itertools.count(2_000_000_000_000_000_000, -1_000_000_000)
    monkeypatch.setattr("time.time_ns", lambda: next(clock))
    queue = Queue(tmp_path)

    ids = [put_down(queue, EARLIER) for _ in range(3)]

    assert queue.ids() == ids
