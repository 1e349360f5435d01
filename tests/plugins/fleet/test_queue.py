"""The folder of a queue: who may lease a task, and recovery after a crash."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kode.errors import SessionError, UserError
from kode.plugins.fleet.queue import LOG, TASKS, Queue, Worker, create, open_queue, open_worker
from kode.plugins.fleet.records import Finished, Leased, Released, Started
from kode.plugins.fleet.state import CLOCK_SKEW_S
from tests.plugins.fleet.conftest import Make


def end(lease: Leased, status: str = "success", **fields: object) -> Finished:
    return Finished(task=lease.task, lease=lease.lease, at=0.0, status=status, **fields)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def workers() -> Iterator[list[Worker]]:
    """Opens workers that live until they are closed or the test ends."""
    OPEN.clear()
    yield OPEN
    for worker in OPEN:
        worker.close()


OPEN: list[Worker] = []


def worker_of(queue: Queue) -> Worker:
    OPEN.append(open_worker(queue))
    return OPEN[-1]


def again(queue: Queue) -> Queue:
    """The queue as another process reads it."""
    return open_queue(Path("/nonexistent"), str(queue.folder))


def test_two_workers_never_have_the_same_task(make: Make) -> None:
    queue = make("a", "b")
    other = again(queue)
    first = queue.lease(worker_of(queue))
    second = other.lease(worker_of(other))
    assert first is not None
    assert second is not None
    assert {first.task, second.task} == {"a", "b"}
    assert other.lease(worker_of(other)) is None


def test_a_dead_workers_task_is_leased_with_its_session(
    make: Make,
) -> None:
    queue = make("a")
    worker = worker_of(queue)
    first = queue.lease(worker)
    worker.close()
    second = again(queue).lease(worker_of(queue))
    assert first is not None
    assert second is not None
    assert second.session == first.session


def test_a_worker_that_lost_its_task_cannot_end_it(make: Make) -> None:
    queue = make("a")
    worker = worker_of(queue)
    first = queue.lease(worker)
    worker.close()
    other = again(queue)
    second = other.lease(worker_of(other))
    assert first is not None
    assert second is not None
    assert not queue.record(end(first), under=first)
    assert other.record(end(second), under=second)


def test_a_remote_worker_is_judged_by_its_lease_alone(make: Make) -> None:
    queue = make("a", "b")
    now = time.time()
    for name, until in (("a", now + 3600), ("b", now - CLOCK_SKEW_S - 1)):
        queue.record(
            Leased(
                task=name,
                lease=name,
                worker=f"worker-{name}",
                host="another-host",
                pid=1,
                until=until,
                session="20260101-000000-bbbbbb",
            )
        )
    taken = queue.lease(worker_of(queue))
    assert taken is not None
    assert taken.task == "b"
    assert queue.lease(worker_of(queue)) is None


def test_a_line_cut_by_a_crash_is_set_aside(make: Make) -> None:
    queue = make("a")
    worker = worker_of(queue)
    lease = queue.lease(worker)
    assert lease is not None
    log = queue.folder / LOG
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"type": "finished", "task": "a", "le')
    other = again(queue)
    assert other.state.tasks["a"].phase == "leased"
    assert other.record(end(lease), under=lease)
    assert log.read_bytes().startswith(whole + b'{"task"')
    assert log.with_name("log.jsonl.torn").read_bytes().startswith(b'{"type": "finished"')


def test_a_damaged_line_is_ignored_and_counted(make: Make) -> None:
    queue = make("a")
    lease = queue.lease(worker_of(queue))
    assert lease is not None
    log = queue.folder / LOG
    log.write_bytes(log.read_bytes() + b"\x00\x00\n")
    other = again(queue)
    assert other.damaged == [2]
    assert other.record(end(lease), under=lease)
    assert again(other).state.tasks["a"].phase == "ended"


def test_repeated_failures_stop_a_fleet_until_resumed(make: Make) -> None:
    queue = make("a", "b", "c", max_failures=2)
    worker = worker_of(queue)
    for _ in range(2):
        lease = queue.lease(worker)
        assert lease is not None
        queue.record(end(lease, "error"), under=lease)
    assert queue.lease(worker) is None
    assert queue.stopped() == "2 tasks in a row failed."
    queue.resume(None, reopen_failed=True)
    assert sorted(one.task.id for one in queue.state.open_tasks()) == ["a", "b", "c"]


def test_a_spent_budget_starts_no_tasks_until_raised(
    make: Make,
) -> None:
    queue = make("a", "b", budget_usd=1.0)
    worker = worker_of(queue)
    lease = queue.lease(worker)
    assert lease is not None
    queue.settle(queue.state.tasks["a"], 1.25)
    queue.record(Released(task="a", lease=lease.lease, reason="no money"), under=lease)
    assert queue.lease(worker) is None
    assert "$1 is used up" in queue.stopped()
    other = again(queue)
    other.resume(2.0, reopen_failed=False)
    assert again(other).lease(worker) is not None


def test_a_sessions_cost_is_counted_once(make: Make) -> None:
    queue = make("a", budget_usd=1.0)
    queue.lease(worker_of(queue))
    for cost in (0.25, 0.25, 0.5):
        queue.settle(queue.state.tasks["a"], cost)
    budget = queue.budget()
    assert budget is not None
    assert budget.spent_usd == pytest.approx(0.5)


def test_a_cancelled_fleet_starts_no_more_tasks_ever(make: Make) -> None:
    queue = make("a")
    queue.cancel()
    assert again(queue).lease(worker_of(queue)) is None
    with pytest.raises(UserError, match="was cancelled and cannot continue"):
        queue.resume(None, reopen_failed=False)


def test_a_folder_holds_one_queue(make: Make) -> None:
    queue = make("a")
    with pytest.raises(UserError, match="is already a queue"):
        create(queue.folder, queue.fleet, [])


def test_a_missing_fleet_is_an_error_with_advice(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match=r"no fleet yet. `kode fleet run"):
        open_queue(tmp_path, None)


def test_a_log_that_lost_its_end_says_so_for_good(make: Make) -> None:
    queue = make("a", "b")
    worker = worker_of(queue)
    for _ in "ab":
        lease = queue.lease(worker)
        assert lease is not None
        assert queue.record(end(lease), under=lease)
    path = queue.folder / LOG
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]))
    worker.close()

    cut = again(queue)
    lost = cut.lost_bytes
    assert cut.lease(worker_of(cut), "b") is not None

    assert lost == again(queue).lost_bytes == len(lines[3])
    assert again(queue).state.tasks["a"].finished is not None


def test_a_log_that_was_deleted_counts_as_lost(make: Make) -> None:
    queue = make("a")
    assert again(queue).lost_bytes == 0
    queue.lease(worker_of(queue))
    (queue.folder / LOG).unlink()

    assert again(queue).lost_bytes > 0


def test_a_doubled_line_of_a_log_counts_once(make: Make) -> None:
    queue = make("a")
    lease = queue.lease(worker_of(queue))
    assert lease is not None
    started = Started(task="a", lease=lease.lease, at=0.0, tree="", base="", mark="m")
    assert queue.record(started, under=lease)
    path = queue.folder / LOG
    path.write_bytes(path.read_bytes() * 2)

    read = again(queue)

    assert read.state.tasks["a"].starts == 1
    assert read.damaged == [3, 4]


def test_a_queue_that_lost_a_task_is_not_opened(make: Make) -> None:
    path = make("a", "b").folder / TASKS
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]))

    with pytest.raises(UserError):
        open_queue(Path("/nonexistent"), str(path.parent))
    path.write_bytes(whole + lines[2])
    assert list(open_queue(Path("/nonexistent"), str(path.parent)).state.tasks) == ["a", "b"]
