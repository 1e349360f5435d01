"""How a worker runs a task, with a stand-in for its process."""

import errno
import math
import time
from pathlib import Path
from typing import Any

import pytest

from kode import paths
from kode.errors import StorageError
from kode.messages import Message, Text, Usage, user_message
from kode.plugins.fleet import child
from kode.plugins.fleet.trees import Trees
from kode.plugins.fleet.worker import MAX_KILLS, work
from kode.session import log
from tests.plugins.fleet.conftest import leased, started
from tests.session.stories import turn_entry


class Processes:
    """Stands in for `kode run`."""

    def __init__(self):
        self.texts: list[str] = []
        self.results: list[dict[str, Any]] = [{"status": "success"}]
        """The last one counts for all that follow."""

    async def run(self, command, *, text, **about):
        assert text not in command
        self.texts.append(text)
        return self.results.pop(0) if len(self.results) > 1 else self.results[0]


@pytest.fixture
def processes(monkeypatch):
    processes = Processes()
    monkeypatch.setattr(child, "run_child", processes.run)
    return processes


def show_nothing(state, record):
    pass


def start_and_die(queue, **fields):
    """A start whose worker died without recording its end."""
    lease = leased(queue, "a")
    # An entry of a session says when it was written in whole milliseconds, rounded down.
    fields = {"at": math.floor(time.time()), "tree": str(queue.folder), **fields}
    queue.record(started(lease, **fields), under=lease)
    queue.close()
    return lease


def write_session(lease, *, ended):
    session = log.create(paths.home(), cwd=Path("/"), model="m", provider="p", id=lease.session)
    session.append_message(user_message("Do a."))
    said = Message(role="assistant", parts=(Text(text="Did it."),), stop="end", usage=Usage())
    session.append_message(said, 0.25)
    if ended:
        session.append(turn_entry(1, session))
    session.close()


def end_of(queue, name="a"):
    end = queue.state.tasks[name].finished
    assert end is not None
    return end


async def test_every_task_runs_once_also_while_trees_are_removed(make, processes, monkeypatch):
    monkeypatch.setattr(Trees, "remove", lambda *_: time.sleep(0.02))
    names = [f"t{number:02}" for number in range(20)]
    queue = make(*names)
    await work(queue, show_nothing, jobs=4)
    assert sorted(processes.texts) == [f"Do {name}." for name in names]
    assert {end_of(queue, name).status for name in names} == {"success"}


async def test_an_unrecorded_success_is_recorded_without_a_rerun(make, processes):
    queue = make("a")
    write_session(start_and_die(queue), ended=True)
    await work(queue, show_nothing, jobs=1)
    assert processes.texts == []
    end = end_of(queue)
    assert (end.status, end.figures.answer, end.figures.cost_usd) == ("success", "Did it.", 0.25)


async def test_a_success_before_the_last_start_is_not_that_starts(make, processes):
    queue = make("a")
    write_session(start_and_die(queue, at=time.time() + 60), ended=True)
    await work(queue, show_nothing, jobs=1)
    assert processes.texts == [child.RETRY]


async def test_a_half_done_task_continues_in_its_session(make, processes):
    queue = make("a")
    write_session(start_and_die(queue), ended=False)
    await work(queue, show_nothing, jobs=1)
    assert processes.texts == [child.CONTINUE]
    assert len(queue.state.tasks["a"].starts) == 2


async def test_a_task_whose_tree_is_gone_fails_alone(make, processes, tmp_path):
    queue = make("a", "b")
    write_session(start_and_die(queue, tree=str(tmp_path / "gone")), ended=False)
    await work(queue, show_nothing, jobs=1)
    assert end_of(queue).status == "error"
    assert end_of(queue, "b").status == "success"


@pytest.mark.parametrize("kills", [1, MAX_KILLS + 1])
async def test_a_killed_task_continues_but_not_forever(processes, make, kills):
    killed: dict[str, Any] = {"status": "killed", "error": "killed"}
    processes.results = [*[killed] * kills, {"status": "success"}]
    queue = make("a")

    await work(queue, show_nothing, jobs=1)

    assert end_of(queue).status == ("success" if kills <= MAX_KILLS else "error")
    assert len(processes.texts) == min(kills, MAX_KILLS) + 1


async def test_a_full_disk_blames_no_task(processes, make, monkeypatch):
    def fail(self, *_):
        raise OSError(errno.ENOSPC, "No space left on device")

    queue = make("a")
    with monkeypatch.context() as patch:
        patch.setattr(Trees, "write_patch", fail)
        with pytest.raises(StorageError):
            await work(queue, show_nothing, jobs=1)
    assert queue.state.tasks["a"].finished is None

    await work(queue, show_nothing, jobs=1)

    assert end_of(queue).status == "success"
