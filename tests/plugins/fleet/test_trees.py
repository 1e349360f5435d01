"""Each task has its own worktree, and its changes there become a patch."""

import os
import subprocess

import pytest

from kode.errors import UserError
from kode.plugins.fleet.queue import PATCH
from kode.plugins.fleet.trees import Trees
from tests.plugins.fleet.conftest import git, task

pytestmark = pytest.mark.slow


@pytest.fixture
def trees(tmp_path):
    (tmp_path / "queue/tasks/t").mkdir(parents=True)
    return Trees(folder=tmp_path / "trees", queue=tmp_path / "queue")


def of(repository, isolate, part=""):
    base = git(repository, "rev-parse", "HEAD").strip()
    return task("t", repository / part, isolate, base="" if isolate == "copy" else base)


@pytest.mark.parametrize("isolate", ["worktree", "clone", "copy"])
def test_changes_become_a_patch_and_leave_the_source_alone(isolate, repository, trees):
    one = of(repository, isolate, "part")
    tree = trees.make(one)
    assert tree.cwd == tree.root / "part"
    (tree.root / "a.txt").write_text("one\nTWO\nthree\n")
    (tree.cwd / "b.txt").unlink()
    (tree.cwd / "new.bin").write_bytes(bytes(range(256)))
    (tree.root / "ignored").write_text("built")
    git(tree.root, "init", "--quiet")
    assert trees.write_patch(one, tree) == ("a.txt", "part/b.txt", "part/new.bin")
    assert git(repository, "status", "--porcelain") == ""
    patch = trees.queue / "tasks/t" / PATCH
    subprocess.run(["git", "apply", str(patch)], cwd=repository, check=True)
    assert (repository / "part/new.bin").read_bytes() == bytes(range(256))
    assert (repository / "a.txt").read_text() == "one\nTWO\nthree\n"
    assert not (repository / "part/b.txt").exists()


def test_a_copy_has_uncommitted_work_and_its_patch_has_not(repository, trees):
    (repository / "a.txt").write_text("mine\n")
    one = of(repository, "copy")
    tree = trees.make(one)
    assert (tree.root / "a.txt").read_text() == "mine\n"
    assert trees.write_patch(one, tree) == ()


@pytest.mark.parametrize("isolate", ["worktree", "clone", "copy"])
def test_a_crashed_tasks_worktree_is_recreated(isolate, repository, trees):
    one = of(repository, isolate)
    half = trees.make(one)
    (half.root / "a.txt").unlink()
    (half.root / "half").write_text("half")
    tree = trees.make(one)
    assert (tree.root / "a.txt").exists()
    assert not (tree.root / "half").exists()
    trees.remove(one)
    assert not tree.root.exists()
    assert git(repository, "worktree", "list").count("\n") == 1


def test_hooks_and_filters_of_a_repository_do_not_run(repository, trees, tmp_path):
    ran = tmp_path / "ran"
    hook = repository / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    git(repository, "config", "filter.bad.clean", f"touch {ran}")
    one = of(repository, "worktree")
    tree = trees.make(one)
    (tree.root / ".gitattributes").write_text("* filter=bad\n")
    trees.write_patch(one, tree)
    assert not ran.exists()


def test_pipes_are_left_out_of_a_copy(tmp_path, trees):
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "a.txt").write_text("a")
    (plain / "dangling").symlink_to("nowhere")
    os.mkfifo(plain / "pipe")
    tree = trees.make(task("t", plain, "copy"))
    assert sorted(path.name for path in tree.root.iterdir()) == ["a.txt", "dangling"]


def test_commits_of_a_task_are_in_its_patch(repository, trees):
    one = of(repository, "worktree")
    tree = trees.make(one)
    for name in ("a.txt", "ignored"):
        (tree.root / name).write_text("committed\n")
        git(tree.root, "add", "--force", name)
    git(tree.root, "commit", "--quiet", "-m", "By the task")
    assert trees.write_patch(one, tree) == ("a.txt", "ignored")


def test_a_missing_source_and_a_copy_inside_itself_are_errors(tmp_path, trees):
    for source, why in (("gone", "could not be made"), ("", "its copy would lie inside it")):
        with pytest.raises(UserError, match=why):
            trees.make(task("t", tmp_path / source, "copy"))
