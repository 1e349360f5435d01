import asyncio
import os

import pytest

from kode.cli.screen.screen import read_line


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    with os.fdopen(reading) as stream:
        yield stream, writing


async def test_lines_come_one_by_one_and_then_the_end(pipe):
    stream, writing = pipe
    os.write(writing, "one\r\ntwö\nlast".encode())
    os.close(writing)

    assert [await read_line(stream) for _ in range(4)] == ["one", "twö", "last", None]


async def test_a_cancelled_read_loses_no_line(pipe):
    stream, writing = pipe
    reading = asyncio.ensure_future(read_line(stream))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])

    os.write(writing, b"later\n")
    os.close(writing)

    assert await read_line(stream) == "later"


async def test_a_regular_file_is_read_too(tmp_path):
    path = tmp_path / "input"
    path.write_text("a\nb\n")

    with path.open() as stream:
        assert [await read_line(stream) for _ in range(3)] == ["a", "b", None]
