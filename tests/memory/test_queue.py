"""The queue of what sessions leave to a model: one works at a time, nothing is paid for twice."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from kode.errors import BusyError
from kode.memory.queue import ENDED, Item, Queue, work, work_through

SESSION = "20260301-123400-abcdef"


@dataclass(frozen=True, kw_only=True)
class More:
    color: str = ""


@dataclass
class Recorded:
    """A job that records its calls, and fails as configured."""

    queue: Queue
    failures: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    attempts: int = 2

    def is_answered(self, item):
        return bool(item.answer)

    async def do(self, item):
        if not item.answer:
            self.calls.append(f"ask {item.id} {item.attempts}")
            if self.failures:
                return self.failures.pop()
            item = replace(item, answer="an answer")
            self.queue.write(item)
        self.calls.append(f"use {item.answer}")
        self.queue.finish(item)
        return ""

    async def fail(self, item, why):
        self.calls.append(f"fail {why}")

    async def give_up(self, item, why):
        self.calls.append(f"give up {why}")
        self.queue.write(replace(item, given_up=True))


def item(turn=1, **changes):
    id = f"{SESSION}.{turn:04d}"
    values = {"id": id, "session": SESSION, "turn": turn, "at": "", "text": f"text {turn}"}
    return Item(**{**values, **changes})


def opened(root: Path, *items: Item) -> Queue:
    queue = Queue(root / "queue", More)
    for one in items:
        queue.write(one)
    return queue


async def test_an_item_is_asked_about_used_and_gone(tmp_path):
    job = Recorded(opened(tmp_path, item()))

    assert await work(job.queue, job, item().id, timeout_s=1)

    assert job.calls == [f"ask {item().id} 1", "use an answer"]
    assert job.queue.ids() == []


async def test_an_answer_on_disk_is_not_asked_for_again(tmp_path):
    job = Recorded(opened(tmp_path, item(answer="paid for", attempts=2)))

    await work(job.queue, job, item().id, timeout_s=1)

    assert job.calls == ["use paid for"]


async def test_failures_end_at_the_limit_with_one_word(tmp_path):
    job = Recorded(opened(tmp_path, item()), failures=["down", "down"])

    done = [await work(job.queue, job, item().id, timeout_s=1) for _ in range(4)]

    assert done == [False, True, True, True]
    assert [call for call in job.calls if "ask" not in call] == ["fail down", "give up down"]


async def test_questions_that_were_never_answered_count(tmp_path):
    job = Recorded(opened(tmp_path, item(attempts=2)))

    await work(job.queue, job, item().id, timeout_s=1)

    assert job.calls == [f"give up {ENDED}"]


async def test_one_works_at_a_time(tmp_path):
    job = Recorded(opened(tmp_path, item()))

    async with job.queue.turn(1):
        with pytest.raises(BusyError):
            await work(job.queue, job, item().id, timeout_s=0)

    assert job.calls == []


async def test_items_that_come_meanwhile_are_done_too(tmp_path):
    job = Recorded(opened(tmp_path, item(1)))

    def ids():
        if not job.queue.ids() and len(job.calls) < 4:
            job.queue.write(item(2))
        return job.queue.ids()

    await work_through(job.queue, job, ids, timeout_s=1)

    assert [call for call in job.calls if "ask" in call] == [
        f"ask {item(1).id} 1",
        f"ask {item(2).id} 1",
    ]


async def test_a_failure_leaves_the_others_for_later(tmp_path):
    job = Recorded(opened(tmp_path, item(1), item(2)), failures=["down"])

    await work_through(job.queue, job, job.queue.ids, timeout_s=1)

    assert len(job.queue.ids()) == 2
    assert job.calls[-1] == "fail down"


def test_joined_items_are_one_in_their_order(tmp_path):
    first, second = item(1, said=("one",)), item(2, said=("two",), tainted=True)
    queue = opened(tmp_path, first, second)

    joined = queue.join(second, [first])

    assert queue.items() == [joined]
    assert (joined.id, joined.turn, joined.text) == (second.id, 2, "text 1\n\ntext 2")
    assert (joined.said, joined.tainted) == (("one", "two"), True)


def test_a_kill_while_joining_counts_nothing_twice(tmp_path):
    first, second = item(1), item(2)
    queue = opened(tmp_path, first, second)
    joined = queue.join(second, [first])
    queue.write(first)  # it was not removed yet

    assert queue.items() == [joined]
    queue.finish(joined)
    assert queue.ids() == []


@pytest.mark.parametrize("row", ["", "[]", '{"id": 3}', '{"more": {}, "id": "x"}', '{"more": 3}'])
def test_anything_else_is_no_item(tmp_path, row):
    queue = opened(tmp_path, item())
    (queue.folder / "x.json").write_text(row)

    assert queue.read("x") is None
    assert len(queue.set_aside_damaged()) == 1
    assert queue.ids() == [item().id]


def test_details_of_another_shape_make_it_unreadable(tmp_path):
    queue = opened(tmp_path, item(more={"color": 3}))

    assert queue.read(item().id) is None
