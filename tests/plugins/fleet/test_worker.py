"""How a worker runs a task, with a stand-in for its process."""

import errno
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kode import paths
from kode.errors import StorageError
from kode.messages import Message, Text, Usage, user_message
from kode.plugins.fleet import child
from kode.plugins.fleet.queue import Queue, host, open_worker
from kode.plugins.fleet.records import Finished, Leased, Record, Started
from kode.plugins.fleet.state import CLOCK_SKEW_S, TaskState
from kode.plugins.fleet.trees import Trees
from kode.plugins.fleet.worker import MAX_KILLS, work
from kode.session import log
from tests.plugins.fleet.conftest import Make
from tests.session.stories import turn_entry


class Processes:
    """Stands in for `kode run`."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.result: dict[str, Any] = {"status": "success"}

    async def run(self, command: Sequence[str], *, text: str, **about: object) -> dict[str, Any]:
        assert text not in command
        self.texts.append(text)
        return self.result


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    processes = Processes()
    monkeypatch.setattr(child, "run_child", processes.run)
    return processes


def nothing(one: TaskState, record: Record) -> None:
    pass


def started_elsewhere(queue: Queue, machine: str) -> Leased:
    """A start whose worker died without recording its end."""
    worker = open_worker(queue)
    lease = Leased(
        task="a",
        lease="lost",
        worker=worker.name,
        host=machine,
        pid=1,
        until=time.time() - CLOCK_SKEW_S - 1,
        session=log.new_session_id(),
    )
    queue.record(lease)
    at = time.time()
    queue.record(Started(task="a", lease="lost", at=at, tree=str(queue.folder), base="", mark="0"))
    worker.close()
    return lease


def a_session(lease: Leased, *, ended: bool) -> None:
    session = log.create(paths.home(), cwd=Path("/"), model="m", provider="p", id=lease.session)
    session.append_message(user_message("Do a."))
    said = Message(role="assistant", parts=(Text(text="Did it."),), stop="end", usage=Usage())
    session.append_message(said, 0.25)
    if ended:
        session.append(turn_entry(1, session))
    session.close()


def end_of(queue: Queue, name: str) -> Finished:
    end = queue.state.tasks[name].finished
    assert end is not None
    return end


async def test_every_task_runs_once_also_while_trees_are_removed(
    make: Make, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trees, "remove", lambda *_: time.sleep(0.02))
    names = [f"t{number:02}" for number in range(20)]
    queue = make(*names)
    await work(queue, nothing, jobs=4)
    assert sorted(processes.texts) == [f"Do {name}." for name in names]
    assert {end_of(queue, name).status for name in names} == {"success"}


async def test_an_unrecorded_success_is_recorded_without_a_rerun(
    make: Make, processes: Processes
) -> None:
    queue = make("a")
    a_session(started_elsewhere(queue, host()), ended=True)
    await work(queue, nothing, jobs=1)
    assert processes.texts == []
    end = end_of(queue, "a")
    assert (end.status, end.answer, end.cost_usd) == ("success", "Did it.", 0.25)


async def test_a_half_done_task_continues_in_its_session(make: Make, processes: Processes) -> None:
    queue = make("a")
    a_session(started_elsewhere(queue, host()), ended=False)
    await work(queue, nothing, jobs=1)
    assert processes.texts == [child.CONTINUE]
    assert queue.state.tasks["a"].starts == 2


async def test_a_task_with_a_session_elsewhere_is_not_restarted(
    make: Make, processes: Processes
) -> None:
    queue = make("a")
    started_elsewhere(queue, "another-host")
    await work(queue, nothing, jobs=1)
    assert processes.texts == []
    assert "Workers on several machines need one KODE_HOME" in (end_of(queue, "a").error or "")


async def test_a_task_with_a_missing_folder_fails_alone(
    make: Make, processes: Processes, tmp_path: Path
) -> None:
    queue = make("a", "b")
    a_session(started_elsewhere(queue, host()), ended=False)
    task = queue.state.tasks["a"].started
    assert task is not None
    queue.record(
        Started(task="a", lease="lost", at=0, tree=str(tmp_path / "gone"), base="", mark="0")
    )
    await work(queue, nothing, jobs=1)
    assert end_of(queue, "a").status == "error"
    assert end_of(queue, "b").status == "success"


async def test_a_task_whose_process_was_killed_continues(
    processes: Processes, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [{"status": "killed", "error": "killed"}, {"status": "success"}]

    async def run(command: Sequence[str], **about: object) -> dict[str, Any]:
        return results.pop(0)

    monkeypatch.setattr(child, "run_child", run)
    queue = make("a")

    await work(queue, nothing, jobs=1)

    assert end_of(queue, "a").status == "success"
    assert queue.state.tasks["a"].starts == 2


async def test_a_task_killed_at_every_start_ends_as_an_error(
    processes: Processes, make: Make
) -> None:
    processes.result = {"status": "killed", "error": "killed"}
    queue = make("a")

    await work(queue, nothing, jobs=1)

    assert end_of(queue, "a").status == "error"
    assert len(processes.texts) == MAX_KILLS + 1


async def test_a_full_disk_blames_no_task(
    processes: Processes, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Trees, *_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    queue = make("a")
    with monkeypatch.context() as patch:
        patch.setattr(Trees, "write_patch", full)
        with pytest.raises(StorageError):
            await work(queue, nothing, jobs=1)
    assert queue.state.tasks["a"].finished is None

    await work(queue, nothing, jobs=1)

    assert end_of(queue, "a").status == "success"
