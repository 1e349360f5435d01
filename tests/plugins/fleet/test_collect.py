"""Collecting the changes of tasks as branches."""

import json
from pathlib import Path

import pytest

from kode.errors import UserError
from kode.plugins.fleet.queue import PATCH, create
from kode.plugins.fleet.trees import Trees, choose, collect
from tests.plugins.fleet.conftest import finished, fleet_of, git, leased, task

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def somebody(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))


def fleet(repository, tmp_path, **written):
    """Finished tasks, each of which wrote one text to `a.txt`."""
    base = git(repository, "rev-parse", "HEAD").strip()
    tasks = [task(name, repository, "worktree", base=base) for name in written]
    queue = create(tmp_path / "kode", fleet_of(tmp_path, *tasks))
    trees = Trees(folder=tmp_path / "trees", queue=queue.folder)
    for text in written.values():
        lease = leased(queue)
        one = queue.state.tasks[lease.task]
        tree = trees.make(one.task)
        (tree.root / "a.txt").write_text(text)
        queue.record(finished(lease, files=trees.write_patch(one.task, tree)), under=lease)
        trees.remove(one.task)
    return queue


FIRST, LAST, OTHER_FIRST = "ONE\ntwo\nthree\n", "one\ntwo\nTHREE\n", "uno\ntwo\nthree\n"


def test_branches_start_where_their_tasks_started(repository, tmp_path):
    queue = fleet(repository, tmp_path, first=FIRST, other=OTHER_FIRST)
    (repository / "a.txt").write_text("later\n")
    git(repository, "commit", "--quiet", "--all", "-m", "Later")
    done, _ = collect(queue, choose(queue, []))
    shown = {task: git(repository, "show", f"{branch}:a.txt") for task, branch in done.items()}
    assert shown == {"first": FIRST, "other": OTHER_FIRST}
    assert git(repository, "log", "-1", "--format=%s", done["first"]).strip() == "Do first."
    assert "Kode-Session: " in git(repository, "log", "-1", "--format=%b", done["first"])
    again, reasons = collect(queue, choose(queue, []))
    assert (again, "There is already a branch" in reasons["first"]) == ({}, True)


def test_a_patch_that_does_not_fit_names_its_conflicts(repository, tmp_path):
    queue = fleet(repository, tmp_path, first=FIRST)
    patch = queue.task_folder("first") / PATCH
    patch.write_text(patch.read_text().replace("-one", "-eins"))
    branches, reasons = collect(queue, choose(queue, []))
    assert (branches, "does not apply" in reasons["first"]) == ({}, True)


def test_only_the_named_tasks_are_collected(repository, tmp_path):
    queue = fleet(repository, tmp_path, first=FIRST, last=LAST)
    assert [one.task.id for one in choose(queue, ["last"])] == ["last"]
    with pytest.raises(UserError, match="no task 'gone'"):
        choose(queue, ["gone"])


PATCHES = [
    json.loads(line)
    for line in (Path(__file__).parent / "data/hostile_patches.jsonl").read_text().splitlines()
]


def contents(folder, *but):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not any(path.is_relative_to(folder / name) for name in but)
    }


@pytest.mark.parametrize("case", PATCHES, ids=lambda case: case["what"])
def test_a_hostile_patch_changes_tree_files_only_and_runs_nothing(case, repository, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    git(repository, "config", "filter.evil.smudge", f"touch {tmp_path}/proof; cat")
    queue = fleet(repository, tmp_path, first=FIRST)
    (queue.task_folder("first") / PATCH).write_text(case["patch"])
    known = (".git/objects", ".git/refs", ".git/logs", ".git/index", ".git/ORIG_HEAD")
    inside, around = contents(repository / ".git", "objects"), contents(tmp_path, "repository")

    collect(queue, choose(queue, []))

    assert contents(tmp_path, "repository") == around
    now = contents(repository / ".git", "objects")
    but = {name.removeprefix(".git/") for name in known}
    changed = {name for name in now if now[name] != inside.get(name)}
    assert not {name for name in changed if not any(name.startswith(one) for one in but)}
