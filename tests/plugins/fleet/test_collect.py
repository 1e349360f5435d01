"""Collecting the changes of tasks as mails."""

import pytest

from kode.errors import UserError
from kode.plugins.fleet.queue import create_queue
from kode.plugins.fleet.trees import Trees, choose_tasks, write_mails
from tests.plugins.fleet.conftest import finished, fleet_of, git, leased, task

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def somebody(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))


def fleet(repository, tmp_path, **written):
    """Finished tasks, each of which wrote one text to `a.txt`."""
    base = git(repository, "rev-parse", "HEAD").strip()
    tasks = [task(name, repository, "worktree", base=base) for name in written]
    queue = create_queue(tmp_path / "kode", fleet_of(tmp_path, *tasks))
    trees = Trees(folder=tmp_path / "trees", queue=queue.folder)
    for text in written.values():
        lease = leased(queue)
        one = queue.state.tasks[lease.task]
        tree = trees.make(one.task)
        (tree.root / "a.txt").write_text(text)
        queue.record(finished(lease, files=trees.write_patch(one.task, tree)), under=lease)
        trees.remove(one.task)
    return queue


FIRST, LAST = "ONE\ntwo\nthree\n", "one\ntwo\nTHREE\n"


def test_git_makes_a_commit_of_each_collected_task(repository, tmp_path):
    queue = fleet(repository, tmp_path, first=FIRST, last=LAST)
    (repository / "b.txt").write_text("later\n")
    git(repository, "add", "b.txt")
    git(repository, "commit", "--quiet", "-m", "Later")
    mails = tmp_path / "mails"
    mails.write_bytes(b"".join(write_mails(queue, choose_tasks(queue, []))))

    git(repository, "am", "--quiet", "-3", str(mails))

    assert (repository / "a.txt").read_text() == "ONE\ntwo\nTHREE\n"
    shown = git(repository, "log", "-2", "--reverse", "--format=%an: %s%n%b")
    assert "kode: Do first." in shown
    assert shown.count("Kode-Session: ") == 2


def test_only_the_named_tasks_are_collected(repository, tmp_path):
    queue = fleet(repository, tmp_path, first=FIRST, last=LAST)
    assert [one.task.id for one in choose_tasks(queue, ["last"])] == ["last"]
    with pytest.raises(UserError, match="no task 'gone'"):
        choose_tasks(queue, ["gone"])
