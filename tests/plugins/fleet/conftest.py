"""Queues in a folder, and a repository to work on."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kode.plugins.fleet.queue import Queue, create
from kode.plugins.fleet.records import Fleet, Isolation, Task
from tests.needs import skip_without

Make = Callable[..., Queue]


def task(id: str, source: Path, isolate: Isolation = "none", **fields: str) -> Task:
    return Task(id=id, task=f"Do {id}.", source=str(source), isolate=isolate, **fields)  # type: ignore[arg-type]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a queue of tasks with these names."""

    def make(*names: str, **fields: object) -> Queue:
        fleet = Fleet(
            id="20260101-000000-aaaaaa",
            created_at="2026-01-01T00:00:00Z",
            trees=str(tmp_path / "trees"),
            **fields,  # type: ignore[arg-type]
        )
        return create(tmp_path / "queue", fleet, [task(name, tmp_path) for name in names])

    return make


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
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
