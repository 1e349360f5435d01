"""Collecting the changes of tasks as branches and commits."""

import json
from contextlib import suppress
from pathlib import Path

import pytest

from kode.errors import UserError
from kode.plugins.fleet.queue import create
from kode.plugins.fleet.records import PATCH
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


def test_commits_merge_in_order_and_conflicts_are_named(repository, tmp_path):
    queue = fleet(repository, tmp_path, first=FIRST, other=OTHER_FIRST, ignored="ONE\ntwo\nthree\n")
    (repository / "part/b.txt").write_text("mine, in no commit\n")
    done = collect(queue, choose(queue, [], include_failed=False), "commit")
    assert [bool(one.ref) for one in done] == [True, False, False]
    assert "conflicts in a.txt" in done[1].reason
    assert done[2].reason == "All its changes are already there."
    assert (repository / "a.txt").read_text() == FIRST
    assert (repository / "part/b.txt").read_text() == "mine, in no commit\n"
    assert git(repository, "log", "--format=%s").splitlines() == ["Do first.", "Begin"]
    assert "Kode-Session: " in git(repository, "log", "-1", "--format=%b")
    again, *_ = collect(queue, choose(queue, [], include_failed=False), "commit")
    assert again.reason == "All its changes are already there."


def test_uncommitted_work_is_never_overwritten(repository, tmp_path):
    queue = fleet(repository, tmp_path, first=FIRST)
    (repository / "a.txt").write_text("mine\n")
    with pytest.raises(UserError, match=r"no file of .* was changed.*git merge --ff-only"):
        collect(queue, choose(queue, [], include_failed=False), "commit")
    assert (repository / "a.txt").read_text() == "mine\n"
    assert git(repository, "rev-list", "--count", "HEAD").strip() == "1"


def test_branches_start_where_their_tasks_started(repository, tmp_path):
    queue = fleet(repository, tmp_path, first=FIRST, other=OTHER_FIRST)
    (repository / "a.txt").write_text("later\n")
    git(repository, "commit", "--quiet", "--all", "-m", "Later")
    done = collect(queue, choose(queue, [], include_failed=False), "branch")
    assert [git(repository, "show", f"{one.ref}:a.txt") for one in done] == [FIRST, OTHER_FIRST]
    (again, _) = collect(queue, choose(queue, [], include_failed=False), "branch")
    assert "There is already a branch" in again.reason


def test_only_the_named_tasks_are_collected(repository, tmp_path):
    queue = fleet(repository, tmp_path, first=FIRST, last=LAST)
    assert [one.task.id for one in choose(queue, ["last"], include_failed=False)] == ["last"]
    with pytest.raises(UserError, match="no task 'gone'"):
        choose(queue, ["gone"], include_failed=False)


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


@pytest.mark.parametrize("way", ["commit", "branch"])
@pytest.mark.parametrize("case", PATCHES, ids=lambda case: case["what"])
def test_a_hostile_patch_changes_tree_files_only_and_runs_nothing(case, way, repository, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    git(repository, "config", "filter.evil.smudge", f"touch {tmp_path}/proof; cat")
    queue = fleet(repository, tmp_path, first=FIRST)
    (queue.task_folder("first") / PATCH).write_text(case["patch"])
    known = (".git/objects", ".git/refs", ".git/logs", ".git/index", ".git/ORIG_HEAD")
    inside, around = contents(repository / ".git", "objects"), contents(tmp_path, "repository")

    with suppress(UserError):
        collect(queue, choose(queue, [], include_failed=False), way)

    assert contents(tmp_path, "repository") == around
    now = contents(repository / ".git", "objects")
    but = {name.removeprefix(".git/") for name in known}
    changed = {name for name in now if now[name] != inside.get(name)}
    assert not {name for name in changed if not any(name.startswith(one) for one in but)}
