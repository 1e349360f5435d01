"""Queues of the test's home, and a repository to work on."""

import subprocess
from collections.abc import Callable

import pytest

from kode import paths
from kode.plugins.fleet.queue import (
    Finished,
    Fleet,
    FleetTask,
    Queue,
    Started,
    create_queue,
    open_queue,
)
from tests.needs import skip_without

ID = "20260101-000000-aaaaaa"
Make = Callable[..., Queue]


def task(id, source, isolate="none", **fields):
    return FleetTask(id=id, task=f"Do {id}.", source=str(source), isolate=isolate, **fields)


def fleet_of(tmp_path, *tasks, **fields):
    trees = str(tmp_path / "trees")
    return Fleet(id=ID, created_at="2026-01-01T00:00:00Z", tasks=tasks, trees=trees, **fields)


@pytest.fixture
def make(tmp_path):
    """Makes a queue of tasks with these names."""

    def make(*names, **fields):
        tasks = [task(name, tmp_path) for name in names]
        return create_queue(paths.kode_home(), fleet_of(tmp_path, *tasks, **fields))

    return make


@pytest.fixture
def queue(make):
    """One of a single task."""
    return make("a")


def again(queue):
    """The queue as another process reads it."""
    return open_queue(paths.kode_home(), queue.fleet.id)


def leased(queue):
    lease = queue.lease()
    assert lease is not None
    return lease


def started(lease, **fields):
    values = {"host": lease.host, "tree": "/t", "base": "", "mark": "0" * 24}
    return Started(task=lease.task, lease=lease.lease, **{**values, **fields})


def finished(lease, status="success", **fields):
    return Finished(task=lease.task, lease=lease.lease, status=status, **fields)


def git(folder, *arguments):
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit."""
    skip_without("git")
    folder = tmp_path / "repository"
    (folder / "part").mkdir(parents=True)
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    (folder / "part/b.txt").write_text("b\n")
    (folder / ".gitignore").write_text("ignored\n")
    git(folder, "init", "--quiet", "-b", "main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "Begin")
    return folder
