"""Work beside a session: what is begun gets its time, what is not begun is left."""

import asyncio

import pytest

from kode.memory.base import Background


async def test_work_continues_when_the_one_who_waits_is_cancelled():
    work, go_on, done = Background(print), asyncio.Event(), asyncio.Event()

    async def step():
        await go_on.wait()
        done.set()

    waiting = asyncio.create_task(work.finish(step()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go_on.set()
    await work.close(60)

    assert done.is_set()
    assert len(asyncio.all_tasks()) == 1


async def test_closing_waits_for_the_grace_and_cancels_the_rest():
    work, cancelled = Background(print), []

    async def step():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(work.is_closing)
            raise

    work.start(step())
    await asyncio.sleep(0)
    await work.close(0.01)

    assert cancelled == [True]
    assert len(asyncio.all_tasks()) == 1


async def test_a_fault_while_nobody_waits_is_reported():
    reported = []
    work, go_on = Background(reported.append), asyncio.Event()
    fault = ValueError("broken")

    async def step():
        await go_on.wait()
        raise fault

    work.start(step())
    waiting = asyncio.create_task(work.finish(step()))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    go_on.set()
    await work.close(60)
    await asyncio.sleep(0)

    assert reported == [fault, fault]


async def test_a_fault_reaches_the_one_that_waits():
    async def step():
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await Background(print).finish(step())
