import asyncio

import pytest

from kode.cli.prompt.jobs import Jobs


@pytest.fixture
def failures():
    return []


@pytest.fixture
def jobs(failures):
    return Jobs(failures.append)


async def forever():
    await asyncio.Event().wait()


async def test_a_job_that_ends_was_not_stopped(jobs):
    ends = []

    jobs.start(asyncio.sleep, 0, then=ends.append, what="Sleeping")
    assert jobs.busy
    assert jobs.doing == "Sleeping"
    await jobs.finish(10)

    assert ends == [False]
    assert not jobs.busy
    assert jobs.doing == ""


async def test_a_stopped_job_says_so_and_is_no_failure(jobs, failures):
    ends = []
    jobs.start(forever, then=ends.append)

    assert jobs.stop()
    await jobs.finish(10)

    assert ends == [True]
    assert failures == []
    assert not jobs.stop()


async def test_an_error_ends_only_the_job_that_raised_it(jobs, failures):
    async def fail():
        raise ValueError("broken")

    jobs.start(forever, then=lambda stopped: None)
    jobs.start_beside(fail)
    while jobs.beside:
        await asyncio.sleep(0)

    assert [str(error) for error in failures] == ["broken"]
    assert jobs.busy
    jobs.stop()
    await jobs.finish(10)


async def test_a_key_starts_its_job_again_only_after_the_last(jobs):
    started = []
    may_end = asyncio.Event()

    async def work():
        started.append(1)
        await may_end.wait()

    jobs.start_once("/details", work)
    jobs.start_once("/details", work)
    await asyncio.sleep(0)
    assert len(started) == 1

    may_end.set()
    while jobs.beside:
        await asyncio.sleep(0)
    jobs.start_once("/details", work)
    while jobs.beside:
        await asyncio.sleep(0)
    assert len(started) == 2


async def test_a_job_beside_outlives_the_job_but_not_the_end(jobs):
    jobs.start_beside(forever)
    jobs.start(asyncio.sleep, 0, then=lambda stopped: None)
    while jobs.busy:
        await asyncio.sleep(0)
    assert jobs.beside

    await jobs.finish(10)
    while jobs.beside:
        await asyncio.sleep(0)
