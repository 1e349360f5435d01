"""A short session in one process: nothing that is counted grows. `make soak` runs 2,000 turns and
looks at memory and time too. First the soak itself: a fault of each kind must be found.
"""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.faults.soak import RARE, Leak, can_run, run

pytestmark = pytest.mark.skipif(not can_run(), reason="reads /proc/self, which needs Linux")
TURNS = 100


@contextmanager
def stand_in() -> Iterator[Leak]:
    """Leaves behind memory, a file, a task and a thread with each turn, each slower than before."""
    held: list[bytearray] = []
    files: list[int] = []
    tasks: list[asyncio.Task[None]] = []
    over = threading.Event()

    def leak(number: int) -> None:
        held.append(bytearray(os.urandom(1000) * 100))
        files.append(os.open(os.devnull, os.O_RDONLY))
        tasks.append(asyncio.get_running_loop().create_task(asyncio.sleep(600)))
        threading.Thread(target=over.wait, daemon=True).start()
        end = time.process_time() + number * 0.0005
        while time.process_time() < end:
            pass

    try:
        yield leak
    finally:
        over.set()
        for file in files:
            os.close(file)


@pytest.mark.timeout(180)
def test_a_fault_of_each_kind_is_found() -> None:
    with stand_in() as leak:
        found = run(TURNS // 2, leak).faults()

    assert [fault.split()[0].rstrip(":") for fault in found] == [
        "files",
        "tasks",
        "threads",
        "memory",
        "a",
    ]


@pytest.mark.timeout(180)
def test_files_tasks_and_threads_do_not_grow_with_the_turns() -> None:
    measured = run(TURNS)

    assert set(RARE.values()) <= set(measured.kinds)
    assert measured.compactions > 0
    assert measured.counted_faults() == []
