import asyncio
import os
import time

import pytest

from kode.cli.prompt.shell_line import run_shell_line
from kode.errors import UserError
from kode.session.entries import Header
from kode.session.log import create
from kode.session.messages import find_unreported
from kode.tools.background import BackgroundCommands
from kode.tools.processes import WATCH
from tests.tools.conftest import lives


class Place:
    """Where a command is run: a folder, a background, and what was shown."""

    def __init__(self, folder):
        self.folder = folder
        self.background = BackgroundCommands()
        self.shown = []
        self.unfinished = []
        self.output_closed = False

    def show(self, text, unfinished):
        self.shown += text.split("\n") if text else []
        self.unfinished.append(unfinished)
        self.output_closed = not text and not unfinished

    async def run(self, command):
        return await run_shell_line(
            command,
            self.folder,
            self.show,
            self.background,
            session_id=None,
            output_dir=self.folder / "outputs",
        )

    async def running(self, command, *, lines=1):
        """Starts a command and waits until it has written so many lines."""
        task = asyncio.ensure_future(self.run(command))
        while len(self.shown) < lines:
            await asyncio.sleep(0.01)
        return task


@pytest.fixture
async def place(tmp_path):
    place = Place(tmp_path)
    yield place
    await place.background.close()


async def test_output_is_shown_as_it_comes_and_given_back(place):
    ran = await place.run("echo a; echo b >&2; exit 3")

    assert ran.exit_code == 3
    assert place.shown == ["a", "b"]
    assert ran.output == "a\nb\n"


async def test_a_command_runs_in_the_folder_and_reads_nothing(place):
    ran = await place.run("pwd; cat")

    assert (ran.exit_code, ran.output.strip()) == (0, os.path.realpath(place.folder))


async def test_a_line_that_is_not_finished_is_shown_as_such(place):
    command = "printf 'Go on? '; until [ -e go ]; do sleep 0.01; done; echo; printf end"
    task = asyncio.ensure_future(place.run(command))
    while "Go on? " not in place.unfinished:
        await asyncio.sleep(0.01)
    (place.folder / "go").touch()
    ran = await task

    assert place.shown == ["Go on? ", "end"]
    assert ran.output == "Go on? \nend"


async def test_a_long_output_keeps_both_ends_and_a_whole_file(place):
    ran = await place.run("seq 100000")

    assert ran.output.startswith("1\n2\n")
    assert ran.output.endswith("99999\n100000\n")
    (path,) = (place.folder / "outputs").iterdir()
    assert str(path) in ran.output
    assert path.read_text().count("\n") == 100_000


async def test_a_shell_that_cannot_start_is_an_error(place):
    place.folder = place.folder / "gone"

    with pytest.raises(UserError, match="could not be started in"):
        await place.run("ls")


@pytest.mark.parametrize("command", ["sleep 60 & echo $!; wait", "sleep 60 & echo $!"])
async def test_stopping_a_command_stops_all_that_it_started(place, command):
    task = await place.running(command)

    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert gone(int(place.shown[0]))


async def test_a_command_that_ignores_the_stop_is_killed(place, monkeypatch):
    monkeypatch.setattr("kode.cli.prompt.shell_line.KILL_AFTER_S", 0.05)
    task = await place.running("trap '' TERM; echo $$; sleep 60; sleep 60")

    task.cancel()
    await asyncio.wait([task])

    assert gone(int(place.shown[0]))


async def test_a_command_moved_to_the_background_is_killed_there(place):
    task = await place.running("echo $$; echo more; sleep 60", lines=2)

    assert place.background.move()
    ran = await task

    assert (ran.exit_code, ran.name) == (None, "bg1")
    assert not place.background.move()
    known = place.background.find("1")
    assert known.runs
    assert "more" in known.running.output()
    await place.background.kill(known)
    assert gone(int(place.shown[0]))
    assert place.shown[0] in ran.output_path.read_text()


async def test_background_output_is_kept_and_not_shown(place):
    session = create(None, Header(cwd=str(place.folder), model="m", provider="p"))
    place.background.enter(session)
    task = await place.running("echo a; while [ ! -e go ]; do sleep 0.01; done; echo b; exit 4")

    place.background.move()
    await task
    (place.folder / "go").touch()
    known = place.background.find("1")
    await asyncio.wait([known.watch])

    assert place.shown == ["a"]
    assert known.outcome == "exit status 4"
    assert known.output_path.read_text() == "a\nb\n"
    [ended] = find_unreported(session.entries)
    assert ended.outcome == "exit status 4"


async def test_a_command_that_has_closed_its_output_is_ended_too(place):
    task = await place.running("echo $$; exec >&- 2>&-; sleep 60")
    while not place.output_closed:
        await asyncio.sleep(0.01)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert gone(int(place.shown[0]))


def gone(process_id):
    """Whether a process ends; one that only waits to be reaped has ended."""
    deadline = time.monotonic() + 20
    while lives(process_id) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not lives(process_id)


async def test_a_command_is_watched_only_while_it_runs(place):
    watched = {}
    place.show = lambda text, unfinished: watched.update({text: dict(WATCH.open)} if text else {})

    await place.run("echo $$")

    ((group, watched),) = watched.items()
    assert group in watched.values()
    assert group not in WATCH.open.values()
