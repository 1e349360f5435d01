"""How a worker runs a task, with a stand-in for its process."""

import errno
import time

import pytest

from kode import paths
from kode.errors import StorageError
from kode.messages import user_message
from kode.plugins.fleet import worker
from kode.plugins.fleet.trees import Trees
from kode.plugins.fleet.worker import MAX_KILLS, run_tasks
from kode.session import log
from kode.session.entries import Header
from tests.plugins.fleet.conftest import leased, started
from tests.session.stories import answer, turn_entry


class Processes:
    """Stands in for `kode run`."""

    def __init__(self):
        self.texts = []
        self.results = [{"status": "success"}]
        """The last one counts for all that follow."""

    async def run(self, command, *, text, **about):
        assert text not in command
        self.texts.append(text)
        return self.results.pop(0) if len(self.results) > 1 else self.results[0]

    async def work(self, queue, jobs=1):
        """How the tasks ended, by their names."""
        await run_tasks(queue, lambda *_: None, jobs=jobs)
        return {name: state.finished.status for name, state in queue.state.tasks.items()}


@pytest.fixture
def processes(monkeypatch):
    processes = Processes()
    monkeypatch.setattr(worker, "run_child", processes.run)
    return processes


def start_and_die(queue, *, ended, **fields):
    """A start whose worker died without recording its end; its session has ended, or not."""
    lease = leased(queue)
    queue.record(started(lease, **{"tree": str(queue.folder), **fields}), under=lease)
    queue.close()
    session = log.create(
        paths.kode_home(), Header(cwd="/", model="m", provider="p", id=lease.session)
    )
    session.append_message(user_message("Do a."))
    session.append_message(answer("Did it."), 0.25)
    if ended:
        session.append(turn_entry(1, session))
    session.close()


async def test_every_task_runs_once_also_while_trees_are_removed(make, processes, monkeypatch):
    monkeypatch.setattr(Trees, "remove", lambda *_: time.sleep(0.02))
    names = [f"t{number:02}" for number in range(20)]
    assert await processes.work(make(*names), jobs=4) == dict.fromkeys(names, "success")
    assert sorted(processes.texts) == [f"Do {name}." for name in names]


async def test_an_unrecorded_success_is_recorded_without_a_rerun(queue, processes):
    start_and_die(queue, ended=True)
    assert await processes.work(queue) == {"a": "success"}
    assert processes.texts == []
    figures = queue.state.tasks["a"].finished.figures
    assert (figures.answer, figures.cost_usd) == ("Did it.", 0.25)


async def test_a_half_done_task_continues_in_its_session(queue, processes):
    start_and_die(queue, ended=False)
    await processes.work(queue)
    assert processes.texts == [worker.CONTINUE]
    assert len(queue.state.tasks["a"].starts) == 2


async def test_a_task_whose_tree_is_gone_fails_alone(make, processes, tmp_path):
    queue = make("a", "b")
    start_and_die(queue, ended=False, tree=str(tmp_path / "gone"))
    assert await processes.work(queue) == {"a": "error", "b": "success"}


@pytest.mark.parametrize("kills", [1, MAX_KILLS + 1])
async def test_a_killed_task_continues_but_not_forever(processes, queue, kills):
    processes.results = [*[{"status": "killed", "error": "killed"}] * kills, {"status": "success"}]
    ended = "success" if kills <= MAX_KILLS else "error"
    assert await processes.work(queue) == {"a": ended}
    assert len(processes.texts) == min(kills, MAX_KILLS) + 1


async def test_a_full_disk_blames_no_task(processes, queue, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Trees, "write_patch", fail)
        with pytest.raises(StorageError):
            await processes.work(queue)
    assert queue.state.tasks["a"].finished is None

    assert await processes.work(queue) == {"a": "success"}
