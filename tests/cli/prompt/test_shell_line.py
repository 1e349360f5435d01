import asyncio
import os
import time

import pytest

from kode.cli.prompt.submit import run_shell_line
from kode.errors import UserError
from kode.tools.processes import WATCH
from tests.tools.conftest import lives


class Place:
    """Where a command is run: a folder, and what was shown."""

    def __init__(self, folder):
        self.folder = folder
        self.shown = []
        self.unfinished = []

    def show(self, text, unfinished):
        self.shown += text.split("\n") if text else []
        self.unfinished.append(unfinished)

    async def run(self, command):
        return await run_shell_line(command, self.folder, self.show, self.folder / "outputs")

    async def running(self, command):
        """Starts a command and waits until it has written a line."""
        task = asyncio.ensure_future(self.run(command))
        while not self.shown:
            await asyncio.sleep(0.01)
        return task


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


async def test_output_is_shown_as_it_comes_and_returned(place):
    assert await place.run("pwd; cat; echo b >&2; exit 3") == (
        3,
        f"{os.path.realpath(place.folder)}\nb\n",
    )
    assert place.shown == [os.path.realpath(place.folder), "b"]


async def test_a_line_that_is_not_finished_is_shown_as_such(place):
    command = "printf 'Go on? '; until [ -e go ]; do sleep 0.01; done; echo; printf end"
    task = asyncio.ensure_future(place.run(command))
    while "Go on? " not in place.unfinished:
        await asyncio.sleep(0.01)
    (place.folder / "go").touch()

    assert await task == (0, "Go on? \nend")
    assert place.shown == ["Go on? ", "end"]


async def test_a_shell_that_cannot_start_is_an_error(place):
    place.folder = place.folder / "gone"

    with pytest.raises(UserError, match="not be started"):
        await place.run("ls")


@pytest.mark.parametrize(
    "command",
    [
        "trap '' TERM; sleep 60 & echo $!; sleep 60",
        "echo $$; exec >&- 2>&-; sleep 60",
    ],
)
async def test_stopping_a_command_stops_all_that_it_started(place, command, monkeypatch):
    monkeypatch.setattr("kode.tools.processes.GRACE_S", 0.05)
    task = await place.running(command)
    assert WATCH.open

    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert not WATCH.open
    deadline = time.monotonic() + 20
    while lives(int(place.shown[0])) and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    assert not lives(int(place.shown[0]))
